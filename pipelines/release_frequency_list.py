"""The main job: user records in, a differentially private frequency list out.

Each user is bounded to a number of partitions, distinct users are counted per partition, and how
often each count occurs is released by the exponential mechanism for integer partitions: pure
epsilon-DP, for adding or removing all records of one user.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from dp_transforms.budget import PrivacyBudget
from dp_transforms.contributions import BoundContributions
from dp_transforms.counting import CountDistinctUsers
from dp_transforms.frequency_release import ReleaseFrequencyList, release_frequency_list
from dp_transforms.job_secret import JobSecret
from dp_transforms.mechanisms import Eta, FrequencyList
from dp_transforms.mechanisms.integer_partition import IntegerPartitionMechanism
from dp_transforms.mechanisms.partition_mechanism import PartitionMechanism
from pipelines import flag_types, report, report_page
from pipelines.budgeting import Part, add_ledger_flag, spending_if_shared
from pipelines.command_line import Job, JobParser, make_runner, require, run
from pipelines.errors import InputError
from pipelines.files import local_path, reason
from pipelines.output import (
    FREQUENCIES_FILE,
    FREQUENCIES_HEADER,
    PublishRelease,
    ReleaseDirectory,
    add_output_flags,
    frequency_lines,
)
from pipelines.privacy_statement import frequency_list_statement
from pipelines.progress import Watch, run_to_end, say, say_private
from pipelines.reading import ReadRecords, add_input_flags, records_from_flags
from pipelines.variant_flags import add_variant_flags, mechanism_from_flags

_EPILOG = f"""\
The output directory receives {FREQUENCIES_FILE} (frequency,multiplicity: so many
partitions have so many users each) and privacy.json, which says what was promised.

examples:
  python -m pipelines.release_frequency_list --input='logs/*.csv' --user_column=account
      --partition_column=page --epsilon=1 --max_partitions_per_user=10 --output=release
  python -m pipelines.release_frequency_list --frequency_list=counts.csv --epsilon=1
      --output=release
"""


def make_parser() -> JobParser:
    """The flags of this job."""
    parser = JobParser(
        "pipelines.release_frequency_list",
        "Release how many users partitions have, without saying which partitions, under\n"
        "epsilon-differential privacy for adding or removing all records of one user.",
        _EPILOG,
    )
    add_input_flags(parser)
    counted = parser.add_argument_group("or counts that exist already, instead of records")
    counted.add_argument(
        "--frequency_list",
        metavar="FILE.csv",
        help="header frequency,multiplicity; descending. Released on this machine, without Beam",
    )
    privacy = parser.add_argument_group("privacy and output")
    cost = privacy.add_mutually_exclusive_group()
    cost.add_argument(
        "--epsilon", type=flag_types.epsilon, help="what the release costs; smaller is more private"
    )
    cost.add_argument(
        "--eta",
        type=_eta,
        metavar="X,Y,Z",
        help="the cost in base 2: a change of 1 in L1 weighs (X / 2**Y)**Z, instead of --epsilon",
    )
    privacy.add_argument(
        "--max_partitions_per_user",
        type=flag_types.positive_integer,
        metavar="KAPPA",
        help="keep at most so many partitions of each user, at random; with --frequency_list, how "
        "many entries one user may have contributed to (default there: 1)",
    )
    add_ledger_flag(privacy)
    add_output_flags(privacy)
    report_page.add_report_flag(privacy)
    add_variant_flags(parser)
    parser.add_common_flags()
    return parser


def build(
    pipeline: beam.Pipeline,
    reader: ReadRecords,
    mechanism: PartitionMechanism,
    directory: ReleaseDirectory,
    secret: JobSecret | None = None,
    num_buckets: int | None = None,
    progress: bool = False,
    private_counters: bool = False,
    more_statement: Mapping[str, Any] | None = None,
) -> None:
    """Adds the whole job to a pipeline.

    Args:
      pipeline: where to.
      reader: gives the records.
      mechanism: releases the list; its sensitivity is the number of partitions kept per user.
      directory: receives the release.
      secret: where all random decisions come from; a fresh one by default. No two jobs share one.
      num_buckets: how many parts records are shuffled in; by default, what the reader says.
      progress: tell of stages on stderr.
      private_counters: count elements exactly, in Beam counters.
      more_statement: what else to say in privacy.json, such as of a shared budget.
    """
    secret = secret or JobSecret.from_os()
    num_buckets = num_buckets or reader.num_buckets
    watch = functools.partial(Watch, progress=progress, counters=private_counters)
    records = pipeline | "ReadRecords" >> reader | "Records" >> watch("reading records", "records")
    bounded = records | "Bound" >> BoundContributions(mechanism.sensitivity, secret, num_buckets)
    statement = frequency_list_statement(mechanism, bounded_by_job=True) | dict(
        more_statement or {}
    )
    publish = PublishRelease(directory, FREQUENCIES_HEADER, statement)
    release = ReleaseBounded(mechanism, publish, secret, num_buckets, watch)
    _ = bounded | "FrequencyList" >> release


@beam.ptransform_fn
def ReleaseBounded(
    bounded: beam.PCollection,
    mechanism: PartitionMechanism,
    publish: PublishRelease,
    secret: JobSecret,
    num_buckets: int,
    watch: Callable[[str, str], Watch],
) -> beam.PCollection[None]:
    """What follows on ``BoundContributions``: counts, the mechanism, and the release.

    Args:
      bounded: what came out of it.
      mechanism: releases the list; its sensitivity is the number of partitions kept per user.
      publish: receives the lines of the release.
      secret: where all random decisions come from.
      num_buckets: how many parts partitions are shuffled in.
      watch: makes a Watch from its stage and rows.
    """
    # Each (user, partition) pair is there once, also behind a Watch.
    pairs = bounded | "WatchBounded" >> watch("bounding contributions", "contributions kept")
    counts = pairs | "Count" >> CountDistinctUsers(
        already_distinct=True, secret=secret, num_buckets=num_buckets
    )
    watched = counts | "WatchCounts" >> watch("counting users per partition", "partitions")
    released = watched | "Release" >> ReleaseFrequencyList(
        mechanism=mechanism, max_partitions_per_user=mechanism.sensitivity, secret=secret
    )
    lines = released | "Lines" >> beam.Map(frequency_lines).with_output_types(bytes)
    return lines | "Publish" >> publish


def prepare(flags: argparse.Namespace, options: PipelineOptions) -> Job:
    """Checks everything that can be checked before data are read, and returns the job."""
    if (flags.input is None) == (flags.frequency_list is None):
        raise ValueError("give either --input or --frequency_list; --help explains them")
    if flags.epsilon is None and flags.eta is None:
        raise ValueError("give --epsilon, or --eta")
    require(flags, "output")
    if flags.ledger is not None and flags.epsilon is not None:
        # The ledger takes it for a decimal number, and so must the mechanism.
        flags.epsilon = PrivacyBudget(flags.epsilon).epsilon
    if flags.report:
        report_page.check_available()
    directory = ReleaseDirectory(flags.output, FREQUENCIES_FILE, flags.overwrite)
    if flags.frequency_list is not None:
        return _prepare_counted(flags, directory)
    require(flags, "user_column", "partition_column", "max_partitions_per_user")
    mechanism = mechanism_from_flags(flags, flags.max_partitions_per_user)
    reader = records_from_flags(flags)
    directory.check()
    runner = make_runner(flags, options)

    def job() -> None:
        with spending_if_shared(flags.ledger, [_part(mechanism)]) as budget:
            pipeline = beam.Pipeline(runner, options=options)
            build(
                pipeline,
                reader,
                mechanism,
                directory,
                num_buckets=flags.num_buckets,
                progress=flags.progress,
                private_counters=flags.show_private_counters,
                more_statement=budget,
            )
            run_to_end(pipeline, flags.show_private_counters)
        _say_done(flags, directory)

    return job


def _prepare_counted(flags: argparse.Namespace, directory: ReleaseDirectory) -> Job:
    for name in ("user_column", "partition_column"):
        if getattr(flags, name) is not None:
            raise ValueError(f"--{name} is for --input: --frequency_list holds counts, not records")
    mechanism = mechanism_from_flags(flags, flags.max_partitions_per_user or 1)
    directory.check()
    frequency_list = _read_frequency_list(
        local_path(flags.frequency_list), flags.show_private_errors
    )

    def job() -> None:
        if flags.progress:
            say("releasing the frequency list")
        with spending_if_shared(flags.ledger, [_part(mechanism)]) as budget:
            released = release_frequency_list(frequency_list, mechanism, JobSecret.from_os())
            statement = frequency_list_statement(mechanism, bounded_by_job=False) | budget
            directory.publish([FREQUENCIES_HEADER, frequency_lines(released)], statement)
        if flags.show_private_counters:
            say_private("contributions", frequency_list.total)
        _say_done(flags, directory)

    return job


def _part(mechanism: PartitionMechanism) -> Part:
    cost = PrivacyBudget(mechanism.epsilon_cost, mechanism.failure_probability)
    # What narrows a release may widen its range: it is known of the unrestricted mechanism.
    return Part("frequency list", cost, type(mechanism) is IntegerPartitionMechanism)


def _say_done(flags: argparse.Namespace, directory: ReleaseDirectory) -> None:
    print(directory.file(FREQUENCIES_FILE))
    if flags.report:
        print(report.write_report(directory.path))


def _read_frequency_list(path: str, show_private_errors: bool) -> FrequencyList:
    try:
        return FrequencyList.from_csv(path)
    except OSError as error:
        raise InputError(f"{path} can not be read: {reason(error)}") from None
    except ValueError:
        # The list's own message shows entries, and these are private.
        if show_private_errors:
            raise
        raise InputError(
            f"{path} is not a frequency list: the first line must be frequency,multiplicity and "
            f"the others pairs of positive integers, frequencies descending; --show_private_errors "
            f"says more"
        ) from None


def _eta(text: str) -> Eta:
    try:
        x, y, z = (int(part) for part in text.split(","))
        return Eta(x, y, z)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"must be three positive integers X,Y,Z with X < 2**Y, for example 1,1,1, got {text!r}"
        ) from None


def main(argv: Sequence[str] | None = None) -> int:
    return run(prepare, make_parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
