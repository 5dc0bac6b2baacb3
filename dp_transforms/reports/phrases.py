"""Defines the words that pages and statements share, about users' partitions or a graph's
degrees."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_CEILING
from typing import Any, NamedTuple

from dp_transforms.budget import PrivacyUnit
from dp_transforms.mechanisms.partition.distributions import ExponentialDistribution
from dp_transforms.postprocessing.estimates import rounded
from dp_transforms.reports.entries import (
    DECLARED,
    ESTIMATES,
    KAPPA_IS_OF,
    OTHER_PARTITIONS,
    SURVEY,
    is_enforced_in_rounds,
)

NODE = PrivacyUnit.NODE.value


class Words(NamedTuple):
    """A publisher's own words for a page. They replace the words of the release.

    Attributes:
      about: what partitions are, such as "passwords".
      users: what users are, such as "accounts".
      title: the title of the page.
      data_name: the name of the data.
    """

    about: str | None = None
    users: str = "users"
    title: str | None = None
    data_name: str | None = None

    @property
    def of_data(self) -> str:
        """Returns the words that end a title: " of " and the name of the data, or nothing if they
        have no name."""
        return f" of {self.data_name}" if self.data_name else ""


NO_WORDS = Words()


class Nouns(NamedTuple):
    """What a text calls partitions and users, in the singular and in the plural."""

    thing: str = "partition"
    things: str = "partitions"
    user: str = "user"
    users: str = "users"


GENERAL_NOUNS = Nouns()
"""What statements of privacy call partitions and users."""


class Wording(NamedTuple):
    """The words of a page about one kind of list.

    Attributes:
      title: the title of the page.
      total: what the total counts; ``things`` follow it in a sentence.
      thing, things: what has a frequency, in the singular and in the plural.
      users: what a frequency counts, for the axis of a picture.
      ranks_title, ranks_caption: the title and the caption of the picture of frequencies by rank.
      guessing: whether guessing metrics mean something for such a list.
      bound: if records may have been dropped, the bound that numbers of the page are about.
        It begins with a comma.
      nouns: what the page calls partitions and users, unless it is about a graph.
    """

    title: str
    total: str
    thing: str
    things: str
    users: str
    ranks_title: str
    ranks_caption: str
    guessing: bool
    bound: str = ""
    nouns: Nouns = GENERAL_NOUNS

    def limits(self, what: str) -> str:
        """Returns two sentences on the records that numbers are about, or an empty text if nothing
        was dropped. The first one begins with a space and ``what``, such as "It is"."""
        if not self.bound:
            return ""
        return (
            f" {what}{self.bound[1:]}, chosen at random. If there are more, the true counts are "
            "larger, and shares differ."
        )


_SOURCES = {ExponentialDistribution.title: " (Blocki, Datta and Bonneau, NDSS 2016)"}
_MECHANISM_WORDS = (
    "The mechanism is the {}, sampled exactly, with random numbers that are derived from a secret "
    "key. Further analysis of what was released costs no privacy; further releases about the same "
    "{} do, and their costs add up."
)
_DEGREES = {
    "undirected": ("ends of edges at", "neighbours of the node", "neighbours each node has"),
    "in": ("edges into", "edges into the node", "edges lead to each node"),
    "out": ("edges out of", "edges out of the node", "edges lead away from each node"),
}


def wording(statement: Mapping[str, Any], words: Words = NO_WORDS) -> Wording:
    """Returns the words for the release of a privacy.json."""
    if statement.get("degree") is not None:
        return _degree_wording(statement, words)
    columns = statement.get("partition_columns", [])
    nouns = Nouns(*_partition_words(words.about, columns), *_numbers(words.users))
    thing, things, _, users = nouns
    bound = ""
    if drops_records(statement):
        bound = _bound_wording(statement, nouns)
    names = [words.about] if words.about else columns
    # A list without any names of columns may be one of passwords.
    guessing = not names or any("pass" in name.lower() or name.lower() == "pin" for name in names)
    if SURVEY in statement:
        # Guessing metrics have intervals only for lists of which nothing was dropped.
        guessing = False
    return Wording(
        title=f"A differentially private frequency list{words.of_data}",
        total=f"contributions of {users} to",
        thing=thing,
        things=things,
        users=users,
        ranks_title="Frequency by rank",
        ranks_caption=f"How many {users} the {things} have, from the most frequent on.",
        guessing=guessing,
        bound=bound,
        nouns=nouns,
    )


def _bound_wording(statement: Mapping[str, Any], nouns: Nouns) -> str:
    """Returns ``Wording.bound`` of a statement about records that may have been dropped."""
    periods = statement.get("periods", {})
    if _is_of_surveys(statement):
        # Numbers of these lists are about all records.
        limits = of_all_records(statement, nouns)
        return f",{limits}" if limits else ""
    kappa = statement["max_partitions_per_user"]
    kappa = periods.get("max_partitions_per_user_and_period", kappa)
    bound = f", of at most {some(kappa, nouns.thing, nouns.things)} of each {nouns.user}"
    if KAPPA_IS_OF in periods:
        return bound + over_periods(statement)
    if periods:
        bound += f" in each of at most {periods_of_user(periods)}"
    return bound


def periods_of_user(periods: Mapping[str, Any]) -> str:
    """Returns the largest number of periods in which a user counts in words, such as "2 weeks",
    from the entry of a statement about periods."""
    return some(periods["max_periods_per_user"], periods["of"])


def over_periods(statement: Mapping[str, Any]) -> str:
    """Returns the bounds on the periods of a user in words, such as " over at most 2 weeks, at most
    3 in each". The second bound is left out if there is none. The text is empty if the release is
    not by period."""
    if "periods" not in statement:
        return ""
    periods = statement["periods"]
    words = f" over at most {periods_of_user(periods)}"
    if (kappa := periods.get("max_partitions_per_user_and_period")) is not None:
        words += f", at most {kappa:,} in each"
    return words


def of_all_records(statement: Mapping[str, Any], nouns: Nouns = GENERAL_NOUNS) -> str:
    """Returns to which records the words "all records" are limited, such as " of at most 2 days of
    each user"; an empty text if there is no limit. Releases by period leave out further periods of
    a user, and releases with a largest degree leave out further partitions."""
    bounds = []
    largest = statement.get(SURVEY, {}).get("largest_degree")
    if largest is not None:
        bounds.append(some(largest, nouns.thing, nouns.things))
    if "periods" in statement:
        periods = statement["periods"]
        if bounds:
            bounds[0] += f" in each {periods['of']}"
        bounds.append(periods_of_user(periods))
    return f" of at most {' and '.join(bounds)} of each {nouns.user}" if bounds else ""


def _degree_wording(statement: Mapping[str, Any], words: Words) -> Wording:
    """Returns the words for a list of degrees."""
    degree = statement["degree"]
    total, neighbours, has = _DEGREES[degree]
    bound = ""
    if "degree_bound" in statement:
        where = "at" if degree == "undirected" else "into, and out of,"
        bound = f", of at most {some(statement['degree_bound'], 'edge')} {where} each node"
    return Wording(
        title=f"A differentially private degree list{words.of_data}",
        total=total,
        thing="node",
        things="nodes",
        users=neighbours,
        ranks_title="Degree by rank",
        ranks_caption=f"How many {has}, from the largest number on.",
        guessing=False,
        bound=bound,
    )


def _partition_words(about: str | None, columns: Sequence[str]) -> tuple[str, str]:
    """Returns what a partition is called, in the singular and in the plural: by the publisher, or
    by the names of its columns."""
    if about is None and len(columns) > 1:
        of = f"{', '.join(columns[:-1])} and {columns[-1]}"
        return f"combination of {of}", f"combinations of {of}"
    name = about or "".join(columns).replace("_", " ").removesuffix(" id")
    # A column without a header has a number for its name.
    if not name or name.isdigit():
        name = "partition"
    return _numbers(name)


def _numbers(word: str) -> tuple[str, str]:
    """Returns a noun in the singular and in the plural; it may be given in either.

    >>> _numbers("urls"), _numbers("address"), _numbers("category")
    (('url', 'urls'), ('address', 'addresses'), ('category', 'categories'))
    """
    if word.endswith("ss"):
        return word, f"{word}es"
    if word.endswith("s"):
        return word[:-1], word
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return word, f"{word[:-1]}ies"
    return word, f"{word}s"


def some(number: int, thing: str, things: str = "") -> str:
    """Returns a number of things in words, such as "1 edge". The plural is ``things``; by default
    it is ``thing`` with an s."""
    if number == 1:
        return f"{number:,} {thing}"
    return f"{number:,} {things or f'{thing}s'}"


def with_article(noun: str) -> str:
    """Returns a noun in the singular with its indefinite article.

    >>> with_article("article"), with_article("url")
    ('an article', 'a url')
    """
    return f"an {noun}" if noun[:1].lower() in set("aeio") else f"a {noun}"


def meaning_of_nouns(nouns: Nouns) -> str:
    """Returns a sentence that says what statements of privacy call partitions and users, where a
    page has other nouns for them; an empty text if it has none.

    >>> meaning_of_nouns(Nouns("article", "articles", "user", "users"))
    'Here a partition is an article.'
    """
    pairs = ((GENERAL_NOUNS.thing, nouns.thing), (GENERAL_NOUNS.user, nouns.user))
    meanings = [
        f"{with_article(general)} is {with_article(noun)}"
        for general, noun in pairs
        if noun != general
    ]
    return f"Here {', and '.join(meanings)}." if meanings else ""


def amount(value: float) -> str:
    """Returns a part of a budget as text, with at most six digits, rounded up.

    >>> amount(0.5), amount(0.333333333333334)
    ('0.5', '0.333334')
    """
    return f"{rounded(value, 6, ROUND_CEILING):g}"


def guarantee_words(what: str, epsilon: float, statement: Mapping[str, Any]) -> str:
    """Returns sentences on the guarantee of a release without delta. ``what`` begins the first one,
    such as "These lists were released"."""
    cost, unit = amount(epsilon), statement.get("privacy_unit", "user")
    whose = "any one person's records were" if unit == "user" else f"any one {unit} was"
    return (
        f"{what} under pure epsilon-differential privacy with epsilon = {cost}. The privacy unit "
        f"is one {unit}; neighbouring data sets: {statement['neighbours']}. Whether {whose} used "
        f"or not, every possible release is at most e^{cost} times as likely in one case as in the "
        "other."
    )


def mechanism_words(names: Iterable[str], about: str) -> str:
    """Returns sentences that say which mechanisms made a release, and what further analysis costs.
    ``about`` says what the release is about: users or a graph."""
    titles = " or the ".join(name + _SOURCES.get(name, "") for name in dict.fromkeys(names))
    return _MECHANISM_WORDS.format(titles, about)


def span_of(periods: Mapping[str, Any]) -> str:
    """Returns the span of periods in words, from the entry of a statement about them."""
    span = f"each {periods['of']} from {periods['first']} to {periods['last']}"
    if "days" in periods:
        days = " to ".join(periods["days"].split(".."))
        span += f", of records of the days {days} alone"
    return span


def bound_words(statement: Mapping[str, Any]) -> str:
    """Returns sentences that say in how many partitions a user counts, or what was dropped from a
    graph."""
    if statement.get("privacy_unit") == NODE:
        chosen = "without looking at it"
        if "choice_of_degree_bound" in statement:
            epsilon = amount(statement["choice_of_degree_bound"]["epsilon"])
            chosen = f"from it at epsilon = {epsilon}, which is a part of the whole"
        return (
            f"The graph was first projected to degrees of at most {statement['degree_bound']}, a "
            f"bound that was chosen {chosen} (edge addition: Day, Li and Lyu, SIGMOD 2016). Edges "
            f"beyond the bound are missing at both of their ends: the whole graph has at least as "
            f"many nodes of each degree or more, and how many edges were dropped is not known. "
            f"Self-loops were dropped, and repeated edges counted once."
        )
    if "degree" in statement:
        return "Self-loops were dropped, and repeated edges counted once."
    if SURVEY in statement:
        return _survey_words(statement)
    kappa = partitions_that_count(statement)
    counts = f"Each user counts in at most {some(kappa, 'partition')}"
    if is_enforced_in_rounds(statement):
        counts += " in each round"
    if not drops_records(statement):
        return f"{counts}; this is the publisher's declaration about the data."
    lower = "numbers of partitions, totals and counts are lower here"
    if "strategy" in statement:
        is_counted = statement["noisy_counts"]
        lower = "noisy counts are lower" if is_counted else "fewer of them count for a partition"
    words = (
        f"{counts}, chosen at random; the job that made this release enforced it. If users have "
        f"more, {lower} than in all records."
    )
    if counts_bound_words(statement):
        words += f" Noisy counts are of {statement['noisy_counts_are_of']}."
    return words


def partitions_that_count(statement: Mapping[str, Any]) -> int:
    """Returns the largest number of partitions in which a user counts for a list, or for the choice
    of names. The plan of a look may let fewer count than the bound that was declared."""
    kappa: int = statement["max_partitions_per_user"]
    if "plan" in statement:
        kappa = min(kappa, statement["plan"]["partitions"])
    return kappa


def counts_bound_words(statement: Mapping[str, Any]) -> str:
    """Returns words on the named partitions in which a user counts, to follow those on the bound of
    the names; none unless counts have a bound of their own."""
    counted = statement.get("plan", {}).get("counted") if statement.get("noisy_counts") else None
    if not counted:
        return ""
    return f"; counts: at most {counted} named ones of each user"


def _survey_words(statement: Mapping[str, Any]) -> str:
    """Returns ``bound_words`` of a list with a survey, or of several lists with a survey of
    each."""
    counts = "In each list, each user counts in at most as many partitions as its survey chose"
    if "max_partitions_per_user" in statement:
        kappa = statement["max_partitions_per_user"]
        counts = f"Each user counts in at most {some(kappa, 'partition')} of the list"
    survey = "A survey of each list, of how many partitions users have, took a part of its epsilon"
    if not _is_of_surveys(statement):
        epsilon = amount(statement[SURVEY]["epsilon"])
        survey = f"A survey of how many partitions users have took epsilon = {epsilon} of the whole"
    words = (
        f"{counts}, drawn at random; the job that made this release enforced it. {survey}; it "
        "tells what bounding drops. Numbers of all records are estimates from the list and the "
        "survey."
    )
    largest = statement[SURVEY].get("largest_degree")
    if largest is not None:
        words += (
            f" Nobody was thought to have more than {some(largest, 'partition')}, and this was "
            "enforced: if users have more, the rest of their records is in no number."
        )
    return words


def _is_of_surveys(statement: Mapping[str, Any]) -> bool:
    """Returns whether a statement is that of several lists, each with a survey. Then the costs of
    the surveys are not in it, since each list has its own."""
    return SURVEY in statement and "epsilon" not in statement[SURVEY]


def choice_words(statement: Mapping[str, Any]) -> list[str]:
    """Returns a paragraph that says which plan a look chose for a selection of names, and how many
    names other plans were predicted to give. Returns an empty list if there was no look."""
    if "choice" not in statement:
        return []
    chosen, *others = statement["choice"]["compared"]
    epsilon = amount(statement["look_epsilon"])
    aim, counts = "for the most names", ""
    if "predicted_count_error" in chosen:
        aim = "for its names and the errors of its counts"
        counts = f", with counts that err by about {chosen['predicted_count_error']:,g} users"
    # If plans have the same words, the first is shown.
    predicted: dict[str, int] = {}
    for row in others:
        predicted.setdefault(_plan_words(row), row["predicted_names"])
    compared = "; ".join(f"{plan}, {some(number, 'name')}" for plan, number in predicted.items())
    return [
        f"A noisy look at the records, for epsilon = {epsilon} of the whole, predicted how many "
        f"partitions each of several plans would name. The plan taken, {aim}, is "
        f"{_plan_words(chosen)}: about {some(chosen['predicted_names'], 'name')}{counts}. Other "
        f"plans: {compared}."
    ]


def _plan_words(row: Mapping[str, Any]) -> str:
    partitions = some(row["partitions_per_user"], "partition")
    how = f"{some(row['rounds'], 'round')}" if "rounds" in row else row["strategy"]
    after = ""
    if "counted_partitions_per_user" in row:
        after = f", then counts of {some(row['counted_partitions_per_user'], 'named partition')}"
    return f"{how} (at most {partitions} of each user{after})"


def drops_records(statement: Mapping[str, Any]) -> bool:
    """Returns whether the job may have dropped records, so that true numbers may be larger."""
    return statement.get("max_partitions_per_user_is", DECLARED) != DECLARED


def cost_words(statement: Mapping[str, Any]) -> str:
    """Returns the cost of a release of any kind, as a part of a line."""
    cost = f"epsilon {amount(statement['epsilon'])}"
    if statement["delta"] > 0:
        cost += f" and delta {amount(statement['delta'])}"
    periods = statement.get("periods", {})
    if "epsilon_of_all" in periods:
        whole = f"epsilon {amount(periods['epsilon_of_all'])} for all {periods['of']}s together"
        cost = f"{whole}, {amount(statement['epsilon'])} for each"
    if OTHER_PARTITIONS in statement:
        others = amount(statement[OTHER_PARTITIONS]["epsilon"])
        cost += f" for the names, and epsilon {others} for users of other partitions"
    if ESTIMATES in statement:
        both = amount(statement[ESTIMATES]["epsilon"])
        cost += f" for the names alone, epsilon {both} with the estimates beside them"
    return cost
