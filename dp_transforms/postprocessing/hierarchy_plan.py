"""Predicts the errors of the lists of a hierarchy, before any data are read.

Everything is computed from public numbers. The list of a group is assumed to be a made-up list of
the group's size, or a part of a public list. The prediction is the error of this list if it is
released alone at the epsilon of its level. In the hierarchy, large groups err about as much as
that. Small groups err less, since they borrow the shape of the group above.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dp_transforms.mechanisms.arguments import listed
from dp_transforms.mechanisms.decimals import (
    Number,
    parts_by_shares,
    positive_integer,
    positive_rational,
)
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.partition.frobenius import FrobeniusMechanism
from dp_transforms.postprocessing.planning import expected_dist, made_up_dists
from dp_transforms.postprocessing.text_table import text_table

EVERYTHING = "all"  # The name of the level of everything, as in a release.
_USUAL_FACTORS = 10, 1 / 10
"""The sizes of the groups that are planned beside an average group, as multiples of its size. The
caller may give others."""


@dataclass(frozen=True)
class GroupPlan:
    """Predicts the list of one group.

    Attributes:
      contributions: the size of the group.
      expected_dist: half the expected L1 distance of the released list to the group's true list, if
        that is a Zipf list, or a part of the reference if there is one.
      other_dists: the same for lists of other kinds, by their names; empty with a reference.
    """

    contributions: int
    expected_dist: float
    other_dists: Mapping[str, float]

    @property
    def relative_error(self) -> float:
        """Returns expected_dist divided by the group's contributions."""
        return self.expected_dist / self.contributions

    @property
    def dists(self) -> tuple[float, ...]:
        """Returns the expected errors in contributions: expected_dist, then the values of
        other_dists."""
        return (self.expected_dist, *self.other_dists.values())


@dataclass(frozen=True)
class LevelPlan(GroupPlan):
    """Predicts the lists of an average group of a level, and of smaller and larger groups.

    Attributes:
      level: the name of the level.
      epsilon: the cost of all levels together.
      epsilon_of_level: the cost of the lists of this level.
      groups: the number of groups of this level; 1 at the top.
      of_sizes: plans of groups of other sizes, the largest first.
    """

    level: str
    epsilon: float
    epsilon_of_level: float
    groups: int
    of_sizes: tuple[GroupPlan, ...] = ()


@dataclass(frozen=True)
class HierarchyPlan:
    """Predicts the lists of all levels at one epsilon.

    As text it is a table. The first row of a level is about a group of average size, and further
    rows are about groups of other sizes.

    Attributes:
      epsilon: the cost of all levels together.
      levels: the plan of each level, everything first.
    """

    epsilon: float
    levels: tuple[LevelPlan, ...]

    def __getitem__(self, name: str) -> LevelPlan:
        """Returns the plan of the level with this name; "all" is the level of everything."""
        return {level.level: level for level in self.levels}[name]

    def __str__(self) -> str:
        top, lowest = self.levels[0], self.levels[-1]
        kinds = ["expected dist", *top.other_dists]
        rows = [["level", "groups", "epsilon", "contributions", *kinds, "of the contributions"]]
        for level in self.levels:
            for group in (level, *level.of_sizes):
                about_level = ["", "", ""]
                if group is level:
                    about_level = [
                        level.level,
                        f"{level.groups:,}",
                        f"{level.epsilon_of_level:.3g}",
                    ]
                dists = [f"{dist:,.0f}" for dist in group.dists]
                part = _percentage(group.relative_error)
                rows.append([*about_level, f"{group.contributions:,}", *dists, part])
        ends = sorted({min(lowest.dists), max(lowest.dists)})
        errors = dict.fromkeys(f"{dist:,.0f}" for dist in ends)
        parts = dict.fromkeys(_percentage(dist / lowest.contributions) for dist in ends)
        return (
            f"epsilon {self.epsilon:g}\n{text_table(rows, words=1)}\n"
            f"{lowest.level} of average size, {lowest.contributions:,} contributions: off by "
            f"{' to '.join(errors)}, {' to '.join(parts)}"
        )


def _percentage(part: float) -> str:
    """Returns a part of 1 as a percentage with two digits."""
    return f"{100 * part:.2g}%"


def plan_hierarchy(
    contributions: int,
    groups: Sequence[int] | Mapping[str, int],
    epsilon: Number,
    max_partitions_per_user: int = 1,
    shares: Sequence[Number] | None = None,
    group_sizes: Sequence[int] | None = None,
    reference: FrequencyList | None = None,
) -> HierarchyPlan:
    """Returns a plan of the list of everything and of the lists of each level.

    Args:
      contributions: about how many contributions there are in all. Public.
      groups: the number of groups of each level below everything, from the top down: a mapping from
        names of levels, or the numbers alone.
      epsilon: the budget of all levels together.
      max_partitions_per_user: kappa.
      shares: how epsilon is divided, see ``release_hierarchy``; equally by default.
      group_sizes: the sizes of further groups to plan at each level below everything, beside an
        average group, in contributions. By default they are ten times the average, and a tenth.
      reference: a PUBLIC list like that of everything; never the one to release. A group's list is
        assumed to be a part of it. By default lists are made up.

    Raises:
      ValueError: a number is out of range, a level has fewer groups than the one above, or shares
        are not as many as levels, everything among them.

    >>> plan = plan_hierarchy(1_000_000, {"state": 50, "county": 3_000}, epsilon=3)
    >>> plan["county"].contributions, plan["county"].epsilon_of_level
    (333, 1.0)
    >>> top, states, counties = plan.levels
    >>> top.relative_error < states.relative_error < counties.relative_error
    True
    """
    if reference is not None and not len(reference):
        raise ValueError("reference is empty: a plan needs a list with at least one partition")
    total = positive_integer("contributions", contributions)
    levels = _levels(groups)
    sizes = None
    if group_sizes is not None:
        sizes = [
            positive_integer("group_sizes", size) for size in listed("group_sizes", group_sizes)
        ]
    whole = positive_rational("epsilon", epsilon)
    parts = parts_by_shares(whole, shares, len(levels))
    plans = []
    for (level, number), part in zip(levels.items(), parts, strict=True):
        average = max(total // number, 1)
        mechanism = FrobeniusMechanism(part, max_partitions_per_user)
        if level == EVERYTHING:
            others = []
        elif sizes is None:
            others = [round(average * factor) for factor in _USUAL_FACTORS]
        else:
            others = sizes
        distinct = sorted({size for size in others if 0 < size < total} - {average}, reverse=True)
        group = _group_plan(mechanism, average, total, reference)
        plans.append(
            LevelPlan(
                level=level,
                epsilon=float(whole),
                epsilon_of_level=float(part),
                groups=number,
                contributions=average,
                expected_dist=group.expected_dist,
                other_dists=group.other_dists,
                of_sizes=tuple(_group_plan(mechanism, size, total, reference) for size in distinct),
            )
        )
    return HierarchyPlan(float(whole), tuple(plans))


def _levels(groups: Sequence[int] | Mapping[str, int]) -> dict[str, int]:
    """Returns the number of groups of each level by its name, everything first."""
    if isinstance(groups, Mapping):
        numbers = groups
    else:
        given = listed("groups", groups)
        numbers = {f"level {depth}": number for depth, number in enumerate(given, 1)}
    levels = {EVERYTHING: 1}
    for name, number in numbers.items():
        if not isinstance(name, str) or name == EVERYTHING:
            raise ValueError(f"names of levels must be text, and not {EVERYTHING!r}")
        levels[name] = positive_integer("groups", number)
    if len(levels) == 1 or [*levels.values()] != sorted(levels.values()):
        raise ValueError("groups must be the numbers of groups of each level, from the top down")
    return levels


def _group_plan(
    mechanism: FrobeniusMechanism, size: int, total: int, reference: FrequencyList | None
) -> GroupPlan:
    """Returns the plan of a group with ``size`` of all ``total`` contributions."""
    if reference is None:
        dists = made_up_dists(mechanism, size)
        return GroupPlan(size, dists.pop("Zipf"), dists)
    part = _part_of(reference, Fraction(size, total))
    return GroupPlan(size, expected_dist(mechanism, part, least_moved=1).dist, {})


def _part_of(frequency_list: FrequencyList, share: Fraction) -> FrequencyList:
    """Returns a list with a share of the partitions of each frequency.

    For each j, its number of partitions with at least j users is that of the whole list times the
    share, rounded.

    >>> list(_part_of(FrequencyList([9, 2, 1], [1, 10, 100]), Fraction(1, 4)))
    [(2, 3), (1, 25)]
    """
    ends = [round(int(end) * share) for end in frequency_list.multiplicities.cumsum()]
    repeats = [end - before for before, end in zip([0, *ends], ends, strict=False)]
    return FrequencyList.from_runs(frequency_list.frequencies, repeats)
