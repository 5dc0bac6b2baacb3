"""The command release-all: releases the frequency list and names of partitions from one read.

If kappa is declared, users' contributions are bounded once, and both releases see the same bounded
records. Otherwise each release chooses how many partitions of a user count. The costs of both add
up.
"""

from __future__ import annotations

import argparse
import functools
import sys

from dp_transforms.budget import PrivacyBudget
from dp_transforms.files.filenames import (
    FREQUENCIES_FILE,
    LIST_DIRECTORY,
    NAMED_USERS_FILE,
    PARTITIONS_DIRECTORY,
    PARTITIONS_FILE,
)
from dp_transforms.files.output import directory_path
from dp_transforms.files.paths import join
from dp_transforms.files.several_releases import SeveralReleases
from dp_transforms.mechanisms.decimals import ExactNumber
from dp_transforms.releases import ListAndNamesSpec
from dp_transforms.releases.names_files import check_column_names
from dp_transforms.releases.writing import write_both
from pipelines import flag_values, job_flags
from pipelines.command_line import JobParser, require, warn_of_delta
from pipelines.release_job import PreparedRelease, release_command, writer

_EPILOG = f"""\
The output directory receives {LIST_DIRECTORY}/{FREQUENCIES_FILE} and
{PARTITIONS_DIRECTORY}/{PARTITIONS_FILE}, each with a privacy.json (the guarantee and how
the budget was split). Without --max_partitions_per_user, the list comes with a survey of how many
partitions users have, and with an estimate of the list of all records. With --noisy_counts,
{PARTITIONS_DIRECTORY}/{NAMED_USERS_FILE} has estimates of the names' users by the
list, which err less and agree with it.

example:
  python -m pipelines.release_all --input='logs/*.csv' --user_column=account
      --partition_column=page --epsilon=1 --delta=1e-5 --output=release
"""


def make_parser() -> JobParser:
    parser = JobParser(
        "pipelines.release_all",
        "Release the frequency list, and the names of partitions that enough users have, from\n"
        "one read, under (epsilon, delta)-differential privacy for adding or removing all records\n"
        "of one user.",
        _EPILOG,
    )
    job_flags.add_input_flags(parser)
    privacy = job_flags.add_release_flags(
        parser,
        cost="what both releases cost together",
        delta=". All of it is for the selection",
        max_partitions="keep at most KAPPA partitions of each user, chosen at random; by default a "
        "survey and a look at the records choose it, and answers are about all records",
    )
    privacy.add_argument(
        "--selection_share",
        type=flag_values.proportion,
        default=ExactNumber(0.5),
        metavar="PART",
        help="the selection's part of epsilon; the list gets the rest (default: 0.5)",
    )
    selection = parser.add_argument_group("selection: see the command select")
    job_flags.add_strategy_flag(selection)
    selection.add_argument(
        "--noisy_counts", action="store_true", help="release noisy numbers of users with the names"
    )
    parser.add_common_flags()
    return parser


@release_command(make_parser)
def main(flags: argparse.Namespace) -> PreparedRelease:
    require(flags, "input", "user_column", "partition_column")
    require(flags, "epsilon", "delta", "output")
    warn_of_delta(flags.delta)
    check_column_names(flags.partition_column, flags.noisy_counts, beside_list=True)
    whole = PrivacyBudget(flags.epsilon, flags.delta)
    both = ListAndNamesSpec.of(
        whole,
        flags.selection_share,
        flags.max_partitions_per_user,
        mechanism=flags.mechanism,
        strategy=flags.strategy,
        noisy_counts=flags.noisy_counts,
    )
    source = job_flags.records(flags)
    parent = directory_path(flags.output)
    parts = (both.frequency_list, LIST_DIRECTORY), (both.names, PARTITIONS_DIRECTORY)
    several = SeveralReleases(parent, tuple(name for _, name in parts))
    writers = [writer(flags, spec, source, join(parent, name), several) for spec, name in parts]
    return PreparedRelease(
        both.requests,
        [write.directory for write in writers],
        both.release,
        functools.partial(write_both, writers),
        source,
    )


if __name__ == "__main__":
    sys.exit(main())
