"""Predicts the errors of releases, without data.

This module imports neither the readers of records nor an engine, so that a plan takes less time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, overload

from dp_transforms.errors import hiding_originals
from dp_transforms.mechanisms.decimals import Number, positive_integer
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.postprocessing.planning import ReleasePlan, plan_releases, zipf_list

if TYPE_CHECKING:
    from dp_transforms.postprocessing.hierarchy_plan import HierarchyPlan


@overload
def plan(
    epsilons: Number | Sequence[Number],
    *,
    users: int | None = None,
    reference: FrequencyList | None = None,
    delta: Number | None = None,
    max_partitions_per_user: int = 1,
    attributes: int = 1,
) -> tuple[ReleasePlan, ...]: ...


@overload
def plan(
    epsilons: Number | Sequence[Number],
    *,
    users: int | None = None,
    reference: FrequencyList | None = None,
    max_partitions_per_user: int = 1,
    groups: Sequence[int] | Mapping[str, int],
    shares: Sequence[Number] | None = None,
    group_sizes: Sequence[int] | None = None,
) -> tuple[HierarchyPlan, ...]: ...


@hiding_originals
def plan(
    epsilons: Number | Sequence[Number],
    *,
    users: int | None = None,
    reference: FrequencyList | None = None,
    delta: Number | None = None,
    max_partitions_per_user: int = 1,
    attributes: int = 1,
    groups: Sequence[int] | Mapping[str, int] | None = None,
    shares: Sequence[Number] | None = None,
    group_sizes: Sequence[int] | None = None,
) -> tuple[ReleasePlan, ...] | tuple[HierarchyPlan, ...]:
    """Predicts the errors of releases without private data; returns one plan for each epsilon.

    With ``groups`` the plans are for ``release_hierarchy``. Printed, each is a table of the errors
    at every level, for groups of several sizes.

    Args:
      epsilons: one epsilon, or several to compare.
      users: the approximate number of users, each with ``max_partitions_per_user`` partitions. The
        list is assumed to follow Zipf's law; a plan's ``other_dists`` are for two other kinds.
      reference: a public list like the one to release, instead of ``users``.
      delta: the delta of a selection of names, if one is planned too.
      max_partitions_per_user: kappa.
      attributes: the number of lists of ``release_attributes``, which share each epsilon equally.
        Each plan is for one of these lists, with its part of epsilon.
      groups: the number of groups of ``release_hierarchy`` at each level below everything, such as
        ``{"state": 50, "county": 3_000}``, or the numbers alone.
      shares: with groups: how epsilon is divided, see ``release_hierarchy``; equally by default.
      group_sizes: with groups: the sizes of further groups to plan at each level, beside an average
        group, in contributions. By default they are ten times the average, and a tenth.

    Raises:
      ValueError: an argument is out of range; neither or both of users and reference are given; or
        arguments are given that do not go together.

    >>> import dp_transforms as dp
    >>> (release_plan,) = dp.plan(1, users=10_000)
    >>> 20 < release_plan.expected_dist < 40
    True
    >>> (plan_of_lists,) = dp.plan(1, users=1_000_000, groups={"state": 50, "county": 3_000})
    >>> 0.01 < plan_of_lists["county"].relative_error < 0.1
    True
    """
    if (users is None) == (reference is None):
        raise ValueError("give either users or reference")
    if isinstance(epsilons, str) or not isinstance(epsilons, Sequence):
        epsilons = [epsilons]
    kappa = positive_integer("max_partitions_per_user", max_partitions_per_user)
    if reference is None:
        contributions = positive_integer("users", users) * kappa
    elif not isinstance(reference, FrequencyList):
        raise TypeError(
            "reference must be a FrequencyList, such as the attribute released of a release, got "
            f"{type(reference).__name__}"
        )
    else:
        contributions = reference.total
    if groups is not None:
        if attributes != 1 or delta is not None:
            raise ValueError(
                "groups is for the lists of a hierarchy: leave out attributes and delta"
            )
        from dp_transforms.postprocessing.hierarchy_plan import plan_hierarchy

        return tuple(
            plan_hierarchy(contributions, groups, epsilon, kappa, shares, group_sizes, reference)
            for epsilon in epsilons
        )
    if shares is not None or group_sizes is not None:
        raise ValueError("shares and group_sizes are for the lists of a hierarchy: give groups")
    parts = epsilons
    if attributes != 1:
        if kappa != 1 or delta is not None:
            raise ValueError(
                "attributes is for lists in which a user has one value: leave out delta and "
                "max_partitions_per_user"
            )
        from dp_transforms.postprocessing.attribute_plan import epsilons_of_one_attribute

        parts = epsilons_of_one_attribute(epsilons, attributes)
    if reference is None:
        return plan_releases(zipf_list(contributions), parts, delta, kappa, made_up=True)
    return plan_releases(reference, parts, delta, kappa)
