"""The degrees of a graph: edges in, a differentially private list of the nodes' degrees out.

The list says how many nodes have each degree, without naming any. It is released by the exponential
mechanism for integer partitions, with pure epsilon-DP for one of two neighbouring relations:

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
from fractions import Fraction
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.options.pipeline_options import PipelineOptions

from dp_transforms.budget import PrivacyBudget
from dp_transforms.columnar.columns import PARTITION, USER
from dp_transforms.columnar.edges import DEGREES, SOURCE, TARGET, UNDIRECTED
from dp_transforms.degrees import CountDegrees, CountProjectedDegrees, edge_private_sensitivity
from dp_transforms.frequency_release import ReleaseFrequencyList
from dp_transforms.job_secret import JobSecret
from dp_transforms.mechanisms.degree_projection import node_private_sensitivity
from dp_transforms.mechanisms.integer_partition import IntegerPartitionMechanism
from pipelines import flag_types, report, report_page
from pipelines.budgeting import Part, add_ledger_flag, spending
from pipelines.command_line import Job, JobParser, make_runner, require, run
from pipelines.errors import InputError
from pipelines.output import (
    FREQUENCIES_FILE,
    FREQUENCIES_HEADER,
    PublishRelease,
    ReleaseDirectory,
    add_output_flags,
    frequency_lines,
)
from pipelines.privacy_statement import EDGE, NODE, degree_list_statement
from pipelines.progress import Watch, run_to_end
from pipelines.reading import ReadRecords, add_input_flags, records_from_flags

_EPILOG = f"""\
The output directory receives {FREQUENCIES_FILE} (frequency,multiplicity: so many nodes of
each degree) and privacy.json, which says what was promised.

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
    """Which degrees to release, and what to protect.

    Attributes:
      epsilon: what the release costs.
      degree: "undirected", "in" or "out".
      degree_bound: D, public, of the projection that protects nodes; None to protect edges.

    Raises:
      ValueError: a value is out of range.
    """

    epsilon: float | Fraction
    degree: str = UNDIRECTED
    degree_bound: int | None = None

    def __post_init__(self) -> None:
        # Checks all of them.
        _ = self.mechanism

    @functools.cached_property
    def mechanism(self) -> IntegerPartitionMechanism:
        """What releases the list."""
        sensitivity = edge_private_sensitivity(self.degree)
        if self.degree_bound is not None:
            sensitivity = node_private_sensitivity(self.degree_bound, self.degree != UNDIRECTED)
        # A fraction stays exact, where a float might be a little more than its share.
        epsilon: Any = self.epsilon
        return IntegerPartitionMechanism(epsilon=epsilon, sensitivity=sensitivity)

    def count(self, secret: JobSecret, num_buckets: int) -> beam.PTransform:
        """What counts, or projects and counts, the degrees."""
        if self.degree_bound is None:
            return CountDegrees(self.degree, secret, num_buckets)
        return CountProjectedDegrees(self.degree_bound, self.degree, secret, num_buckets)

    def statement(self) -> dict[str, Any]:
        """What the release promises."""
        return degree_list_statement(self.mechanism, self.degree, self.degree_bound)


def make_parser() -> JobParser:
    """The flags of this job."""
    parser = JobParser(
        "pipelines.release_degree_list",
        "Release how many nodes of a graph have each degree, under epsilon-differential privacy\n"
        "for adding or removing an edge, or a node with all its edges.",
        _EPILOG,
    )
    add_input_flags(parser, _add_columns)
    privacy = parser.add_argument_group("privacy and output")
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
        help="for nodes: edges beyond so many at a node are dropped, and the noise grows with it. "
        "Public: choose it without looking at the graph",
    )
    privacy.add_argument(
        "--epsilon", type=flag_types.epsilon, help="what the release costs; smaller is more private"
    )
    add_ledger_flag(privacy)
    add_output_flags(privacy)
    report_page.add_report_flag(privacy)
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
    pipeline: beam.Pipeline,
    reader: ReadRecords,
    release: DegreeRelease,
    publish: PublishRelease,
    secret: JobSecret | None = None,
    num_buckets: int | None = None,
    progress: bool = False,
    private_counters: bool = False,
) -> None:
    """Adds the whole job to a pipeline.

    Args:
      pipeline: where to.
      reader: gives the edges, with sources as users and targets as partitions.
      release: what to release.
      publish: receives the lines of the release.
      secret: where all random decisions come from; a fresh one by default. No two jobs share one.
      num_buckets: how many parts edges are shuffled in; by default, what the reader says.
      progress: tell of stages on stderr.
      private_counters: count elements exactly, in Beam counters.
    """
    secret = secret or JobSecret.from_os()
    num_buckets = num_buckets or reader.num_buckets
    watch = functools.partial(Watch, progress=progress, counters=private_counters)
    records = pipeline | "ReadEdges" >> reader | "Records" >> watch("reading edges", "records")
    edges = records | "Edges" >> beam.Map(_edges).with_output_types(pa.Table)
    degrees = edges | "Degrees" >> release.count(secret, num_buckets)
    watched = degrees | "WatchDegrees" >> watch("counting degrees", "nodes")
    mechanism = release.mechanism
    released = watched | "Release" >> ReleaseFrequencyList(
        mechanism=mechanism, max_partitions_per_user=mechanism.sensitivity, secret=secret
    )
    lines = released | "Lines" >> beam.Map(frequency_lines).with_output_types(bytes)
    _ = lines | "Publish" >> publish


def _edges(records: pa.Table) -> pa.Table:
    return records.select([USER, PARTITION]).rename_columns([SOURCE, TARGET])


def prepare(flags: argparse.Namespace, options: PipelineOptions) -> Job:
    """Checks everything that can be checked before data are read, and returns the job."""
    require(flags, "input", "source_column", "target_column", "epsilon", "output")
    if flags.privacy_unit == NODE:
        require(flags, "degree_bound")
    elif flags.degree_bound is not None:
        raise ValueError("--degree_bound is for --privacy_unit=node: edges need none")
    if flags.source_column == flags.target_column:
        raise ValueError(
            f"--source_column and --target_column must be different columns, got "
            f"{flags.source_column}"
        )
    if flags.report:
        report_page.check_available()
    budget = PrivacyBudget(flags.epsilon)
    release = DegreeRelease(budget.epsilon, flags.degree, flags.degree_bound)
    directory = ReleaseDirectory(flags.output, FREQUENCIES_FILE, flags.overwrite)
    flags.user_column, flags.partition_column = flags.source_column, [flags.target_column]
    reader = records_from_flags(flags)
    _check_types(reader)
    num_buckets = flags.num_buckets or reader.num_buckets
    directory.check()
    runner = make_runner(flags, options)
    purpose = f"{flags.degree} degrees, {flags.privacy_unit}-private"

    def job() -> None:
        part = Part(purpose, budget, bounded_range=True)
        with spending(flags.ledger, budget, [part]) as spent:
            pipeline = beam.Pipeline(runner, options=options)
            build(
                pipeline,
                reader,
                release,
                PublishRelease(
                    directory, FREQUENCIES_HEADER, release.statement() | {"budget": spent}
                ),
                num_buckets=num_buckets,
                progress=flags.progress,
                private_counters=flags.show_private_counters,
            )
            run_to_end(pipeline, flags.show_private_counters)
        print(directory.file(FREQUENCIES_FILE))
        if flags.report:
            print(report.write_report(directory.path))

    return job


def _check_types(reader: ReadRecords) -> None:
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
