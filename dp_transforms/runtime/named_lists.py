"""Lists by period and by group: which rows of bounded users go into which list.

Kernels over tables, for Beam and for one process alike.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from dp_transforms.columnar.attributes import (
    LIST,
    attribute_text,
    bound_periods,
    bound_users,
    in_lists_by,
    listed,
    only,
)
from dp_transforms.columnar.columns import PARTITION, USER, decoded, plain, single
from dp_transforms.columnar.scattering import Reduce
from dp_transforms.specs import ALL_USERS, Attribute, GroupsSpec, PeriodListsSpec, PeriodNamesSpec

if TYPE_CHECKING:
    from dp_transforms.mechanisms.partition.mechanism import PartitionMechanism
    from dp_transforms.runtime.job_secret import JobSecret


class NamedList(NamedTuple):
    """A list that is released under a name."""

    place: Any  # sorts the lists
    label: tuple[str, ...]  # comes out before the list
    mechanism: PartitionMechanism
    context: str  # see ``release_frequency_list``


def lists_of_periods(spec: PeriodListsSpec) -> dict[str, NamedList]:
    """Returns the list of each period."""
    return {
        name: NamedList(place, (name,), spec.of_each, f"list of period {name!r}")
        for place, name in enumerate(spec.periods)
    }


def in_known_periods(table: pa.Table, periods: Sequence[str]) -> pa.Table:
    """The rows of some periods, whose names are in the column ``list``."""
    return table.filter(pc.is_in(plain(table[LIST], LIST), value_set=pa.array(periods)))


def bounds_of_periods(spec: PeriodListsSpec | PeriodNamesSpec, secret: JobSecret) -> Reduce:
    """Returns the function that bounds users in periods: see ``columnar.attributes``."""
    return functools.partial(
        _bound_periods,
        most_periods=spec.periods_per_user,
        at_most=spec.max_partitions_per_user,
        period_key=secret.key("periods of users"),
        key=secret.key("bound contributions"),
    )


def _bound_periods(table: pa.Table, **options: Any) -> pa.Table:
    return bound_periods(decoded(table), **options)


def in_periods(table: pa.Table) -> pa.Table:
    """Bounded users of periods as pairs of a user and a struct of ``list`` and ``partition``."""
    table = decoded(table)
    return listed(table, single(table[LIST]))


def names_of_periods(selected: pa.Table) -> pa.Table:
    """Selected pairs of a period and a partition, as the columns ``list`` and ``partition``."""
    parts = single(decoded(selected)[PARTITION])
    split = {LIST: parts, PARTITION: parts}
    if pa.types.is_struct(parts.type):  # not where nothing is selected of nothing
        split = {name: parts.field(name) for name in split}
    return pa.table(split | {name: selected[name] for name in selected.column_names[1:]})


def attribute_column(index: int) -> str:
    """The column of an attribute's values."""
    return f"attribute {index}"


def attribute_columns(spec: GroupsSpec) -> list[str]:
    """The columns of all attributes' values."""
    return [attribute_column(i) for i in range(len(spec.attributes))]


def attribute_table(table: pa.Table, attributes: Sequence[Attribute]) -> pa.Table:
    """Records with plain users and partitions, and a column of text for each attribute."""
    texts = [attribute_text(table[one.name], one.name) for one in attributes]
    user, partition = (plain(table[name], name) for name in (USER, PARTITION))
    return with_texts(user, partition, texts, attributes)


def with_texts(
    user: pa.Array, partition: pa.Array, texts: Sequence[pa.Array], attributes: Sequence[Attribute]
) -> pa.Table:
    """The table of ``attribute_table``, given its columns."""
    columns = {USER: user, PARTITION: partition}
    for i, (attribute, text) in enumerate(zip(attributes, texts, strict=True)):
        # A user's values are bounded to one of those that can be released.
        known = text if attribute.groups is None else only(text, attribute.groups)
        columns[attribute_column(i)] = known
    return pa.table(columns)


def bounds_of_groups(spec: GroupsSpec, secret: JobSecret) -> Reduce:
    """Returns the function that bounds users and their values: see ``columnar.attributes``."""
    return functools.partial(
        bound_users,
        at_most=spec.max_partitions_per_user,
        key=secret.key("bound contributions"),
        attribute_keys={
            attribute_column(i): secret.key(f"value of attribute {attribute.name!r}")
            for i, attribute in enumerate(spec.attributes)
        },
    )


def in_all_lists(table: pa.Table, attributes: int) -> Iterator[pa.Table]:
    """A table of bounded users, once for all of them and once for each attribute."""
    yield listed(table, pa.repeat(ALL_USERS, table.num_rows))
    for i in range(attributes):
        yield in_lists_of(table, i)


def in_lists_of(table: pa.Table, attribute: int) -> pa.Table:
    """A table of bounded users in the lists of one attribute's groups."""
    return in_lists_by(table, attribute_column(attribute), _list_name(attribute, ""))


def public_lists(spec: GroupsSpec) -> list[str]:
    """The names of the lists that are released whatever the records are."""
    return [ALL_USERS] + [
        _list_name(i, group)
        for i, attribute in enumerate(spec.attributes)
        for group in attribute.groups or ()
    ]


def list_of_group(name: str, spec: GroupsSpec) -> NamedList:
    """The list of a name."""
    attribute, group, mechanism = ALL_USERS, ALL_USERS, spec.for_all
    if name != ALL_USERS:
        index, _, group = name.partition("=")
        attribute, mechanism = spec.attributes[int(index)].name, spec.for_group
    label = attribute, group
    return NamedList(label, label, mechanism, f"frequency list of {attribute!r} {group!r}")


def _list_name(index: int, group: str) -> str:
    return f"{index}={group}"
