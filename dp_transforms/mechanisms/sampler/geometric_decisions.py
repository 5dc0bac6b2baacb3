"""Exact geometric decisions: the place of a move within a run, and the parts of an infinite run.

All answer one question about one uniform number U: which is the smallest x >= 1 with U < F(x)? Here
F(x) = (1 - q**x) / (1 - q**n) is the distribution function of a geometric variable on 1..n (n may
be infinite). F has a closed form, so these decisions raise their own precision until they are
certain and never depend on anything else.
"""

from __future__ import annotations

import math

import numpy as np

from dp_transforms.mechanisms.arrays import IntArray, WordArray
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.enclosure import exactly
from dp_transforms.mechanisms.randomness import WORD_BITS, RandomTape, Uniform

# numpy's expm1 is within 4 units in the last place; the argument's rounding adds less than as many.
_EXPM1_ERROR = 2.0**-48
UNIT = 2.0**-53


def geometric(decay: Decay, factor: int, uniform: Uniform, length: int | None = None) -> int:
    """The smallest x >= 1 with U < F(x), for the ratio q**factor; F's support is 1..length.

    So x has the law P(x) proportional to q**(factor * x) on 1..length, or on all x >= 1 where
    length is None.
    """
    if length == 1:
        return 1
    quick = _by_floats(decay, factor, uniform, length)
    if quick is not None:
        return quick
    precision = WORD_BITS
    while True:
        answer = _at_precision(decay, factor, uniform, length, precision)
        if answer is not None:
            return answer
        precision *= 2


def _by_floats(decay: Decay, factor: int, uniform: Uniform, length: int | None) -> int | None:
    """The answer, or None if float64 does not settle it."""
    rate = float(decay.log_enclosure(WORD_BITS)[0]) * factor
    norm = 1.0 if length is None else -math.expm1(-rate * length)
    word = uniform.prefix(53)
    lower, upper = word * UNIT, (word + 1) * UNIT
    if lower * norm == 1:
        return None
    x = max(1, math.floor(math.log1p(-lower * norm) / -rate) + 1)
    if length is not None and x >= length:
        x = length
    elif not upper <= -math.expm1(-rate * x) / norm * (1 - 4 * _EXPM1_ERROR):
        return None
    if not lower >= -math.expm1(-rate * (x - 1)) / norm * (1 + 4 * _EXPM1_ERROR):
        return None
    return x


def _at_precision(
    decay: Decay, factor: int, uniform: Uniform, length: int | None, precision: int
) -> int | None:
    """The answer, or None if this precision does not settle it."""
    lower, upper = uniform.enclosure(precision)
    norm = exactly(1)
    if length is not None:
        norm = decay.one_minus_power(factor * length, precision + 16)

    def is_below(x: int) -> bool | None:
        if x == 0 or x == length:
            return x == length
        share = decay.one_minus_power(factor * x, precision + 16) / norm
        if upper <= share.lower:
            return True
        if lower >= share.upper:
            return False
        return None

    # Invariant of the search: U < F(high) and not U < F(low), both certain.
    low, high = 0, 1
    while (verdict := is_below(high)) is False:
        low, high = high, 2 * high if length is None else min(2 * high, length)
    if verdict is None:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        verdict = is_below(middle)
        if verdict is None:
            return None
        low, high = (low, middle) if verdict else (middle, high)
    return high


def places(
    decay: Decay,
    lengths: IntArray,
    tape: RandomTape,
    channel: str,
    indices: IntArray,
    words: WordArray,
) -> IntArray:
    """``geometric(decay, 1, tape.uniform(channel, index), length)`` for arrays of both.

    Args:
      words: the leading 64 bits of those uniform numbers.
    """
    if not len(lengths):
        return np.zeros(0, dtype=np.int64)
    rate = float(decay.log_enclosure(WORD_BITS)[0])
    # Beyond this many steps F rounds to its end; what falls there is decided exactly below.
    reach = min(int(lengths.max()), math.ceil(40 / rate)) + 1
    distribution = -np.expm1(-rate * np.arange(reach + 1))
    norm = -np.expm1(-rate * lengths)
    lower = (words >> np.uint64(11)) * UNIT
    upper = lower + UNIT
    found: IntArray = np.searchsorted(distribution, lower * norm, side="right")
    found = np.clip(found, 1, np.minimum(reach, lengths))
    certain = upper <= distribution[found] / norm * (1 - 4 * _EXPM1_ERROR)
    certain |= found == lengths
    certain &= lower >= distribution[found - 1] / norm * (1 + 4 * _EXPM1_ERROR)
    for i in np.flatnonzero(~certain):
        uniform = tape.uniform(channel, int(indices[i]))
        found[i] = geometric(decay, 1, uniform, int(lengths[i]))
    return found


def unbounded(decay: Decay, factors: IntArray, tape: RandomTape, channel: str) -> IntArray:
    """``geometric(decay, factors[i], tape.uniform(channel, i))`` for i = 0, 1, ..."""
    if not len(factors):
        return np.zeros(0, dtype=np.int64)
    rates = float(decay.log_enclosure(WORD_BITS)[0]) * factors
    lower = (tape.words(channel, len(factors)) >> np.uint64(11)) * UNIT
    upper = lower + UNIT
    found = np.floor(np.log1p(-lower) / -rates) + 1
    certain = upper <= -np.expm1(-rates * found) * (1 - 4 * _EXPM1_ERROR)
    certain &= lower >= -np.expm1(-rates * (found - 1)) * (1 + 4 * _EXPM1_ERROR)
    answers: IntArray = found.astype(np.int64)
    for i in np.flatnonzero(~certain).tolist():
        answers[i] = geometric(decay, int(factors[i]), tape.uniform(channel, i))
    return answers
