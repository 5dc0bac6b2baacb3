"""Expectations of the exponential mechanism at a given list, as private as the list is.

With Z(c) the total weight e**(-c * ||x - f||_1) of all lists x, E||x - f||_1 = -d ln Z / dc. One
backward pass with an imaginary step h gives the derivative as Im(ln Z) / h, see ``walk_sums``.
Plain floats: no enclosures, and no part of a release.
"""

from __future__ import annotations

import cmath

import numpy as np

from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.laws.walk_sums import STEP, WalkSums, pairs, window_for
from dp_transforms.mechanisms.sampler.walk import Blocks


def expected_l1(frequency_list: FrequencyList, rate: float, window: int | None = None) -> float:
    """E||x - f||_1 where x has weight e**(-rate * ||x - f||_1).

    Args:
      frequency_list: f.
      rate: c > 0, the natural logarithm of 1/q.
      window: walks are cut off at |D| <= window, wide enough to lose nothing by default.

    Raises:
      ValueError: the range of this machine's floats is too small for this rate.
    """
    exponent = complex(rate, STEP)
    window = window or window_for(rate)
    with np.errstate(over="ignore", invalid="ignore"):
        total = WalkSums(exponent, exponent, window).log_total(pairs(Blocks.of(frequency_list)))
    if not cmath.isfinite(total):
        raise ValueError(
            "epsilon / (2 * sensitivity) is too small: this machine's floats do not hold the sums "
            "that the expectation comes from"
        )
    return -total.imag / STEP
