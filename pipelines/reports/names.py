"""A page about released names of partitions: the first of them, and about how many users they have.

Everything is computed from the released files alone, so a report costs no privacy.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dp_transforms.mechanisms.enclosure import smallest_where
from dp_transforms.mechanisms.noise.discrete_noise import DiscreteLaplace
from pipelines.files.names import NAMES_PICTURE, PARTITIONS_FILE, PRIVACY_FILE
from pipelines.reports import page
from pipelines.reports.words import selection_privacy_words

if TYPE_CHECKING:
    from pipelines.files.partition_file import Names

_SHOWN = 100
_DRAWN = 20
_MISS = Fraction(1, 20)


def write_names_report(directory: str, about: str | None = None) -> str:
    """Writes the page beside released names; returns its path. Args, Raises: ``write_report``."""
    from pipelines.files.partition_file import parse_names

    with page.reading(directory, f"released names of partitions with their {PRIVACY_FILE}"):
        statement = page.read_statement(directory, about)
        released = parse_names(page.read_file(directory, PARTITIONS_FILE), statement)
        pictures = {}
        if released.counts:
            pictures[NAMES_PICTURE] = _picture(released)
        text = names_page(released, statement, pictures)
    return page.write(directory, text, pictures)


def names_page(released: Names, statement: dict[str, Any], pictures: dict[str, bytes]) -> str:
    """The whole page, its picture included, as HTML."""
    number = len(released.names)
    shown = min(number, _SHOWN)
    which = f"The {shown:,} with the most users" if released.counts else f"The first {shown:,}"
    said = f"{number:,} names of partitions were" if number != 1 else "1 name of a partition was"
    content = f"<p>{said} released.{_others(statement)}</p>\n"
    if number:
        content += f"<h2>{'The names' if shown == number else which}</h2>\n"
    if released.counts:
        confidence = statement["count_intervals"]["confidence"]
        content += f"""<p>{_counted(statement)} Counts have noise.
Each interval holds the true number with {confidence:.0%} confidence given that the partition is
named, whatever that number is: of a hundred intervals about {100 * (1 - confidence):.0f} do not. A
lower end far from its count says that far fewer users, by luck, would have given that count as
well.</p>
"""
        caption = "Noisy counts, and their intervals."
        if number > _DRAWN:
            caption = f"The {_DRAWN} largest noisy counts, and their intervals."
        content += page.figure(pictures[NAMES_PICTURE], caption)
    if number:
        content += _table(released, shown)
    words = selection_privacy_words(statement)
    return page.document("Differentially private names of partitions", content, words, statement)


def _counted(statement: dict[str, Any]) -> str:
    """A sentence about the users that counts are of."""
    if statement["max_partitions_per_user_is"] != "enforced":
        return "Counts are of users."
    kappa = statement["max_partitions_per_user"]
    return (
        f"Counts are of the users who have a partition among at most {kappa:,} of theirs, chosen "
        f"at random: if users have more than {kappa:,}, it has at least as many."
    )


def _others(statement: dict[str, Any]) -> str:
    """Says about how many users have other partitions, if that was released."""
    if "users_of_other_partitions" not in statement:
        return ""
    users = statement["users_of_other_partitions"]
    noise = DiscreteLaplace(1 / Fraction(str(statement["other_partitions"]["epsilon"])))
    miss = _MISS / 2
    # P[X >= c] = P[X <= -c] is at most half of what both ends may miss.
    beyond = smallest_where(lambda c: bool(noise.tail(c - 1, 64).upper <= miss), 1)
    low, high = max(0, users - beyond + 1), users + beyond - 1
    return (
        f" About {users:,} users have partitions that are not named: between {low:,} and {high:,} "
        f"({float(1 - _MISS):.0%} confidence)."
    )


def _table(released: Names, shown: int) -> str:
    rows: list[Sequence[str]] = [list(name) for name in released.names[:shown]]
    if released.counts is None:
        return page.table([released.columns, *rows], numbers=0)
    heads = [*released.columns, "users, about", "from", "to"]
    numbers = [[f"{n:,}" for n in counts] for counts in released.counts[:shown]]
    rows = [[*name, *counts] for name, counts in zip(rows, numbers, strict=True)]
    return page.table([heads, *rows], numbers=len(numbers[0]))


def _picture(released: Names) -> bytes:
    assert released.counts is not None
    counts = released.counts[:_DRAWN]
    places = range(len(counts))
    drawn, axes = page.new_figure(height=1 + 0.25 * len(counts))
    axes.hlines(
        places, [low for _, low, _ in counts], [high for *_, high in counts], lw=5, alpha=0.3
    )
    axes.plot([n for n, *_ in counts], places, "o", ms=4)
    labels = [page.shortened(", ".join(name)) for name in released.names[:_DRAWN]]
    axes.set_yticks(places, labels, parse_math=False)
    axes.set(title="Users of the first names", xlabel="users", ylim=(len(counts), -1))
    axes.set_xlim(left=0)
    axes.grid(alpha=0.3)
    return page.png(drawn)
