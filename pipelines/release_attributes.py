"""The command release-attributes: releases the list of each attribute of users, without its values.

``dp_transforms.releases.attributes`` has the definition and the privacy argument.
"""

from __future__ import annotations

import argparse
import sys

from dp_transforms.files.filenames import ATTRIBUTES_FILE
from dp_transforms.mechanisms.decimals import ExactNumber
from dp_transforms.releases import AttributesSpec
from pipelines import flag_values, job_flags
from pipelines.command_line import JobParser, require
from pipelines.release_job import PreparedRelease, release_command, release_of

_EPILOG = f"""\
The output directory receives {ATTRIBUTES_FILE} (attribute,frequency,multiplicity: of this
attribute, multiplicity values have frequency users each) and privacy.json (the guarantee). An empty
list has one row, with 0,0. The command show ranks attributes by how identifying they are.

A null or an empty text is no value, and users without a value of an attribute are not in its list.
Of several values of a user one counts, chosen at random. A combination has a value where all of its
columns have one.

example:
  python -m pipelines.release_attributes --input='browsers/*.csv' --user_column=id
      --attributes=os,fonts,canvas --combination=os,fonts --share=os,fonts=2 --epsilon=1
      --output=release
"""


def make_parser() -> JobParser:
    parser = JobParser(
        "pipelines.release_attributes",
        "Release how many users the values of each attribute have, under one budget of\n"
        "differential privacy for adding or removing all records of one user.",
        _EPILOG,
    )
    users = "the column of users: its name, or its position from 1 with --no_header"
    job_flags.add_input_flags(parser, {"user_column": users})
    attributes = parser.add_argument_group("attributes")
    attributes.add_argument(
        "--attributes",
        type=flag_values.names,
        default=[],
        metavar="COLUMN,...",
        help="the columns that get a list each, of text, integers, booleans or dates",
    )
    attributes.add_argument(
        "--combination",
        type=flag_values.names,
        action="append",
        default=[],
        metavar="COLUMN,COLUMN,...",
        help="columns whose combinations get one list more; repeat the flag for each",
    )
    attributes.add_argument(
        "--share",
        type=_share,
        action="append",
        default=[],
        metavar="COLUMN[,COLUMN...]=WEIGHT",
        help="the share of epsilon of an attribute, relative to the others, which have 1; repeat "
        "the flag for each. Public: choose it without looking at the records",
    )
    job_flags.add_release_flags(
        parser, cost="what all lists together cost; smaller is more private"
    )
    parser.add_common_flags()
    return parser


@release_command(make_parser)
def main(flags: argparse.Namespace) -> PreparedRelease:
    require(flags, "input", "user_column", "epsilon", "output")
    if not flags.attributes and not flags.combination:
        raise ValueError("--attributes, or --combination, is missing: name columns to release")
    for columns in flags.combination:
        if len(columns) < 2:
            raise ValueError(f"--combination={columns[0]} is one column: give it to --attributes")
    shares = dict(flags.share)
    if len(shares) < len(flags.share):
        raise ValueError("--share is given twice for an attribute")
    spec = AttributesSpec(
        attributes=[*flags.attributes, *map(tuple, flags.combination)],
        epsilon=flags.epsilon,
        shares=shares or None,
        mechanism=flags.mechanism,
    )
    flags.partition_column = []
    source = job_flags.records(flags, spec.columns)
    return release_of(flags, spec, source)


def _share(text: str) -> tuple[str | tuple[str, ...], ExactNumber]:
    """Parses the column or columns of an attribute, and its share.

    >>> _share("os,fonts=2") == (("os", "fonts"), 2)
    True
    """
    columns, equals, weight = text.rpartition("=")
    if not equals or not columns:
        raise argparse.ArgumentTypeError(f"must be COLUMN[,COLUMN...]=WEIGHT, got {text!r}")
    names = flag_values.names(columns)
    return names[0] if len(names) == 1 else tuple(names), flag_values.positive_number(weight)


if __name__ == "__main__":
    sys.exit(main())
