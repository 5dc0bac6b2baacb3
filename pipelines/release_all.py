"""Both releases from one read: the frequency list, and the names of partitions that may be named.

Users' contributions are bounded once, and both releases see the same bounded records. A ledger
splits the privacy budget between them: together they are (epsilon, delta)-DP, for adding or
removing all records of one user.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions

from dp_transforms.budget import PrivacyBudget
from dp_transforms.contributions import BoundContributions
from dp_transforms.decimals import exact_fraction
from dp_transforms.job_secret import JobSecret
from dp_transforms.mechanisms.integer_partition import IntegerPartitionMechanism
from dp_transforms.mechanisms.partition_selection import STRATEGIES, SelectionStrategy
from dp_transforms.mechanisms.partition_selection.choice import AUTO, make_strategy
from dp_transforms.selection import SelectPartitions
from pipelines import flag_types, report, report_page
from pipelines.budgeting import Part, add_ledger_flag, spending
from pipelines.command_line import Job, JobParser, make_runner, require, run
from pipelines.output import (
    FREQUENCIES_FILE,
    FREQUENCIES_HEADER,
    PublishRelease,
    ReleaseDirectory,
    add_output_flags,
    directory_path,
)
from pipelines.privacy_statement import frequency_list_statement
from pipelines.progress import Watch, run_to_end
from pipelines.reading import ReadRecords, add_input_flags, records_from_flags
from pipelines.release_frequency_list import ReleaseBounded
from pipelines.select_partitions import PARTITIONS_FILE, ReleasePartitions, header_line
from pipelines.selection_statement import selection_statement

LIST_DIRECTORY = "frequency_list"
PARTITIONS_DIRECTORY = "partitions"

_EPILOG = f"""\
The output directory receives {LIST_DIRECTORY}/{FREQUENCIES_FILE} and
{PARTITIONS_DIRECTORY}/{PARTITIONS_FILE}, each with a privacy.json, which says what was
promised and how the budget was split.

example:
  python -m pipelines.release_all --input='logs/*.csv' --user_column=account
      --partition_column=page --epsilon=1 --delta=1e-5 --max_partitions_per_user=10
      --output=release
"""


@dataclass(frozen=True)
class Releases:
    """The two releases, each with its part of the budget.

    Attributes:
      mechanism: releases the frequency list, with pure epsilon-DP.
      strategy: selects partitions; the whole delta is its.
      noisy_counts: whether their noisy counts are released as well.

    Raises:
      ValueError: the two keep different numbers of partitions per user.
    """

    mechanism: IntegerPartitionMechanism
    strategy: SelectionStrategy
    noisy_counts: bool = False

    def __post_init__(self) -> None:
        if self.mechanism.sensitivity != self.strategy.max_partitions_per_user:
            raise ValueError(
                "both releases must keep the same number of partitions per user, got "
                f"{self.mechanism.sensitivity} and {self.strategy.max_partitions_per_user}"
            )


def make_parser() -> JobParser:
    """The flags of this job."""
    parser = JobParser(
        "pipelines.release_all",
        "Release the frequency list, and the names of partitions that enough users have, from\n"
        "one read, under (epsilon, delta)-differential privacy for adding or removing all records\n"
        "of one user.",
        _EPILOG,
    )
    add_input_flags(parser)
    privacy = parser.add_argument_group("privacy and output")
    privacy.add_argument(
        "--epsilon", type=flag_types.epsilon, help="what both releases cost together"
    )
    privacy.add_argument(
        "--delta",
        type=flag_types.proportion,
        help="the probability with which epsilon may fail, all of it for the selection; far below "
        "1 / number of users",
    )
    privacy.add_argument(
        "--selection_share",
        type=flag_types.proportion,
        default=0.5,
        metavar="PART",
        help="the part of epsilon that the selection gets; the list gets the rest (default: 0.5)",
    )
    add_ledger_flag(privacy)
    privacy.add_argument(
        "--max_partitions_per_user",
        type=flag_types.positive_integer,
        metavar="KAPPA",
        help="keep at most so many partitions of each user, at random",
    )
    add_output_flags(privacy)
    report_page.add_report_flag(privacy)
    selection = parser.add_argument_group("selection, as of pipelines.select_partitions")
    selection.add_argument("--strategy", choices=(AUTO, *STRATEGIES), default=AUTO)
    selection.add_argument("--noisy_counts", action="store_true")
    parser.add_common_flags()
    return parser


def build(
    pipeline: beam.Pipeline,
    reader: ReadRecords,
    releases: Releases,
    output: str,
    budget: dict[str, Any],
    overwrite: bool = False,
    secret: JobSecret | None = None,
    num_buckets: int | None = None,
    progress: bool = False,
    private_counters: bool = False,
) -> None:
    """Adds the whole job to a pipeline.

    Args:
      pipeline: where to.
      reader: gives the records.
      releases: what to release.
      output: the directory that receives both.
      budget: what to say of the whole budget in each privacy.json.
      overwrite: replace earlier releases.
      secret: where all random decisions come from; a fresh one by default. No two jobs share one.
      num_buckets: how many parts records are shuffled in; by default, what the reader says.
      progress: tell of stages on stderr.
      private_counters: count elements exactly, in Beam counters.
    """
    secret = secret or JobSecret.from_os()
    num_buckets = num_buckets or reader.num_buckets
    mechanism, strategy = releases.mechanism, releases.strategy
    list_directory, partitions_directory = directories(output, overwrite)
    watch = functools.partial(Watch, progress=progress, counters=private_counters)
    records = pipeline | "ReadRecords" >> reader | "Records" >> watch("reading records", "records")
    bounded = records | "Bound" >> BoundContributions(mechanism.sensitivity, secret, num_buckets)
    statement = frequency_list_statement(mechanism, bounded_by_job=True)
    publish = PublishRelease(list_directory, FREQUENCIES_HEADER, statement | {"budget": budget})
    release = ReleaseBounded(mechanism, publish, secret, num_buckets, watch)
    _ = bounded | "FrequencyList" >> release
    select = SelectPartitions(
        strategy=strategy,
        noisy_counts=releases.noisy_counts,
        already_bounded=True,
        secret=secret,
        num_buckets=num_buckets,
    )
    statement = selection_statement(
        strategy, noisy_counts=releases.noisy_counts, bounded_by_job=True
    )
    publish = PublishRelease(
        partitions_directory,
        header_line(reader, releases.noisy_counts),
        statement | {"budget": budget},
    )
    _ = bounded | "Partitions" >> ReleasePartitions(select, publish, progress)


def directories(output: str, overwrite: bool = False) -> tuple[ReleaseDirectory, ReleaseDirectory]:
    """Where the frequency list and the partitions go."""
    parent = directory_path(output)
    return (
        ReleaseDirectory(FileSystems.join(parent, LIST_DIRECTORY), FREQUENCIES_FILE, overwrite),
        ReleaseDirectory(
            FileSystems.join(parent, PARTITIONS_DIRECTORY), PARTITIONS_FILE, overwrite
        ),
    )


def prepare(flags: argparse.Namespace, options: PipelineOptions) -> Job:
    """Checks everything that can be checked before data are read, and returns the job."""
    require(flags, "input", "user_column", "partition_column")
    require(flags, "epsilon", "delta", "max_partitions_per_user", "output")
    if flags.report:
        report_page.check_available()
    whole = PrivacyBudget(flags.epsilon, flags.delta)
    for_selection = PrivacyBudget(
        whole.epsilon * exact_fraction("selection_share", flags.selection_share), whole.delta
    )
    for_list = whole - for_selection
    kappa = flags.max_partitions_per_user
    # A fraction stays exact, where a float might be a little more than its share.
    epsilon: Any = for_list.epsilon
    releases = Releases(
        IntegerPartitionMechanism(epsilon=epsilon, sensitivity=kappa),
        make_strategy(
            flags.strategy,
            for_selection.epsilon,
            for_selection.delta,
            flags.noisy_counts,
            max_partitions_per_user=kappa,
        ),
        flags.noisy_counts,
    )
    reader = records_from_flags(flags)
    num_buckets = flags.num_buckets or reader.num_buckets
    released_in = directories(flags.output, flags.overwrite)
    for directory in released_in:
        directory.check()
    runner = make_runner(flags, options)

    parts = [
        Part("frequency list", for_list, bounded_range=True),
        Part("names of partitions", for_selection),
    ]

    def job() -> None:
        with spending(flags.ledger, whole, parts) as budget:
            pipeline = beam.Pipeline(runner, options=options)
            build(
                pipeline,
                reader,
                releases,
                flags.output,
                budget,
                flags.overwrite,
                num_buckets=num_buckets,
                progress=flags.progress,
                private_counters=flags.show_private_counters,
            )
            run_to_end(pipeline, flags.show_private_counters)
        for directory in released_in:
            print(directory.file(directory.file_name))
        if flags.report:
            print(report.write_report(released_in[0].path))

    return job


def main(argv: Sequence[str] | None = None) -> int:
    return run(prepare, make_parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
