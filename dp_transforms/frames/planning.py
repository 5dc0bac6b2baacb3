"""Predicts the errors of releases, and chooses how many partitions of a user count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dp_transforms.errors import hiding_originals
from dp_transforms.files.frame_records import Names, RecordArguments
from dp_transforms.frames.payer import Payer
from dp_transforms.frames.run import run_spec
from dp_transforms.mechanisms.decimals import Number, positive_integer
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.user_degrees import MAX_DEGREE, ReleasedDegrees
from dp_transforms.releases import UserDegreesSpec
from dp_transforms.runtime.job_secret import JobSecret

if TYPE_CHECKING:
    from dp_transforms.postprocessing.kappa_choice import KappaChoice
    from dp_transforms.postprocessing.planning import ReleasePlan


@hiding_originals
def choose_kappa(
    data: Any,
    user: str | int,
    partition: Names,
    *,
    epsilon: Number,
    for_epsilon: Number,
    for_delta: Number | None = None,
    max_degree: int = MAX_DEGREE,
    drop_nulls: bool = False,
    session: Payer | None = None,
    secret: JobSecret | None = None,
) -> KappaChoice:
    """Compares values of ``max_partitions_per_user`` for a later release.

    It releases how many partitions users have, which is epsilon-DP and adds to the later cost.

    Args:
      data, user, partition, drop_nulls, session, secret: see ``release``, also for errors.
      epsilon: the cost of this comparison; a tenth of ``for_epsilon`` is usually enough.
      for_epsilon: the epsilon of the later release.
      for_delta: the delta of a later selection of names; by default a list follows.
      max_degree: the largest value to try; a user with more partitions counts as having so many.
        With few users noise among large values passes for users. Public: choose it without looking
        at the data.

    Returns:
      A choice whose ``recommended`` is the best value.

    Raises:
      ValueError: also if the noisy numbers show no user.

    >>> import dp_transforms as dp
    >>> visits = [(user, page) for user in range(2_000) for page in range(user % 4)]
    >>> dp.choose_kappa(
    ...     visits, user=0, partition=1, epsilon=1, for_epsilon=1, max_degree=8
    ... ).recommended
    3
    """
    from dp_transforms.postprocessing import kappa_choice

    spec = UserDegreesSpec(epsilon, max_degree)
    # A made-up user shows, before anything is spent, whether the later release has a mechanism.
    kappa_choice.choose_kappa(ReleasedDegrees((1,), (1,), 1.0), for_epsilon, for_delta)
    records = RecordArguments(data, user, partition, drop_nulls)
    ((released,),), _ = run_spec(spec, session, secret, records)
    return kappa_choice.choose_kappa(released, for_epsilon, for_delta)


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
    >>> (one,) = dp.plan(1, users=10_000)
    >>> 20 < one.expected_dist < 40
    True
    """
    from dp_transforms.postprocessing.attribute_plan import parts_of
    from dp_transforms.postprocessing.planning import plan_releases, zipf_list

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
    parts = epsilons if attributes == 1 else parts_of(epsilons, attributes)
    return plan_releases(reference, parts, delta, kappa, users is not None)
