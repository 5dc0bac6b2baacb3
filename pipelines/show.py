"""Prints a release: its first rows, its numbers with intervals, and its guarantee."""

from __future__ import annotations

import argparse
import sys

from dp_transforms.files.filenames import PRIVACY_FILE
from dp_transforms.files.release_files import as_malformed
from dp_transforms.releases.directory import load, release_directories
from dp_transforms.releases.frequency_list import ListRelease
from dp_transforms.reports.page import text_table
from pipelines.command_line import OneLineParser, command
from pipelines.report import add_degrees_flag, kept


def make_parser() -> OneLineParser:
    parser = OneLineParser(
        prog="python -m pipelines.show",
        description="Print a release: its first rows, its numbers with intervals, and its "
        "guarantee. The output is public.",
    )
    parser.add_argument(
        "release", metavar="DIR", help="directory of a release, or of one for each period"
    )
    add_degrees_flag(parser)
    return parser


def shown(directory: str) -> str:
    """Returns the text about a directory's release; a ValueError if it holds none."""
    with as_malformed(directory, f"a release with its {PRIVACY_FILE}"):
        release = load(directory)
        parts = [repr(release)]
        if isinstance(release, ListRelease):
            rows = [[name, str(estimate)] for name, estimate in release.numbers().items()]
            parts.append(text_table(rows, words=2))
        return "\n\n".join([*parts, release.privacy])


@command(make_parser)
def main(flags: argparse.Namespace) -> None:
    directories = release_directories(flags.release)
    for directory in directories:
        head = f"{directory}\n\n" if len(directories) > 1 else ""
        end = f"\n\n{kept(directory, flags.degrees)}" if flags.degrees is not None else ""
        print(f"{head}{shown(directory)}{end}")


if __name__ == "__main__":
    sys.exit(main())
