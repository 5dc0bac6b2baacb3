"""Selects the partitions that may be named: user records in, differentially private names out."""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dp_transforms.budget import PrivacyBudget, PrivacyUnit
from dp_transforms.job_secret import JobSecret
from dp_transforms.mechanisms.partition_selection import STRATEGIES, explain
from dp_transforms.mechanisms.partition_selection.choice import AUTO
from dp_transforms.mechanisms.partition_selection.strategy import ADD_OR_REMOVE, REPLACE
from pipelines import flag_types
from pipelines.command_line import Job, JobParser, Options, refuse, require, run, warn_of_delta
from pipelines.errors import InputError
from pipelines.files.names import PARTITIONS_FILE
from pipelines.files.output import directory_from_flags
from pipelines.files.period_names import PERIOD_FLAGS, add_period_flags
from pipelines.release_job import Release, Work, add_input_flags, add_release_flags, release_job
from pipelines.reports.plots import plot_explanation
from pipelines.reports.privacy_statement import columns_of, selection_statement
from pipelines.spending import Part

if TYPE_CHECKING:
    import apache_beam as beam

    from dp_transforms.selection import SelectPartitions
    from pipelines.files.periods import NamesByPeriod
    from pipelines.files.publishing import PublishRelease
    from pipelines.files.record_source import RecordSource

_EPILOG = f"""\
The output directory receives {PARTITIONS_FILE} (the selected partitions and, with
--noisy_counts, about how many users they have, and from low to high with 95% confidence) and
privacy.json, which states the guarantee and, with --others_share, about how many users have other
partitions. The command report makes a page of them. How many users a partition needs is known
before there are any: --explain prints it, and --plot draws it.

examples:
  python -m pipelines.select_partitions --input='logs/*.csv' --user_column=account
      --partition_column=page --epsilon=1 --delta=1e-5 --max_partitions_per_user=10
      --output=release
  python -m pipelines.select_partitions --explain --epsilon=1 --delta=1e-5
      --max_partitions_per_user=10
"""


def make_parser() -> JobParser:
    """The flags of this job."""
    parser = JobParser(
        "pipelines.select_partitions",
        "Release the names of partitions that enough users have, under (epsilon, delta)-\n"
        "differential privacy for adding or removing all records of one user.",
        _EPILOG,
    )
    add_input_flags(parser)
    privacy = add_release_flags(
        parser,
        epsilon="what the release costs; smaller is more private",
        delta="",
        kappa="in how many partitions each user counts at most, chosen at random",
        lists=False,
    )
    privacy.add_argument(
        "--already_bounded",
        action="store_true",
        help="declare that no user has more than KAPPA partitions, instead of seeing to it",
    )
    privacy.add_argument(
        "--neighbours",
        choices=(ADD_OR_REMOVE, REPLACE),
        help="what is protected: that a user's records are there (default), or what they are",
    )
    selection = parser.add_argument_group("selection")
    selection.add_argument(
        "--strategy",
        choices=(AUTO, *STRATEGIES),
        default=AUTO,
        help="how partitions are decided on; auto takes the one that should name the most",
    )
    selection.add_argument(
        "--noisy_counts",
        action="store_true",
        help="release noisy numbers of users with the names, at no further cost",
    )
    selection.add_argument(
        "--others_share",
        type=flag_types.proportion,
        metavar="PART",
        help="also release about how many users have partitions that are not named, for this part "
        "of epsilon",
    )
    selection.add_argument(
        "--pre_threshold",
        type=flag_types.positive_integer,
        metavar="USERS",
        help="never release a partition with fewer users than this",
    )
    selection.add_argument(
        "--public_partitions",
        metavar="FILE.csv",
        help="names that are public anyway, one on each line without a header; they may be "
        "released without having users",
    )
    selection.add_argument(
        "--public_threshold",
        type=int,
        metavar="T",
        help="public partitions are released if their noisy count exceeds this (default: 0); the "
        "lower, the fewer are missed and the more without users are released",
    )
    planning = parser.add_argument_group("planning, without any data")
    planning.add_argument(
        "--explain",
        action="store_true",
        help="print how likely each strategy keeps a partition, by its number of users, and exit",
    )
    planning.add_argument(
        "--plot", metavar="FILE.png", help="with --explain, draw the same as curves (matplotlib)"
    )
    add_period_flags(parser)
    parser.add_common_flags()
    return parser


def build(
    pipeline: beam.Pipeline, work: Work, select: SelectPartitions, publish: PublishRelease
) -> None:
    """Adds the whole job to a pipeline, where ``publish`` receives the lines of the release.

    ``select`` has a secret of its own: no two jobs share one.
    """
    import apache_beam as beam

    release = beam.ptransform_fn(release_partitions)(work, select, publish)
    _ = work.records(pipeline) | "Partitions" >> release


def release_partitions(
    records: beam.PCollection, work: Work, select: SelectPartitions, publish: PublishRelease
) -> beam.PCollection[None]:
    """Selects partitions from tables of records, and publishes them."""
    import apache_beam as beam

    from pipelines.files.partition_file import partition_lines

    selected = records | "Select" >> select
    if isinstance(selected, dict):
        publish = publish.with_figure("users_of_other_partitions", selected["other_users"])
        selected = selected["partitions"]
    watch = work.watch("selecting partitions", "selected", counters=False)
    watched = selected | "WatchSelected" >> watch
    lines = watched | "Lines" >> beam.FlatMap(partition_lines).with_output_types(bytes)
    return lines | "Publish" >> publish


def prepare(flags: argparse.Namespace, options: Options) -> Job:
    """Checks everything that can be checked before data are read, and returns the job."""
    if flags.explain:
        return _prepare_explanation(flags)
    refuse(flags, "is for --explain, which needs no data", "plot")
    require(flags, "input", "user_column", "partition_column")
    require(flags, "epsilon", "delta", "max_partitions_per_user", "output")
    warn_of_delta(flags.delta)
    if flags.period is not None:
        return _prepare_periods(flags, options)
    refuse(flags, "goes with --period", *PERIOD_FLAGS)
    directory = directory_from_flags(flags, PARTITIONS_FILE, numbers=_numbers(flags))
    from pipelines.files.partition_file import header_line, read_public_partitions

    # The parameters are heard of before the files are.
    _select(flags, ())
    work = Work.from_flags(flags)
    fields = work.reader.partition_fields
    public: Sequence[Any] = ()
    if flags.public_partitions:
        public = read_public_partitions(flags.public_partitions, fields)
    select = _select(flags, public, work.num_buckets)
    names, others = _budgets(flags)
    statement = selection_statement(
        select.strategy,
        noisy_counts=flags.noisy_counts,
        bounded_by_job=select.strategy.uses_weights or not flags.already_bounded,
        public_partitions=len(public),
        public_threshold=flags.public_threshold or 0,
        others_epsilon=None if others is None else others.epsilon,
    )
    statement |= columns_of(fields)
    parts, whole = [_part(flags, "names of partitions", names)], None
    if others is not None:
        parts.append(_part(flags, "users of other partitions", others))
        whole = names + others
    release = Release.of_file(
        parts,
        directory,
        header_line(fields, flags.noisy_counts),
        statement,
        lambda pipeline, publish: build(pipeline, work, select, publish),
        by_count=flags.noisy_counts,
        whole=whole,
    )
    return release_job(flags, options, release)


def _budgets(flags: argparse.Namespace) -> tuple[PrivacyBudget, PrivacyBudget | None]:
    """The budgets of the names, and of the number of users of other partitions."""
    whole = PrivacyBudget(flags.epsilon, flags.delta)
    if flags.others_share is None:
        return whole, None
    others = PrivacyBudget(whole.epsilon * flags.others_share)
    return whole - others, others


def _prepare_periods(flags: argparse.Namespace, options: Options) -> Job:
    require(flags, *PERIOD_FLAGS)
    of_one = ("already_bounded", "others_share", "public_partitions", "public_threshold")
    refuse(flags, "does not go with --period", *of_one)
    from pipelines.files.partition_file import header_line, in_order
    from pipelines.files.periods import NamesByPeriod, period_job

    make = functools.partial(
        NamesByPeriod,
        epsilon=flags.epsilon,
        delta=flags.delta,
        max_periods_per_user=flags.max_periods_per_user,
        max_partitions_per_user=flags.max_partitions_per_user,
        strategy=flags.strategy,
        noisy_counts=flags.noisy_counts,
        intervals=flags.noisy_counts,
        **_given(flags, "pre_threshold", "neighbours"),
    )

    def describe(release: NamesByPeriod, reader: RecordSource) -> tuple[dict[str, Any], Any]:
        statement = selection_statement(
            release.select.strategy, noisy_counts=flags.noisy_counts, bounded_by_job=True
        )
        statement |= columns_of(reader.partition_fields)
        statement["periods"] = {"max_partitions_per_user_and_period": flags.max_partitions_per_user}
        header = header_line(reader.partition_fields, flags.noisy_counts)
        by_count = flags.noisy_counts
        return statement, lambda lines: {PARTITIONS_FILE: [header, *in_order(lines, by_count)]}

    budget = PrivacyBudget(flags.epsilon, flags.delta)
    part = _part(flags, f"names of partitions in each {flags.period}", budget)
    numbers = _numbers(flags)
    return period_job(flags, options, part, PARTITIONS_FILE, make, describe, numbers)


def _part(flags: argparse.Namespace, purpose: str, budget: PrivacyBudget) -> Part:
    unit = PrivacyUnit.REPLACED_USER if flags.neighbours == REPLACE else PrivacyUnit.USER
    return Part(purpose, budget, unit=unit)


def _prepare_explanation(flags: argparse.Namespace) -> Job:
    require(flags, "epsilon", "delta", "max_partitions_per_user")
    explanation = explain(
        flags.epsilon,
        flags.delta,
        noisy_counts=flags.noisy_counts,
        max_partitions_per_user=flags.max_partitions_per_user,
        **_given(flags, "pre_threshold", "neighbours"),
    )

    def job() -> None:
        print(explanation)
        if flags.plot is not None:
            try:
                plot_explanation(explanation, flags.plot)
            except (ImportError, OSError, ValueError) as error:
                raise InputError(f"{flags.plot} cannot be drawn: {error}") from None
            print(flags.plot)

    return job


def _select(
    flags: argparse.Namespace, public: Sequence[Any], num_buckets: int | None = None
) -> SelectPartitions:
    from dp_transforms.selection import SelectPartitions

    names, others = _budgets(flags)
    return SelectPartitions(
        names.epsilon,
        names.delta,
        flags.max_partitions_per_user,
        flags.strategy,
        flags.noisy_counts,
        flags.already_bounded,
        intervals=flags.noisy_counts,
        others_epsilon=None if others is None else others.epsilon,
        public_partitions=public,
        secret=JobSecret.from_os(),
        num_buckets=num_buckets,
        **_given(flags, "pre_threshold", "neighbours"),
        **(_given(flags, "public_threshold") if public or not flags.public_partitions else {}),
    )


def _numbers(flags: argparse.Namespace) -> int:
    """The number of columns that hold integers: a noisy count and the ends of its interval."""
    return 3 if flags.noisy_counts else 0


def _given(flags: argparse.Namespace, *names: str) -> dict[str, Any]:
    return {name: value for name in names if (value := getattr(flags, name)) is not None}


def main(argv: Sequence[str] | None = None) -> int:
    return run(prepare, make_parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
