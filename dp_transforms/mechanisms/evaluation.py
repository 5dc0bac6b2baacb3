"""Exact expectations of the mechanism, for evaluation: they depend on the private list.

With Z(c) the total weight of all walks, E||x - f||_1 = -d ln Z / dc. The backward recurrence is
analytic in c, so one pass at c + ih gives the derivative as Im(Z) / (h Re(Z)) without any
cancellation (the complex-step method; Squire and Trapp, 1998). Plain float64: no enclosures, and
no part of a release.
"""

from __future__ import annotations

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
    blocks = Blocks.of(frequency_list)
    state = np.arange(window + 1)

    def climbs(length: int) -> ComplexArray:
        """T_length(0, k) for k = 0..window: q**(k(k+1)/2) [length, k]."""
        k = state[1:]
        rest = -np.expm1(-exponent * np.maximum(length - k + 1, 0))
        steps = np.exp(-exponent * k) * rest / -np.expm1(-exponent * k)
        return np.concatenate([[1], np.cumprod(steps)])

    @cache
    def transfer(length: int) -> ComplexArray:
        table = np.zeros((2 * window + 1,) * 2, dtype=np.complex128)
        gap = state[None, :] - state[:, None]
        powers = np.exp(-exponent * length * state)[:, None] * (gap >= 0)
        gap = np.maximum(gap, 0)
        up = climbs(length)
        table[window:, window:] = powers * up[gap]
        table[: window + 1, : window + 1] = (powers * (up * np.exp(exponent * state))[gap]).T[
            ::-1, ::-1
        ]
        if length > 1:
            near, far = transfer(length // 2), transfer(length - length // 2)
            table[:window, window + 1 :] = near[:window] @ far[:, window + 1 :]
        return table

    first = np.concatenate(
        [[1], np.cumprod(np.exp(-exponent * state[1:]) / -np.expm1(-exponent * state[1:]))]
    )
    messages = np.zeros(2 * window + 1, dtype=np.complex128)
    messages[window:] = first * np.exp(exponent * state)
    for bit, length in zip(blocks.bits[::-1].tolist(), blocks.lengths[::-1].tolist(), strict=True):
        oriented = messages[:: -1 if bit else 1]
        messages = (transfer(length) @ oriented)[:: -1 if bit else 1]
        # A real factor changes neither the derivative nor anything else that is asked for.
        messages /= np.abs(messages).max()
    weight = first @ messages[window:]
    return float(-weight.imag / weight.real / _STEP)
