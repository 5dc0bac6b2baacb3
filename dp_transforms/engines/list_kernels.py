"""Puts rows into lists by an attribute of users, such as a language, or by period.

Both engines call these kernels. A table with attributes has the columns ``user`` and ``partition``,
and one column of text for each attribute, where "" stands for no value. After bounding, all rows of
a user have the same values. A table of periods has the columns ``user``, ``partition`` and
``list``, and the last has the period's name.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dp_transforms.columnar.attributes import LIST, NO_VALUE, attribute_text
from dp_transforms.columnar.bounding import distinct_pairs
from dp_transforms.columnar.columns import (
    COUNT,
    PARTITION,
    USER,
    concat,
    decoded,
    plain,
    single,
)
from dp_transforms.columnar.counting import numbers_of_rows, rows_where
from dp_transforms.columnar.grouping import group
from dp_transforms.columnar.hashing import to_numpy
from dp_transforms.columnar.scattering import Reduce
from dp_transforms.mechanisms.tape_contexts import (
    BOUND_CONTRIBUTIONS,
    purpose_of_period,
    purpose_of_users,
    value_of_attribute,
)
from dp_transforms.releases import (
    Attribute,
    GroupsSpec,
    PeriodListsSpec,
)
from dp_transforms.releases.groups import GroupedSpec
from dp_transforms.releases.lists import ALL_USERS
from dp_transforms.releases.periods import PeriodSpec

if TYPE_CHECKING:
    from dp_transforms.mechanisms.partition.mechanism import PartitionMechanism
    from dp_transforms.runtime.job_secret import JobSecret


class NamedList(NamedTuple):
    """One of several lists that are released together.

    Attributes:
      place: lists are released in the order of their places.
      label: what the list is called in the release.
      mechanism: the mechanism that releases it.
      context: the purpose of its random numbers: see ``release_frequency_list``.
    """

    place: Any
    label: tuple[str, ...]
    mechanism: PartitionMechanism
    context: str


def lists_of_periods(spec: PeriodListsSpec) -> dict[str, NamedList]:
    """Returns the list of each period, by the name of the period."""
    return {
        name: NamedList(place, (name,), spec.of_each, purpose_of_period(name))
        for place, name in enumerate(spec.periods)
    }


def in_known_periods(table: pa.Table, periods: Sequence[str]) -> pa.Table:
    """Returns the rows whose period, in the column ``list``, is one of these. Raises a TypeError if
    the column does not hold text."""
    names = plain(table[LIST], LIST)
    if names.type != pa.string():
        raise TypeError(f"column {LIST!r} must be the names of periods, as text: cast it")
    return table.filter(pc.is_in(names, value_set=pa.array(periods, pa.string())))


def bounds_of_periods(spec: PeriodSpec, secret: JobSecret) -> Reduce:
    """Returns ``bound_periods`` with the bounds of a specification and the keys of a secret."""
    return functools.partial(
        bound_periods,
        most_periods=spec.periods_per_user,
        at_most=spec.partitions_per_period,
        period_key=secret.key("periods of users"),
        key=secret.key(BOUND_CONTRIBUTIONS),
    )


def in_periods(table: pa.Table) -> pa.Table:
    """Returns the pairs of a bounded table of periods, each in the list of its period."""
    table = decoded(table)
    return listed(table, single(table[LIST]))


def names_of_periods(selected: pa.Table) -> pa.Table:
    """Returns selected pairs of a period and a partition in two columns."""
    pairs = single(decoded(selected)[PARTITION])
    columns = {LIST: pairs, PARTITION: pairs}
    if pa.types.is_struct(pairs.type):  # Without records, it is an empty column of text.
        columns = {name: pairs.field(name) for name in columns}
    return pa.table(columns | {name: selected[name] for name in selected.column_names[1:]})


def columns_of(spec: GroupedSpec) -> tuple[str, ...]:
    return USER, PARTITION, *(attribute.name for attribute in spec.attributes)


def attribute_table(table: pa.Table, attributes: Sequence[Attribute]) -> pa.Table:
    """Returns the table with attributes of some records. Users and partitions are plain columns."""
    columns = {name: plain(table[name], name) for name in (USER, PARTITION)}
    for attribute in attributes:
        text = attribute_text(table[attribute.name], attribute.name)
        if attribute.groups is not None:
            # A user keeps one value. A value without a list must not displace one that has a list.
            known = pc.is_in(text, value_set=pa.array(attribute.groups, pa.string()))
            text = pc.if_else(known, text, NO_VALUE)
        columns[attribute.name] = text
    return pa.table(columns)


def bounds_of_groups(spec: GroupedSpec, secret: JobSecret) -> Reduce:
    """Returns the function that keeps at most kappa partitions of each user, and one value of each
    attribute. It takes a table with all records of its users."""
    return functools.partial(
        bound_users,
        at_most=spec.partitions_per_user,
        key=secret.key(BOUND_CONTRIBUTIONS),
        attribute_keys={
            attribute.name: secret.key(value_of_attribute(attribute.name))
            for attribute in spec.attributes
        },
    )


def in_all_lists(table: pa.Table, spec: GroupedSpec) -> Iterator[pa.Table]:
    """Yields the pairs of bounded users, first in the list of all users, and then in the lists of
    each attribute's groups."""
    yield listed(table, pa.repeat(ALL_USERS, table.num_rows))
    for i in range(len(spec.attributes)):
        yield in_lists_of(table, i, spec)


def in_lists_of_tables(tables: Iterable[pa.Table], spec: GroupedSpec) -> Iterator[pa.Table]:
    """Yields ``in_all_lists`` of each table."""
    for table in tables:
        yield from in_all_lists(table, spec)


def in_lists_of(table: pa.Table, attribute: int, spec: GroupedSpec) -> pa.Table:
    """Returns the pairs of bounded users in the lists of an attribute's groups. Users without a
    value are in none."""
    column = spec.attributes[attribute].name
    table = table.filter(pc.not_equal(table[column], NO_VALUE))
    prefix = _list_name(attribute, "")
    return listed(table, pc.binary_join_element_wise(prefix, single(table[column]), ""))


def public_lists(spec: GroupedSpec) -> list[str]:
    """Returns the names of the lists that are released whatever the records are."""
    names = [ALL_USERS]
    for place, attribute in enumerate(spec.attributes):
        names += [_list_name(place, group) for group in attribute.groups or ()]
    return names


def list_of_group(name: str, spec: GroupsSpec) -> NamedList:
    """Returns the list of a name that ``_list_name`` has made, or that of all users."""
    label = label_of_group(name, spec)
    mechanism = spec.for_all if name == ALL_USERS else spec.for_group
    return NamedList(label, label, mechanism, purpose_of_users(*label))


def label_of_group(name: str, spec: GroupedSpec) -> tuple[str, str]:
    """Returns the attribute and the group of a name that ``_list_name`` has made, or of all
    users."""
    if name == ALL_USERS:
        return ALL_USERS, ALL_USERS
    index, _, group = name.partition("=")
    return spec.attributes[int(index)].name, group


def _list_name(index: int, group: str) -> str:
    """Returns the name of a group's list. The index is the position of its attribute."""
    return f"{index}={group}"


def bound_users(
    table: pa.Table, at_most: int, key: bytes, attribute_keys: Mapping[str, bytes]
) -> pa.Table:
    """Bounds each user to ``at_most`` distinct pairs, and to one value of each attribute.

    In all rows, a user keeps the value with the smallest PRF(attribute's key, user, value). So the
    kept rows depend on that user's rows alone. The function is idempotent and mergeable, since
    ``distinct_pairs`` is, and since a user always keeps a row, and with it the values.
    """
    pairs = distinct_pairs(table.select([USER, PARTITION]), at_most, key)
    users = single(pairs[USER])
    columns = {USER: users, PARTITION: pairs[PARTITION]}
    for name, value_key in attribute_keys.items():
        valued = table.filter(pc.not_equal(table[name], NO_VALUE))
        values = pa.table({USER: valued[USER], PARTITION: valued[name]}).combine_chunks()
        chosen = decoded(distinct_pairs(values, 1, value_key))
        row = pc.index_in(users.dictionary, value_set=single(chosen[USER]))
        of_user = pc.fill_null(single(chosen[PARTITION]).take(row), NO_VALUE)
        columns[name] = of_user.take(users.indices)
    return pa.table(columns)


def users_of_lists(bounded: pa.Table, spec: GroupedSpec) -> pa.Table:
    """Returns distinct pairs of a user and a list, as the partition. Lists are those of the groups
    that are to be selected."""
    tables = [in_lists_of(bounded, i, spec) for i in spec.to_select]
    pairs = [
        pa.table({USER: table[USER], PARTITION: single(table[PARTITION]).field(LIST)})
        for table in tables
    ]
    return distinct_pairs(concat(pairs))


def histograms(counts: pa.Table) -> Iterable[tuple[str, dict[int, int]]]:
    """Returns (list, {count: number of partitions}) of each list, from counts of its pairs.

    >>> pairs = pa.array([{"list": "a", "partition": i} for i in range(3)])
    >>> list(histograms(pa.table({"partition": pairs, "count": [7, 1, 1]})))
    [('a', {7: 1, 1: 2})]
    """
    lists = single(counts[PARTITION]).field(LIST)
    by_list: dict[str, dict[int, int]] = {}
    rows = numbers_of_rows(pa.table({LIST: lists, COUNT: counts[COUNT]}))
    for (name, count), partitions in rows.items():
        by_list.setdefault(name, {})[count] = partitions
    return by_list.items()


def listed(table: pa.Table, lists: pa.Array) -> pa.Table:
    """Returns each pair in its list: the plain columns ``user`` and ``partition``, where the latter
    is a struct of ``list`` and ``partition``."""
    table = decoded(table.select([USER, PARTITION]))
    parts = [lists, single(table[PARTITION])]
    return pa.table(
        {USER: table[USER], PARTITION: pa.StructArray.from_arrays(parts, names=[LIST, PARTITION])}
    )


def bound_periods(
    table: pa.Table, most_periods: int, at_most: int | None, period_key: bytes, key: bytes
) -> pa.Table:
    """Bounds each user to ``most_periods``, and to ``at_most`` distinct partitions in each; None
    stands for all of them.

    A user keeps the periods with the smallest PRF(period_key, user, period), and in each of them
    the partitions with the smallest PRF(key, (user, period), partition). So the kept rows depend on
    that user's rows alone. The function is idempotent, and mergeable as ``distinct_pairs`` is: what
    is kept of all rows, periods and partitions in them, is also kept of every part of the rows that
    has it.
    """
    table = decoded(table)
    users, periods = group(single(table[USER])), group(single(table[LIST]))
    coded = {USER: users.encoded(users.codes), PARTITION: periods.encoded(periods.codes)}
    kept = distinct_pairs(pa.table(coded), most_periods, period_key)
    # The kept pairs have the same codes of users and periods. So a pair is one number.
    width = max(len(periods.values), 1)
    owner, period = (to_numpy(single(kept[name]).indices) for name in (USER, PARTITION))
    pairs = users.codes.astype(np.int64) * width + periods.codes
    is_kept = np.isin(pairs, owner.astype(np.int64) * width + period)
    table = rows_where(table, is_kept)
    return bounded_in_lists(table, at_most, key)


def bounded_in_lists(table: pa.Table, at_most: int | None, key: bytes) -> pa.Table:
    """Returns the distinct pairs of each user in each list, at most ``at_most`` of them.

    A user keeps in a list the partitions with the smallest PRF(key, (user, list), partition).

    Args:
      table: plain columns ``user``, ``partition`` and ``list``, which the result has too.
      at_most: the bound; None for all pairs.
      key: 32 secret bytes.
    """
    columns = [single(table[name]) for name in (USER, LIST)]
    owners = pa.StructArray.from_arrays(columns, names=[USER, LIST])
    pairs = pa.table({USER: owners, PARTITION: table[PARTITION]})
    bounded = decoded(distinct_pairs(pairs, at_most, key))
    user, name = single(bounded[USER]).flatten()
    return pa.table({USER: user, PARTITION: bounded[PARTITION], LIST: name})
