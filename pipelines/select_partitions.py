"""The command select: releases the names of partitions that enough users have."""

from __future__ import annotations

import argparse
import functools
import sys
from typing import TYPE_CHECKING, Any

from dp_transforms.files.filenames import PARTITIONS_FILE
from dp_transforms.files.paths import local_path
from dp_transforms.mechanisms.selection import MeasuredSelection, explain
from dp_transforms.mechanisms.selection.choice import AUTO
from dp_transforms.mechanisms.selection.strategy import ADD_OR_REMOVE, REPLACE
from dp_transforms.releases import NamesSpec, PeriodNamesSpec
from dp_transforms.releases.names_files import check_column_names
from dp_transforms.reports.plans import plot_explanation
from pipelines import flag_values, job_flags
from pipelines.command_line import JobParser, draw, refuse, require, warn_of_delta
from pipelines.job_context import Job
from pipelines.release_job import PreparedRelease, period_release, release_command, release_of

if TYPE_CHECKING:
    import pyarrow as pa

_EPILOG = f"""\
The output directory receives {PARTITIONS_FILE} (the selected partitions and, with
--noisy_counts, noisy numbers of their users with 95% intervals from low to high) and privacy.json
(the guarantee and, with --others_share, the noisy number of users with other partitions). The
command report makes a page of them. --explain prints how many users a partition needs.

examples:
  python -m pipelines.select_partitions --input='logs/*.csv' --user_column=account
      --partition_column=page --epsilon=1 --delta=1e-5 --max_partitions_per_user=10
      --output=release
  python -m pipelines.select_partitions --explain --epsilon=1 --delta=1e-5
      --max_partitions_per_user=10
"""


def make_parser() -> JobParser:
    parser = JobParser(
        "pipelines.select_partitions",
        "Release the names of partitions that enough users have, under (epsilon, delta)-\n"
        "differential privacy for adding or removing all records of one user.",
        _EPILOG,
    )
    job_flags.add_input_flags(parser)
    privacy = job_flags.add_release_flags(
        parser,
        cost="what the release costs; smaller is more private",
        delta="",
        max_partitions="keep at most KAPPA partitions of each user, chosen at random (default: a "
        "small part of the budget pays for choosing KAPPA by the records)",
        lists=False,
    )
    privacy.add_argument(
        "--already_bounded",
        action="store_true",
        help="declare that no user has more than KAPPA partitions, instead of enforcing it",
    )
    privacy.add_argument(
        "--neighbours",
        choices=(ADD_OR_REMOVE, REPLACE),
        help="neighbouring data add or remove all records of one user (default), or replace them",
    )
    selection = parser.add_argument_group("selection")
    job_flags.add_strategy_flag(selection)
    selection.add_argument(
        "--noisy_counts",
        action="store_true",
        help="release noisy numbers of users with the names; names and counts share epsilon and "
        "delta, so that there are fewer names, but at least about three quarters",
    )
    selection.add_argument(
        "--others_share",
        type=flag_values.proportion,
        metavar="PART",
        help="also release a noisy number of users who have unnamed partitions, for this part of "
        "epsilon",
    )
    selection.add_argument(
        "--pre_threshold",
        type=flag_values.positive_integer,
        metavar="USERS",
        help="never release a partition with fewer users than this",
    )
    selection.add_argument(
        "--public_partitions",
        metavar="FILE.csv",
        help="names that are public anyway, one on each line without a header; with "
        "--noisy_counts all of them are released, even without users; otherwise those whose noisy "
        "count exceeds T",
    )
    selection.add_argument(
        "--public_threshold",
        type=int,
        metavar="T",
        help="release only public partitions whose noisy count exceeds T (default: 0, or all with "
        "--noisy_counts); a lower T misses fewer, and releases more without users",
    )
    planning = parser.add_argument_group("planning, without any data")
    planning.add_argument(
        "--explain",
        action="store_true",
        help="print each strategy's probability of keeping a partition, by its number of users",
    )
    planning.add_argument(
        "--plot",
        type=local_path,
        metavar="FILE.png",
        help="with --explain, draw these curves (matplotlib)",
    )
    job_flags.add_period_flags(parser)
    parser.add_common_flags()
    return parser


@release_command(make_parser)
def main(flags: argparse.Namespace) -> PreparedRelease | Job:
    if flags.explain:
        return _explanation(flags)
    refuse(flags, "is for --explain, which needs no data", "plot")
    require(flags, "input", "user_column", "partition_column")
    require(flags, "epsilon", "delta", "output")
    chooses = flags.strategy in (AUTO, MeasuredSelection.name)
    if not chooses or flags.already_bounded or flags.public_partitions:
        require(flags, "max_partitions_per_user")
    warn_of_delta(flags.delta)
    check_column_names(flags.partition_column, flags.noisy_counts, period=flags.period)
    if flags.period is not None:
        of_one = ("already_bounded", "others_share", "public_partitions", "public_threshold")
        refuse(flags, "does not go with --period", *of_one)
        return period_release(flags, PeriodNamesSpec, delta=flags.delta, **_options(flags))
    refuse(flags, "goes with --period", *job_flags.PERIOD_FLAGS)
    # Parameters are checked before files are opened.
    _spec(flags, None)
    source = job_flags.records(flags)
    public: pa.Array | None = None
    if flags.public_partitions is not None:
        from dp_transforms.files.public_partitions import read_public_partitions

        public = read_public_partitions(flags.public_partitions, source.partition_fields)
    spec = _spec(flags, public)
    return release_of(
        flags,
        spec,
        source,
        bounded_by_job=not flags.already_bounded,
    )


def _options(flags: argparse.Namespace) -> dict[str, Any]:
    """Returns the arguments that specifications with and without periods share."""
    return {
        "strategy": flags.strategy,
        "noisy_counts": flags.noisy_counts,
        "intervals": flags.noisy_counts,
        "pre_threshold": flags.pre_threshold,
        "neighbours": flags.neighbours,
    }


def _explanation(flags: argparse.Namespace) -> Job:
    """Returns the job of --explain, which reads no data."""
    why = "does not go with --explain, which reads and writes no data"
    of_data = ("input", "already_bounded", "others_share", "public_partitions", "public_threshold")
    refuse(flags, why, *of_data, "period", *job_flags.PERIOD_FLAGS)
    job_flags.refuse_flags_of_output(flags, why)
    job_flags.refuse_flags_of_records(flags, why)
    require(flags, "epsilon", "delta", "max_partitions_per_user")
    options = {"pre_threshold": flags.pre_threshold, "neighbours": flags.neighbours}
    explanation = explain(
        flags.epsilon,
        flags.delta,
        noisy_counts=flags.noisy_counts,
        max_partitions_per_user=flags.max_partitions_per_user,
        **{name: value for name, value in options.items() if value is not None},
    )

    def show() -> None:
        print(explanation)
        if flags.plot is not None:
            print(draw(functools.partial(plot_explanation, explanation), flags.plot))

    return show


def _spec(flags: argparse.Namespace, public: pa.Array | None) -> NamesSpec:
    """Returns the specification. If public names are still to be read, it is one without them,
    which checks all other flags."""
    later = flags.public_partitions is not None and public is None
    return NamesSpec.of_whole(
        epsilon=flags.epsilon,
        delta=flags.delta,
        max_partitions_per_user=flags.max_partitions_per_user,
        others_share=flags.others_share,
        **_options(flags),
        already_bounded=flags.already_bounded,
        public_partitions=public,
        public_threshold=None if later else flags.public_threshold,
    )


if __name__ == "__main__":
    sys.exit(main())
