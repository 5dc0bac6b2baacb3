"""The corner-weighted law by its definition, cell by cell, in exact rationals."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction


def cells(values: Sequence[int]) -> set[tuple[int, int]]:
    """The cells (row, column) of a Young diagram."""
    return {(row, column) for row, value in enumerate(values) for column in range(value)}


def chain_weight(corners: int, s: Fraction) -> Fraction:
    """I_m by its recurrence: I_0 = 1, I_1 = 1 - s, I_m = I_{m-1} - s I_{m-2}."""
    last, before = Fraction(1), Fraction(1)
    for _ in range(corners):
        last, before = last - s * before, last
    return last


def corner_weight(
    values: Sequence[int],
    s: Fraction,
    lower: Sequence[int] = (),
    upper: Sequence[int] | None = None,
) -> Fraction:
    """w(x): the product of I_m over the maximal chains of m corners that may be flipped.

    Args:
      values: x.
      s: 1/4 for the mechanism.
      lower: L; missing ranks are 0.
      upper: U, whose missing ranks are 0; None for no bound at all.
    """
    rows = max(len(values), len(lower), len(upper or ())) + 1
    x, low = ([*part, *[0] * (rows + 1 - len(part))] for part in (list(values), list(lower)))
    diagonals = []
    for row in range(rows):
        high = None if upper is None else (upper[row] if row < len(upper) else 0)
        if x[row] > x[row + 1] and x[row] > low[row]:
            diagonals.append(x[row] - 1 - row)
        if (row == 0 or x[row - 1] > x[row]) and (high is None or x[row] < high):
            diagonals.append(x[row] - row)
    # Corners at consecutive vertices are on consecutive diagonals.
    weight, chain, previous = Fraction(1), 0, None
    for place in sorted(diagonals):
        if previous is not None and place != previous + 1:
            weight, chain = weight * chain_weight(chain, s), 0
        chain, previous = chain + 1, place
    return weight * chain_weight(chain, s)


def peaks(x: Sequence[int], f: Sequence[int]) -> int:
    """rho: the maximal cells of x outside f, and the minimal cells of f outside x."""
    new, gone = cells(x) - cells(f), cells(f) - cells(x)
    return sum((i + 1, j) not in new and (i, j + 1) not in new for i, j in new) + sum(
        (i - 1, j) not in gone and (i, j - 1) not in gone for i, j in gone
    )
