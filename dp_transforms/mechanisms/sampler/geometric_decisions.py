"""Exact geometric decisions: the place of a move within a run, and the parts of an infinite run.

All answer one question about one uniform number U: which is the smallest x >= 1 with U < F(x)? Here
F(x) = (1 - q**x) / (1 - q**n) is the distribution function of a geometric variable on 1..n (n may
be infinite). F has a closed form, so these decisions raise their own precision until they are
certain and never depend on anything else.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dp_transforms.mechanisms.arrays import BoolArray, IntArray, WordArray
from dp_transforms.mechanisms.bisection import smallest_where
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.enclosure import exactly, settled
from dp_transforms.mechanisms.randomness import WORD_BITS, RandomTape, Uniform

# numpy's expm1 is within 4 units in the last place; the argument's rounding adds less than as many.
_EXPM1_ERROR = 2.0**-48
UNIT = 2.0**-53


def geometric(decay: Decay, factor: int, uniform: Uniform, length: int | None = None) -> int:
    """The smallest x >= 1 with U < F(x), for the ratio q**factor; F's support is 1..length.

    So x has the law P(x) proportional to q**(factor * x) on 1..length, or on all x >= 1 where
    length is None.
    """
    found = _by_float(_rate(decay) * factor, length or math.inf, uniform.prefix(53) * UNIT)
    if found is not None:
        return found
    return settled(lambda bits: _precisely(decay, factor, uniform, length, bits))


def places(
    decay: Decay,
    lengths: IntArray,
    tape: RandomTape,
    channel: str,
    indices: IntArray,
    words: WordArray,
) -> IntArray:
    """``geometric(decay, 1, tape.uniform(channel, index), length)`` for arrays of both, given the
    leading 64 bits of those uniform numbers."""
    found, certain = _by_floats(_rate(decay), lengths, words)
    for i in np.flatnonzero(~certain).tolist():
        found[i] = geometric(decay, 1, tape.uniform(channel, indices.item(i)), lengths.item(i))
    return found


def unbounded(decay: Decay, factors: IntArray, tape: RandomTape, channel: str) -> IntArray:
    """``geometric(decay, factors[i], tape.uniform(channel, i))`` for i = 0, 1, ..."""
    found, certain = _by_floats(_rate(decay) * factors, math.inf, tape.words(channel, len(factors)))
    for i in np.flatnonzero(~certain).tolist():
        found[i] = geometric(decay, factors.item(i), tape.uniform(channel, i))
    return found


def _rate(decay: Decay) -> float:
    return float(decay.log_enclosure(WORD_BITS)[0])


def _by_float(rate: float, length: float, lower: float) -> int | None:
    """``_by_floats`` for one number, ten times as fast; None if float64 does not settle it."""
    norm = -math.expm1(-rate * length)
    x = min(max(math.floor(math.log1p(-lower * norm) / -rate) + 1, 1), length)
    below, up_to = -math.expm1(-rate * (x - 1)) / norm, -math.expm1(-rate * x) / norm
    certain = x == length or lower + UNIT <= up_to * (1 - 4 * _EXPM1_ERROR)
    return int(x) if certain and lower >= below * (1 + 4 * _EXPM1_ERROR) else None


def _by_floats(rates: Any, lengths: Any, words: WordArray) -> tuple[IntArray, BoolArray]:
    """The answers, and which of them float64 settles; for the rates -ln(ratio) and lengths, each of
    them one for all or an array, and the leading 64 bits of the uniform numbers."""
    norms = -np.expm1(-rates * lengths)
    lower = (words >> np.uint64(11)) * UNIT
    found = np.clip(np.floor(np.log1p(-lower * norms) / -rates) + 1, 1, lengths)
    below, up_to = (-np.expm1(-rates * x) / norms for x in (found - 1, found))
    certain = (found == lengths) | (lower + UNIT <= up_to * (1 - 4 * _EXPM1_ERROR))
    certain &= lower >= below * (1 + 4 * _EXPM1_ERROR)
    return found.astype(np.int64), certain


def _precisely(decay: Decay, factor: int, uniform: Uniform, length: int | None, bits: int) -> int:
    """The answer.

    Raises:
      Undecided: this precision does not settle it.
    """
    number = uniform.enclosure(bits)
    norm = exactly(1)
    if length is not None:
        norm = decay.one_minus_power(factor * length, bits + 16)

    def is_reached(x: int) -> bool:
        if length is not None and x >= length:
            return True
        return number.is_below(decay.one_minus_power(factor * x, bits + 16) / norm)

    return smallest_where(is_reached, 1)
