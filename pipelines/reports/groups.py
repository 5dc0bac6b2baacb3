"""A page about lists of groups: how hard their partitions are to guess, or how concentrated these
are if they are no passwords, with error bars."""

from __future__ import annotations

import math
from typing import Any

from dp_transforms.mechanisms import FrequencyList
from dp_transforms.postprocessing.guessing_intervals import (
    ReleaseError,
    alpha_guesswork_bits_interval,
    success_rate_interval,
)
from dp_transforms.postprocessing.guessing_metrics import alpha_guesswork_bits, success_rate
from pipelines.files.frequency_files import Lists, parse_grouped_lists
from pipelines.files.names import GROUPS_FILE, LISTS_FILE, PRIVACY_FILE
from pipelines.files.paths import local_path
from pipelines.reports import page
from pipelines.reports.privacy_statement import law_of_statement
from pipelines.reports.words import about_passwords, grouped_privacy_words

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
        errors = {name: _error(released, name, statement) for name, released in lists.items()}
    files = {}
    content = "<p>All released lists are empty: there is nothing to draw.</p>"
    if lists:
        guessing = about_passwords(statement)
        files[GROUPS_FILE] = _picture(lists, errors, guessing)
        content = (_content if guessing else _shares)(lists, errors, files[GROUPS_FILE])
    text = page.document(_TITLE, content, grouped_privacy_words(statement), statement)
    return page.write(directory, text, files)


def _content(lists: Lists, errors: dict[tuple[str, str], ReleaseError], picture: bytes) -> str:
    rows = [("List, contributions", f"{_GUESSES} guesses", "Half broken")]
    for name, released in lists.items():
        guesses = page.metric_text("success_rate_bits", _GUESSES, released, errors[name])
        half = page.metric_text("alpha_guesswork_bits", _ALPHA, released, errors[name])
        rows.append((f"{_label(name)}, {released.total:,}", guesses, half))
    caption = (
        "Effective key lengths: how hard it is to guess half of the contributions of a list. Each "
        f"bar holds the value of the true list with {page.CONFIDENCE:.0%} confidence; a bar "
        "without an end goes on."
    )
    return f"""{_intro(lists)}
<h2>How hard to guess</h2>
{page.figure(picture, caption)}
<p>In bits (Bonneau, IEEE S&amp;P 2012): the success rate of {_GUESSES} guesses, and the guesswork
to break half. Below each is the interval that holds the value of the true list, with
{page.CONFIDENCE:.0%} confidence, over the noise alone.</p>
{page.table(rows, numbers=2)}"""


def _shares(lists: Lists, errors: dict[tuple[str, str], ReleaseError], picture: bytes) -> str:
    """The same for partitions that nobody guesses."""
    rows = [("List, contributions", f"Part of the {_GUESSES} most frequent")]
    for name, released in lists.items():
        lower, upper = success_rate_interval(released, _GUESSES, errors[name])
        share = f"{success_rate(released, _GUESSES):.1%}\n{lower:.1%} to {upper:.1%}"
        rows.append((f"{_label(name)}, {released.total:,}", share))
    caption = (
        f"The part of all contributions to a list that its {_GUESSES} most frequent partitions "
        f"make up. Each bar holds that of the true list with {page.CONFIDENCE:.0%} confidence, "
        "over the noise alone."
    )
    return f"""{_intro(lists)}
<h2>How concentrated</h2>
{page.figure(picture, caption)}
{page.table(rows, numbers=1)}"""


def _intro(lists: Lists) -> str:
    return f"""<p>The list of all users, and one for each of {len(lists) - 1} groups, as released:
the true numbers differ by the noise that makes them private. They do not say which
partitions.</p>"""


def _picture(lists: Lists, errors: dict[tuple[str, str], ReleaseError], guessing: bool) -> bytes:
    drawn, axes = page.new_figure(height=1 + _INCHES_OF_A_GROUP * len(lists))
    if guessing:
        title, unit = "Guesswork to break half", "bits"
        values = [alpha_guesswork_bits(one, _ALPHA) for one in lists.values()]
        intervals = [
            alpha_guesswork_bits_interval(one, _ALPHA, errors[name]) for name, one in lists.items()
        ]
    else:
        title, unit = f"Part of the {_GUESSES} most frequent", "part of contributions"
        values = [success_rate(one, _GUESSES) for one in lists.values()]
        intervals = [
            success_rate_interval(one, _GUESSES, errors[name]) for name, one in lists.items()
        ]
    finite = [one.upper for one in intervals if one.upper < math.inf]
    end = max([*values, *finite]) + 1 if guessing else 1
    places = range(len(lists))
    axes.hlines(
        places,
        [one.lower for one in intervals],
        [min(one.upper, end) for one in intervals],
        lw=5,
        alpha=0.3,
    )
    axes.plot(values, places, "o", ms=4)
    axes.set_yticks(places, [page.shortened(_label(name)) for name in lists], parse_math=False)
    axes.set(title=title, xlabel=unit, xlim=(0, end), ylim=(len(lists), -1))
    axes.grid(alpha=0.3)
    return page.png(drawn)


def _error(
    released: FrequencyList, name: tuple[str, str], statement: dict[str, Any]
) -> ReleaseError:
    attribute, _ = name
    (one,) = (one for one in statement["lists"] if one.get("attribute", "") == attribute)
    law = law_of_statement({"sensitivity": statement["sensitivity"], **one})
    return ReleaseError.of_release(released, law, page.CONFIDENCE)


def _label(name: tuple[str, str]) -> str:
    attribute, group = name
    return f"{attribute}: {group}" if attribute else "all users"
