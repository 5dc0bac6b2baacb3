"""A page about a release: the list, the guarantee, and how far the noise may have moved it.

Everything is computed from the released files alone, so a report costs no privacy. It draws with
matplotlib (extra: report).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dp_transforms.mechanisms import FrequencyList
from dp_transforms.mechanisms.laws.release_law import ExponentialLaw
from dp_transforms.postprocessing import guessing_intervals, guessing_metrics
from dp_transforms.postprocessing.frequency_intervals import distinct_interval
from dp_transforms.postprocessing.guessing_estimates import GuessingEstimates
from dp_transforms.postprocessing.guessing_intervals import Interval, ReleaseError
from dp_transforms.postprocessing.rank_intervals import rank_frequency_band
from pipelines.command_line import SUCCESS, OneLineParser, failed
from pipelines.errors import InputError
from pipelines.files.frequency_files import parse_frequency_list
from pipelines.files.names import (
    CURVE_FILE,
    FREQUENCIES_FILE,
    LISTS_FILE,
    PARTITIONS_FILE,
    PRIVACY_FILE,
    RANKS_FILE,
    REPORT_FILE,
)
from pipelines.files.paths import filesystem, local_path
from pipelines.reports import page
from pipelines.reports.groups import write_groups_report
from pipelines.reports.privacy_statement import law_of_statement, mechanism_of_statement
from pipelines.reports.words import Wording, privacy_words, wording

_GUESSES = (1, 10, 100, 1000)
_ALPHAS = ("0.25", "0.5")
LIKELY = 0.95


def write_report(directory: str, about: str | None = None) -> str:
    """Writes the page and its pictures beside a released frequency list; returns the page's path.

    Args:
      directory: of any filesystem of Beam's, with released_frequencies.csv and privacy.json.
      about: what partitions are, if not what the columns are called: "password" is a word of which
        there are guessing metrics.

    Raises:
      InputError: these cannot be read or are not of this kind, or the report cannot be written.
      ImportError: matplotlib is not installed.
    """
    directory = local_path(directory)
    with page.reading(directory, f"a released frequency list with its {PRIVACY_FILE}"):
        released = parse_frequency_list(page.read_file(directory, FREQUENCIES_FILE))
        statement = page.read_statement(directory, about)
        narrowed = "possible_lists" in statement and statement["mechanism"] == ExponentialLaw.words
        if not narrowed:
            law_of_statement(statement)
    if narrowed:
        raise InputError(
            f"{directory} holds a release narrowed by public knowledge; the error bars of a report "
            f"are for unrestricted ones"
        )
    pictures = _pictures(released, statement) if len(released) else {}
    return page.write(directory, report_page(released, statement, pictures), pictures)


def report_page(
    released: FrequencyList, statement: dict[str, Any], pictures: dict[str, bytes]
) -> str:
    """The whole page, pictures included, as HTML."""
    words = wording(statement)
    content = "<p>The released list is empty: there is nothing to draw.</p>"
    if len(released):
        content = _plots(pictures, words)
    number = ""
    if "degree" not in statement:
        lower, upper = distinct_interval(released, law_of_statement(statement), page.CONFIDENCE)
        number = f"There are between {lower:,} and {upper:,} {words.items} "
        number += f"({page.CONFIDENCE:.0%} confidence)."
    if len(released) and words.guessing:
        content += _metrics(released, statement)
    intro = f"""<p>{released.total:,} {words.total} {released.distinct:,} {words.items}, as
released: the true numbers differ by the noise that makes the list private. It does not say which
{words.items}. {number}</p>
"""
    return page.document(words.title, intro + content, privacy_words(statement), statement)


def _pictures(released: FrequencyList, statement: dict[str, Any]) -> dict[str, bytes]:
    def draw(title: str, x: str, y: str, curve: Callable[[Any], None]) -> bytes:
        drawn, axes = page.new_figure()
        curve(axes)
        axes.set(title=title, xlabel=x, ylabel=y)
        axes.grid(alpha=0.3)
        axes.legend()
        return page.png(drawn)

    words, error = wording(statement), _error(released, statement)
    grid, lower, upper = rank_frequency_band(released, law_of_statement(statement), page.CONFIDENCE)
    ranks = grid.tolist()
    band = f"where the true one is ({page.CONFIDENCE:.0%} confidence)"

    def rank_frequency(axes: Any) -> None:
        frequencies = released.at_ranks(ranks)
        axes.fill_between(ranks, np.maximum(lower, 0.5), upper, alpha=0.25, lw=0, label=band)
        axes.loglog(ranks, frequencies, label="as released")
        axes.set_ylim(bottom=0.5)

    def guessing_curve(axes: Any) -> None:
        bounds = [guessing_intervals.success_rate_interval(released, rank, error) for rank in ranks]
        rates = [guessing_metrics.success_rate(released, rank) for rank in ranks]
        axes.fill_between(ranks, *zip(*bounds, strict=True), alpha=0.25, lw=0, label=band)
        axes.semilogx(ranks, rates, label="as released")
        axes.set_ylim(-0.02, 1.02)
        axes.yaxis.set_major_formatter(lambda rate, _: f"{rate:.0%}")

    pictures = {RANKS_FILE: draw(words.ranks_title, "rank", words.frequency, rank_frequency)}
    if words.guessing:
        pictures[CURVE_FILE] = draw(
            "Guessing curve",
            "most frequent partitions (guesses)",
            "part of all contributions",
            guessing_curve,
        )
    return pictures


def _error(released: FrequencyList, statement: dict[str, Any]) -> ReleaseError:
    return ReleaseError.of_release(released, law_of_statement(statement), page.CONFIDENCE)


def _plots(pictures: dict[str, bytes], words: Wording) -> str:
    captions = {
        RANKS_FILE: f"{words.ranks_caption} The shaded band holds the true numbers; its lower end "
        "is cut off at a half.",
        CURVE_FILE: "The part of all contributions that the most frequent partitions make up: the "
        "accounts that this number of guesses breaks.",
    }
    figures = "\n".join(
        page.figure(pictures[name], caption)
        for name, caption in captions.items()
        if name in pictures
    )
    return f'<h2>The list</h2>\n<div class="plots">\n{figures}\n</div>\n'


def _metrics(released: FrequencyList, statement: dict[str, Any]) -> str:
    error = _error(released, statement)
    mechanism = mechanism_of_statement(statement)
    estimates = None if mechanism is None else GuessingEstimates(released, mechanism)
    rows: list[tuple[str, str, Any]] = [
        (f"Success rate of {n:,} guess{'es' if n > 1 else ''}", "success_rate_bits", n)
        for n in _GUESSES
    ]
    rows += [(f"Guesswork to reach {float(a):.0%}", "alpha_guesswork_bits", a) for a in _ALPHAS]
    cells = []
    for name, metric, of in rows:
        cells.append([name, page.metric_text(metric, of, released, error)])
        if estimates is not None:
            one = getattr(estimates, metric)(of, LIKELY)
            cells[-1].append(page.bits_text(one.value, Interval(one.lower, one.upper)))
    heads: tuple[str, ...] = ("Metric", "As released")
    words = ""
    if estimates is not None:
        heads += ("Without bias",)
        words = f""" Noise makes a list look easier to guess than it is, or harder: on the right
that bias is taken out. The interval there is likely, not proven: it is meant to hold the true value
in {LIKELY:.0%} of releases of lists like those of passwords, and holds it less often for others."""
    return f"""<h2>How hard to guess</h2>
<p>Effective key lengths in bits (Bonneau, IEEE S&amp;P 2012). The interval below each number holds
the value of the true list; all hold together with {page.CONFIDENCE:.0%} confidence, over the noise
alone.{words}</p>
{page.table([heads, *cells], numbers=len(heads) - 1)}"""


def make_parser() -> OneLineParser:
    """The flags of this command."""
    parser = OneLineParser(
        prog="python -m pipelines.report",
        description="Draw a release of frequency lists, with error bars from the release alone: "
        f"{REPORT_FILE} (one self-contained page) and its pictures beside it.",
        formatter_class=argparse.HelpFormatter,
    )
    parser.add_argument(
        "release",
        metavar="DIR",
        help=f"holds {FREQUENCIES_FILE}, or {LISTS_FILE}, and {PRIVACY_FILE}",
    )
    parser.add_argument(
        "--about",
        metavar="WORD",
        help="what partitions are, such as page: the report speaks of guessing if it is password "
        "(default: the columns' names, if privacy.json has them, or else password)",
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    flags = make_parser().parse_args(argv)
    try:
        page.check_available()
        directory = local_path(os.fspath(flags.release))
        files = filesystem(directory)
        if files.exists(files.join(directory, PARTITIONS_FILE)):
            raise InputError(
                f"{directory} holds names of partitions, and a report is about frequency lists: "
                "see select --explain --plot=FILE.png"
            )
        grouped = files.exists(files.join(directory, LISTS_FILE))
        print((write_groups_report if grouped else write_report)(directory, flags.about))
    except ValueError as error:
        return failed(str(error))
    return SUCCESS


if __name__ == "__main__":
    sys.exit(main())
