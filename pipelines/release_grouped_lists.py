"""The command release-groups: releases the frequency lists of all users and of groups of users.

Groups are those of each gender, age, language or other attribute. ``dp_transforms.beam.grouped``
has the privacy argument.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from dp_transforms.budget import PrivacyBudget
from dp_transforms.files.filenames import ALL_RECORDS_FILE, GROUP_SURVEYS_FILE, LISTS_FILE
from dp_transforms.mechanisms.partition.mechanism import PartitionMechanism
from dp_transforms.mechanisms.partition.registry import partition_mechanism
from dp_transforms.postprocessing.planning import expected_dist, zipf_list
from dp_transforms.releases import Attribute, GroupAllRecordsSpec, GroupsSpec
from dp_transforms.releases.groups import GroupedSpec
from pipelines import flag_values, job_flags
from pipelines.command_line import JobParser, refuse, require, warn, warn_of_delta
from pipelines.release_job import PreparedRelease, release_command, release_of

LARGE_ERROR = 0.1

_EPILOG = f"""\
The output directory receives {LISTS_FILE} (attribute,group,frequency,multiplicity: in this
group, multiplicity partitions have frequency users each) and privacy.json (the guarantee). Rows
about all users have neither attribute nor group. An empty list has one row, with 0,0. Without
--max_partitions_per_user, it also receives {GROUP_SURVEYS_FILE} and {ALL_RECORDS_FILE}:
a survey of each list, and the estimated list of all records, which follows from both.

A user with several values of an attribute counts in one of these groups, chosen at random. A user
counts in no group without a value, or if the value is not among --groups.

example:
  python -m pipelines.release_grouped_lists --input='users/*.csv' --user_column=account
      --partition_column=password_hash --group_by=gender,language --groups gender=female,male
      --group_sizes gender=30000000,35000000 --epsilon_all=0.25 --epsilon_groups=0.25
      --epsilon_selection=0.1 --delta=1e-9 --max_partitions_per_user=1 --output=release
"""


def make_parser() -> JobParser:
    parser = JobParser(
        "pipelines.release_grouped_lists",
        "Release how many users partitions have, for all users and for each group of them, under\n"
        "one budget of differential privacy for adding or removing all records of one user.",
        _EPILOG,
    )
    job_flags.add_input_flags(parser)
    groups = parser.add_argument_group("groups")
    groups.add_argument(
        "--group_by",
        type=flag_values.names,
        metavar="COLUMN,...",
        help="the columns whose values are groups of users (attributes), by name or position",
    )
    groups.add_argument(
        "--groups",
        type=_names_of_attribute,
        action="append",
        default=[],
        metavar="COLUMN=NAME,...",
        help="public names of an attribute's groups; repeat the flag for each attribute. Names of "
        "other attributes' groups are selected",
    )
    groups.add_argument(
        "--group_sizes",
        type=_sizes_of_attribute,
        action="append",
        default=[],
        metavar="COLUMN=USERS,...",
        help="public estimates of the users of these groups, in the same order; the job warns of "
        "groups that are too small before it spends anything",
    )
    privacy = job_flags.add_release_flags(
        parser,
        delta=". All of it is for the names of groups",
        max_partitions="keep at most KAPPA partitions of each user, chosen at random; by default a "
        "survey of each list chooses it, and numbers are about all records",
    )
    job_flags.add_survey_flags(privacy)
    privacy.add_argument(
        "--epsilon_all", type=flag_values.epsilon, help="what the list of all users costs"
    )
    privacy.add_argument(
        "--epsilon_groups",
        type=flag_values.epsilon,
        help="what all groups cost; each attribute gets an equal part",
    )
    privacy.add_argument(
        "--epsilon_selection",
        type=flag_values.epsilon,
        help="what the selection of group names costs, if they are not public",
    )
    parser.add_common_flags()
    return parser


@release_command(make_parser)
def main(flags: argparse.Namespace) -> PreparedRelease:
    require(flags, "input", "user_column", "partition_column", "group_by")
    require(flags, "epsilon_all", "epsilon_groups", "output")
    # Parameters are checked before files are opened.
    spec = _spec(flags)
    for warning in warnings_of_small_groups(spec, _sizes(flags, spec.attributes)):
        warn(warning)
    source = job_flags.records(flags, flags.group_by)
    return release_of(flags, spec, source)


def warnings_of_small_groups(spec: GroupedSpec, sizes: dict[str, list[int]]) -> Iterator[str]:
    """Yields a warning for each group whose list would be mostly noise, by its public size.

    The expected error is that for a Zipf list of as many users, as in ``pipelines.plan``.
    """
    mechanism = _least_noise(spec)
    for attribute in spec.attributes:
        given = sizes.get(attribute.name, [])
        for group, users in zip(attribute.groups or (), given, strict=False):
            reference = zipf_list(users)
            part = 2 * expected_dist(mechanism, reference).dist / reference.total
            if part > LARGE_ERROR:
                error = f"an error of {part:.0%} of them" if part < 1 else "more noise than users"
                yield (
                    f"{attribute.name}={group} has about {users:,} users: expect {error} (L1 "
                    f"distance, if its list is like Zipf's) at epsilon = "
                    f"{mechanism.epsilon_cost:.3g}; raise --epsilon_groups, or leave the group out"
                )


def _least_noise(spec: GroupedSpec) -> PartitionMechanism:
    """Returns the mechanism of each group's list. If a survey chooses kappa, it is the mechanism
    that would have the least noise: kappa 1, at all of the group's epsilon."""
    if isinstance(spec, GroupsSpec):
        return spec.for_group
    return partition_mechanism(spec.of_attribute.epsilon, 1)


def _spec(flags: argparse.Namespace) -> GroupedSpec:
    """Returns the specification of the release that the flags ask for."""
    public = _by_attribute("groups", flags.groups, flags.group_by)
    selected = [name for name in flags.group_by if name not in public]
    given = [name for name in ("epsilon_selection", "delta") if getattr(flags, name) is not None]
    if selected and len(given) < 2:
        raise ValueError(
            f"the groups of {', '.join(selected)} are not public: give their names with --groups, "
            f"or --epsilon_selection and --delta to select them"
        )
    if given and not selected:
        raise ValueError(f"--{given[0]} is to select groups, but all of them are public")
    if selected:
        warn_of_delta(flags.delta)
    options: dict[str, Any] = {
        "attributes": [Attribute(name, public.get(name)) for name in flags.group_by],
        "epsilon_all": flags.epsilon_all,
        "epsilon_groups": flags.epsilon_groups,
        "max_partitions_per_user": flags.max_partitions_per_user,
        "selection": PrivacyBudget(flags.epsilon_selection, flags.delta) if selected else None,
        "mechanism": flags.mechanism,
    }
    if flags.max_partitions_per_user is None or flags.survey_share is not None:
        return GroupAllRecordsSpec(
            **options, survey_share=flags.survey_share, largest_degree=flags.largest_degree
        )
    refuse(flags, "needs a survey, by --survey_share", "largest_degree")
    return GroupsSpec(**options)


def _sizes(flags: argparse.Namespace, attributes: Sequence[Attribute]) -> dict[str, list[int]]:
    """Returns the public sizes of groups, by attribute."""
    sizes = _by_attribute("group_sizes", flags.group_sizes, flags.group_by)
    for attribute in attributes:
        given = sizes.get(attribute.name)
        if given is not None and len(given) != len(attribute.groups or ()):
            raise ValueError(
                f"--group_sizes has {len(given)} sizes for {attribute.name}, but --groups "
                f"{len(attribute.groups or ())} names: give as many"
            )
    return sizes


def _by_attribute(
    flag: str, given: Sequence[tuple[str, list[Any]]], attributes: Sequence[str]
) -> dict[str, Any]:
    """Returns the values of a flag that is given for several attributes, by attribute."""
    names = [name for name, _ in given]
    for name in names:
        if name not in attributes:
            raise ValueError(f"--{flag} is for {name!r}, which is not in --group_by")
        if names.count(name) > 1:
            raise ValueError(f"--{flag} is given twice for {name!r}")
    return dict(given)


def _names_of_attribute(text: str) -> tuple[str, list[str]]:
    """Parses an attribute and the names of its groups.

    >>> _names_of_attribute('age=<20,"20, 30"')
    ('age', ['<20', '20, 30'])
    """
    attribute, equals, names = text.partition("=")
    if not attribute or not equals:
        raise argparse.ArgumentTypeError(f"must be COLUMN=NAME,..., got {text!r}")
    return attribute, flag_values.names(names)


def _sizes_of_attribute(text: str) -> tuple[str, list[int]]:
    attribute, _, sizes = text.partition("=")
    return attribute, [flag_values.positive_integer(size) for size in sizes.split(",")]


if __name__ == "__main__":
    sys.exit(main())
