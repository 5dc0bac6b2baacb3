"""The command report: draws a page about a release, with its numbers, guarantee and error bars.

Everything is computed from the released files, so a report costs no privacy. It needs the extra
report.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from typing import Any

from dp_transforms.files.filenames import COMPARISON_FILE, PRIVACY_FILE, REPORT_FILE
from dp_transforms.files.paths import local_path
from dp_transforms.files.release_files import (
    SavedRelease,
    as_malformed,
    write_files,
)
from dp_transforms.postprocessing.kappa_choice import kept_words
from dp_transforms.releases import NamesRelease
from dp_transforms.releases.comparison import compare
from dp_transforms.releases.directory import load, release_directories
from dp_transforms.releases.user_degrees import read_degrees
from dp_transforms.reports import page
from dp_transforms.reports.entries import CHOSEN_BY_LOOK, ENFORCED, ENFORCED_IN_ROUNDS
from dp_transforms.reports.phrases import NO_WORDS, Words
from pipelines.command_line import OneLineParser, command

_CONTENT = f"a release with its {PRIVACY_FILE}"


def releases_in(path: str, degrees: str | None = None) -> list[tuple[str, Any]]:
    """Returns the releases in a directory, each with its own directory.

    There is one release, or there are two that agree with each other: a list and names. Given the
    directory ``degrees`` of a choose-kappa release, names are about all records.
    """
    directories = release_directories(path)
    if len(directories) == 1:
        release = load(path)
        if degrees is not None and isinstance(release, NamesRelease):
            release = release.with_degrees(read_degrees(degrees))
        return [(directories[0], release)]
    both = load(path)
    if degrees is not None:
        frequency_list = both.names.frequency_list
        names = both.names.beside(frequency_list, read_degrees(degrees), of_one_job=True)
        both = both._replace(names=names)
    return list(zip(directories, both, strict=True))


def write_report(directory: str, words: Words = NO_WORDS, release: Any = None) -> str:
    """Writes a page about a release, and its pictures, into a directory; returns the page's path.

    Args:
      directory: where the release is.
      words: the words of the page.
      release: the release; by default it is read from the directory.

    Raises:
      InputError: the release cannot be read, or the directory cannot be written.
      ImportError: matplotlib is missing.
    """
    with as_malformed(directory, _CONTENT):
        made = load(directory) if release is None else release
        text, pictures = made.page(words)
    return write_files(local_path(directory), {**pictures, REPORT_FILE: text.encode()})


def write_comparison(first: str, second: str, words: Words = NO_WORDS) -> str:
    """Writes a page that compares two lists into the directory of the second, and returns its path.

    Raises:
      ValueError: the releases are not two lists.
      InputError, ImportError: see ``write_report``.
    """
    short = [os.path.basename(path.rstrip("/")) for path in (first, second)]
    labels = (first, second) if short[0] == short[1] else (short[0], short[1])
    comparison = compare(load(first), load(second), labels=labels)
    with as_malformed(f"one of {first} and {second}", _CONTENT):
        text, pictures = comparison.page(words)
    return write_files(local_path(second), {**pictures, COMPARISON_FILE: text.encode()})


def add_degrees_flag(parser: OneLineParser) -> None:
    """Adds the flag --degrees, for ``kept``."""
    parser.add_argument(
        "--degrees",
        metavar="DIR",
        help="the directory of a choose-kappa release of the same records: adds a sentence on the "
        "part of them that KAPPA has kept; users of names become estimates about all records",
    )


def kept(directory: str, degrees: str) -> str | None:
    """Returns a sentence on the part of the records that the bound of a release has kept. It is
    None for names that were selected in rounds: users were bounded in each round anew, and the
    degrees lead to estimates of the users of names.

    Raises:
      ValueError: the job of the release did not bound users, or bounded them for periods.
      InputError: the directory has no release.
    """
    with as_malformed(directory, _CONTENT):
        statement = SavedRelease(directory).statement
    bound_is = statement.get("max_partitions_per_user_is")
    if "periods" in statement or bound_is not in (ENFORCED, ENFORCED_IN_ROUNDS, CHOSEN_BY_LOOK):
        raise ValueError(f"--degrees is for a job that bounds users once: {directory} is of none")
    if bound_is != ENFORCED:
        return None
    return kept_words(read_degrees(degrees), statement["max_partitions_per_user"])


def make_parser() -> OneLineParser:
    parser = OneLineParser(
        prog="python -m pipelines.report",
        usage="%(prog)s DIR [DIR] ...",
        description="Draw a release of lists or names, with error bars from the release alone: "
        f"writes {REPORT_FILE} (one self-contained page) and pictures into its directory. Two "
        f"lists are compared, in {COMPARISON_FILE} in the second directory.",
        formatter_class=argparse.HelpFormatter,
    )
    parser.add_argument(
        "releases",
        metavar="DIR",
        nargs="+",
        help="the directory of a release, or of a release for each period; two lists to compare",
    )
    parser.add_argument("--title", metavar="WORDS", help="title of the page")
    parser.add_argument("--data_name", metavar="WORDS", help="a name for the data")
    parser.add_argument(
        "--about",
        metavar="WORD",
        help="a word for partitions, such as pages; for passwords the report has numbers on "
        "guessing (default: by the columns' names)",
    )
    parser.add_argument(
        "--users", metavar="WORD", default="users", help="a word for users, such as accounts"
    )
    add_degrees_flag(parser)
    return parser


@command(make_parser)
def main(flags: argparse.Namespace) -> None:
    words = Words(flags.about, flags.users, flags.title, flags.data_name)
    page.check_available()
    if len(flags.releases) > 2:
        raise ValueError("give one directory, or two to compare")
    if flags.degrees is not None:
        for directory in itertools.chain(*map(release_directories, flags.releases)):
            sentence = kept(directory, flags.degrees)
            if sentence is not None:
                print(f"{directory}: {sentence}")
    if len(flags.releases) == 2:
        first, second = flags.releases
        print(write_comparison(first, second, words))
        return
    for directory, release in releases_in(flags.releases[0], flags.degrees):
        print(write_report(directory, words, release))


if __name__ == "__main__":
    sys.exit(main())
