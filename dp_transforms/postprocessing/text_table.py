"""Formats tables of public numbers and names as plain text."""

from __future__ import annotations

from collections.abc import Sequence


def text_table(rows: Sequence[Sequence[str]], words: int = 0) -> str:
    """Formats rows of equal length; the first ``words`` columns are text, aligned left, and the
    others numbers, aligned right.

    >>> print(text_table([["", "users"], ["a", "7"], ["other", "1,234"]], words=1))
           users
    a          7
    other  1,234
    """
    rows = [[_printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i < words else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def _printable(cell: str) -> str:
    """Returns the cell on one line. A name from a user may hold line ends, which would make rows,
    and control characters for terminals.

    >>> print(_printable("home\\n\\x1b[2Jnews"))
    home\\n\\x1b[2Jnews
    """
    shown = (
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in cell
    )
    return cell if cell.isprintable() else "".join(shown)
