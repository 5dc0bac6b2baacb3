"""The degrees of a graph: edges in, a differentially private list of the nodes' degrees out.

The list says how many nodes have each degree, without naming any. It is released by a mechanism for
integer partitions, with pure epsilon-DP for one of two neighbouring relations:

* edges: add or remove all records of one edge. It is like a user of the nodes whose degrees it adds
  to: both of its ends, or one for in- and out-degrees. So the sensitivity is 2, or 1.
* nodes: add or remove one node with all its edges. The graph is first projected to a public bound
  on degrees (see ``dp_transforms.mechanisms.degree_projection``, with the proof).
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dp_transforms.budget import PrivacyBudget, PrivacyUnit
from dp_transforms.job_secret import JobSecret
from dp_transforms.mechanisms.decimals import Number
from dp_transforms.mechanisms.degree_projection import (
    DEGREES,
    UNDIRECTED,
    edge_private_sensitivity,
    node_private_sensitivity,
)
from dp_transforms.mechanisms.eta import positive_integer
from dp_transforms.mechanisms.integer_partition.choice import AUTO, partition_mechanism
from dp_transforms.mechanisms.integer_partition.exponential import IntegerPartitionMechanism
from dp_transforms.mechanisms.integer_partition.mechanism import PartitionMechanism
from dp_transforms.mechanisms.partition_bounds import PartitionBounds
from pipelines import flag_types
from pipelines.command_line import Job, JobParser, Options, refuse, require, run
from pipelines.errors import InputError
from pipelines.files.names import FREQUENCIES_FILE
from pipelines.release_job import (
    Release,
    Work,
    add_input_flags,
    add_release_flags,
    list_directory,
    release_job,
)
from pipelines.reports.privacy_statement import EDGE, NODE, degree_list_statement
from pipelines.spending import Part

if TYPE_CHECKING:
    import apache_beam as beam
    import pyarrow as pa

    from pipelines.files.publishing import PublishLists
    from pipelines.files.record_source import RecordSource

_EPILOG = f"""\
The output directory receives {FREQUENCIES_FILE} (frequency,multiplicity: the number of nodes of
each degree) and privacy.json, which states the guarantee.

An edge counts once, however many records it has, and a self-loop does not count. For undirected
degrees a record (a, b) is the same edge as (b, a). Nodes without an edge are not in the list, and
how many there are is not released.

examples:
  python -m pipelines.release_degree_list --input='links/*.csv' --source_column=from
      --target_column=to --degree=in --epsilon=1 --output=release
  python -m pipelines.release_degree_list --input=friends.csv --source_column=a --target_column=b
      --privacy_unit=node --degree_bound=50 --epsilon=1 --output=release
"""


@dataclass(frozen=True)
class DegreeRelease:
    """The degrees to release, and the unit to protect. ValueError if a value is out of range."""

    epsilon: Number
    degree: str = UNDIRECTED  # or "in" or "out"
    degree_bound: int | None = None  # D, public, of a projection that protects nodes; or edges
    nodes: int | None = None  # how many there are, if that is public: no more come out, at no cost
    mechanism_name: str = AUTO

    def __post_init__(self) -> None:
        # Checks all of them.
        _ = self.mechanism

    @functools.cached_property
    def mechanism(self) -> PartitionMechanism:
        """The mechanism that releases the list."""
        sensitivity, bounds = edge_private_sensitivity(self.degree), None
        if self.degree_bound is not None:
            sensitivity = node_private_sensitivity(self.degree_bound, self.degree != UNDIRECTED)
            if self.nodes is not None:
                raise ValueError(
                    "nodes is for the privacy of edges: a node more changes their number"
                )
        elif self.nodes is not None:
            # Without self-loops and repeated edges a node has no more neighbours than others are.
            others = positive_integer("nodes", self.nodes) - 1
            bounds = PartitionBounds.of_runs([0], [others], [self.nodes])
        return partition_mechanism(self.epsilon, sensitivity, self.mechanism_name, bounds=bounds)

    def count(self, secret: JobSecret, num_buckets: int) -> beam.PTransform:
        """Returns the transform that counts, or projects and counts, the degrees."""
        from dp_transforms.degrees import CountDegrees, CountProjectedDegrees

        if self.degree_bound is None:
            return CountDegrees(self.degree, secret, num_buckets)
        return CountProjectedDegrees(self.degree_bound, self.degree, secret, num_buckets)


def make_parser() -> JobParser:
    """The flags of this job."""
    parser = JobParser(
        "pipelines.release_degree_list",
        "Release how many nodes of a graph have each degree, under epsilon-differential privacy\n"
        "for adding or removing an edge, or a node with all its edges.",
        _EPILOG,
    )
    add_input_flags(parser, _add_columns)
    privacy = add_release_flags(parser, epsilon="what the release costs; smaller is more private")
    privacy.add_argument(
        "--degree",
        choices=DEGREES,
        default=UNDIRECTED,
        help="neighbours in any direction (default), edges into a node, or edges out of it",
    )
    privacy.add_argument(
        "--privacy_unit",
        choices=(EDGE, NODE),
        default=EDGE,
        help="what is protected: one edge (default), or one node with all its edges",
    )
    privacy.add_argument(
        "--degree_bound",
        type=flag_types.positive_integer,
        metavar="D",
        help="for nodes: edges beyond D at a node are dropped, and the noise grows with it. "
        "Public: choose it without looking at the graph",
    )
    privacy.add_argument(
        "--nodes",
        type=flag_types.positive_integer,
        metavar="N",
        help="the number of nodes, if it is public, for --privacy_unit=edge: the list has no more, "
        "which costs nothing",
    )
    parser.add_common_flags()
    return parser


def _add_columns(group: Any) -> None:
    group.add_argument(
        "--source_column",
        metavar="COLUMN",
        help="one end of an edge: the column's name, or its position from 1 with --no_header",
    )
    group.add_argument("--target_column", metavar="COLUMN", help="the other end, likewise")


def build(
    pipeline: beam.Pipeline, work: Work, release: DegreeRelease, publish: PublishLists
) -> None:
    """Adds the whole job to a pipeline, where ``publish`` receives the released list. The
    records are edges, with sources as users and targets as partitions."""
    import apache_beam as beam
    import pyarrow as pa

    from dp_transforms.frequency_release import ReleaseFrequencyList

    records = work.records(pipeline, "edges")
    edges = records | "Edges" >> beam.Map(_edges).with_output_types(pa.Table)
    degrees = edges | "Degrees" >> release.count(work.secret, work.num_buckets)
    watched = degrees | "WatchDegrees" >> work.watch("counting degrees", "nodes")
    released = watched | "Release" >> ReleaseFrequencyList(
        mechanism=release.mechanism, secret=work.secret
    )
    _ = released | "Publish" >> publish


def _edges(records: pa.Table) -> pa.Table:
    from dp_transforms.columnar.columns import PARTITION, USER
    from dp_transforms.columnar.counting import SOURCE, TARGET

    return records.select([USER, PARTITION]).rename_columns([SOURCE, TARGET])


def prepare(flags: argparse.Namespace, options: Options) -> Job:
    """Checks everything that can be checked before data are read, and returns the job."""
    require(flags, "input", "source_column", "target_column", "epsilon", "output")
    if flags.privacy_unit == NODE:
        require(flags, "degree_bound")
    else:
        refuse(flags, "is for --privacy_unit=node: edges need none", "degree_bound")
    if flags.source_column == flags.target_column:
        raise ValueError(
            f"--source_column and --target_column must be different columns, got "
            f"{flags.source_column}"
        )
    budget = PrivacyBudget(flags.epsilon)
    release = DegreeRelease(
        budget.epsilon, flags.degree, flags.degree_bound, flags.nodes, flags.mechanism
    )
    exponential = isinstance(release.mechanism, IntegerPartitionMechanism)
    if flags.report and exponential and flags.nodes is not None:
        raise ValueError(
            "--report has no error bars for --nodes under the exponential mechanism: leave out one"
        )
    directory = list_directory(flags, [release.mechanism])
    flags.user_column, flags.partition_column = flags.source_column, [flags.target_column]
    work = Work.from_flags(flags)
    _check_types(work.reader)
    unit = PrivacyUnit.EDGE if release.degree_bound is None else PrivacyUnit.NODE
    purpose = f"{flags.degree} degrees, {flags.privacy_unit}-private"
    of_list = Release.of_lists(
        [Part(purpose, budget, release.mechanism.loss_range, unit)],
        directory,
        degree_list_statement(release.mechanism, release.degree, release.degree_bound),
        build=lambda pipeline, publish: build(pipeline, work, release, publish),
        whole=budget,
    )
    return release_job(flags, options, of_list)


def _check_types(reader: RecordSource) -> None:
    (target,) = reader.partition_fields
    source = reader.user_field
    if source.type != target.type:
        raise InputError(
            f"column {source.name!r} is read as {source.type}, but {target.name!r} as "
            f"{target.type}: give both ends of an edge the same type"
        )


def main(argv: Sequence[str] | None = None) -> int:
    return run(prepare, make_parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
