"""The command show: prints a release's first rows, numbers with intervals, and guarantee."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping
from typing import Any

from dp_transforms.files.filenames import PRIVACY_FILE
from dp_transforms.files.release_files import as_malformed
from dp_transforms.postprocessing.estimates import Estimate
from dp_transforms.postprocessing.text_table import text_table
from dp_transforms.releases import Releases
from dp_transforms.releases.attributes import AttributeReleases
from dp_transforms.releases.frequency_list import ListRelease
from pipelines.command_line import OneLineParser, add_json_flag, command
from pipelines.report import add_degrees_flag, kept, releases_in


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
    add_json_flag(
        parser,
        "print the whole table, the numbers of every list and the guarantee as one JSON object, or "
        "as an array of two for a list and names",
    )
    return parser


def as_json(directory: str, release: Any) -> dict[str, Any]:
    """Returns the content of a directory's release as values of JSON, as the documentation says
    (docs/how-to-read-a-release.md). Raises an InputError if the release cannot be shown."""
    with as_malformed(directory, f"a release with its {PRIVACY_FILE}"):
        shown_values: dict[str, Any] = {"directory": directory, "table": _json_rows(release)}
        if isinstance(release, ListRelease):
            numbers = None if release.why_without_intervals else release.numbers()
            shown_values["numbers"] = _json_numbers(numbers)
        if isinstance(release, Releases) and release.are_lists:
            shown_values["lists"] = [
                {"list": names, "numbers": _json_numbers(numbers)}
                for names, numbers in release.numbers_of_each()
            ]
        about = {"statement": dict(release.statement), "privacy": release.privacy}
        return shown_values | about


def _json_numbers(numbers: Mapping[str, Estimate] | None) -> dict[str, Any] | None:
    """Returns the numbers of a list with their intervals. An end that is not known is None, and so
    are all numbers of a list without intervals."""
    if numbers is None:
        return None
    return {
        name: {
            "value": estimate.value,
            "low": estimate.low,
            "high": None if math.isinf(estimate.high) else estimate.high,
            "confidence": estimate.confidence,
        }
        for name, estimate in numbers.items()
    }


def _json_rows(release: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = release.to_arrow().to_pylist()
    return [
        {
            name: value.decode(errors="backslashreplace") if isinstance(value, bytes) else value
            for name, value in row.items()
        }
        for row in rows
    ]


def text_of(directory: str, release: Any) -> str:
    """Returns what is printed about the release of a directory: its table, its numbers with their
    intervals, and its guarantee. Raises an InputError if the files are damaged."""
    with as_malformed(directory, f"a release with its {PRIVACY_FILE}"):
        parts = [repr(release)]
        if isinstance(release, ListRelease):
            if release.why_without_intervals:
                parts.append(f"There are no intervals: {release.why_without_intervals}.")
            else:
                rows = [[name, str(estimate)] for name, estimate in release.numbers().items()]
                parts.append(text_table(rows, words=2))
        if isinstance(release, AttributeReleases):
            for label, numbers in release.ranking():
                rows = [[name, str(number)] for name, number in numbers.items()]
                parts.append(f"{label}\n{text_table(rows, words=2)}")
        return "\n\n".join([*parts, release.privacy])


@command(make_parser)
def main(flags: argparse.Namespace) -> None:
    releases = releases_in(flags.release, flags.degrees)
    if flags.json:
        values = [as_json(directory, release) for directory, release in releases]
        if flags.degrees is not None:
            for value in values:
                sentence = kept(value["directory"], flags.degrees)
                if sentence is not None:
                    value["kept"] = sentence
        content = values if len(values) > 1 else values[0]
        print(json.dumps(content, indent=2, ensure_ascii=False))
        return
    for directory, release in releases:
        head = f"{directory}\n\n" if len(releases) > 1 else ""
        sentence = None if flags.degrees is None else kept(directory, flags.degrees)
        end = "" if sentence is None else f"\n\n{sentence}"
        print(f"{head}{text_of(directory, release)}{end}")


if __name__ == "__main__":
    sys.exit(main())
