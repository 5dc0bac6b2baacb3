"""The command ledger: makes a privacy ledger, shows its entries, and gives unused budget back.

Jobs spend from a ledger with ``--ledger=FILE``; ``dp_transforms.budget.ledger`` says what it
promises.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
from typing import Any

from dp_transforms.budget import CorruptedLedgerError, Ledger, LedgerLine, PrivacyUnit, State
from dp_transforms.budget.failures import FREE_FAILURES, check_free_failures
from dp_transforms.errors import InputError
from dp_transforms.files.paths import reason
from dp_transforms.postprocessing.text_table import text_table
from pipelines import flag_values
from pipelines.command_line import OneLineParser, add_json_flag, command

_EPILOG = """\
A job reserves its cost before it reads data. If it fails, is interrupted or killed on this machine
before it begins to write its release, the cost is given back, at the latest when the next job
reserves, as often as --free_failures allows. Only 'create' makes a ledger; nothing replaces one.

FILE may be a database: postgresql://USER@HOST/DATABASE, and #SCHEMA unless that is privacy_ledger
(extra: ledger). A password comes from PGPASSWORD, or from the file that PGPASSFILE names.

example:
  python -m pipelines.ledger create budget.ledger --epsilon=1 --delta=1e-6
  dp-frequency-lists release ... --epsilon=0.25 --ledger=budget.ledger
  python -m pipelines.ledger show budget.ledger
"""
_WARNING = (
    "this gives budget back on your word. If anything that depends on the data came out of the "
    "job (a file, a log, an error, a decision that somebody saw), or will because the job still "
    "runs, the guarantee of all releases under this ledger is void. Look for the job's output, and "
    "for files there that begin with a dot and end with .part; then repeat with --nothing_came_out"
)


def _number_of_failures(text: str) -> int:
    """Parses the value of --free_failures, an integer of at least 0."""
    try:
        number = int(text)
        check_free_failures(number)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be an integer from 0, got {text!r}") from None
    return number


def make_parser() -> OneLineParser:
    parser = OneLineParser(
        prog="python -m pipelines.ledger",
        description="Make a privacy ledger that several jobs share, show how much budget is left, "
        "or give back a cost that a job reserved and did not use.",
        epilog=_EPILOG,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="create|show|abandon")
    create = commands.add_parser("create", help="start a ledger in a new file, or in PostgreSQL")
    create.add_argument("file", metavar="FILE", help="the ledger to make")
    create.add_argument(
        "--epsilon",
        type=flag_values.epsilon,
        required=True,
        help="what all releases about these users may cost together",
    )
    create.add_argument(
        "--delta",
        type=flag_values.proportion,
        default=0,
        help="roughly the probability that epsilon fails (default: 0)",
    )
    create.add_argument(
        "--composition_delta",
        type=flag_values.proportion,
        default=0,
        help="the part of delta to spend on composition: many small releases then cost less than "
        "the sum of their epsilons (default: 0)",
    )
    create.add_argument(
        "--free_failures",
        type=_number_of_failures,
        default=FREE_FAILURES,
        metavar="N",
        help="how many reservations of failed jobs are given back (default: %(default)s); there is "
        "a limit, since failures may disclose something about the data. After that, the "
        "reservations of failed jobs stay spent, and a job costs at least a hundredth of the "
        "epsilon",
    )
    create.add_argument(
        "--unit",
        choices=[unit.value for unit in PrivacyUnit],
        default=PrivacyUnit.USER.value,
        help="the unit in which neighbouring data differ: the records of one user are added or "
        "removed (user, the default), or replaced (replaced-user); one edge; one node",
    )
    show = commands.add_parser("show", help="print the reservations and the budget that is left")
    show.add_argument("file", metavar="FILE", help="the ledger")
    add_json_flag(show)
    abandon = commands.add_parser("abandon", help="give back a cost that a job did not use")
    abandon.add_argument("file", metavar="FILE", help="the ledger")
    abandon.add_argument("ids", metavar="ID", type=int, nargs="+", help="a row's id in 'show'")
    abandon.add_argument(
        "--nothing_came_out",
        action="store_true",
        help="you confirm that nothing that depends on the data came out of the job, or will",
    )
    return parser


_ABOUT = ("command", "output", "label", "job_id")
_SHOWN = ("host", "begun", "reserved_at", "closed_at", "leased_until")


def ledger_table(ledger: Ledger) -> str:
    """Returns the ledger's reservations, and the budget that is left, as a table.

    >>> import tempfile
    >>> ledger = Ledger.create(os.path.join(tempfile.mkdtemp(), "ledger"), epsilon=1, delta=1e-6)
    >>> ledger.reserve(0.25, purpose="frequency list").commit()
    >>> print(ledger_table(ledger))  # doctest: +ELLIPSIS
    id  state      epsilon  delta     reserved (UTC)        purpose
    1   committed  0.25     0         20...Z  frequency list
        left       0.75     0.000001                        of epsilon 1, ... 20 of 20 free failures
    """
    lines = ledger.lines()
    about = [name for name in _ABOUT if any(getattr(line.origin, name) for line in lines)]
    rows = [("id", "state", "epsilon", "delta", "reserved (UTC)", "purpose", *about)]
    for line in lines:
        cost, texts = line.cost.budget, [_short(getattr(line.origin, name)) for name in about]
        amounts = str(cost.epsilon), str(cost.delta)
        rows.append((str(line.id), _state(line), *amounts, line.reserved_at, line.purpose, *texts))
    left, blank = ledger.remaining(), [""] * len(about)
    failures = f"{ledger.free_failures_left()} of {ledger.free_failures} free failures"
    whole = f"of {ledger.budget}, per {ledger.unit.value}; {failures}"
    rows.append(("", "left", str(left.epsilon), str(left.delta), "", whole, *blank))
    return text_table(rows, words=len(rows[0]))


def _short(text: str) -> str:
    """Returns a path below the current directory as a relative one, and other text as it is."""
    return text.removeprefix(os.path.join(os.getcwd(), ""))


def _state(line: LedgerLine) -> str:
    """Returns the state of a reservation, in words."""
    if line.is_lost or line.state is State.FAILED:
        return "failed, free"
    if line.state is not State.RESERVED:
        return line.state.value
    if not line.begun:
        return line.state.value
    return "ended writing" if line.has_lapsed else "writing"


@command(make_parser)
def main(flags: argparse.Namespace) -> None:
    path = os.path.expanduser(flags.file)
    try:
        if flags.command == "create":
            unit = PrivacyUnit(flags.unit)
            budget = flags.epsilon, flags.delta, flags.composition_delta
            Ledger.create(path, *budget, unit, flags.free_failures)
            output = path
        elif flags.command == "show":
            ledger = Ledger.open(path)
            output = json.dumps(_as_json(ledger), indent=2) if flags.json else ledger_table(ledger)
        else:
            ledger = Ledger.open(path)
            if not flags.nothing_came_out:
                raise ValueError(_WARNING)
            ledger.abandon(*flags.ids)
            output = f"{path}: {ledger.remaining()} is left"
    except FileExistsError:
        raise InputError(f"{path} exists: a ledger is never replaced; give another file") from None
    except OSError as error:
        done = {"create": "made", "show": "read", "abandon": "written"}[flags.command]
        raise InputError(f"{path} cannot be {done}: {reason(error)}") from None
    except CorruptedLedgerError as error:
        raise InputError(str(error)) from None
    print(output)


def _as_json(ledger: Ledger) -> dict[str, Any]:
    """Returns what ``ledger_table`` shows, and more about each reservation, as values of JSON."""
    left = ledger.remaining()
    return {
        "epsilon": str(ledger.budget.epsilon),
        "delta": str(ledger.budget.delta),
        "unit": ledger.unit.value,
        "ledger_id": ledger.identity,
        "left": {"epsilon": str(left.epsilon), "delta": str(left.delta)},
        "free_failures": ledger.free_failures,
        "free_failures_left": ledger.free_failures_left(),
        "reservations": [
            line.to_json()
            | dataclasses.asdict(line.origin)
            | {name: getattr(line, name) for name in _SHOWN}
            for line in ledger.lines()
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
