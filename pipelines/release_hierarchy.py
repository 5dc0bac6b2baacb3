"""The command release-hierarchy: releases lists of the groups of a hierarchy, which add up.

The groups are public, such as counties in states. ``dp_transforms.releases.hierarchy`` has the
privacy argument.
"""

from __future__ import annotations

import argparse
import sys

from dp_transforms.files.filenames import HIERARCHY_FILE, REPORT_FILE
from dp_transforms.releases import HierarchySpec
from dp_transforms.releases.hierarchy import PartitionGroups
from pipelines import flag_values, job_flags
from pipelines.command_line import JobParser, require
from pipelines.release_job import PreparedRelease, release_command, release_of

_EPILOG = f"""\
The output directory receives {HIERARCHY_FILE} (the levels' columns, then
frequency,multiplicity: in this group, multiplicity partitions have frequency users each) and
privacy.json (the guarantee). Rows of a group leave the columns of lower levels empty, and rows of
the list of everything leave all of them empty. An empty list has one row, with 0,0. The list of
each group has exactly the partitions of the groups below it together.

--groups is a CSV file with the levels' columns, and a line for each group of the lowest level. It
is public: make it without looking at the records. Records of other groups are left out. If it also
has the column of partitions, with a line for each partition, records need no columns of levels.

example:
  python -m pipelines.release_hierarchy --input='homes/*.csv' --user_column=person
      --partition_column=home --levels=state,county --groups=counties.csv --epsilon=1
      --max_partitions_per_user=1 --output=release
"""


def make_parser() -> JobParser:
    parser = JobParser(
        "pipelines.release_hierarchy",
        "Release how many users partitions have, for all groups of a public hierarchy, in lists "
        "that\nadd up exactly, under differential privacy for adding or removing all records of "
        "one user.",
        _EPILOG,
    )
    job_flags.add_input_flags(parser)
    groups = parser.add_argument_group("hierarchy")
    groups.add_argument(
        "--levels",
        type=flag_values.names,
        metavar="COLUMN,...",
        help="the columns of groups, from the highest level to the lowest",
    )
    groups.add_argument(
        "--groups", metavar="FILE", help="the public groups: a CSV file with a header, see below"
    )
    groups.add_argument(
        "--shares",
        type=flag_values.shares,
        metavar="NUMBER,...",
        help="how epsilon is divided: a number for the list of everything, and one for each level; "
        "equal by default",
    )
    privacy = job_flags.add_release_flags(
        parser,
        cost="what all lists cost together",
        max_partitions="keep at most KAPPA partitions of each user in all groups together, chosen "
        "at random",
        lists=False,
    )
    privacy.add_argument(
        "--report",
        action="store_true",
        help=f"draw the release as well: {REPORT_FILE} and pictures (matplotlib, extra: report)",
    )
    parser.add_common_flags()
    return parser


def check_positions(flags: argparse.Namespace) -> None:
    """Raises a ValueError if a flag names a column of records that have no header. Levels are such
    columns unless the file of groups has the partitions."""
    from dp_transforms.files.public_groups import read_groups

    job_flags.check_positions(flags)
    if not (flags.no_header and flags.levels and flags.groups and flags.partition_column):
        return
    _, of_partitions = read_groups(
        flags.groups, flags.levels, flags.partition_column, flags.user_column
    )
    if of_partitions is None:
        (column, *_) = flags.partition_column
        hint = f"; or give --groups a column {column}, with a line for each partition"
        job_flags.check_positions(flags, ["levels"], hint)


@release_command(make_parser, check_positions)
def main(flags: argparse.Namespace) -> PreparedRelease:
    # Imported only now, since readers need Arrow and a command's help does not.
    from dp_transforms.files.public_groups import read_groups

    require(flags, "input", "user_column", "partition_column", "levels", "groups")
    require(flags, "epsilon", "max_partitions_per_user", "output")
    paths, of_partitions = read_groups(
        flags.groups, flags.levels, flags.partition_column, flags.user_column
    )
    partition_groups = None if of_partitions is None else PartitionGroups(*of_partitions)
    spec = HierarchySpec(
        levels=flags.levels,
        groups=paths,
        epsilon=flags.epsilon,
        max_partitions_per_user=flags.max_partitions_per_user,
        shares=flags.shares,
        partition_groups=partition_groups,
    )
    source = job_flags.records(flags, spec.levels if partition_groups is None else ())
    return release_of(flags, spec, source)


if __name__ == "__main__":
    sys.exit(main())
