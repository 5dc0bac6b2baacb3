"""Bytes that are nearly right: a good file with a few pieces changed."""

from hypothesis import strategies as st


@st.composite
def damaged(draw, good, pieces, most=4):
    """Good bytes after a few changes.

    Args:
      draw: from hypothesis.
      good: files to start from.
      pieces: what is put in, beside arbitrary bytes.
      most: how many changes.
    """
    content = draw(st.sampled_from(good))
    inserted = st.one_of(st.sampled_from(pieces), st.binary(max_size=8))
    for _ in range(draw(st.integers(0, most))):
        start = draw(st.integers(0, len(content)))
        length = draw(st.integers(0, 12))
        kind = draw(st.sampled_from(["insert", "replace", "delete", "cut", "repeat", "flip"]))
        before, piece, after = content[:start], content[start : start + length], content[start:]
        if kind == "insert":
            content = before + draw(inserted) + after
        elif kind == "replace":
            content = before + draw(inserted) + after[length:]
        elif kind == "delete":
            content = before + after[length:]
        elif kind == "cut":
            content = before
        elif kind == "repeat":
            content = before + piece * draw(st.integers(2, 50)) + after
        elif after:
            content = before + bytes([after[0] ^ 1 << draw(st.integers(0, 7))]) + after[1:]
    return content
