"""Formats tables of public numbers and names as plain text."""

from __future__ import annotations

from collections.abc import Sequence


def text_table(rows: Sequence[Sequence[str]], words: int = 0) -> str:
    """Returns rows of equal length as a table of plain text. The first ``words`` columns are
    aligned left, and the others, which hold numbers, are aligned right.

    >>> print(text_table([["", "users"], ["a", "7"], ["other", "1,234"]], words=1))
           users
    a          7
    other  1,234
    """
    rows = [[_printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = list(zip(row, widths, strict=True))
        left = [cell.ljust(width) for cell, width in cells[:words]]
        right = [cell.rjust(width) for cell, width in cells[words:]]
        lines.append("  ".join([*left, *right]).rstrip())
    return "\n".join(lines)


def _printable(cell: str) -> str:
    """Returns the cell on one line, with characters that cannot be printed escaped. A name from a
    user may hold line ends, which would look like rows, and control characters for terminals.

    >>> print(_printable("home\\n\\x1b[2Jnews"))
    home\\n\\x1b[2Jnews
    """
    shown = (
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in cell
    )
    return cell if cell.isprintable() else "".join(shown)
