"""Makes tables, pictures and pages of released lists, and of two lists side by side."""

from __future__ import annotations

import contextlib
import html
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dp_transforms.errors import InputError
from dp_transforms.files.filenames import COMPARISON_PICTURE, CURVE_FILE, RANKS_FILE
from dp_transforms.mechanisms.arrays import IntArray
from dp_transforms.mechanisms.frequency_list import FrequencyList, ReleasedList
from dp_transforms.postprocessing import guessing_metrics
from dp_transforms.postprocessing.estimates import (
    CONFIDENCE,
    GRID,
    Answers,
    Estimate,
    ReleaseIntervals,
)
from dp_transforms.postprocessing.intervals import intervals_of
from dp_transforms.reports import page
from dp_transforms.reports.entries import SURVEY
from dp_transforms.reports.phrases import NO_WORDS, Wording, Words, of_all_records, some, wording

if TYPE_CHECKING:
    import pyarrow as pa

    from dp_transforms.releases.all_records import AllRecordsRelease
    from dp_transforms.releases.comparison import Comparison
    from dp_transforms.releases.frequency_list import ListRelease

_Bands = tuple[FrequencyList, FrequencyList]
_GUESSES = (1, 10, 100, 1000)
_ALPHAS = ("0.25", "0.5")
_TOP = 10
_HEADS = ("Proved", "By the model")
_ABOUT_MODEL = (
    " On the right are shorter intervals, which are not proved: they are as good as a model of "
    "lists."
)


def list_page(release: ListRelease, words: Words) -> page.Page:
    """Makes the page of a list. Raises an InputError if the list has no error bars."""
    try:
        number = release.number_of_partitions()
    except ValueError as error:
        raise InputError(f"a report needs error bars, and this release has none: {error}") from None
    terms, released = wording(dict(release.statement), words), release.released
    pictures = {}
    content = "<p>The released list is empty: there is nothing to draw.</p>"
    if len(released):
        pictures = {name: page.png(figure) for name, figure in _figures(release, terms).items()}
        content = _plots(pictures, terms) + _numbers(release, terms) + _top(release, terms)
        if terms.guessing:
            content += _metrics(release, terms)
    limits = terms.limits("It is")
    intro = f"""As released, {terms.total} {terms.things} add up to {released.total:,}, over
{some(released.distinct, terms.thing, terms.things)}. The numbers before noise differ by the
noise that makes the list private. The release does not say which {terms.things}. Before noise it
has between {number.low:,} and {number.high:,} of them ({CONFIDENCE:.0%} confidence).{limits}"""
    paragraphs = [intro]
    if release.contradiction:
        paragraphs.append(release.contradiction)
    content = "\n".join([*(f"<p>{html.escape(text)}</p>" for text in paragraphs), content])
    title = terms.title + terms.bound
    return page.document(title, words, content, {"": release}), pictures


def all_records_page(release: AllRecordsRelease, words: Words) -> page.Page:
    """Makes the page of a list with a survey: all records first, then those that bounding kept."""
    terms = wording(dict(release.statement), words)
    pictures = {}
    content = "<p>The released list is empty: there is nothing to draw.</p>"
    if len(release.released):
        figure = plot_list(release.released, None, CONFIDENCE, release.intervals, terms.users)
        pictures[RANKS_FILE] = page.png(figure)
        caption = (
            f"{terms.ranks_caption} The line is the estimate of all records; the shaded band holds "
            "their true numbers, and its lower end is cut off at a half."
        )
        content = f"<h2>All records</h2>\n{page.figure(pictures[RANKS_FILE], caption)}"
        content += _numbers(release, terms) + _top(release, terms)
        rows = [("", "Kept"), *_rows_of_numbers(release.bounded, terms)]
        about = f"The same numbers of the records that bounding kept{terms.bound}."
        content += page.section("What bounding kept", about, rows)
    kept = page.share_text(release.kept_share())
    of_which = of_all_records(release.statement, terms.nouns)
    intro = f"""{terms.total.capitalize()} {terms.things}: these are estimates of all
records{of_which}. They follow from a list of the records that bounding kept{terms.bound}, and
from a survey of how many {terms.things} {terms.users} have. By a model, the survey says that this
is about {kept} of all pairs{of_which}. The intervals hold for all of these records, over the noise
of both releases. The release does not say which {terms.things}."""
    content = f"<p>{html.escape(intro)}</p>\n{content}"
    return page.document(terms.title, words, content, {"": release}), pictures


def _rows_of_numbers(release: ListRelease, terms: Wording) -> list[tuple[str, str]]:
    """Returns the name and the text of each of the main numbers of a list."""
    numbers = release.numbers(things=terms.things, users=terms.users)
    return [(name[:1].upper() + name[1:], _text(answer)) for name, answer in numbers.items()]


def comparison_page(comparison: Comparison, words: Words) -> page.Page:
    """Makes the page of two lists side by side."""
    terms_of_both = [wording(dict(each.statement), words) for each in comparison.lists]
    pictures = {COMPARISON_PICTURE: page.png(comparison_figure(comparison, words))}
    sentences, which = _compared_records(comparison, terms_of_both)
    answers = (comparison.first, comparison.second, comparison.differences)
    rows = [
        (_named(question, terms_of_both[0]), *map(_text, answered))
        for question, *answered in zip(comparison.questions, *answers, strict=True)
    ]
    confidence = comparison.differences[0].confidence
    intro = f"Two released lists: {' and '.join(comparison.labels)}.{sentences}"
    caption = (
        f"Both lists by rank. The shaded bands hold the {which}, each with {CONFIDENCE:.0%} "
        "confidence."
    )
    about = (
        "The difference is the second number minus the first. The interval below it contains the "
        f"difference of the {which} with {confidence:.0%} confidence, over the noise of both "
        f"lists. Each interval holds by itself. If it does not contain 0, the {which} differ. "
        f"The intervals below the two numbers hold with {comparison.first[0].confidence:.1%}, so "
        "that both of them hold with the confidence of the difference."
    )
    different_records = comparison.different_records_with(terms_of_both[0].nouns)
    if different_records:
        about += f" {different_records}."
    picture = page.figure(pictures[COMPARISON_PICTURE], caption)
    heads = ("", *comparison.labels, "Difference")
    content = f"<p>{html.escape(intro)}</p>\n{picture}\n"
    content += page.section("Numbers and differences", about, [heads, *rows])
    title = f"{terms_of_both[0].title}s, two compared".replace("A differentially", "Differentially")
    named = (f": {label}" for label in comparison.labels)
    releases = dict(zip(named, comparison.lists, strict=True))
    return page.document(title, words, content, releases), pictures


def _compared_records(comparison: Comparison, terms_of_both: Sequence[Wording]) -> tuple[str, str]:
    """Returns sentences on the records that two lists are about, each after a space, and the words
    for the numbers whose differences are shown."""
    abouts, bounds, estimates_of = "", "", []
    for release, label, terms in zip(
        comparison.lists, comparison.labels, terms_of_both, strict=True
    ):
        if SURVEY in release.statement:
            of_all = f"all records{of_all_records(release.statement, terms.nouns)}"
            estimates_of.append(of_all)
            abouts += (
                f" The list {label} is an estimate of {of_all}, from those that bounding kept and "
                "a survey."
            )
        else:
            abouts += (
                f" The numbers of {label} are those of its records, with the noise that makes them "
                "private."
            )
            bounds += terms.limits(f"The list {label} is")
    # If numbers of bounded records differ, those of all records may still be equal.
    which = "numbers before noise"
    if len(estimates_of) == 2 and len(set(estimates_of)) == 1:
        which = f"numbers of {estimates_of[0]}"
    elif estimates_of:
        which = "numbers that each list is about"
    elif bounds:
        which = "numbers of bounded records before noise"
    return abouts + bounds, which


def _figures(release: ListRelease, terms: Wording) -> dict[str, Any]:
    """Draws the figures of a list, by the names of their files."""
    released, bands = release.released, _bands(release)
    band = f"where the one before noise is ({CONFIDENCE:.0%} confidence)"

    def by_rank(axes: Any) -> None:
        _draw_ranks(axes, released, bands, "as released", band)

    def guessing_curve(axes: Any) -> None:
        ranks = _ranks(released, bands)
        bounds = release.intervals.success_rates(ranks.tolist(), CONFIDENCE)
        sums = guessing_metrics.rank_sums(released)
        rates = [sums.sum_to(rank) / sums.total for rank in ranks.tolist()]
        axes.fill_between(ranks, *bounds, alpha=0.25, lw=0, label=band)
        axes.semilogx(ranks, rates, _marker(len(ranks)), label="as released")
        axes.set_ylim(-0.02, 1.02)
        axes.yaxis.set_major_formatter(lambda rate, _: f"{rate:.0%}")

    figures = {RANKS_FILE: page.curves(terms.ranks_title, "rank", terms.users, by_rank)}
    if terms.guessing:
        x, y = f"most frequent {terms.things} (guesses)", "part of all contributions"
        figures[CURVE_FILE] = page.curves("Guessing curve", x, y, guessing_curve)
    return figures


def comparison_figure(comparison: Comparison, words: Words = NO_WORDS) -> Any:
    """Draws both lists of a comparison by rank, with their error bars."""
    terms = wording(dict(comparison.lists[0].statement), words)

    def draw(axes: Any) -> None:
        for release, label in zip(comparison.lists, comparison.labels, strict=True):
            _draw_ranks(axes, release.released, _bands(release), label)

    return page.curves(terms.ranks_title, "rank", terms.users, draw)


def plot_list(
    released: ReleasedList,
    path: str | os.PathLike[str] | None = None,
    confidence: float = 0.99,
    intervals: ReleaseIntervals | None = None,
    users: str = "users",
) -> Any:
    """Draws the frequency of each rank, on logarithmic axes, and returns the ``matplotlib`` figure.
    There are proved error bars if the list has intervals (see ``intervals_of``).

    Args:
      released: what a mechanism returned.
      path: where an image is written, if it is given.
      confidence: of all error bars together, for every private list.
      intervals: the source of the error bars; by default the list's own.
      users: what is counted, for the label of the axis.

    Raises:
      ImportError: matplotlib is not installed; it is in the extra ``report``.
    """
    if intervals is None:
        with contextlib.suppress(ValueError):
            intervals = intervals_of(released)
    bands = intervals.bands(confidence) if intervals and len(released) else None
    band = f"error bars, {confidence:.0%} together"
    figure = page.curves(
        "", "rank", users, lambda axes: _draw_ranks(axes, released, bands, "released", band)
    )
    if path is not None:
        figure.savefig(path)
    return figure


def to_arrow(released: ReleasedList) -> pa.Table:
    """Returns the columns frequency and multiplicity, both int64, with the cost in the metadata."""
    import pyarrow as pa

    columns = {name: pa.array(values, pa.int64()) for name, values in released.to_dict().items()}
    cost = {name: str(value) for name, value in (released.cost or {}).items()}
    return pa.table(columns).replace_schema_metadata(cost)


def to_pandas(released: ReleasedList) -> Any:
    """Returns ``to_arrow`` as a ``pandas.DataFrame``, with the cost in its ``attrs``."""
    try:
        frame = to_arrow(released).to_pandas()
    except ImportError:
        raise ImportError("to_pandas needs pandas: pip install pandas") from None
    frame.attrs.update(released.cost or {})
    return frame


def _bands(release: ListRelease) -> _Bands:
    return release.intervals.bands(CONFIDENCE)


def _ranks(released: FrequencyList, bands: _Bands) -> IntArray:
    """Returns the ranks at which a list and its error bars are drawn, up to the last one."""
    last = max(released.distinct, bands[1].distinct)
    return np.union1d(GRID[GRID < last], [last]) if last else GRID[:0]


def _draw_ranks(
    axes: Any, released: FrequencyList, bands: _Bands | None, label: str, band: str | None = None
) -> None:
    """Draws frequencies by rank, with error bars whose lower ends are cut off at a half."""
    if bands is not None:
        ranks = _ranks(released, bands)
        lower, upper = (np.maximum(end.at_ranks(ranks), 0.5) for end in bands)
        axes.fill_between(ranks, lower, upper, alpha=0.25, lw=0, label=band)
    # Each run of equal frequencies is a step, from its first rank to its last.
    ends = released.multiplicities.cumsum()
    ranks = np.stack([ends - released.multiplicities + 1, ends], axis=1).ravel()
    axes.plot(ranks, released.frequencies.repeat(2), _marker(released.distinct), label=label)
    if len(released):
        axes.set(xscale="log", yscale="log")
        # The upper end must stay free, to move for the list that is drawn next.
        axes.autoscale(axis="y")
        axes.set_ylim(bottom=0.5, auto=True)


def _marker(points: int) -> str:
    """Returns matplotlib's marker of a line: a single point would have no line to show it."""
    return "." if points == 1 else ""


def _plots(pictures: dict[str, bytes], terms: Wording) -> str:
    """Returns the pictures of a list with their captions."""
    about = f"The list is{terms.bound[1:]}." if terms.bound else ""
    captions = {
        RANKS_FILE: f"{terms.ranks_caption} The shaded band holds the numbers before noise; its "
        f"lower end is cut off at a half. {about}",
        CURVE_FILE: f"The part of all contributions that the most frequent {terms.things} make "
        f"up: the accounts that this number of guesses breaks. {about}",
    }
    figures = "\n".join(
        page.figure(picture, captions[name].strip()) for name, picture in pictures.items()
    )
    return f'<h2>The list</h2>\n<div class="plots">\n{figures}\n</div>\n'


def _numbers(release: ListRelease, terms: Wording) -> str:
    """Returns the section with the main numbers of a list, which ``show`` and ``numbers`` print
    too."""
    kinds = [release.numbers(things=terms.things, users=terms.users)]
    if release.released.coordinates is not None:
        kinds.append(release.numbers(by_model=True, things=terms.things, users=terms.users))
    rows = []
    for name in kinds[0]:
        estimates = [numbers[name] for numbers in kinds]
        rows.append((name[:1].upper() + name[1:], *map(_text, estimates)))
    return _section("Numbers", page.each_interval(release.statement, terms.nouns), "", rows)


def _top(release: ListRelease, terms: Wording) -> str:
    """Returns the section with the largest frequencies of a list."""
    top = release.top(min(_TOP, release.released.distinct))
    rows = [(f"{rank}", page.count_text(estimate)) for rank, estimate in enumerate(top, 1)]
    about = (
        f"The largest frequencies. With {CONFIDENCE:.0%} confidence all of these intervals hold "
        "together."
    )
    return page.section("The top", about, [("Rank", terms.users.capitalize()), *rows])


def _metrics(release: ListRelease, terms: Wording) -> str:
    """Returns the section with guessing metrics of a list."""
    kinds: list[Answers] = [release.intervals]
    if release.released.coordinates is not None:
        kinds.append(release.model)
    rows = []
    for n in _GUESSES:
        rates = [page.bits_text(kind.success_rate_bits(n)) for kind in kinds]
        rows.append((f"Success rate of {some(n, 'guess', 'guesses')}", *rates))
    for alpha in _ALPHAS:
        guesswork = [page.bits_text(kind.alpha_guesswork_bits(alpha)) for kind in kinds]
        rows.append((f"Guesswork to reach {float(alpha):.0%}", *guesswork))
    each = page.each_interval(release.statement, terms.nouns)
    about = f"Effective key lengths in bits (Bonneau, IEEE S&P 2012). {each}"
    return _section("How hard to guess", about, "Metric", rows)


def _section(title: str, about: str, head: str, rows: Sequence[Sequence[str]]) -> str:
    """Returns the section with a table of numbers. A row has a name, a number with a proved
    interval and, if there is a model, the number with the model's interval."""
    kinds = len(rows[0]) - 1
    if kinds > 1:
        about += _ABOUT_MODEL
    return page.section(title, about, [(head, *_HEADS[:kinds]), *rows])


def _named(question: str, terms: Wording) -> str:
    """Returns a question of a comparison in the words of the page."""
    named = question.replace("partitions", terms.things).replace("users", terms.users)
    return named[:1].upper() + named[1:]


def _text(estimate: Estimate) -> str:
    """Returns a number of a list as text. Shares are floats, and other numbers are integers."""
    if isinstance(estimate.value, float):
        return page.share_text(estimate)
    return page.count_text(estimate)
