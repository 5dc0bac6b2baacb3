"""Bisection over integers."""

from __future__ import annotations

from collections.abc import Callable


def smallest_where(holds: Callable[[int], bool], start: int) -> int:
    """The smallest integer >= start where ``holds`` is true; it must stay true from there on."""
    if holds(start):
        return start
    step = 1
    while not holds(start + step):
        step *= 2
    low, high = start + step // 2, start + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
