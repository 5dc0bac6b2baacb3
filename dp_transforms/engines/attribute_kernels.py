"""Puts users into lists by the values of their attributes. Both engines call these kernels.

A table of values has the column ``user`` and a column of text for each attribute. The name of such
a column is the attribute's position in the specification, and "" stands for no value.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dp_transforms.columnar.attributes import NO_VALUE, attribute_text
from dp_transforms.columnar.bounding import distinct_pairs
from dp_transforms.columnar.columns import PARTITION, USER, decoded, decoded_array, plain, single
from dp_transforms.columnar.grouping import group
from dp_transforms.columnar.hashing import to_arrow
from dp_transforms.columnar.scattering import Reduce
from dp_transforms.engines.list_kernels import NamedList, listed
from dp_transforms.mechanisms.tape_contexts import purpose_of_attribute, value_of_attribute
from dp_transforms.releases import AttributesSpec

if TYPE_CHECKING:
    from dp_transforms.runtime.job_secret import JobSecret


def lists_of(spec: AttributesSpec) -> dict[str, NamedList]:
    """Returns the list of each attribute, in order, by the name of its column of values."""
    return {
        str(place): NamedList(place, (label,), mechanism, purpose_of_attribute(label))
        for place, (label, mechanism) in enumerate(zip(spec.labels, spec.mechanisms, strict=True))
    }


def columns_of(spec: AttributesSpec) -> tuple[str, ...]:
    """Returns the names of the columns of ``value_table``."""
    return USER, *lists_of(spec)


def value_table(table: pa.Table, spec: AttributesSpec) -> pa.Table:
    """Returns the table of values of some records. It has a row for each record, in order, with the
    user and the text of the value of each attribute.

    Args:
      table: a column ``user``, and the columns that the attributes name, which may hold nulls.

    Raises:
      TypeError, ValueError: see ``attribute_text``; or there are records without a user.
    """
    texts = {name: attribute_text(table[name], name) for name in spec.columns}
    values = [joined_values([texts[name] for name in columns]) for columns in spec.attributes]
    columns = dict(zip(lists_of(spec), values, strict=True))
    return pa.table({USER: plain(table[USER], USER)} | columns)


def joined_values(parts: Sequence[pa.Array]) -> pa.Array:
    """Joins the texts of several columns. The length of each text comes before it, so that equal
    results mean equal texts in each column. If any column has no value, the result has none.

    >>> joined_values([pa.array(["a", "a1:b"]), pa.array(["1:b", ""])]).to_pylist()
    ['1:a3:1:b', '']
    """
    if len(parts) == 1:
        return parts[0]
    pieces = []
    for part in parts:
        pieces += [pc.binary_length(part).cast(pa.string()), pa.scalar(":"), part]
    is_whole = functools.reduce(pc.and_, (pc.not_equal(part, NO_VALUE) for part in parts))
    return pc.if_else(is_whole, pc.binary_join_element_wise(*pieces, ""), NO_VALUE)


def one_value_rule(spec: AttributesSpec, secret: JobSecret) -> Reduce:
    """Returns the function that keeps one value of each attribute for each user."""
    keys = {
        name: secret.key(value_of_attribute(named_list.label[0]))
        for name, named_list in lists_of(spec).items()
    }
    return functools.partial(keep_one_value, keys=keys)


def keep_one_value(table: pa.Table, keys: dict[str, bytes]) -> pa.Table:
    """Returns one row for each user, with at most one value of each attribute.

    A user keeps the value with the smallest PRF(attribute's key, user, value), whatever the row. So
    the kept values depend on that user's rows alone. The function is idempotent and mergeable, as
    ``distinct_pairs`` is, since each attribute is bounded by itself, and a missing value gives way
    to any value.
    """
    users = group(single(table[USER]))
    present = np.flatnonzero(np.bincount(users.codes, minlength=len(users.values)))
    owners = users.values.take(to_arrow(present))
    columns = {USER: owners}
    for name, key in keys.items():
        values = decoded_array(single(table[name]))
        valued = pa.table({USER: single(table[USER]), PARTITION: values})
        valued = valued.filter(pc.not_equal(values, NO_VALUE))
        kept = decoded(distinct_pairs(valued, at_most=1, key=key))
        row = pc.index_in(owners, value_set=single(kept[USER]))
        columns[name] = pc.fill_null(single(kept[PARTITION]).take(row), NO_VALUE)
    return pa.table(columns)


def in_attribute_lists(table: pa.Table, spec: AttributesSpec) -> Iterator[pa.Table]:
    """Yields, for each attribute, the pairs of users and values in its list. In the given table,
    each user has one row."""
    table = decoded(table)
    for name in lists_of(spec):
        pairs = table.select([USER, name]).rename_columns([USER, PARTITION])
        pairs = pairs.filter(pc.not_equal(pairs[PARTITION], NO_VALUE))
        yield listed(pairs, pa.repeat(name, pairs.num_rows))
