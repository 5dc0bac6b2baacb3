"""Makes the page of released names of partitions, and puts their statement into words."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from html import escape
from typing import TYPE_CHECKING, Any

from dp_transforms.files.filenames import COUNTS, NAMES_PICTURE
from dp_transforms.mechanisms.discrete_noise import DiscreteLaplace
from dp_transforms.mechanisms.selection.threshold_distribution import CONFIDENCE
from dp_transforms.postprocessing.estimates import Estimate
from dp_transforms.releases.name_statements import COUNT_NOISE, USERS_OF_OTHERS
from dp_transforms.reports import page
from dp_transforms.reports.entries import ESTIMATES, KAPPA_IS_OF, OTHER_PARTITIONS
from dp_transforms.reports.phrases import (
    Wording,
    Words,
    amount,
    bound_words,
    choice_words,
    mechanism_words,
    some,
    span_of,
    with_article,
    wording,
)

if TYPE_CHECKING:
    from dp_transforms.releases.names import NamesRelease

_SHOWN = 100
_DRAWN = 20


def names_page(release: NamesRelease, words: Words) -> page.Page:
    """Makes the page of names, with their numbers of users if these were released."""
    statement = dict(release.statement)
    terms = wording(statement, words)
    pictures = {}
    intro = f"{len(release):,} names of {terms.things} were released."
    if len(release) == 1:
        intro = f"1 name of {with_article(terms.thing)} was released."
    content = f"<p>{escape(intro + _others(statement, terms))}</p>\n"
    if len(release):
        content += f"<h2>{escape(_heading(release, terms))}</h2>\n"
        if statement["noisy_counts"]:
            pictures[NAMES_PICTURE] = page.png(_figure(release, terms))
            content += f"<p>{escape(_about_counts(release, terms))}</p>\n"
            content += page.figure(pictures[NAMES_PICTURE], _caption(release))
        content += _table(release, terms)
    unnamed = release.about_unnamed(terms.nouns)
    if unnamed:
        lines = "".join(f"<p>{escape(line)}.</p>\n" for line in unnamed)
        content += f"<h2>What is not named</h2>\n{lines}"
    title = f"Differentially private names of {terms.things}{words.of_data}"
    return page.document(title, words, content, {"": release}), pictures


def _heading(release: NamesRelease, terms: Wording) -> str:
    """Returns the heading above the table, which has at most ``_SHOWN`` names."""
    if len(release) <= _SHOWN:
        return "The names"
    if release.statement["noisy_counts"]:
        return f"The {_SHOWN:,} with the most {terms.users}"
    return f"The first {_SHOWN:,}"


def _caption(release: NamesRelease) -> str:
    """Returns the caption of the picture, which has at most ``_DRAWN`` names."""
    kind = "estimates" if release.has_estimates else "noisy counts"
    if len(release) <= _DRAWN:
        return f"{kind.capitalize()}, and their intervals."
    return f"The {_DRAWN} largest {kind}, and their intervals."


def _table(release: NamesRelease, terms: Wording) -> str:
    """Returns the table of the first names."""
    heads, numbers = list(release.to_arrow().column_names), 0
    if release.statement["noisy_counts"]:
        numbers = len(COUNTS)
        heads[-numbers:] = [f"{terms.users}, about", "from", "to"]
    return page.table([heads, *_rows(release, _SHOWN)], numbers)


def _about_counts(release: NamesRelease, terms: Wording) -> str:
    """Returns sentences on what the numbers of users are, and how to read their intervals."""
    confidence = release.statement["count_intervals"]["confidence"]
    holds = (
        f"Each interval holds the number before noise with {confidence:.0%} confidence given that "
        f"the {terms.thing} is named, whatever that number is: of a hundred intervals about "
        f"{100 * (1 - confidence):.0f} do not."
    )
    if not release.has_estimates and COUNT_NOISE in release.statement:
        most = release.statement[COUNT_NOISE]["max_partitions_per_user"]
        counted = some(most, f"named {terms.thing}", f"named {terms.things}")
        return (
            f"Counts are of {terms.users}, with noise.{terms.limits('They are')} "
            f"{terms.things.capitalize()} were counted after they had been named, with noise of "
            f"their own: {terms.users}, each in at most {counted}, chosen at random. Each interval "
            f"holds this number with {confidence:.0%} confidence."
        )
    if not release.has_estimates:
        return (
            f"Counts are of {terms.users}, with noise.{terms.limits('They are')} {holds} A lower "
            "end far from its count says that far fewer, by luck, would have given that count as "
            "well."
        )
    if release.is_about_all_records:
        return (
            f"Estimates of how many {terms.users} have these {terms.things} in all records, by a "
            f"model. {holds}"
        )
    return f"Estimates of numbers of {terms.users}, by a model.{terms.limits('They are')} {holds}"


def _rows(release: NamesRelease, shown: int) -> list[list[str]]:
    """Returns the first rows of the table of names, as texts."""

    def word(value: Any) -> str:
        return value.decode(errors="replace") if isinstance(value, bytes) else str(value)

    rows = []
    columns = release.to_arrow()[:shown].to_pydict().values()
    for row in zip(*columns, strict=True):
        words, numbers = row[: release._words], row[release._words :]
        rows.append([*map(word, words), *(f"{number:,}" for number in numbers)])
    return rows


def _others(statement: dict[str, Any], terms: Wording) -> str:
    """Returns a sentence on how many users have other partitions, if that was released."""
    if USERS_OF_OTHERS not in statement:
        return ""
    users = statement[USERS_OF_OTHERS]
    noise = DiscreteLaplace(1 / Fraction(statement[OTHER_PARTITIONS]["epsilon_exact"]))
    reach = noise.reach((1 - CONFIDENCE) / 2)
    low, high = max(0, users - reach), users + reach
    return (
        f" About {users:,} {terms.users} have {terms.things} that are not named: between "
        f"{low:,} and {high:,} ({float(CONFIDENCE):.0%} confidence)."
    )


def _figure(release: NamesRelease, terms: Wording) -> Any:
    """Draws the numbers of users of the first names, with their intervals."""
    table = release.to_arrow()[:_DRAWN]
    names = [", ".join(row[: -len(COUNTS)]) for row in _rows(release, _DRAWN)]
    users, low, high = (table[name].to_pylist() for name in table.column_names[-len(COUNTS) :])
    estimates = map(Estimate, users, low, high)
    bars = list(zip(names, estimates, strict=True))
    return page.interval_bars(f"{terms.users.capitalize()} of the first names", terms.users, bars)


def names_words(statement: Mapping[str, Any]) -> list[str]:
    """Returns paragraphs that state the guarantee of names, or of names of periods, by the content
    of their privacy.json. A publisher can paste them."""
    epsilon, delta = amount(statement["epsilon"]), amount(statement["delta"])
    paragraphs = [
        f"These names were released under ({epsilon}, {delta})-differential privacy. The "
        f"privacy unit is one user; neighbouring data sets: {statement['neighbours']}. Any set "
        f"of outputs has at most e^{epsilon} times the probability with one of these data sets "
        f"that it has with the other, plus {delta}.",
        bound_words(statement) + _period_words(statement),
    ]
    if more := statement.get(OTHER_PARTITIONS, {}).get("epsilon"):
        paragraphs[0] += (
            " Beside the names, the number of users of other partitions costs epsilon = "
            f"{amount(more)} more, {amount(round(statement['epsilon'] + more, 12))} in all."
        )
    if ESTIMATES in statement:
        both = amount(statement[ESTIMATES]["epsilon"])
        paragraphs[0] += (
            " The estimates beside them also follow from other releases about the same records: "
            f"names and estimates together cost epsilon = {both}, delta = {delta}."
        )
    if statement["pre_threshold"] > 1:
        least = statement["pre_threshold"]
        paragraphs.append(f"Partitions of fewer than {least:,} users are never named.")
    if statement.get("public_partitions"):
        tells = "the numbers of their users"
        if not statement["noisy_counts"]:
            tells = "which of them have a noisy number of users that reaches the threshold"
        paragraphs.append(
            f"Names that were public before: {statement['public_partitions']:,}. About these the "
            f"release tells only {tells}."
        )
    paragraphs += choice_words(statement)
    return [*paragraphs, mechanism_words([f"selection strategy {statement['strategy']}"], "users")]


def _period_words(statement: Mapping[str, Any]) -> str:
    if "periods" not in statement:
        return ""
    periods, period = statement["periods"], statement.get("period")
    which = "These are the names"
    if period:
        which += f" of {period}; there are names"
    in_each = ""
    if KAPPA_IS_OF not in periods:
        in_each = (
            " and in at most "
            f"{some(periods['max_partitions_per_user_and_period'], 'partition')} of each,"
        )
    return (
        f" {which} of {span_of(periods)}. The numbers above are for all of these periods together: "
        f"a user counts in at most {periods['max_periods_per_user']} of them,{in_each} chosen at "
        "random."
    )
