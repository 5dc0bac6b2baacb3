"""A page about released names: the first of them, and about how many users they have."""

from __future__ import annotations

import html
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dp_transforms.files.filenames import COUNTS, NAMES_PICTURE
from dp_transforms.mechanisms.enclosure import smallest_where
from dp_transforms.mechanisms.noise.discrete_noise import DiscreteLaplace
from dp_transforms.postprocessing.estimates import Estimate
from dp_transforms.reports import page
from dp_transforms.reports.phrases import Wording, Words, wording

if TYPE_CHECKING:
    from dp_transforms.frames.answers import NamesRelease

_SHOWN = 100
_DRAWN = 20
_MISS = Fraction(1, 20)


def names_page(release: NamesRelease, words: Words) -> tuple[str, dict[str, bytes]]:
    """The whole page, its picture included, and this by its name."""
    statement = dict(release.statement)
    said = wording(statement, words)
    number, pictures = len(release), {}
    shown = min(number, _SHOWN)
    counted = bool(statement["noisy_counts"])
    which = f"The {shown:,} with the most {said.users}" if counted else f"The first {shown:,}"
    were = f"{number:,} names of {said.things} were"
    if number == 1:
        were = "1 name of a partition was"
    content = f"<p>{html.escape(f'{were} released.{_others(statement, said)}')}</p>\n"
    if number:
        content += f"<h2>{'The names' if shown == number else html.escape(which)}</h2>\n"
    if number and counted:
        confidence = statement["count_intervals"]["confidence"]
        content += f"""<p>{html.escape(_counted(statement, said))} Counts have noise.
Each interval holds the true number with {confidence:.0%} confidence given that the partition is
named, whatever that number is: of a hundred intervals about {100 * (1 - confidence):.0f} do not. A
lower end far from its count says that far fewer, by luck, would have given that count as
well.</p>
"""
        caption = "Noisy counts, and their intervals."
        if number > _DRAWN:
            caption = f"The {_DRAWN} largest noisy counts, and their intervals."
        pictures[NAMES_PICTURE] = page.png(_figure(release, said))
        content += page.figure(pictures[NAMES_PICTURE], caption)
    if number:
        heads = list(release.names.column_names)
        if counted:
            heads[-len(COUNTS) :] = [f"{said.users}, about", "from", "to"]
        numbers = len(COUNTS) if counted else 0
        content += page.table([heads, *_rows(release, shown)], numbers)
    data = f" of {words.data_name}" if words.data_name else ""
    title = f"Differentially private names of {said.things}{data}"
    return page.document(title, words, content, {"": statement}), pictures


def _rows(release: NamesRelease, shown: int) -> list[list[str]]:
    first = release.names.slice(0, shown)
    labels = set(release._labels)
    columns = [
        [_name(one) if name in labels else f"{one:,}" for one in first[name].to_pylist()]
        for name in first.column_names
    ]
    return [list(row) for row in zip(*columns, strict=True)]


def _name(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _counted(statement: dict[str, Any], said: Wording) -> str:
    """A sentence about the users that counts are of."""
    if not said.bound:
        return f"Counts are of {said.users}."
    kappa = statement["max_partitions_per_user"]
    return (
        f"Counts are of the {said.users} who have a partition among at most {kappa:,} of theirs, "
        f"chosen at random: if {said.users} have more than {kappa:,}, it has at least as many."
    )


def _others(statement: dict[str, Any], said: Wording) -> str:
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
        f" About {users:,} {said.users} have {said.things} that are not named: between {low:,} and "
        f"{high:,} ({float(1 - _MISS):.0%} confidence)."
    )


def _figure(release: NamesRelease, said: Wording) -> Any:
    rows = _rows(release, _DRAWN)
    counts = zip(*(release.names[name].to_pylist() for name in COUNTS), strict=True)
    bars = [
        (", ".join(row[: -len(COUNTS)]), Estimate(*count))
        for row, count in zip(rows, counts, strict=False)
    ]
    return page.interval_bars(f"{said.users.capitalize()} of the first names", said.users, bars)
