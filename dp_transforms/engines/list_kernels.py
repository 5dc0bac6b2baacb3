"""Puts rows into lists by an attribute of users, such as a language, or by period.

The kernels serve Beam and one process alike. A table with attributes has the columns ``user`` and
``partition``, and one column of text for each attribute, in which "" stands for no value; bounding
gives all rows of a user the same values. A table of periods has the columns ``user``, ``partition``
and ``list``, which is the period's name.
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
from dp_transforms.columnar.grouping import group
from dp_transforms.columnar.scattering import Reduce
from dp_transforms.mechanisms.tape_contexts import purpose_of_period, purpose_of_users
from dp_transforms.releases import (
    Attribute,
    GroupsSpec,
    PeriodListsSpec,
    PeriodNamesSpec,
)
from dp_transforms.releases.lists import ALL_USERS

if TYPE_CHECKING:
    from dp_transforms.mechanisms.partition.mechanism import PartitionMechanism
    from dp_transforms.runtime.job_secret import JobSecret


class NamedList(NamedTuple):
    place: Any
    label: tuple[str, ...]
    mechanism: PartitionMechanism
    context: str  # see ``release_frequency_list``


def lists_of_periods(spec: PeriodListsSpec) -> dict[str, NamedList]:
    return {
        name: NamedList(place, (name,), spec.of_each, purpose_of_period(name))
        for place, name in enumerate(spec.periods)
    }


def in_known_periods(table: pa.Table, periods: Sequence[str]) -> pa.Table:
    """Returns the rows of some periods, whose names are in the column ``list``; raises TypeError if
    these are not text."""
    names = plain(table[LIST], LIST)
    if names.type != pa.string():
        raise TypeError(f"column {LIST!r} must be the names of periods, as text: cast it")
    return table.filter(pc.is_in(names, value_set=pa.array(periods, pa.string())))


def bounds_of_periods(spec: PeriodListsSpec | PeriodNamesSpec, secret: JobSecret) -> Reduce:
    return functools.partial(
        bound_periods,
        most_periods=spec.periods_per_user,
        at_most=spec.max_partitions_per_user,
        period_key=secret.key("periods of users"),
        key=secret.key("bound contributions"),
    )


def in_periods(table: pa.Table) -> pa.Table:
    """Turns a bounded table of periods into pairs as by ``listed``."""
    table = decoded(table)
    return listed(table, single(table[LIST]))


def names_of_periods(selected: pa.Table) -> pa.Table:
    """Splits selected pairs of a period and a partition into two columns."""
    parts = single(decoded(selected)[PARTITION])
    split = {LIST: parts, PARTITION: parts}
    if pa.types.is_struct(parts.type):  # not if there were no records
        split = {name: parts.field(name) for name in split}
    return pa.table(split | {name: selected[name] for name in selected.column_names[1:]})


def columns_of(spec: GroupsSpec) -> tuple[str, ...]:
    return USER, PARTITION, *(attribute.name for attribute in spec.attributes)


def attribute_table(table: pa.Table, attributes: Sequence[Attribute]) -> pa.Table:
    """Makes a table with attributes of records, with plain users and partitions."""
    columns = {name: plain(table[name], name) for name in (USER, PARTITION)}
    for attribute in attributes:
        text = attribute_text(table[attribute.name], attribute.name)
        if attribute.groups is not None:
            # Values without a list must not take the place of one that has a list.
            known = pc.is_in(text, value_set=pa.array(attribute.groups, pa.string()))
            text = pc.if_else(known, text, NO_VALUE)
        columns[attribute.name] = text
    return pa.table(columns)


def bounds_of_groups(spec: GroupsSpec, secret: JobSecret) -> Reduce:
    """Returns the function that keeps, of a table with all records of its users, at most kappa
    partitions of each user and one value of each attribute."""
    return functools.partial(
        bound_users,
        at_most=spec.max_partitions_per_user,
        key=secret.key("bound contributions"),
        attribute_keys={
            attribute.name: secret.key(f"value of attribute {attribute.name!r}")
            for attribute in spec.attributes
        },
    )


def in_all_lists(table: pa.Table, spec: GroupsSpec) -> Iterator[pa.Table]:
    """Yields the pairs of bounded users in the list of all users, then in those by an attribute."""
    yield listed(table, pa.repeat(ALL_USERS, table.num_rows))
    for i in range(len(spec.attributes)):
        yield in_lists_of(table, i, spec)


def in_lists_of(table: pa.Table, attribute: int, spec: GroupsSpec) -> pa.Table:
    """Puts the pairs of bounded users with a value of an attribute into the lists of its groups."""
    column = spec.attributes[attribute].name
    table = table.filter(pc.not_equal(table[column], NO_VALUE))
    prefix = _list_name(attribute, "")
    return listed(table, pc.binary_join_element_wise(prefix, single(table[column]), ""))


def public_lists(spec: GroupsSpec) -> list[str]:
    """Returns the names of the lists that are released whatever the records are."""
    return [ALL_USERS] + [
        _list_name(i, group)
        for i, attribute in enumerate(spec.attributes)
        for group in attribute.groups or ()
    ]


def list_of_group(name: str, spec: GroupsSpec) -> NamedList:
    attribute, group, mechanism = ALL_USERS, ALL_USERS, spec.for_all
    if name != ALL_USERS:
        index, _, group = name.partition("=")
        attribute, mechanism = spec.attributes[int(index)].name, spec.for_group
    label = attribute, group
    return NamedList(label, label, mechanism, purpose_of_users(attribute, group))


def _list_name(index: int, group: str) -> str:
    return f"{index}={group}"


def bound_users(
    table: pa.Table, at_most: int, key: bytes, attribute_keys: Mapping[str, bytes]
) -> pa.Table:
    """Bounds each user to ``at_most`` distinct pairs, and to one value of each attribute.

    A user keeps the value with the smallest PRF(attribute's key, user, value), in all rows. So the
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


def users_of_lists(bounded: pa.Table, spec: GroupsSpec) -> pa.Table:
    """Returns the distinct users of each list, as a partition, whose group is to be selected."""
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
    rows = (
        pa.table({LIST: lists, COUNT: counts[COUNT]})
        .group_by([LIST, COUNT])
        .aggregate([([], "count_all")])
    )
    by_list: dict[str, dict[int, int]] = {}
    columns = (rows[name].to_pylist() for name in (LIST, COUNT, "count_all"))
    for name, count, partitions in zip(*columns, strict=True):
        by_list.setdefault(name, {})[count] = partitions
    return by_list.items()


def listed(table: pa.Table, lists: pa.Array) -> pa.Table:
    """Puts each pair into its list: returns plain columns ``user`` and ``partition``, of which the
    latter is a struct of ``list`` and ``partition``."""
    table = decoded(table.select([USER, PARTITION]))
    parts = [lists, single(table[PARTITION])]
    return pa.table(
        {USER: table[USER], PARTITION: pa.StructArray.from_arrays(parts, names=[LIST, PARTITION])}
    )


def bound_periods(
    table: pa.Table, most_periods: int, at_most: int, period_key: bytes, key: bytes
) -> pa.Table:
    """Bounds each user to ``most_periods``, and to ``at_most`` distinct partitions in each.

    A user keeps the periods with the smallest PRF(period_key, user, period), and in each of them
    the partitions with the smallest PRF(key, (user, period), partition). So the kept rows depend on
    that user's rows alone. The function is idempotent, and mergeable as ``distinct_pairs`` is: a
    period that stays in the whole stays in every part that has it, and with it the partitions that
    stay in the whole.
    """
    table = decoded(table)
    users, periods = group(single(table[USER])), group(single(table[LIST]))
    coded = {USER: users.encoded(users.codes), PARTITION: periods.encoded(periods.codes)}
    kept = distinct_pairs(pa.table(coded), most_periods, period_key)
    # The kept pairs have the same codes.
    width = max(len(periods.values), 1)
    owner, period = (single(kept[name]).indices.to_numpy() for name in (USER, PARTITION))
    pairs = users.codes.astype(np.int64) * width + periods.codes
    table = table.filter(pa.array(np.isin(pairs, owner.astype(np.int64) * width + period)))
    columns = [single(table[name]) for name in (USER, LIST)]
    owners = pa.StructArray.from_arrays(columns, names=[USER, LIST])
    bounded = distinct_pairs(pa.table({USER: owners, PARTITION: table[PARTITION]}), at_most, key)
    user, name = single(decoded(bounded)[USER]).flatten()
    return pa.table({USER: user, PARTITION: decoded(bounded)[PARTITION], LIST: name})
