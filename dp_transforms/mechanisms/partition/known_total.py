"""The exponential mechanism over lists whose total is public, or bounded by a public number.

Lists are drawn by the unrestricted mechanism at the rate c until one has such a total. Given that,
x has a probability proportional to q**||x - f||_1 over the possible lists, q = e**-c: it is the
exponential mechanism on them. They do not depend on the data, and for neighbours ||x - f||_1 and
||x - f'||_1 differ by at most ``sensitivity``; so the weight of any x and the sum of all weights
change by a factor of at most e**(c * sensitivity) each, and c = epsilon / (2 * sensitivity) gives
pure epsilon-DP for adding or removing all records of one user. (The lower price of
``IntegerPartitionMechanism`` needs a lattice of lists, and those of one total are none.)

All this is for lists that are not refused. A list is refused if no neighbour of it agrees with what
was declared, which never happens where the declaration is true. If none of ``TRIES`` lists has the
total, the release fails: where a list is accepted with a probability of p, that happens with
(1 - p)**TRIES, below 1e-20 if p > 1/20,000. How often is drawn depends on f, and shows in the time.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.partition.mechanism import (
    Draw,
    PartitionMechanism,
    UnsuitableListError,
    check_total,
)
from dp_transforms.mechanisms.partition.walk.levels import Sampler
from dp_transforms.mechanisms.partition.walk.walk import Blocks
from dp_transforms.mechanisms.randomness import RandomTape

TRIES = 2**20
"""So many lists are drawn for one release, at most."""


class _TotalMechanism(PartitionMechanism):
    _possible: ClassVar[str]
    _limit_name: ClassVar[str]
    """The name of the field with the public number."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_total(self._limit_name, getattr(self, self._limit_name))

    def possible_lists(self) -> dict[str, Any]:
        limit = getattr(self, self._limit_name)
        return {"possible_lists": self._possible, self._limit_name: limit}

    def _draw(self, frequency_list: FrequencyList) -> Draw:
        name = self._limit_name
        excess = getattr(self, name) - frequency_list.total
        if not self._is_possible(excess, self.sensitivity):
            raise UnsuitableListError(
                f"the list contradicts {name}: give a public number that is true of the data"
            )
        sampler = Sampler(Blocks.of(frequency_list), self.decay)

        def draw(tape: RandomTape) -> FrequencyList:
            for tries in range(TRIES):
                walk = sampler.walk(tape.branch(f"try {tries}"))
                if self._is_possible(excess - walk.excess(sampler.blocks)):
                    return walk.applied_to(sampler.blocks)
            raise UnsuitableListError(
                f"no list that agrees with {name} was found in {TRIES:,} draws: raise epsilon, or "
                f"leave {name} out"
            )

        return draw

    @abstractmethod
    def _is_possible(self, missing: int, tolerance: int = 0) -> bool:
        """Says whether a list of the public number less ``missing`` agrees, up to a tolerance."""


@dataclass(frozen=True)
class ExactTotalMechanism(_TotalMechanism):
    """Releases x with probability proportional to q**||x - f||_1, over the lists of a public total.

    Privacy: see the module. Where the number of records is public because it never changes,
    neighbours replace the records of one user by others. That is one removal and one addition, and
    costs 2 * epsilon.

    Args:
      total: the public number of records n.
      epsilon, sensitivity, eta: see ``PartitionMechanism``.

    Raises:
      ValueError: see ``PartitionMechanism``.
      UnsuitableListError: at a release, the list's own total is further from n than one user's
        records, or no list of total n was found.

    >>> mechanism = ExactTotalMechanism(total=1100, epsilon=1.0)
    >>> mechanism.release(FrequencyList([100, 30, 1], [5, 10, 300])).total
    1100
    """

    total: int = field(kw_only=True)
    _possible = "of a public total"
    _limit_name = "total"

    def _is_possible(self, missing: int, tolerance: int = 0) -> bool:
        return abs(missing) <= tolerance


@dataclass(frozen=True)
class MaximumTotalMechanism(_TotalMechanism):
    """Releases x with probability proportional to q**||x - f||_1, over the lists up to some total.

    Privacy: see the module.

    Args:
      max_total: a public upper bound on the number of records.
      epsilon, sensitivity, eta: see ``PartitionMechanism``.

    Raises:
      ValueError: see ``PartitionMechanism``.
      UnsuitableListError: at a release, the list's own total is above the bound by more than one
        user's records, or no list within it was found.

    Source: Blocki, "Differentially private integer partitions and their applications" (2016).

    >>> mechanism = MaximumTotalMechanism(max_total=1100, epsilon=1.0)
    >>> mechanism.release(FrequencyList([100, 30, 1], [5, 10, 300])).total <= 1100
    True
    """

    max_total: int = field(kw_only=True)
    _possible = "up to a public total"
    _limit_name = "max_total"

    def _is_possible(self, missing: int, tolerance: int = 0) -> bool:
        return missing >= -tolerance
