"""Makes the page and the picture of lists of a hierarchy."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from dp_transforms.files.filenames import GROUPS_FILE
from dp_transforms.postprocessing.estimates import CONFIDENCE
from dp_transforms.reports import page
from dp_transforms.reports.phrases import Words, amount, wording

if TYPE_CHECKING:
    from dp_transforms.releases.hierarchy import HierarchyReleases

_DRAWN, _SHOWN = 40, 200  # The most groups in the picture and in the table.
_GUESSES = 10  # The table has the share of so many most frequent partitions.


def hierarchy_page(releases: HierarchyReleases, words: Words) -> page.Page:
    """Returns the page and its picture. They show the first groups from the top down if there are
    many."""
    terms = wording(dict(releases.statement), words)
    picture = page.png(hierarchy_figure(releases, words))
    intro = (
        f"Lists of groups at {len(releases.statement['levels'])} levels. They say how many "
        f"{terms.users} the {terms.things} of each group have, and not which {terms.things}. "
        "The released list of a group is exactly that of the groups below it together. Noise "
        "makes the numbers private."
        f"{terms.limits('Each list is')}"
    )
    levels = [
        (entry["level"], f"{entry['groups']:,}", amount(entry["epsilon"]))
        for entry in releases.statement["levels"]
    ]
    drawn, shown = min(len(releases), _DRAWN), min(len(releases), _SHOWN)
    caption = (
        f"{terms.things.capitalize()} of the first {drawn:,} groups. Bars hold the values "
        f"without noise, each with {CONFIDENCE:.0%} confidence, over the noise alone."
    )
    each = (
        f"The interval below each number contains the number without noise with "
        f"{CONFIDENCE:.0%} confidence, over the noise alone. Each interval holds by itself."
    )
    if shown < len(releases):
        each += f" These are the first {shown:,} of {len(releases):,} groups."
    rows = []
    for label, release in list(zip(releases.labels, releases.values(), strict=True))[:shown]:
        share = page.share_text(release.share_of_top(_GUESSES)) if len(release.released) else ""
        numbers = release.number_of_partitions(), release.total()
        rows.append((label, *map(page.count_text, numbers), share))
    heads = (
        "Group",
        terms.things.capitalize(),
        "Contributions",
        f"Part of the {_GUESSES} most frequent",
    )
    content = f"<p>{escape(intro)}</p>\n{page.figure(picture, caption)}\n"
    content += page.section(
        "Levels", "Levels add up to the whole epsilon.", [("Level", "Groups", "Epsilon"), *levels]
    )
    content += page.section("Groups", each, [heads, *rows])
    title = f"Differentially private frequency lists that add up{words.of_data}{terms.bound}"
    return page.document(title, words, content, {"": releases}), {GROUPS_FILE: picture}


def hierarchy_figure(releases: HierarchyReleases, words: Words) -> Any:
    """Returns a drawing of the numbers of partitions of the first groups, with intervals."""
    terms = wording(dict(releases.statement), words)
    labelled = list(zip(releases.labels, releases.values(), strict=True))[:_DRAWN]
    bars = [(label, release.number_of_partitions()) for label, release in labelled]
    return page.interval_bars(f"{terms.things.capitalize()} of each group", terms.things, bars)
