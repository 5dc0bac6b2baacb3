"""A page about lists of groups: how hard their partitions are to guess, or how concentrated these
are if they are no passwords, with error bars."""

from __future__ import annotations

import math
from typing import Any

from dp_transforms.postprocessing.estimates import ReleaseIntervals
from pipelines.files.frequency_files import Lists, parse_coordinates, parse_grouped_lists
from pipelines.files.names import (
    COORDINATES_FILE,
    GROUPED_COORDINATES_HEADER,
    GROUPS_FILE,
    LISTS_FILE,
    PRIVACY_FILE,
)
from pipelines.files.paths import local_path
from pipelines.reports import page
from pipelines.reports.words import about_passwords, bounded, grouped_privacy_words

Facts = dict[tuple[str, str], ReleaseIntervals]

_TITLE = "Differentially private frequency lists of groups"
_GUESSES, _ALPHA = 10, "0.5"
_INCHES_OF_A_GROUP = 0.26


def write_groups_report(directory: str, about: str | None = None) -> str:
    """Writes the page and its picture beside released_lists.csv and privacy.json; for the rest see
    ``pipelines.report.write_report``."""
    directory = local_path(directory)
    with page.reading(directory, f"released lists of groups with their {PRIVACY_FILE}"):
        lists = parse_grouped_lists(page.read_file(directory, LISTS_FILE))
        statement = page.read_statement(directory, about)
        facts = _intervals(directory, lists, statement)
    files = {}
    content = "<p>All released lists are empty: there is nothing to draw.</p>"
    if facts:
        guessing = about_passwords(statement)
        files[GROUPS_FILE] = _picture(facts, guessing)
        content = (_content if guessing else _shares)(facts, files[GROUPS_FILE])
    title = _TITLE + bounded(statement)
    text = page.document(title, content, grouped_privacy_words(statement), statement)
    return page.write(directory, text, files)


def _intervals(directory: str, lists: Lists, statement: dict[str, Any]) -> Facts:
    """The intervals by attribute and group, in the order of the lists."""
    prices = {one.get("attribute", ""): one for one in statement["lists"]}
    arms = {}
    if any(map(page.is_decoded, prices.values())):
        content = page.read_file(directory, COORDINATES_FILE)
        arms = parse_coordinates(content, GROUPED_COORDINATES_HEADER)
    facts = {}
    for name, released in lists.items():
        price = {"sensitivity": statement["sensitivity"], **prices[name[0]]}
        if page.is_decoded(price):
            released = page.with_coordinates(released, price, arms[name])
        facts[name] = page.intervals(released, price)
    return facts


def _content(facts: Facts, picture: bytes) -> str:
    rows = [("List, contributions", f"{_GUESSES} guesses", "Half broken")]
    for name, one in facts.items():
        guesses = page.bits_text(one.success_rate_bits(_GUESSES, page.CONFIDENCE))
        half = page.bits_text(one.alpha_guesswork_bits(_ALPHA, page.CONFIDENCE))
        rows.append((f"{_label(name)}, {one.released.total:,}", guesses, half))
    caption = (
        "Effective key lengths: how hard it is to guess half of the contributions of a list. Each "
        f"bar holds the value of the true list with {page.CONFIDENCE:.0%} confidence; a bar "
        "without an end goes on."
    )
    return f"""{_intro(facts)}
<h2>How hard to guess</h2>
{page.figure(picture, caption)}
<p>In bits (Bonneau, IEEE S&amp;P 2012): the success rate of {_GUESSES} guesses, and the guesswork
to break half. Below each is the interval that holds the value of the true list, with
{page.CONFIDENCE:.0%} confidence, over the noise alone.</p>
{page.table(rows, numbers=2)}"""


def _shares(facts: Facts, picture: bytes) -> str:
    """The same for partitions that nobody guesses."""
    rows = [("List, contributions", f"Part of the {_GUESSES} most frequent")]
    for name, one in facts.items():
        share = page.share_text(one.share_of_top(_GUESSES, page.CONFIDENCE))
        rows.append((f"{_label(name)}, {one.released.total:,}", share))
    caption = (
        f"The part of all contributions to a list that its {_GUESSES} most frequent partitions "
        f"make up. Each bar holds that of the true list with {page.CONFIDENCE:.0%} confidence, "
        "over the noise alone."
    )
    return f"""{_intro(facts)}
<h2>How concentrated</h2>
{page.figure(picture, caption)}
{page.table(rows, numbers=1)}"""


def _intro(facts: Facts) -> str:
    return f"""<p>The list of all users, and one for each of {len(facts) - 1} groups, as released:
the true numbers differ by the noise that makes them private. They do not say which
partitions.</p>"""


def _picture(facts: Facts, guessing: bool) -> bytes:
    drawn, axes = page.new_figure(height=1 + _INCHES_OF_A_GROUP * len(facts))
    if guessing:
        title, unit = "Guesswork to break half", "bits"
        found = [one.alpha_guesswork_bits(_ALPHA, page.CONFIDENCE) for one in facts.values()]
    else:
        title, unit = f"Part of the {_GUESSES} most frequent", "part of contributions"
        found = [one.share_of_top(_GUESSES, page.CONFIDENCE) for one in facts.values()]
    finite = [one.high for one in found if one.high < math.inf]
    end = max([*(one.value for one in found), *finite]) + 1 if guessing else 1
    places = range(len(facts))
    axes.hlines(
        places,
        [one.low for one in found],
        [min(one.high, end) for one in found],
        lw=5,
        alpha=0.3,
    )
    axes.plot([one.value for one in found], places, "o", ms=4)
    axes.set_yticks(places, [page.shortened(_label(name)) for name in facts], parse_math=False)
    axes.set(title=title, xlabel=unit, xlim=(0, end), ylim=(len(facts), -1))
    axes.grid(alpha=0.3)
    return page.png(drawn)


def _label(name: tuple[str, str]) -> str:
    attribute, group = name
    return f"{attribute}: {group}" if attribute else "all users"
