"""Audits a mechanism on a pair of neighbours: how much epsilon do its outputs show?

An event that tells the inputs apart gives a certified lower bound on epsilon; where the two
distributions are known exactly, so is epsilon.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dp_transforms.columnar.columns import PARTITION, USER, decoded
from dp_transforms.errors import InputError
from dp_transforms.evaluation.auditing import epsilon_lower_bound
from dp_transforms.files.frequency_files import read_frequency_list
from dp_transforms.files.logical_types import from_text
from dp_transforms.files.paths import FileRange, local_path, match_files
from dp_transforms.files.record_files import format_of
from dp_transforms.mechanisms.partition.registry import partition_mechanism
from dp_transforms.mechanisms.selection import STRATEGIES
from dp_transforms.mechanisms.selection.choice import make_strategy
from pipelines import flag_types
from pipelines.audited_pairs import Audit, list_audit, records_list_audit, selection_audit
from pipelines.command_line import (
    FAILURE,
    SUCCESS,
    USAGE_ERROR,
    OneLineParser,
    add_json_flag,
    failed,
)

FREQUENCY_LIST = "frequency_list"

# Exact values are rounded once, on the way to a float.
_ROUNDING = 1e-9

_EPILOG = """\
What is printed is PRIVATE. The exit code is 1 if the promise is broken for this pair. That it is
kept for one pair does not show that it is kept for all.

examples:
  python -m pipelines.audit --mechanism=frequency_list --input=visits.csv --user_column=visitor
      --partition_column=page --user=ann --epsilon=1 --max_partitions_per_user=2
  python -m pipelines.audit --mechanism=optimal --input=visits.csv --user_column=visitor
      --partition_column=page --user=ann --epsilon=1 --delta=1e-3 --max_partitions_per_user=2
  python -m pipelines.audit --mechanism=frequency_list --frequency_list=a.csv --neighbour=b.csv
      --epsilon=1
"""


def make_parser() -> OneLineParser:
    """The flags of this command."""
    parser = OneLineParser(
        prog="python -m pipelines.audit",
        description="Bound from below how much epsilon a mechanism spends on two neighbours.",
        epilog=_EPILOG,
    )
    parser.add_argument(
        "--mechanism",
        required=True,
        choices=(FREQUENCY_LIST, *STRATEGIES),
        help="the frequency list, or a strategy that selects partitions",
    )
    records = parser.add_argument_group("neighbours: records, and the same without one user")
    records.add_argument("--input", metavar="FILE", help="CSV, TSV, JSON lines, Parquet or Avro")
    records.add_argument("--user_column", metavar="COLUMN", default=USER)
    records.add_argument("--partition_column", metavar="COLUMN", default=PARTITION)
    records.add_argument("--user", metavar="NAME", help="whose records the neighbour does not have")
    lists = parser.add_argument_group("neighbours: two frequency lists")
    lists.add_argument("--frequency_list", metavar="FILE.csv")
    lists.add_argument("--neighbour", metavar="FILE.csv")
    promise = parser.add_argument_group("what is promised")
    promise.add_argument("--epsilon", type=flag_types.epsilon, required=True)
    promise.add_argument("--delta", type=flag_types.proportion, help="of strategies only")
    promise.add_argument(
        "--max_partitions_per_user", type=flag_types.positive_integer, default=1, metavar="KAPPA"
    )
    promise.add_argument("--noisy_counts", action="store_true")
    test = parser.add_argument_group("how hard to look")
    test.add_argument(
        "--draws",
        type=flag_types.positive_integer,
        default=10_000,
        help="releases of each input (default: 10,000)",
    )
    test.add_argument(
        "--error_rate",
        type=flag_types.proportion,
        default=1e-6,
        help="how often the bound may be too large (default: 1e-6)",
    )
    add_json_flag(parser)
    return parser


def audit_from_flags(flags: argparse.Namespace) -> Audit:
    """The audit that the flags describe.

    Raises:
      ValueError: flags are missing or do not go together.
      InputError: a file cannot be read, or does not have the user.
    """
    is_list = flags.mechanism == FREQUENCY_LIST
    max_partitions = flags.max_partitions_per_user
    if is_list and (flags.delta is not None or flags.noisy_counts):
        raise ValueError("--delta and --noisy_counts are for strategies that select partitions")
    if not is_list and flags.delta is None:
        raise ValueError(f"--delta is needed for the strategy {flags.mechanism}")
    if (flags.input is None) == (flags.frequency_list is None):
        raise ValueError("give either --input and --user, or --frequency_list and --neighbour")
    if flags.frequency_list is not None:
        if not is_list or flags.neighbour is None:
            raise ValueError(
                "--frequency_list needs --neighbour and --mechanism=frequency_list; strategies "
                "need --input and --user"
            )
        lists = map(read_frequency_list, (flags.frequency_list, flags.neighbour))
        return list_audit(partition_mechanism(flags.epsilon, max_partitions), *lists)
    if flags.neighbour is not None:
        raise ValueError("--neighbour is for --frequency_list; --user makes that of --input")
    if flags.user is None:
        raise ValueError("--user is needed: the neighbour does not have this user's records")
    table, without, own = _neighbours(flags)
    if is_list:
        return records_list_audit(
            partition_mechanism(flags.epsilon, max_partitions), table, without
        )
    budget = flags.epsilon, flags.delta
    strategy = make_strategy(
        flags.mechanism, *budget, flags.noisy_counts, max_partitions_per_user=max_partitions
    )
    return selection_audit(strategy, table, without, own, flags.noisy_counts)


def findings(audit: Audit, draws: int, error_rate: float) -> dict[str, Any]:
    """Returns the findings of the audit; ``broken`` says whether the promise is."""
    outputs, others = (draw(draws) for draw in audit.draw)
    bound = epsilon_lower_bound(outputs, others, audit.delta, error_rate, audit.statistics)
    exact = None if audit.exact is None else audit.exact()
    broken = bound.epsilon > audit.epsilon
    broken |= exact is not None and exact > audit.epsilon * (1 + _ROUNDING)
    return {
        "pair": audit.pair,
        "promised": audit.epsilon,
        "exact": exact,
        "certified": bound.epsilon,
        "delta": audit.delta,
        "error_rate": error_rate,
        "draws": bound.draws,
        "hits": bound.hits,
        "other_hits": bound.other_hits,
        "broken": broken,
    }


def report(found: dict[str, Any]) -> str:
    """``findings`` in words."""
    exact = found["exact"]
    if found["broken"]:
        verdict = "THE PROMISE IS BROKEN for this pair"
    elif exact is not None:
        verdict = "the promise is kept for this pair"
    else:
        verdict = "nothing contradicts the promise for this pair"
    at = f"at delta {found['delta']:.3g}"
    known = "not known" if exact is None else f"epsilon = {exact:.6g} {at}"
    return (
        f"pair:      {found['pair']}\n"
        f"promised:  epsilon = {found['promised']:.6g} {at}\n"
        f"exact:     {known}\n"
        f"certified: epsilon >= {found['certified']:.4f} {at}, with error rate "
        f"{found['error_rate']:.3g} (an event in {found['hits']:,} of {found['draws']:,} draws "
        f"against {found['other_hits']:,})\n"
        f"verdict:   {verdict}"
    )


def main(argv: Sequence[str] | None = None) -> int:
    flags = make_parser().parse_args(argv)
    try:
        found = findings(audit_from_flags(flags), max(2, flags.draws), float(flags.error_rate))
    except InputError as error:
        return failed(str(error))
    except ValueError as error:
        return failed(str(error), USAGE_ERROR)
    print(json.dumps(found, indent=2) if flags.json else report(found))
    return FAILURE if found["broken"] else SUCCESS


def _neighbours(flags: argparse.Namespace) -> tuple[pa.Table, pa.Table, list[Any]]:
    """The records, those without the user, and the user's partitions."""
    files = match_files(local_path(flags.input))
    if len(files) > 1:
        raise InputError(f"{flags.input} are {len(files)} files: an audit takes one")
    path, columns = files[0].path, (flags.user_column, flags.partition_column)
    file_format = format_of(path)
    schema = file_format.schema(path, columns)
    tables = list(file_format.read(FileRange.whole(path), columns))
    table = pa.concat_tables([schema.empty_table(), *map(decoded, tables)]).combine_chunks()
    table = table.rename_columns([USER, PARTITION])
    if any(column.null_count for column in table.columns):
        raise InputError(f"{path} has records without a user or without a partition: fill these in")
    is_user = pc.equal(table[USER], from_text(flags.user, schema.field(0)))
    theirs = table.filter(is_user)
    if not theirs.num_rows:
        raise InputError(f"{path} has no records of the user {flags.user!r}")
    own = pc.unique(theirs[PARTITION]).to_pylist()
    return table, table.filter(pc.invert(is_user)), own


if __name__ == "__main__":
    sys.exit(main())
