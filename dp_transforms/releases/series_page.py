"""Makes the page and the picture of releases that were made together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from dp_transforms.files.filenames import GROUPS_FILE, PERIODS, period_start
from dp_transforms.postprocessing.estimates import CONFIDENCE, Estimate
from dp_transforms.reports import page
from dp_transforms.reports.entries import SURVEY
from dp_transforms.reports.phrases import Wording, Words, wording

if TYPE_CHECKING:
    from dp_transforms.releases.frequency_list import ListRelease
    from dp_transforms.releases.series import Releases, Series

_GUESSES, _ALPHA = 10, "0.5"


def series_page(releases: Releases, words: Words) -> page.Page:
    """Makes the page of releases of several periods or groups."""
    terms = wording(dict(releases.statement), words)
    pictures = {}
    content = "<p>All released lists are empty: there is nothing to draw.</p>"
    if not releases.are_lists or any(len(release.released) for release in releases.values()):
        pictures[GROUPS_FILE] = page.png(series_figure(releases, terms))
        content = _content(releases, terms, pictures[GROUPS_FILE])
    of = f"names of {terms.things}" if not releases.are_lists else "frequency lists"
    by = "groups" if releases.kind == "group" else f"each {releases.kind}"
    title = f"Differentially private {of} of {by}{words.of_data}{terms.bound}"
    return page.document(title, words, content, {"": releases}), pictures


def series_figure(
    releases: Releases, terms: Wording | None = None, number: str | None = None
) -> Any:
    """Draws one number of every release. By default this is the number of partitions or names; for
    lists of groups it is how hard guessing is, or the share of the top."""
    terms = terms or wording(dict(releases.statement))
    if number is not None or (releases.kind != "group" and releases.are_lists):
        series = releases.series(number or "partitions")
        things = series.number if number else terms.things
        title = f"{things[:1].upper()}{things[1:]} of each {releases.kind}"
        return _drawn_series(releases, terms, title, "", series.estimates)
    if not releases.are_lists:
        numbers = [Estimate(len(names), len(names), len(names)) for names in releases.values()]
        return _drawn_series(releases, terms, "Released names", "names", numbers)
    labelled = zip(releases.labels_with(terms.users), releases.values(), strict=True)
    lists = {name: release for name, release in labelled if len(release.released)}
    if terms.guessing:
        bars = [(name, release.guesswork_bits(_ALPHA)) for name, release in lists.items()]
        return page.interval_bars("Guesswork to break half", "bits", bars)
    bars = [(name, release.share_of_top(_GUESSES)) for name, release in lists.items()]
    title = f"Part of the {_GUESSES} most frequent"
    return page.interval_bars(title, "part of contributions", bars, 1)


def _drawn_series(
    releases: Releases, terms: Wording, title: str, unit: str, estimates: Sequence[Estimate]
) -> Any:
    """Draws an estimate of each release. Releases of periods are drawn over time."""
    are_shares = any(isinstance(estimate.value, float) for estimate in estimates)
    end = 1.0 if are_shares else None
    if releases.kind in PERIODS:
        times = [period_start(name) for name in releases]
        return page.intervals_over_time(title, unit, releases.kind, times, estimates, end)
    labels = releases.labels_with(terms.users)
    return page.interval_bars(title, unit, [*zip(labels, estimates, strict=True)], end)


def _content(releases: Releases, terms: Wording, picture: bytes) -> str:
    """Returns what a page shows below its title."""
    if not releases.are_lists:
        return _names_content(releases, terms, picture)
    labels = releases.labels_with(terms.users)
    labelled: dict[str, ListRelease] = dict(zip(labels, releases.values(), strict=True))
    content = _introduction(releases, terms, picture) + _sizes(releases, terms)
    lists = {name: release for name, release in labelled.items() if len(release.released)}
    kind, each = releases.kind.capitalize(), page.each_interval(releases.statement, terms.nouns)
    if releases.kind == "group" and terms.guessing:
        return content + _guessing(kind, lists, each)
    return content + _concentration(kind, lists, each)


def _names_content(releases: Releases, terms: Wording, picture: bytes) -> str:
    """Returns the numbers of released names, drawn and as a table."""
    labelled = zip(releases.labels_with(terms.users), releases.values(), strict=True)
    rows = ((name, f"{len(release):,}") for name, release in labelled)
    table = page.table([(releases.kind.capitalize(), "Names"), *rows], numbers=1)
    return f"<h2>Names</h2>\n{page.figure(picture, 'Numbers of released names.')}{table}"


def _introduction(releases: Releases, terms: Wording, picture: bytes) -> str:
    """Returns what the lists are, and the picture with its caption."""
    each = f"each {releases.kind}"
    if releases.kind == "group":
        each = f"all {terms.users} and that of each group"
    what = "as released: the numbers before noise differ by the noise that makes them private."
    has_surveys = SURVEY in releases.statement
    if has_surveys:
        what = (
            "estimated: numbers are those of all records, by the list of the records that bounding "
            f"kept and a survey of how many {terms.things} {terms.users} have."
        )
    intro = (
        f"The list of {each}, {what} They do not say which {terms.things}.{terms.limits('Each is')}"
    )
    values = "values of all records" if has_surveys else "values before noise"
    caption = (
        f"Bars, or the band, hold the {values}, each with {CONFIDENCE:.0%} confidence, over the "
        "noise alone"
    )
    if terms.guessing:
        caption += "; bars without an end go on"
    return f"<p>{escape(intro)}</p>\n{page.figure(picture, caption + '.')}\n"


def _sizes(releases: Releases, terms: Wording) -> str:
    """Returns the section with the numbers of partitions and contributions of each list. For
    periods, a second section has their changes."""
    labels = releases.labels_with(terms.users)
    each = page.each_interval(releases.statement, terms.nouns)
    partitions, total = releases.series("partitions"), releases.series("total")
    heads = (releases.kind.capitalize(), terms.things.capitalize(), "Contributions")
    sizes = [map(page.count_text, series.estimates) for series in (partitions, total)]
    rows = zip(labels, *sizes, strict=True)
    content = page.section("Sizes", each, [heads, *rows])
    if releases.kind != "group" and len(releases) > 1:
        content += _changes(releases, terms, heads, [partitions, total])
    return content


def _changes(
    releases: Releases, terms: Wording, heads: tuple[str, ...], numbers: Sequence[Series]
) -> str:
    """Returns the section with the change of each number from one period to the next."""
    changes = [map(page.count_text, series.changes) for series in numbers]
    rows = zip(releases.labels_with(terms.users)[1:], *changes, strict=True)
    about = (
        f"{page.each_interval(releases.statement, terms.nouns)} A change is the number minus that "
        f"of the {releases.kind} before."
    )
    return page.section("Changes", about, [heads, *rows])


def _concentration(kind: str, lists: Mapping[str, ListRelease], each: str) -> str:
    """Returns the section with the share of the most frequent partitions of each list. ``each``
    says what the intervals contain."""
    heads = (kind, f"Part of the {_GUESSES} most frequent")
    rows = [
        (name, page.share_text(release.share_of_top(_GUESSES))) for name, release in lists.items()
    ]
    return page.section("How concentrated", each, [heads, *rows])


def _guessing(kind: str, lists: Mapping[str, ListRelease], each: str) -> str:
    """Returns the section on how hard it is to guess the partition of a user of each list. ``each``
    says what the intervals contain."""
    heads = (kind, f"{_GUESSES} guesses", "Half broken")
    rows = [
        (
            name,
            page.bits_text(release.success_rate_bits(_GUESSES)),
            page.bits_text(release.guesswork_bits(_ALPHA)),
        )
        for name, release in lists.items()
    ]
    about = (
        f"{each} In bits (Bonneau, IEEE S&P 2012): the success rate of {_GUESSES} "
        "guesses, and the guesswork to break half."
    )
    return page.section("How hard to guess", about, [heads, *rows])
