"""Fuzzing: a bounded run by default, a long one by ``make fuzz`` (FUZZ_EXAMPLES)."""

import contextlib
import os
import signal

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "30"))

fuzz = settings(
    max_examples=EXAMPLES,
    # A bounded run is the same every time; a long one is there to find something new.
    derandomize="FUZZ_EXAMPLES" not in os.environ,
    database=None,
    suppress_health_check=list(HealthCheck),
    # What fails is fuzzed further by hand: shrinking would take longer than all the rest.
    phases=[Phase.explicit, Phase.generate],
)

MARKER = "zanzibar"
"""Is in all private data, and must be in no message."""

_SECONDS = 20


@contextlib.contextmanager
def no_hang():
    """Fails if the block takes longer than anything here should."""

    def stop(*_):
        raise AssertionError(f"no end within {_SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, _SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@st.composite
def damaged(draw, good, pieces, most=4):
    """One of some good files, after at most so many changes: bytes that are nearly right. What is
    put in is one of the pieces, or arbitrary bytes."""
    content = draw(st.sampled_from(good))
    inserted = st.one_of(st.sampled_from(pieces), st.binary(max_size=8))
    for _ in range(draw(st.integers(0, most))):
        start, length = draw(st.integers(0, len(content))), draw(st.integers(0, 12))
        before, piece, after = content[:start], content[start : start + length], content[start:]
        kind = draw(st.sampled_from(["insert", "replace", "delete", "cut", "repeat", "flip"]))
        if kind == "insert":
            after = draw(inserted) + after
        elif kind == "replace":
            after = draw(inserted) + after[length:]
        elif kind == "delete":
            after = after[length:]
        elif kind == "cut":
            after = b""
        elif kind == "repeat":
            after = piece * draw(st.integers(2, 50)) + after
        elif after:
            after = bytes([after[0] ^ 1 << draw(st.integers(0, 7))]) + after[1:]
        content = before + after
    return content
