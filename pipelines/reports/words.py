"""The wording of a report: about users' partitions, or about a graph's degrees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from dp_transforms.mechanisms.laws.release_law import ExponentialLaw
from pipelines.reports.privacy_statement import NODE


class Wording(NamedTuple):
    """The words of a page that go with a kind of list."""

    title: str
    total: str  # what the frequencies add up to, before what has them
    items: str  # what has a frequency, in the plural
    frequency: str  # what a frequency is, at the axis
    ranks_title: str  # of the picture of frequencies by rank
    ranks_caption: str  # below it
    guessing: bool  # whether guessing metrics mean something for such a list


_PARTITIONS = Wording(
    "A differentially private frequency list",
    "contributions of users to",
    "partitions",
    "users of the partition",
    "Frequency by rank",
    "How many users each partition has, from the most frequent on.",
    True,
)
_SOURCES = {ExponentialLaw.words: " (Blocki, Datta and Bonneau, NDSS 2016)"}
_MECHANISM_WORDS = (
    "The mechanism is the {}, sampled exactly with random numbers of the operating system. Further "
    "analysis of what was released costs no privacy; further releases about the same "
)
_DEGREES = {
    "undirected": ("ends of edges at", "neighbours of the node", "neighbours each node has"),
    "in": ("edges into", "edges into the node", "edges lead to each node"),
    "out": ("edges out of", "edges out of the node", "edges lead away from each node"),
}


def wording(statement: dict[str, Any]) -> Wording:
    """The words for what a privacy.json describes."""
    degree = statement.get("degree")
    if degree is None:
        return _PARTITIONS._replace(guessing=about_passwords(statement))
    total, frequency, has = _DEGREES[degree]
    title = "A differentially private degree list"
    caption = f"How many {has}, from the largest number on."
    return Wording(title, total, "nodes", frequency, "Degree by rank", caption, False)


def about_passwords(statement: dict[str, Any]) -> bool:
    """Tells whether guessing means something: yes, unless columns are named, and none a password.

    >>> about_passwords({"partition_columns": ["page"]})
    False
    """
    columns = statement.get("partition_columns", ["password"])
    return any("pass" in column.lower() or "pin" == column.lower() for column in columns)


def privacy_words(statement: dict[str, Any]) -> list[str]:
    """A privacy.json in paragraphs that a publisher can paste.

    >>> privacy_words({"epsilon": 1.0, "neighbours": "add or remove one user",
    ...     "sensitivity": 1, "max_partitions_per_user": 1,
    ...     "max_partitions_per_user_is": "enforced"})[1]
    'Each user counts in at most 1 partition, chosen at random; the job that made this release ...'
    """
    epsilon, unit = statement["epsilon"], statement.get("privacy_unit", "user")
    whose = "any one person's records were" if unit == "user" else f"any one {unit} was"
    return [
        f"This {'degree' if 'degree' in statement else 'frequency'} list was released under pure "
        f"epsilon-differential privacy with epsilon = {epsilon:g}. The privacy unit is one {unit}; "
        f"neighbouring data sets: {statement['neighbours']}. Whether {whose} used or not, every "
        f"possible release is at most e^{epsilon:g} times as likely in one case as in the other.",
        _bound_words(statement) + _period_words(statement),
        _mechanism_words([statement])
        + f"{'users' if unit == 'user' else 'graph'} do, and their costs add up.",
    ]


def grouped_privacy_words(statement: dict[str, Any]) -> list[str]:
    """The privacy.json of lists of groups, in such paragraphs."""
    epsilon, delta = statement["epsilon"], statement["delta"]
    kind = f"({epsilon:g}, {delta:g})-differential privacy"
    if not delta:
        kind = f"pure epsilon-differential privacy with epsilon = {epsilon:g}"
    parts = [
        f"{one['epsilon']:.3g} for "
        + (f"the groups by {one['attribute']}" if "attribute" in one else "the list of all users")
        for one in statement["lists"]
    ]
    selection = statement.get("selection_of_groups")
    if selection:
        parts.append(f"{selection['epsilon']:g} for the names of groups that were not public")
    return [
        f"These lists were released together under {kind}. The privacy unit is one user; "
        f"neighbouring data sets: {statement['neighbours']}.",
        f"Epsilon adds up from: {', '.join(parts)}. Of each attribute a user counts in one group "
        "at most, so that its groups together cost no more than one of them.",
        _bound_words(statement),
        _mechanism_words(statement["lists"]) + "users do, and their costs add up.",
    ]


def selection_privacy_words(statement: dict[str, Any]) -> list[str]:
    """The privacy.json of names of partitions, in such paragraphs."""
    epsilon, delta = statement["epsilon"], statement["delta"]
    strategy = f"selection strategy {statement['strategy']}"
    words = [
        f"These names were released under ({epsilon:g}, {delta:g})-differential privacy. The "
        f"privacy unit is one user; neighbouring data sets: {statement['neighbours']}. Whatever "
        f"may be released is at most e^{epsilon:g} times as likely with one of these data sets as "
        f"with the other, and {delta:g} more.",
        _bound_words(statement) + _periods_of_names(statement),
        _MECHANISM_WORDS.format(strategy) + "users do, and their costs add up.",
    ]
    if statement.get("public_partitions"):
        words.insert(
            2,
            f"{statement['public_partitions']:,} names were public before: of these the release "
            "tells no more than the numbers of their users.",
        )
    if statement["pre_threshold"] > 1:
        words.insert(
            2, f"Partitions of fewer than {statement['pre_threshold']:,} users are never named."
        )
    return words


def _periods_of_names(statement: dict[str, Any]) -> str:
    periods = statement.get("periods")
    if periods is None:
        return ""
    return (
        f" These are the names of {statement['period']}, one of the releases of each "
        f"{periods['of']} from {periods['first']} to {periods['last']}. The numbers above are for "
        f"all of them together: a user counts in at most {periods['max_periods_per_user']}, "
        f"in each with at most {periods['max_partitions_per_user_and_period']} partitions, chosen "
        "at random."
    )


def _mechanism_words(lists: Sequence[dict[str, Any]]) -> str:
    names = dict.fromkeys(one.get("mechanism", ExponentialLaw.words) for one in lists)
    return _MECHANISM_WORDS.format(" or the ".join(name + _SOURCES.get(name, "") for name in names))


def _period_words(statement: dict[str, Any]) -> str:
    periods = statement.get("periods")
    if periods is None:
        return ""
    return (
        f" This is the list of {statement['period']}, one of those of each {periods['of']} from "
        f"{periods['first']} to {periods['last']}, whose partitions are bounded so each. A user "
        f"counts in at most {periods['max_periods_per_user']} of them, chosen at random, so that "
        f"all lists together are under epsilon = {periods['epsilon_of_all']:g}."
    )


def _bound_words(statement: dict[str, Any]) -> str:
    if statement.get("privacy_unit") == NODE:
        return (
            f"The graph was first projected to degrees of at most {statement['degree_bound']}, a "
            f"bound that was chosen without looking at it (edge addition: Day, Li and Lyu, SIGMOD "
            f"2016). Self-loops were dropped, and repeated edges counted once."
        )
    if "degree" in statement:
        return "Self-loops were dropped, and repeated edges counted once."
    kappa = statement["max_partitions_per_user"]
    counts = f"Each user counts in at most {kappa} partition{'s' if kappa > 1 else ''}"
    if not drops_records(statement):
        return f"{counts}; this is the publisher's declaration about the data."
    return (
        f"{counts}, chosen at random; the job that made this release saw to it. Where users have "
        "more, numbers of partitions, totals and counts are lower here than in all records."
    )


def drops_records(statement: dict[str, Any]) -> bool:
    """Tells whether the job may have dropped records, so that true numbers may be larger."""
    return statement.get("max_partitions_per_user_is") == "enforced"


def bounded(statement: dict[str, Any]) -> str:
    """Words for the bound on a page's numbers, where records may have been dropped; else none.

    >>> bounded({"max_partitions_per_user": 2, "max_partitions_per_user_is": "enforced"})
    ', of at most 2 partitions of each user'
    """
    if not drops_records(statement):
        return ""
    kappa = statement["max_partitions_per_user"]
    return f", of at most {kappa} partition{'s' if kappa > 1 else ''} of each user"
