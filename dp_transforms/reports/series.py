"""A page about several releases: lists of groups, or lists or names of periods."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

from dp_transforms.files.filenames import GROUPS_FILE
from dp_transforms.postprocessing.estimates import CONFIDENCE, Estimate
from dp_transforms.reports import page
from dp_transforms.reports.phrases import Wording, Words, wording

if TYPE_CHECKING:
    from dp_transforms.frames.answers import Releases

_GUESSES, _ALPHA = 10, "0.5"


def series_page(releases: Releases, words: Words) -> tuple[str, dict[str, bytes]]:
    """The whole page, its picture included, and this by its name."""
    said = wording(dict(releases.statement), words)
    pictures = {}
    content = "<p>All released lists are empty: there is nothing to draw.</p>"
    if _of_names(releases) or any(len(one.released) for one in releases.values()):
        pictures[GROUPS_FILE] = page.png(series_figure(releases, said))
        content = _content(releases, said, pictures[GROUPS_FILE])
    of = "names of partitions" if _of_names(releases) else "frequency lists"
    by = "groups" if releases.kind == "group" else f"each {releases.kind}"
    data = f" of {words.data_name}" if words.data_name else ""
    title = f"Differentially private {of} of {by}{data}{said.bound}"
    return page.document(title, words, content, {"": releases.statement}), pictures


def series_figure(releases: Releases, said: Wording | None = None) -> Any:
    """The figure of one number of every list, in groups how hard or how concentrated it is."""
    said = said or wording(dict(releases.statement))
    labelled = dict(zip(releases.labels, releases.values(), strict=True))
    if _of_names(releases):
        numbers = [(name, Estimate(len(one), len(one), len(one))) for name, one in labelled.items()]
        return page.interval_bars("Released names", "names", numbers)
    lists = {name: one for name, one in labelled.items() if len(one.released)}
    if releases.kind != "group":
        told = [*zip(labelled, releases.series("partitions").estimates, strict=True)]
        return page.interval_bars(f"{said.things.capitalize()} of each {releases.kind}", "", told)
    if said.guessing:
        told = [(name, one.guesswork_bits(_ALPHA)) for name, one in lists.items()]
        return page.interval_bars("Guesswork to break half", "bits", told)
    told = [(name, one.share_of_top(_GUESSES)) for name, one in lists.items()]
    title = f"Part of the {_GUESSES} most frequent"
    return page.interval_bars(title, "part of contributions", told, 1)


def _content(releases: Releases, said: Wording, picture: bytes) -> str:
    rows: list[list[str]]
    labelled = dict(zip(releases.labels, releases.values(), strict=True))
    if _of_names(releases):
        rows = [[name, f"{len(one):,}"] for name, one in labelled.items()]
        table = page.table([[releases.kind.capitalize(), "Names"], *rows], numbers=1)
        return f"<h2>Names</h2>\n{page.figure(picture, 'Numbers of released names.')}{table}"
    groups = releases.kind == "group"
    if groups:
        intro = (
            f"The list of all {said.users}, and one for each of {len(releases) - 1} groups, as "
            "released:"
        )
    else:
        intro = f"A list for each of {len(releases):,} periods, as released:"
    intro += (
        " the true numbers differ by the noise that makes them private. They do not say which "
        f"{said.things}."
    )
    kind = releases.kind.capitalize()
    numbers, totals = releases.series("partitions"), releases.series("total")
    sizes = [[kind, said.things.capitalize(), "Contributions"]]
    told = [[page.count_text(one) for one in each.estimates] for each in (numbers, totals)]
    sizes += map(list, zip(labelled, *told, strict=True))
    tables = [("Sizes", "", sizes)]
    if not groups:
        changes = [["", *map(page.count_text, each.changes)] for each in (numbers, totals)]
        rows = [list(row) for row in zip(labelled, *changes, strict=True)]
        about = f" Each is the number less that of the {releases.kind} before."
        tables.append(("Changes", about, [sizes[0], *rows[1:]]))
    if groups and said.guessing:
        about = (
            " In bits (Bonneau, IEEE S&P 2012): the success rate of "
            f"{_GUESSES} guesses, and the guesswork to break half."
        )
        rows = [
            [
                name,
                page.bits_text(one.success_rate_bits(_GUESSES)),
                page.bits_text(one.guesswork_bits(_ALPHA)),
            ]
            for name, one in labelled.items()
            if len(one.released)
        ]
        heads = [kind, f"{_GUESSES} guesses", "Half broken"]
        tables.append(("How hard to guess", about, [heads, *rows]))
    else:
        rows = [
            [name, page.share_text(one.share_of_top(_GUESSES))]
            for name, one in labelled.items()
            if len(one.released)
        ]
        heads = [kind, f"Part of the {_GUESSES} most frequent"]
        tables.append(("How concentrated", "", [heads, *rows]))
    caption = (
        f"Bars, or the band, hold the values of the true lists, each with {CONFIDENCE:.0%} "
        f"confidence, over the noise alone{'; bars without an end go on' * said.guessing}."
    )
    each = (
        "Below each number is the interval that holds that of the true lists with "
        f"{CONFIDENCE:.0%} confidence, over the noise alone, each by itself."
    )
    below = "".join(
        page.section(title, each + about, rows) for title, about, rows in tables if len(rows) > 1
    )
    return f"<p>{html.escape(intro)}</p>\n{page.figure(picture, caption)}\n{below}"


def _of_names(releases: Releases) -> bool:
    return any(one.page_kind == "names" for one in releases.values())
