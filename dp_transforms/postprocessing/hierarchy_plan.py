"""Predicts how near the lists of a hierarchy will be, before any data are read.

Everything is computed from public numbers: a made-up list stands for a group of average size, and
is released alone at the epsilon of its level. Large groups of a hierarchy come out about as near as
that, and small ones nearer, since they borrow the shape of the group above.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dp_transforms.mechanisms.decimals import (
    Number,
    parts_by_shares,
    positive_integer,
    positive_rational,
)
from dp_transforms.mechanisms.partition.frobenius import FrobeniusMechanism
from dp_transforms.postprocessing.planning import made_up_dists


@dataclass(frozen=True)
class LevelPlan:
    """A plan predicts the list of an average group at one level.

    Attributes:
      epsilon: of all levels together.
      epsilon_of_level: of the lists of this level.
      groups: how many there are at this level; 1 at the top.
      contributions: how many an average group has.
      expected_dist: half the expected L1 distance to its true list, for a Zipf list.
      other_dists: the same for lists of other kinds.
    """

    epsilon: float
    epsilon_of_level: float
    groups: int
    contributions: int
    expected_dist: float
    other_dists: dict[str, float]

    @property
    def relative_error(self) -> float:
        """Returns expected_dist as a part of the contributions of an average group."""
        return self.expected_dist / self.contributions


def plan_hierarchy(
    contributions: int,
    groups: Sequence[int],
    epsilon: Number,
    max_partitions_per_user: int = 1,
    shares: Sequence[Number] | None = None,
) -> tuple[LevelPlan, ...]:
    """Predicts the lists of everything and of each level, from the top down.

    Args:
      contributions: how many there are in all, about. Public.
      groups: their number at each level below everything.
      epsilon: the budget of all levels together.
      max_partitions_per_user: kappa.
      shares: how epsilon is divided, see ``release_hierarchy``; equally by default.

    Raises:
      ValueError: a number is out of range, a level has fewer groups than the one above, or shares
        are not as many as levels, everything among them.

    >>> top, states, counties = plan_hierarchy(1_000_000, [50, 3_000], epsilon=3)
    >>> counties.contributions, counties.epsilon_of_level
    (333, 1.0)
    >>> top.relative_error < states.relative_error < counties.relative_error
    True
    """
    total = positive_integer("contributions", contributions)
    numbers = [1, *(positive_integer("groups", number) for number in groups)]
    if not groups or numbers != sorted(numbers):
        raise ValueError("groups must be the numbers of groups of each level, from the top down")
    plans = []
    whole = positive_rational("epsilon", epsilon)
    parts = parts_by_shares(whole, shares, len(numbers))
    for number, part in zip(numbers, parts, strict=True):
        size = max(total // number, 1)
        mechanism = FrobeniusMechanism(part, max_partitions_per_user)
        dist, *others = made_up_dists(mechanism, size).items()
        plans.append(LevelPlan(float(whole), float(part), number, size, dist[1], dict(others)))
    return tuple(plans)
