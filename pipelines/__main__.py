"""The program that runs every command: ``dp-frequency-lists COMMAND`` or ``python -m pipelines``.

Each command is a module with a ``main`` of its own, which ``python -m pipelines.MODULE`` runs too.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import sys
from collections.abc import Sequence

from dp_transforms import __version__
from pipelines import INTERRUPTED, INTERRUPTED_TEXT, SUCCESS, USAGE_ERROR, failed, printing

_NAME = "dp-frequency-lists"

COMMANDS = {
    "plan": ("plan", "predict the error of a release, from public numbers alone: start here"),
    "release": ("release_frequency_list", "release how many users partitions have, without names"),
    "select": ("select_partitions", "release the names of partitions that enough users have"),
    "release-all": ("release_all", "release the list and names, from one read and one budget"),
    "release-groups": ("release_grouped_lists", "release the lists of all users and of each group"),
    "release-hierarchy": ("release_hierarchy", "release lists of a tree of groups, which add up"),
    "release-attributes": (
        "release_attributes",
        "release how users are distributed over the values of each of their attributes",
    ),
    "degrees": ("release_degree_list", "release how many nodes of a graph have each degree"),
    "choose-kappa": ("choose_kappa", "release how many partitions users have, to choose kappa"),
    "ledger": ("ledger", "make a budget that several jobs share, or see what is left"),
    "show": ("show", "print a release: its rows, numbers with intervals, and guarantee"),
    "report": ("report", "draw a release, or compare two: a page and pictures"),
    "evaluate": ("evaluate", "compare a release with the list without noise: PRIVATE"),
    "audit": ("audit", "certify a lower bound on epsilon for two neighbouring inputs: PRIVATE"),
    "sample": ("sample_records", "write made-up records to try the commands on"),
}
"""The module of each command, which has a ``main(argv) -> exit code``, and a line of help."""


def usage() -> str:
    """Returns the help of the command itself."""
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name:{width}}  {about}" for name, (_, about) in COMMANDS.items())
    return f"""\
usage: {_NAME} COMMAND [options]

Release statistics of users under differential privacy.

commands:
{commands}

{_NAME} COMMAND --help explains it; {_NAME} --version prints the version.
{_NAME} --completion SHELL prints a script that completes commands and flags
by TAB in bash, zsh, fish and others (extra: completion).
Exit codes: 0 done, 1 failed, 2 error in the command line, 3 released before, 4 no budget left,
5 under way elsewhere, 130 interrupted, 143 terminated.

A first release, from made-up records:
  {_NAME} sample --users=100000 --output=records.csv
  {_NAME} release --input=records.csv --user_column=user --partition_column=password_id
      --epsilon=1 --max_partitions_per_user=1 --output=release
"""


def _completion(shell: str = "", *others: str) -> int:
    """Prints the completion script for a shell; returns the exit code."""
    try:
        import shtab
    except ImportError:
        message = "completion needs shtab: pip install 'dp-frequency-lists[completion]'"
        return failed(message, USAGE_ERROR)
    if shell not in shtab.SUPPORTED_SHELLS or others:
        shells = ", ".join(shtab.SUPPORTED_SHELLS)
        return failed(f"--completion takes one of {shells}", USAGE_ERROR)
    whole = argparse.ArgumentParser(_NAME)
    whole.add_argument("--version", action="store_true", help="print the version")
    commands = whole.add_subparsers()
    for name, (module, about) in COMMANDS.items():
        parser = importlib.import_module(f"pipelines.{module}").make_parser()
        # Both parsers would add --help.
        commands.add_parser(name, help=about, parents=[parser], add_help=False)
    print(shtab.complete(whole, shell))
    return SUCCESS


def _run(name: str, arguments: Sequence[str]) -> int:
    """Runs a command, or prints the help, the version or a completion script; returns the exit
    code."""
    if name in ("--help", "-h", "help"):
        print(usage(), end="")
        return SUCCESS
    if name == "--version":
        print(f"{_NAME} {__version__}")
        return SUCCESS
    if name.partition("=")[0] == "--completion":
        return _completion(*name.split("=", 1)[1:], *arguments)
    if name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, 1)
        hint = f"did you mean {near[0]}?" if near else f"the commands are {', '.join(COMMANDS)}"
        return failed(f"there is no command {name!r}: {hint}", USAGE_ERROR)
    # Imported only now, since these imports take long, and help does not need them.
    from dp_transforms.engines.progress import patience
    from pipelines.command_line import OneLineParser

    module = importlib.import_module(f"pipelines.{COMMANDS[name][0]}")
    OneLineParser.typed = f"{_NAME} {name}"
    try:
        with patience(name):
            return module.main(arguments) or SUCCESS
    finally:
        OneLineParser.typed = None


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    name, *arguments = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    code = SUCCESS
    try:
        with printing():
            code = _run(name, arguments)
    except KeyboardInterrupt:
        return failed(INTERRUPTED_TEXT, INTERRUPTED)
    except ValueError as error:  # standard output cannot be written
        return failed(str(error))
    return code


if __name__ == "__main__":
    sys.exit(main())
