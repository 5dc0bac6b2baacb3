"""Audits a mechanism on a pair of neighbouring inputs: bounds its epsilon from below.

An event that is more likely for one input than for the other gives a certified lower bound on
epsilon. If both distributions of outputs are known exactly, epsilon is too.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dp_transforms.columnar.columns import PARTITION, USER, decoded
from dp_transforms.engines.progress import Stage, end_lines, terminal_only
from dp_transforms.errors import InputError
from dp_transforms.evaluation import epsilon_lower_bound
from dp_transforms.files.logical_types import from_text
from dp_transforms.files.paths import FileRange, local_path, match_files
from dp_transforms.files.record_files import format_of
from dp_transforms.files.release_files import read_frequency_list
from dp_transforms.mechanisms.partition.registry import partition_mechanism
from dp_transforms.mechanisms.selection import STRATEGIES
from dp_transforms.mechanisms.selection.choice import make_strategy
from pipelines import FAILURE, SUCCESS, command_line, flag_values
from pipelines.neighbour_audits import Audit, list_audit, records_list_audit, selection_audit

FREQUENCY_LIST = "frequency_list"

# Exact values are rounded when they become floats: a promise is broken only beyond this share.
_ROUNDING = 1e-9

_EPILOG = """\
The output is PRIVATE. The exit code is 1 if the guarantee is broken for this pair. A guarantee that
holds for one pair may still be broken for another.

examples:
  python -m pipelines.audit --mechanism=frequency_list --input=visits.csv --user_column=visitor
      --partition_column=page --user=ann --epsilon=1 --max_partitions_per_user=2
  python -m pipelines.audit --mechanism=optimal --input=visits.csv --user_column=visitor
      --partition_column=page --user=ann --epsilon=1 --delta=1e-3 --max_partitions_per_user=2
  python -m pipelines.audit --mechanism=frequency_list --frequency_list=a.csv --neighbour=b.csv
      --epsilon=1
"""


def make_parser() -> command_line.OneLineParser:
    parser = command_line.OneLineParser(
        prog="python -m pipelines.audit",
        description="Certify a lower bound on a mechanism's epsilon for two neighbouring inputs.",
        epilog=_EPILOG,
    )
    parser.add_argument(
        "--mechanism",
        required=True,
        choices=(FREQUENCY_LIST, *STRATEGIES),
        help="frequency_list, or a strategy of the command select",
    )
    records = parser.add_argument_group("neighbours: records, and the same without one user")
    records.add_argument(
        "--input", metavar="FILE", help="a file of records: CSV, TSV, JSON lines, Parquet or Avro"
    )
    records.add_argument(
        "--user_column", metavar="COLUMN", help=f"the column of users (default: {USER})"
    )
    records.add_argument(
        "--partition_column",
        metavar="COLUMN",
        help=f"the column of partitions (default: {PARTITION})",
    )
    records.add_argument(
        "--user", metavar="NAME", help="the user whose records the neighbour does not have"
    )
    lists = parser.add_argument_group("neighbours: two frequency lists")
    lists.add_argument(
        "--frequency_list",
        metavar="FILE.csv",
        help="the list of an input; header frequency,multiplicity",
    )
    lists.add_argument("--neighbour", metavar="FILE.csv", help="the list of a neighbouring input")
    promise = parser.add_argument_group("what is promised")
    promise.add_argument(
        "--epsilon", type=flag_values.epsilon, required=True, help="the promised epsilon"
    )
    promise.add_argument(
        "--delta", type=flag_values.proportion, help="the promised delta; for strategies only"
    )
    promise.add_argument(
        "--max_partitions_per_user",
        type=flag_values.positive_integer,
        default=1,
        metavar="KAPPA",
        help="at most KAPPA partitions of each user are kept (default: 1)",
    )
    promise.add_argument(
        "--noisy_counts",
        action="store_true",
        help="audit names together with noisy numbers of their users; for strategies only",
    )
    test = parser.add_argument_group("the test")
    test.add_argument(
        "--draws",
        type=flag_values.positive_integer,
        default=10_000,
        help="number of releases of each input (default: 10,000)",
    )
    test.add_argument(
        "--error_rate",
        type=flag_values.proportion,
        default=1e-6,
        help="the probability that the bound is too large (default: 1e-6)",
    )
    command_line.add_json_flag(parser)
    return parser


def audit_from_flags(flags: argparse.Namespace) -> Audit:
    """Returns the audit that the flags describe.

    Raises:
      ValueError: a flag is missing, or flags exclude each other.
      InputError: a file cannot be read, or lacks the user.
    """
    _check_mechanism_flags(flags)
    if (flags.input is None) == (flags.frequency_list is None):
        raise ValueError("give either --input and --user, or --frequency_list and --neighbour")
    if flags.input is None:
        _check_flags_of_lists(flags)
        return _audit_of_lists(flags)
    _check_flags_of_records(flags)
    return _audit_of_records(flags)


def _check_mechanism_flags(flags: argparse.Namespace) -> None:
    """Raises a ValueError unless --delta and --noisy_counts are those that --mechanism takes."""
    if flags.mechanism == FREQUENCY_LIST:
        if flags.delta is not None or flags.noisy_counts:
            raise ValueError("--delta and --noisy_counts are for strategies that select partitions")
    elif flags.delta is None:
        raise ValueError(f"--delta is needed for the strategy {flags.mechanism}")


def _check_flags_of_lists(flags: argparse.Namespace) -> None:
    """Raises a ValueError unless the flags describe two frequency lists."""
    if flags.mechanism != FREQUENCY_LIST or flags.neighbour is None:
        raise ValueError(
            "--frequency_list needs --neighbour and --mechanism=frequency_list; strategies "
            "need --input and --user"
        )
    command_line.refuse(
        flags,
        "is for --input: --frequency_list and --neighbour hold counts",
        *("user", "user_column", "partition_column"),
    )


def _check_flags_of_records(flags: argparse.Namespace) -> None:
    """Raises a ValueError unless the flags describe records and a user of them."""
    if flags.neighbour is not None:
        raise ValueError(
            "--neighbour is for --frequency_list: the neighbour of --input is made by --user"
        )
    if flags.user is None:
        raise ValueError("--user is needed: the neighbour does not have this user's records")


def _audit_of_lists(flags: argparse.Namespace) -> Audit:
    """Reads two frequency lists and returns the audit on them. Raises a ValueError if they are no
    neighbours."""
    max_partitions = flags.max_partitions_per_user
    first, second = map(read_frequency_list, (flags.frequency_list, flags.neighbour))
    if (distance := first.l1_distance(second)) > max_partitions:
        raise ValueError(
            f"--frequency_list and --neighbour are {distance:,} apart in L1, and neighbours "
            f"at most {max_partitions:,}: give two lists that differ by one user, or the "
            "--max_partitions_per_user that was promised"
        )
    return list_audit(partition_mechanism(flags.epsilon, max_partitions), first, second)


def _audit_of_records(flags: argparse.Namespace) -> Audit:
    """Reads records and returns the audit on them and on those of all users but one."""
    max_partitions = flags.max_partitions_per_user
    table, without, own = _neighbours(flags)
    if flags.mechanism == FREQUENCY_LIST:
        mechanism = partition_mechanism(flags.epsilon, max_partitions)
        return records_list_audit(mechanism, table, without)
    strategy = make_strategy(
        flags.mechanism,
        flags.epsilon,
        flags.delta,
        flags.noisy_counts,
        max_partitions_per_user=max_partitions,
    )
    return selection_audit(strategy, table, without, own, flags.noisy_counts)


def findings(audit: Audit, draws: int, error_rate: float) -> dict[str, Any]:
    """Returns the findings of an audit, which ``report`` prints. ``broken`` is whether its promise
    does not hold."""
    drawn = terminal_only(Stage("drawing releases", 2 * draws))
    outputs, others = (audit.draw(data, draws, drawn) for data in audit.inputs)
    end_lines()
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


def report(certificate: dict[str, Any]) -> str:
    """Puts ``findings`` in words."""
    exact = certificate["exact"]
    if certificate["broken"]:
        verdict = "THE PROMISE IS BROKEN for this pair"
    elif exact is not None:
        verdict = "the promise is kept for this pair"
    else:
        verdict = "nothing contradicts the promise for this pair"
    at = f"at delta {certificate['delta']:.3g}"
    known = "not known" if exact is None else f"epsilon = {exact:.6g} {at}"
    return (
        f"pair:      {certificate['pair']}\n"
        f"promised:  epsilon = {certificate['promised']:.6g} {at}\n"
        f"exact:     {known}\n"
        f"certified: epsilon >= {certificate['certified']:.4f} {at}, with error rate "
        f"{certificate['error_rate']:.3g} (an event in {certificate['hits']:,} of "
        f"{certificate['draws']:,} draws against {certificate['other_hits']:,})\n"
        f"verdict:   {verdict}"
    )


@command_line.command(make_parser)
def main(flags: argparse.Namespace) -> int:
    certificate = findings(audit_from_flags(flags), max(2, flags.draws), float(flags.error_rate))
    print(json.dumps(certificate, indent=2) if flags.json else report(certificate))
    return FAILURE if certificate["broken"] else SUCCESS


def _neighbours(flags: argparse.Namespace) -> tuple[pa.Table, pa.Table, list[Any]]:
    """Returns the records, the records without the user, and the user's partitions."""
    files = match_files(local_path(flags.input))
    if len(files) > 1:
        raise InputError(f"{flags.input} are {len(files)} files: an audit takes one")
    path = files[0].path
    columns = (flags.user_column or USER, flags.partition_column or PARTITION)
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
