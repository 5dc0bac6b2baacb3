"""Releases how users are distributed over the values of each of their attributes.

``dp_transforms.releases.attributes`` has the definition and the privacy argument.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa

from dp_transforms.beam.batching import ToNamedTables, ToTables
from dp_transforms.beam.bounds import ReleaseTransform, refuse_counts
from dp_transforms.beam.pipeline_secret import secret_for
from dp_transforms.beam.records import refuse_windows
from dp_transforms.beam.release import release_named_lists
from dp_transforms.beam.shuffle import OnThreads, ReduceByHash
from dp_transforms.columnar.columns import USER
from dp_transforms.engines import attribute_kernels
from dp_transforms.mechanisms.decimals import Number
from dp_transforms.mechanisms.frequency_list import ReleasedList
from dp_transforms.mechanisms.partition.registry import AUTO
from dp_transforms.mechanisms.tape_contexts import route_by
from dp_transforms.releases import AttributesSpec
from dp_transforms.runtime.job_secret import JobSecret


class ReleaseAttributes(ReleaseTransform, beam.PTransform):
    """Releases a list for each attribute of users: how many users its values have.

    Returns (label, ReleasedList) in the order of attributes. The label of a combination is the
    names of its columns, joined by " + ". ``releases.attributes`` has the guarantee and its proof.

    Takes Arrow tables with the column ``user`` and those that attributes name; rows with such
    fields; or tuples (user, value, ...), with a value for each column in the order in which the
    attributes first name them. A null or an empty text is no value. If a user has several values,
    one of them counts, chosen at random.

    Args:
      attributes: for each list a column, or a tuple of several, whose combinations are its values.
      epsilon: the cost of all lists together.
      shares: maps attributes to their shares of epsilon; an attribute that it leaves out has the
        share 1. By default all are equal.
      mechanism: see ``partition_mechanism``.
      secret, num_buckets: see ``BoundContributions``.

    Attributes:
      spec: the ``AttributesSpec`` with these arguments.

    Raises:
      ValueError, TypeError: in the cases of ``BoundContributions`` and ``AttributesSpec``; or, at
        run time, if values have a type that cannot be used.

    >>> records = [("ann", "linux", "serif"), ("bob", "linux", "sans"), ("cy", "bsd", None)]
    >>> release = ReleaseAttributes(["os", "font", ("os", "font")], epsilon=300)
    >>> with beam.Pipeline() as pipeline:
    ...     lists = pipeline | beam.Create(records) | release
    ...     plain = lists | beam.MapTuple(lambda label, released: (label, list(released)))
    ...     _ = plain | beam.combiners.ToList() | beam.Map(sorted) | beam.Map(print)
    [('font', [(1, 2)]), ('os', [(2, 1), (1, 1)]), ('os + font', [(1, 2)])]
    """

    def __init__(
        self,
        attributes: Sequence[str | Sequence[str]],
        *,
        epsilon: Number,
        shares: Mapping[Any, Number] | None = None,
        mechanism: str = AUTO,
        secret: JobSecret | None = None,
        num_buckets: int | None = None,
    ):
        super().__init__()
        self.spec = AttributesSpec(
            attributes=attributes, epsilon=epsilon, shares=shares, mechanism=mechanism
        )
        self._secret = secret
        self._num_buckets = num_buckets

    def expand(self, records: beam.PCollection) -> beam.PCollection:
        refuse_windows(records)
        refuse_counts(records, "ReleaseAttributes")
        secret, spec = secret_for(records.pipeline, self._secret), self.spec
        names = (USER, *spec.columns)
        values = functools.partial(attribute_kernels.value_table, spec=spec)
        keep = attribute_kernels.one_value_rule(spec, secret)
        bounded = (
            records
            | "Named" >> ToNamedTables(names)
            | "Values" >> beam.Map(values).with_output_types(pa.Table)
            | "ToTables" >> ToTables(attribute_kernels.columns_of(spec))
            | "Bound" >> ReduceByHash(keep, (USER,), secret.key(route_by(USER)), self._num_buckets)
        )
        in_lists = OnThreads(functools.partial(attribute_kernels.in_attribute_lists, spec=spec))
        listed = bounded | "InLists" >> beam.ParDo(in_lists).with_output_types(pa.Table)
        lists = attribute_kernels.lists_of(spec)
        kind = tuple[str, ReleasedList]
        return release_named_lists(
            listed, lists, None, lists.__getitem__, kind, secret, self._num_buckets
        )

    def display_data(self) -> dict[str, Any]:
        return {
            "attributes": ", ".join(self.spec.labels),
            "epsilon": float(self.spec.cost.epsilon),
            "mechanism": type(self.spec.mechanisms[0]).__name__,
        }
