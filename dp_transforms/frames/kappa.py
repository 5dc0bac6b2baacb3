"""Compares values of ``max_partitions_per_user`` by a private look at the records."""

from __future__ import annotations

from typing import Any

from dp_transforms.errors import NoChoiceError, hiding_originals
from dp_transforms.files.frame_records import Names, RecordArguments
from dp_transforms.frames.payer import Payer
from dp_transforms.frames.run import run_spec
from dp_transforms.mechanisms.decimals import Number
from dp_transforms.mechanisms.user_degrees import MAX_DEGREE
from dp_transforms.postprocessing import kappa_choice
from dp_transforms.releases import UserDegreesSpec
from dp_transforms.releases.user_degrees import DegreesOfUsers
from dp_transforms.runtime.job_secret import JobSecret


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
) -> kappa_choice.KappaChoice:
    """Compares values of ``max_partitions_per_user`` for a later release.

    It releases how many users have how many partitions. This is epsilon-DP, and its cost adds to
    that of the later release.

    Args:
      data, user, partition, drop_nulls, session, secret: see ``release``, also for errors.
      epsilon: the cost of this comparison; a tenth of ``for_epsilon`` is usually enough.
      for_epsilon: the epsilon of the later release.
      for_delta: the delta of a later selection of names; by default a list follows.
      max_degree: the largest value to try; a user with more partitions counts as having this many.
        If there are few users, noise at large values looks like users. Public: choose it without
        looking at the data.

    Returns:
      A choice whose ``recommended`` is the best value.

    Raises:
      ValueError: see ``release``.
      NoChoiceError: the noisy numbers show no user. Its attribute ``release`` has them, as a
        ``DegreesOfUsers``, since they are paid for.

    >>> import dp_transforms as dp
    >>> visits = [(user, page) for user in range(2_000) for page in range(user % 4)]
    >>> dp.choose_kappa(
    ...     visits, user=0, partition=1, epsilon=1, for_epsilon=1, max_degree=8
    ... ).recommended
    3
    """
    spec = UserDegreesSpec(epsilon, max_degree)
    kappa_choice.check_later_release(for_epsilon, for_delta)
    records = RecordArguments(data, user, partition, drop_nulls)
    ((released,),), statement = run_spec(spec, session, secret, records)
    try:
        return kappa_choice.choose_kappa(released, for_epsilon, for_delta)
    except ValueError as error:
        release = DegreesOfUsers(released, statement)
        raise NoChoiceError.after(release, str(error)) from None
