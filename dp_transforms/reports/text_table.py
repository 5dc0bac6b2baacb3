"""Tables as plain text."""

from __future__ import annotations

from collections.abc import Sequence


def text_table(rows: Sequence[Sequence[str]], words: int = 0) -> str:
    """Rows of as many cells each, one at least. The first columns are words, to the left; others
    are numbers, to the right.

    >>> print(text_table([["", "users"], ["a", "7"], ["other", "1,234"]], words=1))
           users
    a          7
    other  1,234
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i < words else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
