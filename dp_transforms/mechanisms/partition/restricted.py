"""Runs the exponential mechanism over fewer lists: of a public total, or near the private list.

If the total is public, lists are drawn by the unrestricted mechanism at the rate c until one has
that total. Before each draw the release is given up with probability s = 2**-20, and then fails.
Let q = e**-c, and let Z and Z' be the sums of q**||x - f||_1 over all lists and over the lists of
that total. Then a release

    is the list x of that total with probability   (1 - s) q**||x - f||_1 / (s Z + (1 - s) Z')
    and fails with probability                     s Z / (s Z + (1 - s) Z')

Given that it does not fail, this is the exponential mechanism on the lists of that total.

Privacy. Neighbours: add or remove all records of one user. Which lists are possible does not depend
on the data, and ||x - f||_1 changes by at most ``sensitivity``. So q**||x - f||_1, Z and Z' change
by a factor of at most e**(c * sensitivity) each, and c = epsilon / (2 * sensitivity) gives pure
epsilon-DP. This includes failures: they are paid for. (If the number of draws were fixed instead,
the probability of failure might change by more. The lower price of ``IntegerPartitionMechanism``
does not apply, since it needs a lattice of lists: the lists of one total are none.)

The guarantee is for lists that are not refused. A list is refused if neither it nor a neighbour of
it has the declared total, which never happens if the declaration is true. The number of draws
depends on f and shows in the running time.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import gmpy2

from dp_transforms.errors import NothingDrawnError, UnsuitableListError
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.enclosure import rounding_pair, smallest_where
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.partition.mechanism import (
    Draw,
    PartitionMechanism,
    check_total,
)
from dp_transforms.mechanisms.partition.walk.levels import Sampler
from dp_transforms.mechanisms.partition.walk.walk import Blocks
from dp_transforms.mechanisms.partition_bounds import PartitionBounds, check_distance
from dp_transforms.mechanisms.randomness import RandomTape

GIVE_UP_BITS = 20
"""A release is given up before each draw with a probability of 2**-GIVE_UP_BITS."""


@dataclass(frozen=True)
class ExactTotalMechanism(PartitionMechanism):
    """Releases x with probability proportional to q**||x - f||_1, over the lists of a public total.

    Privacy: see the module. If the number of records is public because it never changes, neighbours
    replace the records of one user by others. This is one removal and one addition, so the cost is
    2 * epsilon.

    Args:
      total: the public number of records n.
      epsilon, sensitivity, eta: see ``PartitionMechanism``.

    Raises:
      ValueError: see ``PartitionMechanism``.
      UnsuitableListError: at a release, if the list's own total differs from n by more than the
        sensitivity.
      NothingDrawnError: at a release, if it was given up before a list of total n was drawn.

    >>> mechanism = ExactTotalMechanism(total=1100, epsilon=1.0)
    >>> mechanism.release(FrequencyList([100, 30, 1], [5, 10, 300])).total
    1100
    """

    may_fail = True
    stable_name: ClassVar[str] = "ExactTotalMechanism"

    total: int = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_total("total", self.total)

    def possible_lists(self) -> dict[str, Any]:
        return {"possible_lists": "of a public total", "total": self.total}

    def _draw(self, frequency_list: FrequencyList) -> Draw:
        if abs(self.total - frequency_list.total) > self.sensitivity:
            raise UnsuitableListError(
                "the list contradicts total: give a public number that is true of the data"
            )
        sampler = Sampler(Blocks.of(frequency_list), self.decay)

        def draw(tape: RandomTape) -> FrequencyList:
            for tries in itertools.count():
                gives_up = tape.prefix("give up", tries, GIVE_UP_BITS) == 0
                if gives_up:
                    break
                released = sampler.release(tape.branch(f"try {tries}"))
                if released.total == self.total:
                    return released
            raise NothingDrawnError(
                "no list that agrees with total was found: raise epsilon, or leave total out"
            )

        return draw


_PRECISION = 128


@dataclass(frozen=True)
class DistanceBoundedPartitionMechanism(PartitionMechanism):
    """Releases x with probability proportional to q**||x - f||_1, over the lists near f.

    The lists near f are those between L^d and U^d, the tightest bounds on all lists within an L1
    distance d of f (``PartitionBounds.within_distance``), as in Mechanism 1 of Blocki, Datta and
    Bonneau (NDSS 2016). Use this mechanism for comparisons only: ``IntegerPartitionMechanism`` has
    no delta and is no slower.

    Privacy. Which lists are possible depends on f. For every f of at most ``max_total`` users, a
    release of the unrestricted mechanism is outside the bounds with a probability of at most
    ``delta``. So delta bounds the total variation between the two mechanisms. For neighbours f, f'
    (add or remove all records of one user) and any set S

        P_f(S) <= Q_f(S) + delta <= e**epsilon Q_f'(S) + delta
               <= e**epsilon (P_f'(S) + delta) + delta

    where P is the mechanism's distribution and Q the unrestricted one. This is (epsilon, delta')-DP
    with delta' = delta * (1 + e**epsilon), for lists of at most ``max_total`` users. Larger lists
    are refused, which itself leaks information about the data. As in the paper, epsilon pays for
    two factors of q**-sensitivity, and not for the exact price of Q.

    The bound delta. If ||x - f||_1 = m, the total of x is one of m + 1 numbers up to N + m. So
    there are at most (m + 1) p(N + m) such lists, where p(n) <= e**(pi sqrt(2 n / 3)) is the number
    of partitions of n (Apostol, "Introduction to Analytic Number Theory", Theorem 14.5). All
    weights sum to more than f's own weight, which is 1. So

        Pr[||x - f||_1 > d] <= sum over m > d of (m + 1) e**(pi sqrt(2 (N + m) / 3)) q**m

    From some m on the terms fall faster than geometrically. This bound holds for all N and epsilon.
    The published Lemma 1 is such a bound too, with rounder constants, for epsilon > 48 pi**2 /
    sqrt(N) and delta >= e**(1 - sqrt(N) / 2).

    Args:
      max_total: N, a public upper bound on the list's total.
      delta: a limit on the bound above, which determines d. Give this or distance.
      distance: d, from which delta follows by the bound above.
      epsilon, sensitivity, eta: see ``PartitionMechanism``.

    Raises:
      ValueError: see ``PartitionMechanism``; both or neither of delta and distance are given, one
        is out of range, the distance is above 2**40, or delta' is not below 1.
      UnsuitableListError: at a release, the list's total is above N.

    >>> mechanism = DistanceBoundedPartitionMechanism(max_total=10_000, delta=1e-9, epsilon=1.0)
    >>> mechanism.distance
    583
    >>> mechanism.delta_prime < 4e-9
    True
    """

    stable_name: ClassVar[str] = "DistanceBoundedPartitionMechanism"
    may_fail = True

    max_total: int = field(kw_only=True)
    delta: float | None = field(default=None, kw_only=True)
    distance: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_total("max_total", self.max_total)
        if (self.delta is None) == (self.distance is None):
            raise ValueError("give either delta or distance")
        if self.distance is None:
            if not (isinstance(self.delta, float) and 0 < self.delta < 1):
                raise ValueError(f"delta must be a float between 0 and 1, got {self.delta!r}")
            delta: float = self.delta
            distance = smallest_where(
                lambda d: probability_outside(self.decay, self.max_total, d) <= delta, 0
            )
            object.__setattr__(self, "distance", distance)
        else:
            check_total("distance", self.distance)
            outside = probability_outside(self.decay, self.max_total, self.distance)
            object.__setattr__(self, "delta", outside)
        assert self.distance is not None
        check_distance(self.distance)
        if not self.delta_prime < 1:
            raise ValueError(
                "delta * (1 + e**epsilon) is not below 1, which promises nothing: give a "
                f"smaller delta or a larger distance (distance = {self.distance})"
            )

    @cached_property
    def delta_prime(self) -> float:
        """Returns delta * (1 + e**epsilon), rounded up."""
        assert self.delta is not None
        _, up = rounding_pair(_PRECISION)
        _, factor = self.decay.power(-2 * self.sensitivity, _PRECISION)
        return math.nextafter(float(up.mul(self.delta, up.add(1, factor))), math.inf)

    @property
    def failure_probability(self) -> float:
        return self.delta_prime

    @property
    def loss_range(self) -> float:
        # The possible lists are private: nothing is known beyond epsilon-DP.
        return 2 * self.epsilon_cost

    def possible_lists(self) -> dict[str, Any]:
        return {
            "possible_lists": "between bounds around the private list",
            "distance": self.distance,
            "max_total": self.max_total,
        }

    def _draw(self, frequency_list: FrequencyList) -> Draw:
        if frequency_list.total > self.max_total:
            raise UnsuitableListError(
                "the list's total is above max_total, so that delta would not hold"
            )
        assert self.distance is not None
        bounds = PartitionBounds.within_distance(frequency_list, self.distance)
        return Sampler(Blocks.of(frequency_list, bounds), self.decay).release


def probability_outside(decay: Decay, max_total: int, distance: int) -> float:
    """Returns an upper bound on Pr[||x - f||_1 > distance], by the sum that the docstring of
    ``DistanceBoundedPartitionMechanism`` derives. A geometric series bounds the sum; the result is
    1 if its terms do not fall at ``distance`` + 1."""
    first = distance + 1
    with gmpy2.context(precision=_PRECISION):
        rate = gmpy2.mpfr(decay.log_enclosure(_PRECISION)[0])
        root = gmpy2.const_pi() * gmpy2.sqrt(gmpy2.mpfr(2) / 3)
        total = gmpy2.mpfr(max_total + first)
        # An upper bound on the ratio of the second term to the first; later ratios are smaller.
        ratio = gmpy2.exp(root / (2 * gmpy2.sqrt(total)) - rate) * (first + 2) / (first + 1)
        if ratio >= 1 - 2.0**-30:
            return 1.0
        term: Any = (first + 1) * gmpy2.exp(root * gmpy2.sqrt(total) - rate * first)
        # The next float is above the bound, even if that is below the least float.
        return min(1.0, math.nextafter(float(term / (1 - ratio)), math.inf))
