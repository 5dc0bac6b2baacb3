"""The command evaluate: compares a release with the list without noise. Its output is PRIVATE."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from dp_transforms.errors import InputError
from dp_transforms.files.release_files import read_frequency_list
from dp_transforms.mechanisms import FrequencyList
from dp_transforms.postprocessing import guessing_metrics
from dp_transforms.postprocessing.text_table import text_table
from pipelines.command_line import OneLineParser, add_json_flag, command

_EPILOG = """\
Both files have the header frequency,multiplicity. The output is PRIVATE, and not part of the
release. lambda and G are the metrics of Blocki, Datta and Bonneau (NDSS 2016, Table III), in bits.

example:
  python -m pipelines.evaluate --original=counts.csv --released=release/released_frequencies.csv
"""


def make_parser() -> OneLineParser:
    parser = OneLineParser(
        prog="python -m pipelines.evaluate",
        description="Compare a released frequency list with the one it was made from (PRIVATE).",
        epilog=_EPILOG,
    )
    parser.add_argument(
        "--original", metavar="FILE.csv", required=True, help="the list without noise; PRIVATE"
    )
    parser.add_argument("--released", metavar="FILE.csv", required=True, help="the released list")
    add_json_flag(parser)
    return parser


def measured(original: FrequencyList, released: FrequencyList) -> dict[str, Any]:
    """Returns {name: [number of the original, number of the release]}, and the distance of both as
    "dist". Raises a ValueError for an empty list."""
    lists = (original, released)
    return {
        "contributions": [frequency_list.total for frequency_list in lists],
        "partitions": [frequency_list.distinct for frequency_list in lists],
        **{
            f"lambda_{guesses}": [
                guessing_metrics.success_rate_bits(frequency_list, guesses)
                for frequency_list in lists
            ]
            for guesses in (1, 10, 100)
        },
        **{
            f"G_{alpha}": [
                guessing_metrics.alpha_guesswork_bits(frequency_list, alpha)
                for frequency_list in lists
            ]
            for alpha in ("0.25", "0.5")
        },
        "dist": original.l1_distance(released) / 2,
    }


def comparison(original: FrequencyList, released: FrequencyList) -> str:
    """Returns the numbers of ``measured`` as a table.

    >>> print(comparison(FrequencyList([8, 1], [1, 8]), FrequencyList([7, 1], [1, 9])))
                   original  released  difference
    contributions        16        16           0
    partitions            9        10           1
    lambda_1           1.00      1.19        0.19
    lambda_10          3.32      3.32        0.00
    lambda_100         6.64      6.64        0.00
    G_0.25             1.00      1.19        0.19
    G_0.5              1.00      1.81        0.81
    dist (half the L1 distance): 1
    """
    values = measured(original, released)
    distance = values.pop("dist")
    rows = [["", "original", "released", "difference"]]
    for name, (private, released) in values.items():
        numbers = (private, released, released - private)
        form = ",d" if isinstance(private, int) else ".2f"
        rows.append([name, *(format(number, form) for number in numbers)])
    return f"{text_table(rows, words=1)}\ndist (half the L1 distance): {distance:,.12g}"


@command(make_parser)
def main(flags: argparse.Namespace) -> None:
    lists = map(read_frequency_list, (flags.original, flags.released))
    try:
        print(json.dumps(measured(*lists), indent=2) if flags.json else comparison(*lists))
    except ValueError as error:  # a list is empty
        raise InputError(str(error)) from None


if __name__ == "__main__":
    sys.exit(main())
