"""Predicts the errors of releases, without data.

This module needs neither the readers of records nor an engine, and so a plan is there sooner.
"""

from __future__ import annotations

from collections.abc import Sequence

from dp_transforms.errors import hiding_originals
from dp_transforms.mechanisms.decimals import Number, positive_integer
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.postprocessing.planning import ReleasePlan, plan_releases, zipf_list


@hiding_originals
def plan(
    epsilons: Number | Sequence[Number],
    *,
    users: int | None = None,
    reference: FrequencyList | None = None,
    delta: Number | None = None,
    max_partitions_per_user: int = 1,
    attributes: int = 1,
) -> tuple[ReleasePlan, ...]:
    """Predicts the errors of releases without private data; returns one plan for each epsilon.

    Args:
      epsilons: one, or several to compare.
      users: the approximate number of users, each with ``max_partitions_per_user`` partitions. The
        list is taken to follow Zipf's law; a plan's ``other_dists`` are for two other kinds.
      reference: a public list like the one to release, instead of ``users``.
      delta: of a selection of names, if one is planned too.
      max_partitions_per_user: kappa.
      attributes: the number of lists of ``release_attributes``, which share each epsilon equally;
        plans are of one of them, with its part of epsilon.

    Raises:
      ValueError: an argument is out of range, or neither or both of users and reference are given.

    >>> import dp_transforms as dp
    >>> (release_plan,) = dp.plan(1, users=10_000)
    >>> 20 < release_plan.expected_dist < 40
    True
    """
    if (users is None) == (reference is None):
        raise ValueError("give either users or reference")
    if isinstance(epsilons, str) or not isinstance(epsilons, Sequence):
        epsilons = [epsilons]
    kappa = positive_integer("max_partitions_per_user", max_partitions_per_user)
    if reference is None:
        reference = zipf_list(positive_integer("users", users) * kappa)
    elif not isinstance(reference, FrequencyList):
        raise TypeError(
            "reference must be a FrequencyList, such as the attribute released of a release, got "
            f"{type(reference).__name__}"
        )
    parts = epsilons
    if attributes != 1:
        if kappa != 1 or delta is not None:
            raise ValueError(
                "attributes is for lists in which a user has one value: leave out delta and "
                "max_partitions_per_user"
            )
        from dp_transforms.postprocessing.attribute_plan import parts_of

        parts = parts_of(epsilons, attributes)
    return plan_releases(reference, parts, delta, kappa, users is not None)
