"""A privacy ledger from the command line: make one for several jobs, or see what was spent.

Jobs spend from it with ``--ledger=FILE``; see ``dp_transforms.budget.ledger`` for what it promises.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from dp_transforms.budget import CorruptedJournalError, Ledger, PrivacyUnit
from pipelines import flag_types
from pipelines.command_line import SUCCESS, USAGE_ERROR, OneLineParser, add_json_flag, failed
from pipelines.files.paths import reason
from pipelines.reports.text_table import text_table

_EPILOG = """\
A reservation counts as spent from before its job reads data, whether the job comes to its end or
not. A ledger is never replaced and nothing is taken out of it.

example:
  python -m pipelines.ledger create budget.jsonl --epsilon=1 --delta=1e-6
  python -m pipelines.release_frequency_list ... --epsilon=0.25 --ledger=budget.jsonl
  python -m pipelines.ledger show budget.jsonl
"""


def make_parser() -> OneLineParser:
    """The commands and their flags."""
    parser = OneLineParser(
        prog="python -m pipelines.ledger",
        description="Make a privacy ledger that several jobs share, or show what is left in it.",
        epilog=_EPILOG,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="create|show")
    create = commands.add_parser("create", help="start a ledger in a new file")
    create.add_argument("file", metavar="FILE")
    create.add_argument(
        "--epsilon",
        type=flag_types.epsilon,
        required=True,
        help="what all releases about these users may cost together",
    )
    create.add_argument(
        "--delta",
        type=flag_types.proportion,
        default=0,
        help="the probability with which epsilon may fail (default: 0)",
    )
    create.add_argument(
        "--composition_delta",
        type=flag_types.proportion,
        default=0,
        help="the part of delta to spend on composition: many small releases then cost less than "
        "the sum of their epsilons (default: 0)",
    )
    create.add_argument(
        "--unit",
        choices=[unit.value for unit in PrivacyUnit],
        default=PrivacyUnit.USER.value,
        help="what neighbours differ in: one user's records that are there or not (user), or are "
        "others (replaced-user), one edge, one node. A ledger has one unit (default: user)",
    )
    show = commands.add_parser("show", help="print the reservations and what is left")
    show.add_argument("file", metavar="FILE")
    add_json_flag(show)
    return parser


def ledger_table(ledger: Ledger) -> str:
    """What was reserved, and what is left, as text.

    >>> import tempfile
    >>> ledger = Ledger.create(os.path.join(tempfile.mkdtemp(), "ledger"), epsilon=1, delta=1e-6)
    >>> ledger.reserve(0.25, purpose="frequency list").commit()
    >>> print(ledger_table(ledger))
    line  state      epsilon  delta     purpose
    2     committed  0.25     0         frequency list
          left       0.75     0.000001  of epsilon 1, delta 0.000001, per user
    """
    rows = [("line", "state", "epsilon", "delta", "purpose")]
    for line in ledger.lines():
        cost = line.cost.budget
        costs = str(cost.epsilon), str(cost.delta)
        rows.append((str(line.number), line.state.value, *costs, line.purpose))
    left = ledger.remaining()
    amounts = str(left.epsilon), str(left.delta)
    unit = "privacy unit unknown" if ledger.unit is None else f"per {ledger.unit.value}"
    rows.append(("", "left", *amounts, f"of {ledger.budget}, {unit}"))
    return text_table(rows, words=len(rows[0]))


def main(argv: Sequence[str] | None = None) -> int:
    flags = make_parser().parse_args(argv)
    path = os.path.expanduser(flags.file)
    try:
        if flags.command == "create":
            unit = PrivacyUnit(flags.unit)
            Ledger.create(path, flags.epsilon, flags.delta, flags.composition_delta, unit)
            print(path)
        else:
            ledger = Ledger.open(path)
            print(json.dumps(_as_json(ledger), indent=2) if flags.json else ledger_table(ledger))
    except FileExistsError:
        return failed(f"{path} exists: a ledger is never replaced; give another file")
    except OSError as error:
        done = "made" if flags.command == "create" else "read"
        return failed(f"{path} cannot be {done}: {reason(error)}")
    except CorruptedJournalError as error:
        return failed(str(error))
    except ValueError as error:
        return failed(str(error), USAGE_ERROR)
    return SUCCESS


def _as_json(ledger: Ledger) -> dict[str, Any]:
    left = ledger.remaining()
    return {
        "epsilon": str(ledger.budget.epsilon),
        "delta": str(ledger.budget.delta),
        "unit": ledger.unit and ledger.unit.value,
        "left": {"epsilon": str(left.epsilon), "delta": str(left.delta)},
        "reservations": [line.to_json() for line in ledger.lines()],
    }


if __name__ == "__main__":
    sys.exit(main())
