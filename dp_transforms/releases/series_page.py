"""Makes the page and the picture of releases that were made together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from dp_transforms.files.filenames import GROUPS_FILE, PERIODS, period_start
from dp_transforms.postprocessing.estimates import CONFIDENCE, Estimate
from dp_transforms.reports import page
from dp_transforms.reports.phrases import Wording, Words, wording

if TYPE_CHECKING:
    from dp_transforms.releases.series import Releases

_GUESSES, _ALPHA = 10, "0.5"


def series_page(releases: Releases, words: Words) -> page.Page:
    """Makes the page of releases of several periods or groups."""
    terms = wording(dict(releases.statement), words)
    pictures = {}
    content = "<p>All released lists are empty: there is nothing to draw.</p>"
    if not releases.are_lists or any(len(release.released) for release in releases.values()):
        pictures[GROUPS_FILE] = page.png(series_figure(releases, terms))
        content = _content(releases, terms, pictures[GROUPS_FILE])
    of = "names of partitions" if not releases.are_lists else "frequency lists"
    by = "groups" if releases.kind == "group" else f"each {releases.kind}"
    title = f"Differentially private {of} of {by}{words.of_data}{terms.bound}"
    return page.document(title, words, content, {"": releases}), pictures


def series_figure(
    releases: Releases, terms: Wording | None = None, number: str | None = None
) -> Any:
    """Draws one number of every release: by default of partitions or names; or, for groups, how
    hard guessing is or the share of the top."""
    terms = terms or wording(dict(releases.statement))
    if number is not None or (releases.kind != "group" and releases.are_lists):
        series = releases.series(number or "partitions")
        things = series.number if number else terms.things
        title = f"{things[:1].upper()}{things[1:]} of each {releases.kind}"
        return _drawn_series(releases, title, "", series.estimates)
    if not releases.are_lists:
        numbers = [Estimate(len(names), len(names), len(names)) for names in releases.values()]
        return _drawn_series(releases, "Released names", "names", numbers)
    labelled = zip(releases.labels, releases.values(), strict=True)
    lists = {name: release for name, release in labelled if len(release.released)}
    if terms.guessing:
        bars = [(name, release.guesswork_bits(_ALPHA)) for name, release in lists.items()]
        return page.interval_bars("Guesswork to break half", "bits", bars)
    bars = [(name, release.share_of_top(_GUESSES)) for name, release in lists.items()]
    title = f"Part of the {_GUESSES} most frequent"
    return page.interval_bars(title, "part of contributions", bars, 1)


def _drawn_series(releases: Releases, title: str, unit: str, estimates: Sequence[Estimate]) -> Any:
    """Draws an estimate of each release: over time, if they are of periods."""
    shares = any(isinstance(estimate.value, float) for estimate in estimates)
    end = 1.0 if shares else None
    if releases.kind in PERIODS:
        times = [period_start(name) for name in releases]
        return page.intervals_over_time(title, unit, releases.kind, times, estimates, end)
    return page.interval_bars(title, unit, [*zip(releases.labels, estimates, strict=True)], end)


def _content(releases: Releases, terms: Wording, picture: bytes) -> str:
    labelled = dict(zip(releases.labels, releases.values(), strict=True))
    if not releases.are_lists:
        numbers = ((name, f"{len(release):,}") for name, release in labelled.items())
        table = page.table([(releases.kind.capitalize(), "Names"), *numbers], numbers=1)
        return f"<h2>Names</h2>\n{page.figure(picture, 'Numbers of released names.')}{table}"
    groups, kind = releases.kind == "group", releases.kind.capitalize()
    each = f"all {terms.users} and that of each group" if groups else f"each {releases.kind}"
    intro = (
        f"The list of {each}, as released: the numbers before noise differ by the noise that "
        f"makes them private. They do not say which {terms.things}.{terms.limits('Each is')}"
    )
    caption = (
        f"Bars, or the band, hold the values before noise, each with {CONFIDENCE:.0%} "
        "confidence, over the noise alone"
    )
    if terms.guessing:
        caption += "; bars without an end go on"
    caption += "."
    each = (
        "The interval below each number contains the number before noise with "
        f"{CONFIDENCE:.0%} confidence, over the noise alone. Each interval holds by itself."
    )
    content = f"<p>{escape(intro)}</p>\n{page.figure(picture, caption)}\n"
    series = releases.series("partitions"), releases.series("total")
    heads: tuple[str, ...] = (kind, terms.things.capitalize(), "Contributions")
    sizes = (map(page.count_text, column.estimates) for column in series)
    content += page.section("Sizes", each, [heads, *zip(labelled, *sizes, strict=True)])
    if not groups and len(releases) > 1:
        changes = (map(page.count_text, column.changes) for column in series)
        rows: Iterable[Sequence[str]] = zip([*labelled][1:], *changes, strict=True)
        about = f"{each} A change is the number minus that of the {releases.kind} before."
        content += page.section("Changes", about, [heads, *rows])
    lists = {name: release for name, release in labelled.items() if len(release.released)}
    if not (groups and terms.guessing):
        heads = (kind, f"Part of the {_GUESSES} most frequent")
        rows = (
            (n, page.share_text(release.share_of_top(_GUESSES))) for n, release in lists.items()
        )
        return content + page.section("How concentrated", each, [heads, *rows])
    heads = (kind, f"{_GUESSES} guesses", "Half broken")
    rates = (page.bits_text(release.success_rate_bits(_GUESSES)) for release in lists.values())
    broken = (page.bits_text(release.guesswork_bits(_ALPHA)) for release in lists.values())
    about = (
        f"{each} In bits (Bonneau, IEEE S&P 2012): the success rate of {_GUESSES} guesses, and the "
        "guesswork to break half."
    )
    rows = zip(lists, rates, broken, strict=True)
    return content + page.section("How hard to guess", about, [heads, *rows])
