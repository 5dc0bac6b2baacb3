"""Compares a release with the list that it was made from: distance, and guessing metrics.

What it prints depends on the private list, so it is PRIVATE too: for those who may see the data,
or for public lists.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from dp_transforms.mechanisms import FrequencyList
from dp_transforms.postprocessing import guessing_metrics
from pipelines.command_line import SUCCESS, OneLineParser, failed
from pipelines.files.frequency_files import read_frequency_list
from pipelines.reports.text_table import text_table

_EPILOG = """\
Both files have the header frequency,multiplicity. What is printed is PRIVATE: not part of the
release. The metrics are those of Table III of Blocki, Datta and Bonneau (NDSS 2016), in bits.

example:
  python -m pipelines.evaluate --original=counts.csv --released=release/released_frequencies.csv
"""


def make_parser() -> OneLineParser:
    """The flags of this command."""
    parser = OneLineParser(
        prog="python -m pipelines.evaluate",
        description="Compare a released frequency list with the one it was made from (PRIVATE).",
        epilog=_EPILOG,
    )
    parser.add_argument(
        "--original", metavar="FILE.csv", required=True, help="what was released; PRIVATE"
    )
    parser.add_argument("--released", metavar="FILE.csv", required=True, help="the release of it")
    return parser


def comparison(original: FrequencyList, released: FrequencyList) -> str:
    """A table with both lists' sizes and guessing metrics, and their distance.

    Raises:
      ValueError: a list is empty.

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
    rows = [["", "original", "released", "difference"]]
    for name, size in (("contributions", "total"), ("partitions", "distinct")):
        one, other = getattr(original, size), getattr(released, size)
        rows.append([name, f"{one:,}", f"{other:,}", f"{other - one:,}"])
    for guesses in (1, 10, 100):
        rows.append(
            _bits(
                f"lambda_{guesses}",
                *(guessing_metrics.success_rate_bits(f, guesses) for f in (original, released)),
            )
        )
    for alpha in ("0.25", "0.5"):
        rows.append(
            _bits(
                f"G_{alpha}",
                *(guessing_metrics.alpha_guesswork_bits(f, alpha) for f in (original, released)),
            )
        )
    distance = original.l1_distance(released) / 2
    return f"{text_table(rows, words=1)}\ndist (half the L1 distance): {distance:,.12g}"


def main(argv: Sequence[str] | None = None) -> int:
    flags = make_parser().parse_args(argv)
    try:
        print(comparison(*map(read_frequency_list, (flags.original, flags.released))))
    except ValueError as error:
        return failed(str(error))
    return SUCCESS


def _bits(name: str, one: float, other: float) -> list[str]:
    return [name, f"{one:.2f}", f"{other:.2f}", f"{other - one:.2f}"]


if __name__ == "__main__":
    sys.exit(main())
