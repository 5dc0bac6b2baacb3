"""The registry of commands: to add one, write its module and a line here."""

from __future__ import annotations

from typing import NamedTuple

from dp_transforms.files.filenames import (
    DEGREES_FILE,
    FREQUENCIES_FILE,
    LIST_DIRECTORY,
    LISTS_FILE,
    PARTITIONS_DIRECTORY,
    PARTITIONS_FILE,
)


class Command(NamedTuple):
    """A module of this package with a ``main(argv) -> exit code``, one line of help on it, and the
    file that it releases, or the directories in which there are such files."""

    module: str
    about: str
    releases: tuple[str, ...] = ()


COMMANDS = {
    "plan": Command("plan", "what a release would be worth, from public numbers alone: start here"),
    "release": Command(
        "release_frequency_list",
        "how many users partitions have, without names",
        (FREQUENCIES_FILE,),
    ),
    "select": Command(
        "select_partitions", "the names of partitions that enough users have", (PARTITIONS_FILE,)
    ),
    "release-groups": Command(
        "release_grouped_lists",
        "the list of all users and of each group, from one budget",
        (LISTS_FILE,),
    ),
    "degrees": Command(
        "release_degree_list", "how many nodes of a graph have each degree", (FREQUENCIES_FILE,)
    ),
    "release-all": Command(
        "release_all", "both, from one read and one budget", (LIST_DIRECTORY, PARTITIONS_DIRECTORY)
    ),
    "choose-kappa": Command(
        "choose_kappa",
        "how many partitions users have, and which kappa to take: before the others",
        (DEGREES_FILE,),
    ),
    "ledger": Command("ledger", "a budget that several jobs share: make one, see what is left"),
    "show": Command("show", "what a release says: its rows, numbers with intervals, and guarantee"),
    "report": Command("report", "draw a release, or two beside each other: a page and pictures"),
    "evaluate": Command("evaluate", "a release beside the list it was made from: PRIVATE"),
    "audit": Command("audit", "how much epsilon two neighbouring inputs show: PRIVATE"),
    "sample": Command("sample_records", "made-up records to try the others on"),
}
