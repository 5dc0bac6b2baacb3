"""Makes the page and the picture of each kind of release; ``lists`` has those of lists."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dp_transforms.files.filenames import COUNTS, GROUPS_FILE, NAMES_PICTURE
from dp_transforms.mechanisms.discrete_noise import DiscreteLaplace
from dp_transforms.mechanisms.enclosure import smallest_where
from dp_transforms.postprocessing.estimates import CONFIDENCE, Estimate
from dp_transforms.reports import page
from dp_transforms.reports.lists import (
    all_records_page,
    comparison_figure,
    comparison_page,
    list_page,
)
from dp_transforms.reports.phrases import NO_WORDS, Wording, Words, wording

if TYPE_CHECKING:
    from dp_transforms.releases.names import NamesRelease
    from dp_transforms.releases.series import Releases

_GUESSES, _ALPHA = 10, "0.5"
_SHOWN = 100
_DRAWN = 20
_MISS = Fraction(1, 20)


def page_of(release: Any, words: Words = NO_WORDS) -> page.Page:
    """Makes the page of a result of ``load`` or ``compare``; an InputError without error bars."""
    return _PAGES[release.page_kind](release, words)


def figure_of(release: Any) -> Any:
    """Draws several lists, or two that are compared."""
    compared = release.page_kind == "comparison"
    return comparison_figure(release) if compared else _series_figure(release)


def _series_page(releases: Releases, words: Words) -> page.Page:
    terms = wording(dict(releases.statement), words)
    pictures = {}
    content = "<p>All released lists are empty: there is nothing to draw.</p>"
    if _of_names(releases) or any(len(release.released) for release in releases.values()):
        pictures[GROUPS_FILE] = page.png(_series_figure(releases, terms))
        content = _content(releases, terms, pictures[GROUPS_FILE])
    of = "names of partitions" if _of_names(releases) else "frequency lists"
    by = "groups" if releases.kind == "group" else f"each {releases.kind}"
    title = f"Differentially private {of} of {by}{words.of_data}{terms.bound}"
    return page.document(title, words, content, {"": releases.statement}), pictures


def _series_figure(releases: Releases, terms: Wording | None = None) -> Any:
    """Draws one number of every release: of partitions or names; or, for groups, how hard guessing
    is or the share of the top."""
    terms = terms or wording(dict(releases.statement))
    labelled = dict(zip(releases.labels, releases.values(), strict=True))
    if _of_names(releases):
        numbers = [
            (name, Estimate(len(release), len(release), len(release)))
            for name, release in labelled.items()
        ]
        return page.interval_bars("Released names", "names", numbers)
    lists = {name: release for name, release in labelled.items() if len(release.released)}
    if releases.kind != "group":
        bars = [*zip(labelled, releases.series("partitions").estimates, strict=True)]
        return page.interval_bars(f"{terms.things.capitalize()} of each {releases.kind}", "", bars)
    if terms.guessing:
        bars = [(name, release.guesswork_bits(_ALPHA)) for name, release in lists.items()]
        return page.interval_bars("Guesswork to break half", "bits", bars)
    bars = [(name, release.share_of_top(_GUESSES)) for name, release in lists.items()]
    title = f"Part of the {_GUESSES} most frequent"
    return page.interval_bars(title, "part of contributions", bars, 1)


def _content(releases: Releases, terms: Wording, picture: bytes) -> str:
    labelled = dict(zip(releases.labels, releases.values(), strict=True))
    if _of_names(releases):
        numbers = ((name, f"{len(release):,}") for name, release in labelled.items())
        table = page.table([(releases.kind.capitalize(), "Names"), *numbers], numbers=1)
        return f"<h2>Names</h2>\n{page.figure(picture, 'Numbers of released names.')}{table}"
    groups, kind = releases.kind == "group", releases.kind.capitalize()
    each = f"all {terms.users} and that of each group" if groups else f"each {releases.kind}"
    intro = (
        f"The list of {each}, as released: the numbers of the true lists differ by the noise that "
        f"makes them private. They do not say which {terms.things}.{terms.limits('Each is')}"
    )
    caption = (
        f"Bars, or the band, hold the values of the true lists, each with {CONFIDENCE:.0%} "
        "confidence, over the noise alone"
    )
    if terms.guessing:
        caption += "; bars without an end go on"
    caption += "."
    each = (
        "The interval below each number contains the number of the true list with "
        f"{CONFIDENCE:.0%} confidence, over the noise alone. Each interval holds by itself."
    )
    content = f"<p>{html.escape(intro)}</p>\n{page.figure(picture, caption)}\n"
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


def _of_names(releases: Releases) -> bool:
    return any(release.page_kind == "names" for release in releases.values())


def _names_page(release: NamesRelease, words: Words) -> page.Page:
    statement = dict(release.statement)
    terms = wording(statement, words)
    number, pictures = len(release), {}
    shown, counted = min(number, _SHOWN), bool(statement["noisy_counts"])
    which = f"The {shown:,} with the most {terms.users}" if counted else f"The first {shown:,}"
    were = (
        f"{number:,} names of {terms.things} were" if number != 1 else "1 name of a partition was"
    )
    content = f"<p>{html.escape(f'{were} released.{_others(statement, terms)}')}</p>\n"
    if number:
        content += f"<h2>{'The names' if shown == number else html.escape(which)}</h2>\n"
    if number and counted:
        content += f"<p>{html.escape(_about_counts(release, terms))}</p>\n"
        drawn = "Users" if number <= _DRAWN else f"The {_DRAWN} largest numbers of users"
        caption = f"{drawn}, and their intervals."
        pictures[NAMES_PICTURE] = page.png(_figure(release, terms))
        content += page.figure(pictures[NAMES_PICTURE], caption)
    if number:
        heads = list(release.to_arrow().column_names)
        if counted:
            heads[-len(COUNTS) :] = [f"{terms.users}, about", "from", "to"]
        content += page.table([heads, *_rows(release, shown)], len(COUNTS) * counted)
    unnamed = release.about_unnamed()
    if unnamed:
        lines = "".join(f"<p>{html.escape(line)}.</p>\n" for line in unnamed)
        content += f"<h2>What is not named</h2>\n{lines}"
    title = f"Differentially private names of {terms.things}{words.of_data}"
    return page.document(title, words, content, {"": statement}), pictures


def _about_counts(release: NamesRelease, terms: Wording) -> str:
    """Says what the numbers of users are, and how to read their intervals."""
    confidence = release.statement["count_intervals"]["confidence"]
    holds = f"""Each interval holds the true number with {confidence:.0%} confidence given that the
partition is named, whatever that number is: of a hundred intervals about
{100 * (1 - confidence):.0f} do not."""
    if not release.has_estimates:
        return f"""Counts are of {terms.users}, with noise.{terms.limits("They are")} {holds} A lower
end far from its count says that far fewer, by luck, would have given that count as well."""
    if release.is_about_all_records:
        which = f"Estimates of how many {terms.users} have each of these {terms.things} in all records."
    else:
        which = f"Estimates of numbers of {terms.users}.{terms.limits('They are')}"
    return f"{which} {holds}"


def _rows(release: NamesRelease, shown: int) -> list[list[str]]:
    def text(value: Any, place: int) -> str:
        if place >= release._words:
            return f"{value:,}"
        return value.decode(errors="replace") if isinstance(value, bytes) else str(value)

    columns = release.to_arrow()[:shown].to_pydict().values()
    return [[*map(text, row, range(len(row)))] for row in zip(*columns, strict=True)]


def _others(statement: dict[str, Any], terms: Wording) -> str:
    """Says about how many users have other partitions, if that was released."""
    if "users_of_other_partitions" not in statement:
        return ""
    users = statement["users_of_other_partitions"]
    noise = DiscreteLaplace(1 / Fraction(str(statement["other_partitions"]["epsilon"])))
    miss = _MISS / 2
    # P[X >= c] = P[X <= -c] is at most half of the failure probability of both ends.
    beyond = smallest_where(lambda c: bool(noise.tail(c - 1, 64).upper <= miss), 1)
    low, high = max(0, users - beyond + 1), users + beyond - 1
    return (
        f" About {users:,} {terms.users} have {terms.things} that are not named: between "
        f"{low:,} and {high:,} ({float(1 - _MISS):.0%} confidence)."
    )


def _figure(release: NamesRelease, terms: Wording) -> Any:
    rows = _rows(release, _DRAWN)
    table = release.to_arrow()
    counts = zip(*(table[name].to_pylist() for name in table.column_names[-3:]), strict=True)
    bars = [
        (", ".join(row[: -len(COUNTS)]), Estimate(*count))
        for row, count in zip(rows, counts, strict=False)
    ]
    return page.interval_bars(f"{terms.users.capitalize()} of the first names", terms.users, bars)


_PAGES: dict[str, Callable[[Any, Words], page.Page]] = {
    "list": list_page,
    "all records": all_records_page,
    "names": _names_page,
    "series": _series_page,
    "comparison": comparison_page,
}
