"""Functions from records of this process, or files, to releases: no pipeline is needed.

They bound, count and draw by the kernels of the jobs and under the same keys, so that function,
transform and command line give the same release under one secret. Arguments are checked, and a
session's budget is spent, before a record is used.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from dp_transforms.budget import PrivacyBudget, PrivacyUnit
from dp_transforms.budget.filter import Cost
from dp_transforms.frames import jobs
from dp_transforms.frames.answers import ListRelease, NamesRelease
from dp_transforms.job_secret import JobSecret, release_frequency_list
from dp_transforms.mechanisms.decimals import Number
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.integer_partition.choice import AUTO, partition_mechanism

if TYPE_CHECKING:
    from dp_transforms.frames.session import Session

T = TypeVar("T")


def release(
    data: Any,
    *,
    user: str | int,
    partition: jobs.Names,
    epsilon: Number,
    max_partitions_per_user: int,
    mechanism: str = AUTO,
    drop_nulls: bool = False,
    session: Session | None = None,
    secret: JobSecret | None = None,
) -> ListRelease:
    """Releases how many users partitions have, without saying which partitions: epsilon-DP for
    adding or removing all records of one user, with delta = 0.

    Args:
      data: an object with ``__arrow_c_stream__``, such as a frame of pandas (2.2 or later) or
        polars, a relation of DuckDB or a table of pyarrow; a dictionary of columns; an iterable of
        dictionaries, or of tuples whose columns are positions from 0; or a path as jobs take it.
      user: the column that says whose a record is.
      partition: the column of what is counted, or several.
      epsilon: what the release costs.
      max_partitions_per_user: kappa; of a user with more partitions as many are kept, at random.
      mechanism: see ``partition_mechanism``.
      drop_nulls: leave out records without a user or a partition, which are refused otherwise.
      session: spend from its budget; by default the release stands by itself.
      secret: makes all random decisions; a fresh one by default. It serves one release.

    Raises:
      ValueError: an argument is out of range, or the data have no such columns or nulls in them.
      TypeError: the data are of no known kind.
      BudgetExceededError: the session has less left; nothing was read or spent.

    >>> import dp_transforms as dp
    >>> visits = {"who": [1, 1, 2, 3], "page": ["home", "news", "home", "home"]}
    >>> release = dp.release(
    ...     visits, user="who", partition="page", epsilon=100, max_partitions_per_user=2
    ... )
    >>> release.to_arrow().select(["rank", "frequency"]).to_pydict()
    {'rank': [1, 2], 'frequency': [3, 1]}
    """
    from dp_transforms.runtime.local import count_distinct_users

    made = partition_mechanism(epsilon, max_partitions_per_user, mechanism)
    records = jobs.records_of(data, user, partition, drop_nulls)
    secret = _serving(secret, records)
    cost = Cost(PrivacyBudget(made.epsilon_cost, made.failure_probability), made.loss_range)
    with _spending(session, "frequency list", cost) as told:
        partitions = _in_memory(
            lambda: count_distinct_users(
                records.tables(), made.sensitivity, secret, records.num_buckets
            )
        )
        counts = sorted(partitions, reverse=True)
        private = FrequencyList(counts, [partitions[count] for count in counts])
        released = release_frequency_list(private, made, secret)
    columns = [field.name for field in records.partition_fields]
    return ListRelease(released, jobs.list_statement(made, columns) | told)


def select(
    data: Any,
    *,
    user: str | int,
    partition: jobs.Names,
    epsilon: Number,
    delta: Number,
    max_partitions_per_user: int,
    counts: bool = False,
    strategy: str = AUTO,
    pre_threshold: int = 1,
    drop_nulls: bool = False,
    session: Session | None = None,
    secret: JobSecret | None = None,
) -> NamesRelease:
    """Selects the partitions that may be named: (epsilon, delta)-DP for adding or removing all
    records of one user.

    Args:
      data, user, partition, max_partitions_per_user, drop_nulls, session, secret: see ``release``.
      epsilon, delta: what the selection costs; delta far below 1 / number of users.
      counts: also release noisy numbers of users, at no further cost.
      strategy: see ``mechanisms.partition_selection.make_strategy``.
      pre_threshold: never name a partition with fewer users than this.

    Raises:
      ValueError, TypeError, BudgetExceededError: see ``release``.

    >>> import dp_transforms as dp
    >>> visits = {"who": list(range(100)), "page": ["home"] * 99 + ["diary"]}
    >>> dp.select(
    ...     visits, user="who", partition="page", epsilon=1, delta=1e-9, max_partitions_per_user=1
    ... ).to_arrow().to_pydict()
    {'page': ['home']}
    """
    from dp_transforms.mechanisms.partition_selection import make_strategy
    from dp_transforms.runtime.selecting import select_locally

    made = make_strategy(
        strategy,
        epsilon,
        delta,
        counts,
        max_partitions_per_user=max_partitions_per_user,
        pre_threshold=pre_threshold,
    )
    records = jobs.records_of(data, user, partition, drop_nulls)
    secret = _serving(secret, records)
    cost = Cost(PrivacyBudget(epsilon, delta))
    with _spending(session, "names of partitions", cost) as told:
        selected = _in_memory(
            lambda: select_locally(records.tables(), made, secret, records.num_buckets, counts)
        )
    fields = records.partition_fields
    names = jobs.names_table(selected, fields)
    return NamesRelease(names, jobs.names_statement(made, counts, fields) | told)


@contextlib.contextmanager
def _spending(
    session: Session | None, purpose: str, cost: Cost, unit: PrivacyUnit = PrivacyUnit.USER
) -> Iterator[dict[str, Any]]:
    if session is None:
        yield {}
        return
    with session.spending(purpose, cost, unit) as told:
        yield told


def _serving(secret: JobSecret | None, records: Any) -> JobSecret:
    """A secret that serves these records alone."""
    secret = secret or JobSecret.from_os()
    secret.serve(records)
    return secret


def _in_memory(work: Callable[[], T]) -> T:
    try:
        return work()
    except MemoryError:
        raise MemoryError(
            "the records need more memory than there is: give them as files to a job on a runner "
            "that keeps what it shuffles on disks"
        ) from None
