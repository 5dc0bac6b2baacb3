"""Exact expectations of the mechanism, for evaluation: they depend on the private list.

With Z the total weight of all walks as a function of the two rates, weights being
e**-(positive * D) above zero and e**-(negative * |D|) below,

    E||x - f||_1 = -d ln Z          along (positive, negative) = (1, 1),
    E[sum x - sum f] = -d ln Z      along (1, -1).

The backward recurrence is analytic in the rates, so one pass with an imaginary part of h gives
the derivative as Im(Z) / (h Re(Z)) without any cancellation (the complex-step method; Squire and
Trapp, 1998). Plain float64: no enclosures, and no part of a release.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt

from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.walk import Blocks

ComplexArray = npt.NDArray[np.complex128]

_STEP = 1e-30


def expected_l1(frequency_list: FrequencyList, rate: float, window: int) -> float:
    """E||x - f||_1 where x has weight e**(-rate * ||x - f||_1).

    Args:
      frequency_list: the private list f.
      rate: c > 0, the natural logarithm of 1/q.
      window: walks are cut off at |D| <= window, which must be wide enough to lose nothing.
    """
    exponent = complex(rate, _STEP)
    return _expectation(Blocks.of(frequency_list), exponent, exponent, window)


def expected_excess(blocks: Blocks, rate: float, tilt: float, window: int) -> float:
    """E[sum x - sum f] where x has weight e**(-rate * ||x - f||_1 - tilt * (sum x - sum f)).

    Args:
      blocks: f's blocks.
      rate: c > 0.
      tilt: between -c and c.
      window: as above.
    """
    return _expectation(blocks, complex(rate + tilt, _STEP), complex(rate - tilt, -_STEP), window)


def _expectation(blocks: Blocks, positive: complex, negative: complex, window: int) -> float:
    state = np.arange(window + 1)

    def climbs(exponent: complex, length: int) -> ComplexArray:
        """T_length(0, k) for k = 0..window: q**(k(k+1)/2) [length, k]."""
        k = state[1:]
        rest = -np.expm1(-exponent * np.maximum(length - k + 1, 0))
        steps = np.exp(-exponent * k) * rest / -np.expm1(-exponent * k)
        return np.concatenate([[1], np.cumprod(steps)])

    def make_transfer(above: complex, below: complex) -> Callable[[int], ComplexArray]:
        @cache
        def transfer(length: int) -> ComplexArray:
            table = np.zeros((2 * window + 1,) * 2, dtype=np.complex128)
            gap = state[None, :] - state[:, None]
            reached, gap = gap >= 0, np.maximum(gap, 0)
            powers = np.exp(-above * length * state)[:, None] * reached
            table[window:, window:] = powers * climbs(above, length)[gap]
            powers = np.exp(-below * length * state)[:, None] * reached
            inward = (climbs(below, length) * np.exp(below * state))[gap]
            table[: window + 1, : window + 1] = (powers * inward).T[::-1, ::-1]
            if length > 1:
                near, far = transfer(length // 2), transfer(length - length // 2)
                table[:window, window + 1 :] = near[:window] @ far[:, window + 1 :]
            return table

        return transfer

    transfers = make_transfer(positive, negative), make_transfer(negative, positive)
    steps = np.exp(-positive * state[1:]) / -np.expm1(-positive * state[1:])
    first = np.concatenate([[1], np.cumprod(steps)])
    messages = np.zeros(2 * window + 1, dtype=np.complex128)
    messages[window:] = first * np.exp(positive * state)
    for bit, length in zip(blocks.bits[::-1].tolist(), blocks.lengths[::-1].tolist(), strict=True):
        direction = -1 if bit else 1
        messages = (transfers[bit](length) @ messages[::direction])[::direction]
        # A real factor changes neither the derivative nor anything else that is asked for.
        messages /= np.abs(messages).max()
    weight = first @ messages[window:]
    return float(-weight.imag / weight.real / _STEP)
