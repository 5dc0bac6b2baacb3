"""Makes the page and the pictures of lists of attributes, ranked by how identifying they are."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dp_transforms.files.filenames import ATTRIBUTES_PICTURE, UNIQUE_PICTURE
from dp_transforms.postprocessing.estimates import CONFIDENCE, Estimate, percents
from dp_transforms.releases.questions import (
    ENTROPY_BITS,
    MIN_ENTROPY_BITS,
    NORMALIZED_ENTROPY,
    TSALLIS_ENTROPY,
    UNIQUE,
    USERS,
    VALUES,
    in_sets_below,
)
from dp_transforms.reports import page
from dp_transforms.reports.phrases import Words, some, wording

if TYPE_CHECKING:
    from dp_transforms.releases.attributes import AttributeReleases

_Ranking = Sequence[tuple[str, dict[str, Estimate]]]
_LONGEST_LABEL, _FEWEST_LETTERS = 24, 3


def attributes_page(release: AttributeReleases, words: Words) -> page.Page:
    """Returns the page and its pictures: attributes with intervals, the most identifying first."""
    nouns = wording(dict(release.statement), words).nouns
    users = nouns.users
    ranking = release.ranking()
    pictures = {
        ATTRIBUTES_PICTURE: page.png(entropy_figure(ranking)),
        UNIQUE_PICTURE: page.png(_unique_figure(ranking, users)),
    }
    number = some(len(release), "attribute")
    intro = f"""How {users} are distributed over the values of {number}, as released: noise makes
the numbers private. The release does not say which values
there are, and {users} without a value of an attribute are not in its list."""
    drawn = {
        ATTRIBUTES_PICTURE: "The Shannon entropy of each attribute: on average, a value tells so "
        f"many bits about which of the {users} it comes from. With n bits it tells as much as one "
        "of 2^n equally large sets.",
        UNIQUE_PICTURE: f"The part of {users} whose value nobody else has.",
    }
    bars = f" Bars hold the numbers without noise, each with {CONFIDENCE:.0%} confidence."
    figures = "\n".join(page.figure(pictures[name], text + bars) for name, text in drawn.items())
    content = f'<p>{html.escape(intro)}</p>\n<div class="plots">\n{figures}\n</div>\n'
    content += _table(
        "Attributes, from the most identifying on",
        f"Ranked by their Shannon entropy; the order of attributes whose intervals overlap may be "
        f"another one without noise. {page.each_interval(release.statement, nouns)}",
        ranking,
        {ENTROPY_BITS: ("Entropy, bits", page.bits_text), UNIQUE: ("Unique", _share_text)},
    )
    content += _table(
        f"How many {users} hide in small sets",
        f"The part of {users} whose value fewer than 10, or 100, of them share.",
        ranking,
        {
            in_sets_below(10): ("Below 10", _share_text),
            in_sets_below(100): ("Below 100", _share_text),
        },
    )
    content += _table(
        f"{users.capitalize()} and values",
        f"The {users} with a value, and the number of different values.",
        ranking,
        {
            USERS: (users.capitalize(), page.count_text),
            VALUES: ("Values", page.count_text),
        },
    )
    content += _table(
        "Other measures",
        "The normalized entropy is the Shannon entropy divided by the logarithm of the number of "
        f"{users}: 1 if all are unique (Laperdrix, Rudametkin and Baudry, IEEE S&P 2016). The "
        "min-entropy is that of the most frequent value alone. The Tsallis entropy of order 2 is "
        "the probability that two draws have different values.",
        ranking,
        {
            NORMALIZED_ENTROPY: ("Normalized", _ratio_text),
            MIN_ENTROPY_BITS: ("Min, bits", page.bits_text),
            TSALLIS_ENTROPY: ("Tsallis", _ratio_text),
        },
    )
    title = f"Differentially private ranking of identifying attributes{words.of_data}"
    return page.document(title, words, content, {"": release}), pictures


def entropy_figure(ranking: _Ranking) -> Any:
    """Returns a drawing of the Shannon entropy of each attribute, in the order of the ranking."""
    return page.interval_bars("Shannon entropy", "bits", _bars(ranking, ENTROPY_BITS))


def _unique_figure(ranking: _Ranking, users: str) -> Any:
    return page.interval_bars(f"Unique {users}", f"part of {users}", _bars(ranking, UNIQUE), 1)


def _bars(ranking: _Ranking, name: str) -> list[tuple[str, Estimate]]:
    """Returns the short label of each attribute with its number of this name."""
    return [
        (_short_label(label, row), numbers[name]) for row, (label, numbers) in enumerate(ranking, 1)
    ]


def _short_label(label: str, row: int) -> str:
    """Returns the label of an attribute for a picture, shortened if it is a long combination.

    A shortened label has the first letters of each column; or, if there are too many columns, their
    number and the attribute's row in the tables.

    >>> _short_label("system + language + screen + fonts", 1)
    'syste+langu+scree+fonts'
    >>> _short_label(" + ".join("abcdefghij" * 2), 3)
    '20 columns (row 3)'
    """
    columns = label.split(" + ")
    if len(label) <= _LONGEST_LABEL or len(columns) == 1:
        return label
    letters = (_LONGEST_LABEL - len(columns) + 1) // len(columns)
    if letters < _FEWEST_LETTERS:
        return f"{len(columns)} columns (row {row})"
    return "+".join(column[:letters] for column in columns)


def _table(
    title: str,
    about: str,
    ranking: _Ranking,
    columns: dict[str, tuple[str, Callable[[Estimate], str]]],
) -> str:
    """Returns a section with a table, which has a row for each attribute.

    Args:
      title: the title of the section.
      about: the text above the table.
      ranking: the attributes with their numbers.
      columns: maps names of numbers to the heading of a column and the function that formats them.
    """
    heads = ("Attribute", *(head for head, _ in columns.values()))
    rows = []
    for label, numbers in ranking:
        texts = [text(numbers[name]) for name, (_, text) in columns.items()]
        # Labels break on a phone, and intervals do not.
        rows.append((label, *(text.replace(" ", "\u00a0") for text in texts)))
    return page.section(title, about, [heads, *rows])


def _share_text(estimate: Estimate) -> str:
    """Returns a share with its interval below it, short enough for a phone."""
    low, high = percents(estimate.low, estimate.high, 1)
    return f"{estimate.value:.1%}\n{low} to {high}"


def _ratio_text(estimate: Estimate) -> str:
    """Returns a number between 0 and 1 with its interval below it, which is rounded outwards."""
    low, high = math.floor(estimate.low * 1e4) / 1e4, math.ceil(estimate.high * 1e4) / 1e4
    return f"{estimate.value:.4f}\n{low:.4f} to {high:.4f}"
