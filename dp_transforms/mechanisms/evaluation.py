"""Exact expectations of the mechanism, for evaluation: they depend on the private list.

With Z the total weight of all walks as a function of the two rates, weights being
e**-(positive * D) above zero and e**-(negative * |D|) below,

    E||x - f||_1 = -d ln Z          along (positive, negative) = (1, 1),
    E[sum x - sum f] = -d ln Z      along (1, -1).

One backward pass with an imaginary step h gives the derivative as Im(ln Z) / h, see ``walk_sums``.
Plain floats: no enclosures, and no part of a release.
"""

from __future__ import annotations

import cmath

import numpy as np

from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.walk import Blocks
from dp_transforms.mechanisms.walk_sums import STEP, WalkSums, pairs


def expected_l1(frequency_list: FrequencyList, rate: float, window: int) -> float:
    """E||x - f||_1 where x has weight e**(-rate * ||x - f||_1).

    Args:
      frequency_list: the private list f.
      rate: c > 0, the natural logarithm of 1/q.
      window: walks are cut off at |D| <= window, which must be wide enough to lose nothing.

    Raises:
      ValueError: the range of this machine's floats is too small for this rate.
    """
    exponent = complex(rate, STEP)
    return _expectation(Blocks.of(frequency_list), exponent, exponent, window)


def expected_excess(blocks: Blocks, rate: float, tilt: float, window: int) -> float:
    """E[sum x - sum f] where x has weight e**(-rate * ||x - f||_1 - tilt * (sum x - sum f)).

    Args:
      blocks: f's blocks.
      rate: c > 0.
      tilt: between -c and c.
      window: as above.

    Raises:
      ValueError: as above.
    """
    return _expectation(blocks, complex(rate + tilt, STEP), complex(rate - tilt, -STEP), window)


def _expectation(blocks: Blocks, positive: complex, negative: complex, window: int) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        total = WalkSums(positive, negative, window).log_total(pairs(blocks))
    if not cmath.isfinite(total):
        raise ValueError(
            "epsilon / (2 * sensitivity) is too small: this machine's floats do not hold the sums "
            "that the expectation comes from"
        )
    return -total.imag / STEP
