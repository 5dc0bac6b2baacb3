"""The integer-partition mechanism over lists whose total is public, or bounded by a public number.

Rejection makes the law exact: lists are drawn over all totals, from a law that is tilted towards
the total in question, until one is accepted. With s = sum x - sum f and a tilt t, the law

    q**||x - f||_1 * e**(-t s)

is a walk with one rate above zero, c + t, and another below, c - t. Given s it is the law without
the tilt. So it gives the lists with s = S if those are accepted, and those with s <= S if they are
accepted with probability e**(-t (S - s)), where t >= 0. The tilt decides how long that takes and
nothing else (Arratia and DeSalvo, "Probabilistic divide-and-conquer", 2016).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar

from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.integer_partition.free_places import FreePlaces
from dp_transforms.mechanisms.integer_partition.mechanism import (
    Draw,
    PartitionMechanism,
    UnsuitableListError,
    check_total,
)
from dp_transforms.mechanisms.randomness import KEY_BYTES, RandomTape, is_below
from dp_transforms.mechanisms.sampler.levels import Sampler
from dp_transforms.mechanisms.sampler.walk import Blocks, Walk

_STEEPEST = Fraction(3, 4)  # A tilt beyond this part of c would make the walk go too far.
_TILT_UNIT = Fraction(1, 2**24)  # Tilts are multiples of this part of c.
_DRAWS = 16  # The number of draws from which the mean and the variance under a tilt are estimated.

_FAR = 8
"""A total is out of reach if it is this many standard deviations from the mean that the steepest
tilt gives."""

Attempt = Callable[[RandomTape], Walk | None]


class _TotalMechanism(PartitionMechanism):
    _possible: ClassVar[str]
    _limit_name: ClassVar[str]
    """Of the field with the public number."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_total(self._limit_name, getattr(self, self._limit_name))

    def possible_lists(self) -> dict[str, Any]:
        limit = getattr(self, self._limit_name)
        return {"possible_lists": self._possible, self._limit_name: limit}

    def _draw(self, frequency_list: FrequencyList) -> Draw:
        excess = getattr(self, self._limit_name) - frequency_list.total
        tilts = _Tilts(Blocks.of(frequency_list), self.decay)
        part = self._tilt(tilts, excess)
        sampler = tilts.sampler(part)
        attempt = self._attempt(sampler, excess, part * tilts.rate)

        def draw(tape: RandomTape) -> FrequencyList:
            tries = 0
            while True:
                walk = attempt(tape.branch(f"try {tries}"))
                if walk is not None:
                    return walk.applied_to(sampler.blocks)
                tries += 1

        return draw

    @abstractmethod
    def _tilt(self, tilts: _Tilts, excess: int) -> Fraction:
        """The tilt to use for an excess of the public number over f's total, as a part of c."""

    @abstractmethod
    def _attempt(self, sampler: Sampler, excess: int, tilt: Fraction) -> Attempt:
        """Draws under a tilt that give an accepted walk, or None."""


@dataclass(frozen=True)
class ExactTotalMechanism(_TotalMechanism):
    """Releases x with probability proportional to q**||x - f||_1, over the lists of a public total.

    Privacy. Which lists are possible does not depend on the data, and by the
    triangle inequality the weight of any list and the total of all weights change by a factor
    of at most q**-sensitivity each, so that q = e**(-epsilon / (2 * sensitivity)) gives pure
    epsilon-DP for adding or removing all records of one user, and 2**-eta (2 * eta *
    sensitivity)-DP in base 2. (The lower price of ``IntegerPartitionMechanism`` needs a lattice of
    lists, and those of one total are none.) Where the number of records is public because it never
    changes, neighbours replace the records of one user by others. That is one removal and one
    addition, and costs 2 * epsilon. All this is for lists that are not refused, see below: a
    refusal itself leaks information about the data.

    A release is drawn until its total is right. See ``free_places`` for how that is made likely.

    Args:
      total: the public number of records n.
      epsilon, sensitivity, eta: see ``PartitionMechanism``.

    Raises:
      ValueError: see ``PartitionMechanism``.
      UnsuitableListError: at a release, the list's own total is so far from n that no list of
        total n will be found.

    >>> mechanism = ExactTotalMechanism(total=1100, epsilon=1.0)
    >>> mechanism.release(FrequencyList([100, 30, 1], [5, 10, 300])).total
    1100
    """

    total: int = field(kw_only=True)
    _possible = "of a public total"
    _limit_name = "total"

    def _tilt(self, tilts: _Tilts, excess: int) -> Fraction:
        tilt = tilts.towards(excess)
        if tilts.is_far(tilt, excess):
            raise UnsuitableListError(_OUT_OF_REACH.format("total"))
        return tilt

    def _attempt(self, sampler: Sampler, excess: int, tilt: Fraction) -> Attempt:
        free = FreePlaces.suited_to(sampler)
        if free is not None:
            return partial(free.attempt, excess)

        def attempt(tape: RandomTape) -> Walk | None:
            walk = sampler.walk(tape)
            return walk if walk.excess(sampler.blocks) == excess else None

        return attempt


@dataclass(frozen=True)
class MaximumTotalMechanism(_TotalMechanism):
    """Releases x with probability proportional to q**||x - f||_1, over the lists up to some total.

    Privacy. The bound is public, so which lists are possible does not depend on the data, and the
    argument is that of ``ExactTotalMechanism``, at the same price. All this is for lists that are
    not refused, see below: a refusal itself leaks information about the data.

    Args:
      max_total: a public upper bound on the number of records.
      epsilon, sensitivity, eta: see ``PartitionMechanism``.

    Raises:
      ValueError: see ``PartitionMechanism``.
      UnsuitableListError: at a release, the list's own total is so far above the bound that no
        list within it will be found.

    Source: Blocki, "Differentially private integer partitions and their applications" (2016).

    >>> mechanism = MaximumTotalMechanism(max_total=1100, epsilon=1.0)
    >>> mechanism.release(FrequencyList([100, 30, 1], [5, 10, 300])).total <= 1100
    True
    """

    max_total: int = field(kw_only=True)
    _possible = "up to a public total"
    _limit_name = "max_total"

    def _tilt(self, tilts: _Tilts, excess: int) -> Fraction:
        if tilts.moments(Fraction(0))[0] <= excess:
            return Fraction(0)
        tilt = tilts.towards(excess)
        if tilts.moments(tilt)[0] > excess and tilts.is_far(tilt, excess):
            raise UnsuitableListError(_OUT_OF_REACH.format("max_total"))
        return max(tilt, Fraction(0))

    def _attempt(self, sampler: Sampler, excess: int, tilt: Fraction) -> Attempt:
        def attempt(tape: RandomTape) -> Walk | None:
            walk = sampler.walk(tape)
            left = excess - walk.excess(sampler.blocks)
            if left < 0:
                return None
            if tilt:
                kept = Decay(tilt)
                if not is_below(tape.uniform("total", 0), lambda bits: kept.power(left, bits)):
                    return None
            return walk

        return attempt


_OUT_OF_REACH = (
    "{} is too far from what the list has: no release of such a total would be found. Give a "
    "public number that is true of the data"
)


class _Tilts:
    """What a tilt does to the total of a list; tilts are parts of the rate c.

    All is found from draws of a constant tape, and by exact arithmetic: the tilt is a function of f
    alone, on every machine.
    """

    def __init__(self, blocks: Blocks, decay: Decay):
        self._blocks = blocks
        self._decay = decay
        self.rate = Fraction(float(decay.log_enclosure(64)[0]))
        self._samplers: dict[Fraction, Sampler] = {}
        self._moments: dict[Fraction, tuple[Fraction, Fraction]] = {}

    def sampler(self, tilt: Fraction) -> Sampler:
        """Draws lists under this tilt."""
        if tilt not in self._samplers:
            self._samplers[tilt] = Sampler(
                self._blocks, self._tilted(tilt * self.rate), self._tilted(-tilt * self.rate)
            )
        return self._samplers[tilt]

    def is_far(self, tilt: Fraction, excess: int) -> bool:
        """Whether no list of this excess would be found under the tilt."""
        mean, variance = self.moments(tilt)
        return (mean - excess) ** 2 > _FAR**2 * variance

    def towards(self, excess: int) -> Fraction:
        """A tilt under which the mean is close to ``excess``, or nearly the steepest one."""
        low, high = -_STEEPEST, _STEEPEST
        tilt = Fraction(0)
        while True:
            mean, variance = self.moments(tilt)
            missing = mean - excess
            near_the_end = abs(tilt) > _STEEPEST * Fraction(15, 16)
            if missing**2 <= variance / 9 or near_the_end or high - low <= 2 * _TILT_UNIT:
                return tilt
            low, high = (tilt, high) if missing > 0 else (low, tilt)
            newton = tilt + _rounded(missing / (variance * self.rate))
            tilt = newton if low < newton < high else _rounded((low + high) / 2)

    def moments(self, tilt: Fraction) -> tuple[Fraction, Fraction]:
        """About the mean of sum x - sum f, and the variance: minus the slope of the mean."""
        if tilt not in self._moments:
            constant = RandomTape(bytes(KEY_BYTES))
            sampler = self.sampler(tilt)
            draws = [
                sampler.walk(constant.branch(f"draw {i}")).excess(sampler.blocks)
                for i in range(_DRAWS)
            ]
            total = sum(draws)
            squares = sum(draw * draw for draw in draws)
            variance = (squares - Fraction(total * total, _DRAWS)) / (_DRAWS - 1)
            # Draws that are all equal do not mean that others would be.
            self._moments[tilt] = Fraction(total, _DRAWS), max(variance, Fraction(1, _DRAWS))
        return self._moments[tilt]

    def _tilted(self, tilt: Fraction) -> Decay:
        return Decay(self._decay.rate + tilt, self._decay.base)


def _rounded(part: Fraction) -> Fraction:
    return round(max(min(part, Fraction(2)), Fraction(-2)) / _TILT_UNIT) * _TILT_UNIT
