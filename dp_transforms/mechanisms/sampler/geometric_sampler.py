"""Draws releases of the geometric mechanism: answers the questions of ``geometric_walk`` from a
tape, in float64 where that settles them, and by enclosures of rising precision where it does not.

Every question is whether U < p, for a uniform number U of its own and a rational function p of q.
In float64 the two sides of an equivalent inequality come from at most four numbers between 0 and 2,
each within 2**-52 of the exact one (the leading bits of U, a power of q, functions of q and the
chain), by at most four operations, which add at most 2**-52 each. So where they differ by more than
``_MARGIN`` = 2**-48 the inequality is settled. Others, about one in 10**14, go to MPFR.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.enclosure import Enclosure, enclosed, exactly, rounding_pair
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.randomness import RandomTape, is_below
from dp_transforms.mechanisms.sampler.geometric_walk import HELD, NEVER, TURNED, Runs, draw
from dp_transforms.mechanisms.sampler.walk import Blocks

_MARGIN = 2.0**-48
_NEGLIGIBLE = 2.0**-60  # A power of q below this is zero within 2**-52.
_UNIT = 1 << 128
"""One, in the fixed-point recurrence for r. A step of it loses less than 4 / _UNIT."""
_GUARD_BITS = 64
_BATCH = 512


class GeometricWeights:
    """Functions of q <= 1/3 and of the chain.

    Attributes:
      t: q / (1 + q), a float.
      powers: q**n where that is not negligible, floats.
    """

    def __init__(self, decay: Decay):
        self._decay = decay
        self._t = int(rounding_pair(256)[0].mul(self.mark(128)[0], _UNIT))
        self._r = 0
        self._chains: list[tuple[float, float, float]] = []
        self.t = self._t / _UNIT
        self.powers = [1.0]
        while self.powers[-1] > _NEGLIGIBLE:
            self.powers.append(float(decay.power(len(self.powers), 64)[0]))

    def chain(self, chain: int) -> tuple[float, float, float]:
        """(1 - r) (1 - t) - t, 1 - r, and (1 - r) (1 - t) / (1 - t - r), as floats."""
        while chain >= len(self._chains):
            rest, marked = _UNIT - self._r, _UNIT - self._t
            product = rest * marked
            self._chains.append(
                (
                    (product - self._t * _UNIT) / _UNIT**2,
                    rest / _UNIT,
                    product / ((rest - self._t) * _UNIT),
                )
            )
            self._r = self._t * _UNIT // rest
        return self._chains[chain]

    def mark(self, bits: int) -> Enclosure:
        """(lo, hi) around t."""
        power = self._decay.power(1, bits)
        return power / (1 + power)

    def away(self, gap: int, vertex: int, chain: int, bits: int) -> Enclosure:
        """(lo, hi) around P(away), see ``geometric_walk``."""
        bits += _GUARD_BITS
        power, mark = self._decay.power(gap, bits), self.mark(bits)
        if vertex == HELD:
            return power * (1 - mark)
        rest = self._rest(chain, bits)
        weight = rest * (1 - mark)
        if vertex == TURNED:
            return power * weight / (rest - mark)
        return power * (weight - mark) / (rest - mark * power)

    def left_by(self, gap: int, near: int, bits: int) -> Enclosure:
        """(lo, hi) around t (q**near - q**gap) / (1 - t q**gap): the probability to leave f, going
        straight along it without a chain, at a gap above ``near``."""
        bits += _GUARD_BITS
        mark, power = self.mark(bits), self._decay.power(near, bits)
        far = exactly(0) if gap == NEVER else self._decay.power(gap, bits)
        return mark * (power - far) / (1 - mark * far)

    def _rest(self, chain: int, bits: int) -> Enclosure:
        """(lo, hi) around 1 - r."""
        mark, rest = self.mark(bits), enclosed(1, bits)
        for _ in range(chain):
            rest = 1 - mark / rest
        return rest


class GeometricSampler:
    """Draws lists x with probability q**||x - f||_1 w(x), see ``integer_partition.geometric``;
    between walls or without."""

    def __init__(self, blocks: Blocks, weights: GeometricWeights):
        self.runs = Runs(blocks)
        self.weights = weights
        chains = self.runs.chains[:-1]
        turned = [weights.chain(chain)[2] for chain in range(int(chains.max(initial=0)) + 1)]
        # A regular run of one bit is left with P(away) of a turned vertex, a longer one with t.
        single = np.array(turned)[chains] * weights.powers[1]
        thresholds = np.where(blocks.lengths == 1, single, weights.t)
        self.thresholds = np.where(self.runs.regular[:-1], thresholds, 2.0)

    def release(self, tape: RandomTape) -> FrequencyList:
        """The list that this tape gives."""
        return draw(self.runs, TapeDecisions(self, tape)).applied_to(self.runs.blocks)


class TapeDecisions:
    """The answers that a tape gives: see ``geometric_walk.Decisions``.

    Both questions about a regular run read one number, of the channel "runs" and with the run's
    index. All others read those of the channel "steps", in turn.
    """

    def __init__(self, sampler: GeometricSampler, tape: RandomTape):
        self._tape = tape
        self._runs, self._weights = sampler.runs, sampler.weights
        count = len(sampler.thresholds)
        self._numbers = _floats(tape, "runs", count)
        possible = np.flatnonzero(self._numbers < sampler.thresholds + _MARGIN)
        self._possible: Iterator[int] = iter([*possible.tolist(), count])
        self._steps: list[float] = []
        self._asked = 0

    def departure(self, run: int) -> int:
        for found in self._possible:
            if found >= run and (not self._runs.regular[found] or self._departs(found)):
                break
        return found

    def kept(self, run: int) -> int:
        length = self._runs.lengths[run]
        number = self._numbers.item(run)
        if length > 2:
            kept = length - self._nearest("runs", run, number, NEVER, 1)
            if kept > 1:
                return kept
        chain = self._runs.chains[run]
        return int(length > 1 and not self._away("runs", run, number, length, TURNED, chain))

    def nearest(self, gap: int, least: int) -> int:
        return self._nearest("steps", *self._step(), gap, least)

    def away(self, gap: int, vertex: int, chain: int) -> bool:
        return self._away("steps", *self._step(), gap, vertex, chain)

    def _step(self) -> tuple[int, float]:
        index = self._asked
        if index == len(self._steps):
            self._steps += _floats(self._tape, "steps", _BATCH, index).tolist()
        self._asked += 1
        return index, self._steps[index]

    def _departs(self, run: int) -> bool:
        number = self._numbers.item(run)
        if self._runs.lengths[run] == 1:
            return self._away("runs", run, number, 1, TURNED, self._runs.chains[run])
        return self._nearest("runs", run, number, NEVER, 0) > 0

    def _nearest(self, channel: str, index: int, number: float, gap: int, least: int) -> int:
        """The smallest n with U >= t (q**n - q**gap) / (1 - t q**gap)."""
        powers, t = self._weights.powers, self._weights.t
        far = t * powers[gap] if gap < len(powers) else 0.0
        level = number * (1 - far) + far
        near = least
        while True:
            difference = level - (t * powers[near] if near < len(powers) else 0.0)
            if difference > _MARGIN:
                return near
            if difference >= -_MARGIN and not is_below(
                self._tape.uniform(channel, index), partial(self._weights.left_by, gap, near)
            ):
                return near
            near += 1

    def _away(
        self, channel: str, index: int, number: float, gap: int, vertex: int, chain: int
    ) -> bool:
        powers, t = self._weights.powers, self._weights.t
        power = powers[gap] if gap < len(powers) else 0.0
        straight, rest, turned = self._weights.chain(chain)
        if vertex == TURNED:
            difference = power * turned - number
        elif vertex == HELD:
            difference = power * (1 - t) - number
        else:
            difference = power * (straight + number * t) - number * rest
        if abs(difference) > _MARGIN:
            return difference > 0
        return is_below(
            self._tape.uniform(channel, index), partial(self._weights.away, gap, vertex, chain)
        )


def _floats(tape: RandomTape, channel: str, count: int, start: int = 0) -> FloatArray:
    """Numbers of a tape, rounded down to 53 bits."""
    words = tape.words(channel, count, start) >> np.uint64(11)
    numbers: FloatArray = np.ldexp(words.astype(np.float64), -53)
    return numbers
