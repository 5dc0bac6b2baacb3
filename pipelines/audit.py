"""Audits a mechanism on a pair of neighbouring inputs: bounds its epsilon from below.

An event that is more likely for one input than for the other gives a certified lower bound on
epsilon. If both distributions of outputs are known exactly, epsilon is too.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import gmpy2
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dp_transforms.columnar.bounding import distinct_pairs
from dp_transforms.columnar.columns import COUNT, NOISY_COUNT, PARTITION, USER, decoded
from dp_transforms.columnar.counting import count_pairs, histogram, sum_counts, user_degrees
from dp_transforms.engines.progress import Stage, end_lines, terminal_only
from dp_transforms.engines.round_kernels import select_in_memory
from dp_transforms.engines.selection_kernels import select_from_counts
from dp_transforms.errors import InputError
from dp_transforms.evaluation import (
    Statistic,
    epsilon_lower_bound,
    exact_epsilon,
    exact_partition_epsilon,
)
from dp_transforms.files.logical_types import from_text
from dp_transforms.files.paths import FileRange, local_path, match_files
from dp_transforms.files.record_files import format_of
from dp_transforms.files.release_files import read_frequency_list
from dp_transforms.mechanisms import FrequencyList, FrobeniusMechanism, NoisyCoordinates
from dp_transforms.mechanisms.decimals import float_above
from dp_transforms.mechanisms.noisy_coordinates import COLUMNS, ROWS, FrobeniusCoordinates
from dp_transforms.mechanisms.partition.mechanism import PartitionMechanism
from dp_transforms.mechanisms.partition.registry import partition_mechanism
from dp_transforms.mechanisms.selection import STRATEGIES, SelectionStrategy, WeightedStrategy
from dp_transforms.mechanisms.selection.choice import make_strategy
from dp_transforms.mechanisms.selection.strategy import CountStrategy
from dp_transforms.mechanisms.tape_contexts import BOUND_CONTRIBUTIONS
from dp_transforms.runtime.job_secret import JobSecret
from pipelines import FAILURE, SUCCESS, command_line, flag_values

FREQUENCY_LIST = "frequency_list"
Report = Callable[[int], None]
_MOST_ENUMERATED = 12

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
        command_line.refuse(
            flags,
            "is for --input: --frequency_list and --neighbour hold counts",
            *("user", "user_column", "partition_column"),
        )
        first, second = map(read_frequency_list, (flags.frequency_list, flags.neighbour))
        if (distance := first.l1_distance(second)) > max_partitions:
            raise ValueError(
                f"--frequency_list and --neighbour are {distance:,} apart in L1, and neighbours "
                f"at most {max_partitions:,}: give two lists that differ by one user, or the "
                "--max_partitions_per_user that was promised"
            )
        return list_audit(partition_mechanism(flags.epsilon, max_partitions), first, second)
    if flags.neighbour is not None:
        raise ValueError(
            "--neighbour is for --frequency_list: the neighbour of --input is made by --user"
        )
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


@dataclass(frozen=True)
class Audit:
    """A test of a mechanism on a pair of neighbours.

    Attributes:
      inputs: the two neighbouring inputs.
      draw: returns a number of independent outputs of an input, and reports how many are drawn.
      statistics: functions of outputs; events are sets of their values.
      exact: returns the exact epsilon at this delta; None if the distributions are not known.
      epsilon: the promised epsilon.
      pair: the inputs, in words.
      delta: the promised delta.
    """

    inputs: tuple[Any, Any]
    draw: Callable[[Any, int, Report], list[Any]]
    statistics: Sequence[Statistic]
    exact: Callable[[], float] | None
    epsilon: float
    pair: str
    delta: float = 0.0


def list_audit(
    mechanism: PartitionMechanism, frequency_list: FrequencyList, neighbour: FrequencyList
) -> Audit:
    """Returns the audit of a mechanism on two lists."""
    lists = (frequency_list, neighbour)
    return Audit(
        inputs=lists,
        draw=functools.partial(_releases, mechanism),
        statistics=(functools.partial(_loss, lists=lists),),
        exact=functools.partial(exact_partition_epsilon, mechanism, *lists),
        epsilon=mechanism.epsilon_cost,
        pair=f"two lists, {frequency_list.l1_distance(neighbour):,} apart in L1",
    )


def records_list_audit(mechanism: PartitionMechanism, table: pa.Table, without: pa.Table) -> Audit:
    """Returns the audit of the way from records to a released list, on records with and without a
    user."""

    def bounded(records: pa.Table, secret: JobSecret) -> FrequencyList:
        counts = _counts(records, mechanism.sensitivity, secret)
        return FrequencyList.from_histogram(histogram(counts))

    def draw(records: pa.Table, count: int, drawn: Report) -> list[Any]:
        bounded_lists = (bounded(records, JobSecret.from_os()) for _ in range(count))
        lists = [*_reported(bounded_lists, drawn)]
        # The draws from equal lists are made together, since their preparation takes long.
        released = {f: iter(_releases(mechanism, f, n)) for f, n in Counter(lists).items()}
        return [next(released[f]) for f in lists]

    fixed = JobSecret.from_os()
    audit = list_audit(mechanism, bounded(table, fixed), bounded(without, fixed))
    if not _is_bounded_at_random(table, mechanism.sensitivity):
        return audit
    return replace(
        audit, inputs=(table, without), draw=draw, exact=None, pair=_removed(table, without)
    )


def selection_audit(
    strategy: SelectionStrategy,
    table: pa.Table,
    without: pa.Table,
    own: Iterable[Any],
    noisy_counts: bool = False,
) -> Audit:
    """Returns the audit of the way from records to selected partitions, perhaps with noisy counts,
    on records with and without a user who has the partitions ``own``."""
    names = frozenset(own)
    max_partitions = strategy.max_partitions_per_user
    exact = None
    if (
        isinstance(strategy, CountStrategy)
        and not noisy_counts
        and len(names) <= _MOST_ENUMERATED
        and not _is_bounded_at_random(table, max_partitions)
    ):
        distribution, other = (
            _distribution_of_names(strategy, records, max_partitions, names)
            for records in (table, without)
        )
        exact = functools.partial(exact_epsilon, distribution, other, gmpy2.mpq(strategy.delta))

    selected = names.intersection

    def number(output: dict[Any, int]) -> int:
        return len(selected(output))

    def noisy_sum(output: dict[Any, int]) -> tuple[int, int]:
        return number(output), sum(output[name] for name in selected(output))

    def draw(records: pa.Table, count: int, drawn: Report) -> list[dict[Any, int]]:
        selections = (
            _select(strategy, noisy_counts, records, JobSecret.from_os()) for _ in range(count)
        )
        return [*_reported(selections, drawn)]

    return Audit(
        inputs=(table, without),
        draw=draw,
        statistics=(selected, number, *([noisy_sum] if noisy_counts else [])),
        exact=exact,
        epsilon=float_above(Fraction(strategy.epsilon)),
        delta=float(strategy.delta),
        pair=_removed(table, without),
    )


def _removed(table: pa.Table, without: pa.Table) -> str:
    return f"{table.num_rows - without.num_rows:,} of {table.num_rows:,} records removed"


def _counts(records: pa.Table, max_partitions: int, secret: JobSecret) -> pa.Table:
    key = secret.key(BOUND_CONTRIBUTIONS)
    return sum_counts(count_pairs(distinct_pairs(records, at_most=max_partitions, key=key)))


def _select(
    strategy: SelectionStrategy, noisy_counts: bool, records: pa.Table, secret: JobSecret
) -> dict[Any, int]:
    """Returns the selected partitions with their noisy counts, which are 0 if none are wanted."""
    if isinstance(strategy, WeightedStrategy):
        selected = select_in_memory(distinct_pairs(records), strategy, secret)
    else:
        assert isinstance(strategy, CountStrategy)
        counts = _counts(records, strategy.max_partitions_per_user, secret)
        selected = select_from_counts(counts, strategy, secret.key("selection"), noisy_counts)
    names = selected[PARTITION].to_pylist()
    noisy = selected[NOISY_COUNT].to_pylist() if noisy_counts else [0] * len(names)
    return dict(zip(names, noisy, strict=True))


def _distribution_of_names(
    strategy: CountStrategy, records: pa.Table, max_partitions: int, names: Iterable[Any]
) -> dict[tuple[bool, ...], Any]:
    """Returns the probability of each selection from the partitions ``names``. A strategy decides
    about them independently, so probabilities are products."""
    table = _counts(records, max_partitions, JobSecret.from_os())
    counts = dict(zip(table[PARTITION].to_pylist(), table[COUNT].to_pylist(), strict=True))
    keeps = [gmpy2.mpq(strategy.keep_enclosure(counts.get(name, 0), 256)[0]) for name in names]
    return {
        choice: math.prod(
            (keep if kept else 1 - keep for keep, kept in zip(keeps, choice, strict=True)),
            start=gmpy2.mpq(1),
        )
        for choice in itertools.product((False, True), repeat=len(keeps))
    }


def _is_bounded_at_random(records: pa.Table, max_partitions: int) -> bool:
    """Returns whether some user has more partitions than are kept."""
    return max(user_degrees(distinct_pairs(records)), default=0) > max_partitions


def _releases(
    mechanism: PartitionMechanism,
    private: FrequencyList,
    count: int,
    drawn: Report = lambda number: None,
) -> list[Any]:
    """Returns released lists or, for the Frobenius mechanism, the noisy coordinates that determine
    them."""
    if not isinstance(mechanism, FrobeniusMechanism):
        # All are drawn together, since a preparation takes as long as many draws.
        released = mechanism.release_many(private, count)
        drawn(count)
        return released
    return [*_reported((mechanism.noisy_coordinates(private) for _ in range(count)), drawn)]


def _reported(outputs: Iterable[Any], drawn: Report) -> Iterator[Any]:
    """Yields outputs, and reports each one when it is drawn."""
    for output in outputs:
        drawn(1)
        yield output


def _loss(
    released: FrequencyList | NoisyCoordinates, lists: tuple[FrequencyList, FrequencyList]
) -> int:
    """Returns the distance of an output from the second list less that from the first.

    The ratio of the output's probabilities, given either list, is a function of this number alone.
    """
    if isinstance(released, FrequencyList):
        return released.l1_distance(lists[1]) - released.l1_distance(lists[0])
    there, here = (
        sum(
            int(np.abs(noisy - coordinates.of(arm, np.arange(1, len(noisy) + 1))).sum())
            for arm, noisy in ((ROWS, released.rows), (COLUMNS, released.columns))
        )
        for coordinates in map(FrobeniusCoordinates, lists[::-1])
    )
    return there - here


if __name__ == "__main__":
    sys.exit(main())
