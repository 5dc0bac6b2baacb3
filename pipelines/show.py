"""Prints what a release says: its first rows, its numbers with intervals, and its guarantee."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from dp_transforms.frames.answers import ListRelease, load
from pipelines.command_line import SUCCESS, OneLineParser, failed
from pipelines.reports.text_table import text_table


def make_parser() -> OneLineParser:
    """The flags of this command."""
    parser = OneLineParser(
        prog="python -m pipelines.show",
        description="Print what a release says: its first rows, its numbers with intervals, and "
        "its guarantee. What is printed is public.",
    )
    parser.add_argument("release", metavar="DIR", help="where a job has written a list, or names")
    return parser


def shown(directory: str) -> str:
    """The text about a directory's release.

    Raises:
      ValueError: there is none, or it cannot be read.
    """
    release = load(directory)
    parts = [repr(release)]
    if isinstance(release, ListRelease) and len(release.released):
        rows = [[name, str(one)] for name, one in release.numbers().items()]
        parts.append(text_table(rows, words=2))
    return "\n\n".join([*parts, release.privacy])


def main(argv: Sequence[str] | None = None) -> int:
    flags = make_parser().parse_args(argv)
    try:
        print(shown(flags.release))
    except ValueError as error:
        return failed(str(error))
    return SUCCESS


if __name__ == "__main__":
    sys.exit(main())
