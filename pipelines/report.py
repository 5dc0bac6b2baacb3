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

from dp_transforms.mechanisms.laws.release_law import ExponentialLaw
from dp_transforms.mechanisms.released_list import ReleasedList
from dp_transforms.postprocessing import guessing_metrics
from dp_transforms.postprocessing.estimates import GRID, Answers, ReleaseIntervals
from dp_transforms.postprocessing.intervals import model_intervals_of
from pipelines.command_line import SUCCESS, OneLineParser, failed
from pipelines.errors import InputError
from pipelines.files.frequency_files import parse_coordinates, parse_frequency_list
from pipelines.files.names import (
    COORDINATES_FILE,
    COORDINATES_HEADER,
    CURVE_FILE,
    FREQUENCIES_FILE,
    LIST_DIRECTORY,
    LISTS_FILE,
    PARTITIONS_DIRECTORY,
    PARTITIONS_FILE,
    PRIVACY_FILE,
    RANKS_FILE,
    REPORT_FILE,
)
from pipelines.files.paths import filesystem, local_path
from pipelines.reports import page
from pipelines.reports.groups import write_groups_report
from pipelines.reports.names import write_names_report
from pipelines.reports.words import Wording, bounded, drops_records, privacy_words, wording

_CONTENT = f"a released frequency list with its {PRIVACY_FILE}"
_GUESSES = (1, 10, 100, 1000)
_ALPHAS = ("0.25", "0.5")
_THRESHOLDS = (1, 10, 100, 1000, 10_000)
_RANKS = (1, 10, 100, 1000)
_HEADS = ("Proved", "By the model")
_ABOUT_MODEL = """ On the right are the shorter intervals of a model of what lists look like: they
hold as far as the model does, and are not proved."""

Kinds = Sequence[Answers]
"""Proved intervals and, where there are noisy coordinates, those of the decoder's model."""


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
    released, statement = read_list(directory, about)
    mechanism = statement.get("mechanism", ExponentialLaw.words)
    if "possible_lists" in statement and mechanism == ExponentialLaw.words:
        raise InputError(
            f"{directory} holds a release narrowed by public knowledge; the error bars of a report "
            f"are for unrestricted ones"
        )
    with page.reading(directory, _CONTENT):
        facts = page.intervals(released, statement)
    html, pictures = page_of(facts, statement)
    return page.write(directory, html, pictures)


def read_list(directory: str, about: str | None = None) -> tuple[ReleasedList, dict[str, Any]]:
    """The list that such a directory holds, with its noisy coordinates, and its privacy.json."""
    with page.reading(directory, _CONTENT):
        found = parse_frequency_list(page.read_file(directory, FREQUENCIES_FILE))
        released = ReleasedList(found.frequencies, found.multiplicities)
        statement = page.read_statement(directory, about)
        if page.is_decoded(statement):
            content = page.read_file(directory, COORDINATES_FILE)
            arms = parse_coordinates(content, COORDINATES_HEADER)[()]
            released = page.with_coordinates(released, statement, arms)
    return released, statement


def page_of(facts: ReleaseIntervals, statement: dict[str, Any]) -> tuple[str, dict[str, bytes]]:
    """The whole page of a list, pictures included, and these by their names."""
    pictures = _pictures(facts, statement) if len(facts.released) else {}
    return report_page(facts, statement, pictures), pictures


def report_page(
    facts: ReleaseIntervals, statement: dict[str, Any], pictures: dict[str, bytes]
) -> str:
    """The whole page, pictures included, as HTML."""
    words, released = wording(statement), facts.released
    content = "<p>The released list is empty: there is nothing to draw.</p>"
    if len(released):
        kinds: list[Answers] = [facts]
        if isinstance(released, ReleasedList) and released.coordinates is not None:
            kinds.append(model_intervals_of(released))
        content = _plots(pictures, words, statement) + _numbers(kinds, words)
        if words.guessing:
            content += _metrics(kinds)
    intro = f"""<p>{released.total:,} {words.total} {released.distinct:,} {words.items}, as
released: the true numbers differ by the noise that makes the list private. It does not say which
{words.items}. {_number(facts, words, statement)}</p>
"""
    title = words.title + bounded(statement)
    return page.document(title, intro + content, privacy_words(statement), statement)


def _number(facts: ReleaseIntervals, words: Wording, statement: dict[str, Any]) -> str:
    if "degree" in statement:
        return ""
    number = facts.number_of_partitions(page.CONFIDENCE)
    if not drops_records(statement):
        return (
            f"There are between {number.low:,} and {number.high:,} {words.items} "
            f"({page.CONFIDENCE:.0%} confidence)."
        )
    return (
        f"There are at least {number.low:,} {words.items}: between {number.low:,} and "
        f"{number.high:,} in this list{bounded(statement)}, chosen at random "
        f"({page.CONFIDENCE:.0%} confidence). Where users have more, the true numbers are larger "
        "than all of this page."
    )


def _pictures(facts: ReleaseIntervals, statement: dict[str, Any]) -> dict[str, bytes]:
    def draw(title: str, x: str, y: str, curve: Callable[[Any], None]) -> bytes:
        drawn, axes = page.new_figure()
        curve(axes)
        axes.set(title=title, xlabel=x, ylabel=y)
        axes.grid(alpha=0.3)
        axes.legend()
        return page.png(drawn)

    words, released = wording(statement), facts.released
    lower, upper = facts.bands(page.CONFIDENCE)
    ranks = GRID[GRID <= max(released.distinct, upper.distinct)]
    band = f"where the true one is ({page.CONFIDENCE:.0%} confidence)"

    def rank_frequency(axes: Any) -> None:
        ends = np.maximum(lower.at_ranks(ranks), 0.5), np.maximum(upper.at_ranks(ranks), 0.5)
        axes.fill_between(ranks, *ends, alpha=0.25, lw=0, label=band)
        shown = ranks[ranks <= released.distinct]
        axes.loglog(shown, released.at_ranks(shown), label="as released")
        axes.set_ylim(bottom=0.5)

    def guessing_curve(axes: Any) -> None:
        bounds = facts.success_rates(ranks.tolist(), page.CONFIDENCE)
        rates = guessing_metrics.sums_to(released, ranks) / released.total
        axes.fill_between(ranks, *bounds, alpha=0.25, lw=0, label=band)
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


def _plots(pictures: dict[str, bytes], words: Wording, statement: dict[str, Any]) -> str:
    about = f"The list is{bounded(statement)[1:]}." if drops_records(statement) else ""
    captions = {
        RANKS_FILE: f"{words.ranks_caption} The shaded band holds the true numbers; its lower end "
        f"is cut off at a half. {about}",
        CURVE_FILE: "The part of all contributions that the most frequent partitions make up: the "
        f"accounts that this number of guesses breaks. {about}",
    }
    figures = "\n".join(
        page.figure(pictures[name], caption.strip())
        for name, caption in captions.items()
        if name in pictures
    )
    return f'<h2>The list</h2>\n<div class="plots">\n{figures}\n</div>\n'


def _numbers(kinds: Kinds, words: Wording) -> str:
    """A table of what users of a list ask first."""
    facts, level = kinds[0], page.CONFIDENCE
    asked: list[tuple[str, str, tuple[int, ...]]]
    asked = [(f"All {words.total} {words.items}", "total", ())]
    asked += [
        (f"{words.items} with at least {n:,}".capitalize(), "partitions_with_at_least", (n,))
        for n in _THRESHOLDS
        if facts.partitions_with_at_least(n, level).high
    ]
    ranks = [n for n in _RANKS if facts.frequency_at(n, level).high]
    asked += [(f"Rank {n:,}", "frequency_at", (n,)) for n in ranks]
    asked += [(f"Part of the first {n:,}", "share_of_top", (n,)) for n in ranks[1:]]
    rows = []
    for name, ask, of in asked:
        text = page.share_text if ask == "share_of_top" else page.count_text
        rows.append((name, *(text(getattr(one, ask)(*of, level)) for one in kinds)))
    return f"""<h2>Numbers</h2>
<p>The interval below each number holds that of the true list with {level:.0%} confidence, over the
noise alone, each by itself.{_ABOUT_MODEL * (len(kinds) - 1)}</p>
{page.table([("", *_HEADS[: len(kinds)]), *rows], numbers=len(kinds))}"""


def _metrics(kinds: Kinds) -> str:
    asked: list[tuple[str, str, Any]] = [
        (f"Success rate of {n:,} guess{'es' if n > 1 else ''}", "success_rate_bits", n)
        for n in _GUESSES
    ]
    asked += [(f"Guesswork to reach {float(a):.0%}", "alpha_guesswork_bits", a) for a in _ALPHAS]
    rows = [
        (name, *(page.bits_text(getattr(one, ask)(of, page.CONFIDENCE)) for one in kinds))
        for name, ask, of in asked
    ]
    return f"""<h2>How hard to guess</h2>
<p>Effective key lengths in bits (Bonneau, IEEE S&amp;P 2012). The interval below each number holds
the value of the true list with {page.CONFIDENCE:.0%} confidence, over the noise
alone.{_ABOUT_MODEL * (len(kinds) - 1)}</p>
{page.table([("Metric", *_HEADS[: len(kinds)]), *rows], numbers=len(kinds))}"""


def _writer(directory: str) -> Callable[[str, str | None], str]:
    """Returns the function that writes the page of a directory's release."""
    files = filesystem(directory)
    if files.exists(files.join(directory, PARTITIONS_FILE)):
        return write_names_report
    if files.exists(files.join(directory, LISTS_FILE)):
        return write_groups_report
    return write_report


def make_parser() -> OneLineParser:
    """The flags of this command."""
    parser = OneLineParser(
        prog="python -m pipelines.report",
        description="Draw a release of frequency lists or names, with error bars from the release "
        f"alone: {REPORT_FILE} (one self-contained page) and its pictures beside it.",
        formatter_class=argparse.HelpFormatter,
    )
    parser.add_argument(
        "release",
        metavar="DIR",
        help=f"holds {FREQUENCIES_FILE}, {LISTS_FILE} or {PARTITIONS_FILE} and {PRIVACY_FILE}, "
        "or the directories that release-all writes",
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
        # Those of release_all are in directories of their own.
        inner = [files.join(directory, name) for name in (LIST_DIRECTORY, PARTITIONS_DIRECTORY)]
        both = all(files.exists(files.join(one, PRIVACY_FILE)) for one in inner)
        for one in inner if both else [directory]:
            print(_writer(one)(one, flags.about))
    except ValueError as error:
        return failed(str(error))
    return SUCCESS


if __name__ == "__main__":
    sys.exit(main())
