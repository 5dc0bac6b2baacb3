"""Audits a mechanism on a pair of neighbours: how much epsilon do its outputs show?

The mechanism runs many times on an input and on its neighbour, by the kernels of the jobs: users
are bounded and counted, and partitions decided on, under a fresh secret each time. An event that
tells the inputs apart gives a certified lower bound on epsilon; where the two laws are known
exactly, so is epsilon. What is printed depends on the records: it is PRIVATE.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import os
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import gmpy2
import pyarrow as pa
import pyarrow.compute as pc

from dp_transforms.auditing import (
    Statistic,
    epsilon_lower_bound,
    exact_epsilon,
    exact_partition_epsilon,
)
from dp_transforms.columnar.bounding import distinct_pairs
from dp_transforms.columnar.columns import COUNT, PARTITION, USER, concat
from dp_transforms.columnar.counting import count_pairs, histogram, sum_counts
from dp_transforms.columnar.weighting import sum_weights
from dp_transforms.job_secret import JobSecret
from dp_transforms.mechanisms import FrequencyList
from dp_transforms.mechanisms.integer_partition import IntegerPartitionMechanism
from dp_transforms.mechanisms.partition_selection import (
    STRATEGIES,
    SelectionStrategy,
    WeightedStrategy,
)
from dp_transforms.mechanisms.partition_selection.choice import make_strategy
from dp_transforms.mechanisms.partition_selection.strategy import CountStrategy
from dp_transforms.records import NOISY_COUNT
from dp_transforms.selection import select_from_counts
from dp_transforms.weighted_rounds import select_round, weigh_remaining
from pipelines import flag_types
from pipelines.command_line import FAILURE, SUCCESS, USAGE_ERROR, OneLineParser
from pipelines.errors import InputError
from pipelines.files import FileRange, local_path, match_files, reason
from pipelines.reading import format_of

FREQUENCY_LIST = "frequency_list"

_MOST_ENUMERATED = 12
_TO_THE_END = 1 << 62
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


@dataclass(frozen=True)
class Audit:
    """A mechanism and a pair of neighbours.

    Attributes:
      draw: so many independent outputs, for each of the two inputs.
      statistics: what to look for in outputs.
      exact: the exact epsilon at ``delta``; None where the laws are not known.
      epsilon: what is promised.
      delta: at this delta.
      pair: the inputs, in words.
    """

    draw: tuple[Callable[[int], list[Any]], Callable[[int], list[Any]]]
    statistics: Sequence[Statistic]
    exact: Callable[[], float] | None
    epsilon: float
    delta: float
    pair: str


def make_parser() -> OneLineParser:
    """The flags of this command."""
    parser = OneLineParser(
        prog="python -m pipelines.audit",
        description="Bound from below how much epsilon a mechanism spends on two neighbours.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--mechanism",
        required=True,
        choices=(FREQUENCY_LIST, *STRATEGIES),
        help="the frequency list, or a strategy that selects partitions",
    )
    records = parser.add_argument_group("neighbours: records, and the same without one user")
    records.add_argument("--input", metavar="FILE", help="CSV, TSV or Parquet")
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
    return parser


def audit_from_flags(flags: argparse.Namespace) -> Audit:
    """The audit that the flags describe.

    Raises:
      ValueError: flags are missing or do not go together.
      InputError: a file can not be read, or does not have the user.
    """
    is_list = flags.mechanism == FREQUENCY_LIST
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
        return list_audit(
            _mechanism(flags), *map(_read_list, (flags.frequency_list, flags.neighbour))
        )
    if flags.neighbour is not None:
        raise ValueError("--neighbour is for --frequency_list; --user makes that of --input")
    if flags.user is None:
        raise ValueError("--user is needed: the neighbour does not have this user's records")
    table, without, own = _neighbours(flags)
    kappa = flags.max_partitions_per_user
    if is_list:
        return records_list_audit(_mechanism(flags), table, without)
    strategy = make_strategy(
        flags.mechanism,
        flags.epsilon,
        flags.delta,
        flags.noisy_counts,
        max_partitions_per_user=kappa,
    )
    return selection_audit(strategy, table, without, own, flags.noisy_counts)


def list_audit(
    mechanism: IntegerPartitionMechanism, frequency_list: FrequencyList, neighbour: FrequencyList
) -> Audit:
    """The mechanism on two lists."""
    lists = (frequency_list, neighbour)
    one, other = (functools.partial(mechanism.release_many, f) for f in lists)
    return Audit(
        draw=(one, other),
        statistics=(functools.partial(_loss, lists=lists),),
        exact=functools.partial(exact_partition_epsilon, mechanism, *lists),
        epsilon=mechanism.epsilon or 0.0,
        delta=0.0,
        pair=f"two lists, {frequency_list.l1_distance(neighbour):,} apart in L1",
    )


def records_list_audit(
    mechanism: IntegerPartitionMechanism, table: pa.Table, without: pa.Table
) -> Audit:
    """The path from records to a released list, on records with and without a user."""

    def bounded(records: pa.Table, secret: JobSecret) -> FrequencyList:
        counts = histogram(_counts(records, mechanism.sensitivity, secret))
        values = sorted(counts, reverse=True)
        return FrequencyList(values, [counts[value] for value in values])

    def draw(records: pa.Table, count: int) -> list[FrequencyList]:
        lists = Counter(bounded(records, JobSecret.from_os()) for _ in range(count))
        drawn = [one for f, times in lists.items() for one in mechanism.release_many(f, times)]
        # Draws of one list come together here, and an audit's halves must be alike.
        random.SystemRandom().shuffle(drawn)
        return drawn

    fixed = JobSecret.from_os()
    lists = (bounded(table, fixed), bounded(without, fixed))
    if not _is_bounded_at_random(table, mechanism.sensitivity):
        return list_audit(mechanism, *lists)
    return Audit(
        draw=(functools.partial(draw, table), functools.partial(draw, without)),
        statistics=(functools.partial(_loss, lists=lists),),
        exact=None,
        epsilon=mechanism.epsilon or 0.0,
        delta=0.0,
        pair=f"{table.num_rows - without.num_rows:,} of {table.num_rows:,} records removed",
    )


def selection_audit(
    strategy: SelectionStrategy,
    table: pa.Table,
    without: pa.Table,
    own: Iterable[Any],
    noisy_counts: bool = False,
) -> Audit:
    """The path from records to selected partitions.

    Args:
      strategy: decides.
      table: records.
      without: the same without a user.
      own: the partitions of that user.
      noisy_counts: released with the names.
    """
    names = frozenset(own)
    kappa = strategy.max_partitions_per_user
    exact = None
    if (
        isinstance(strategy, CountStrategy)
        and not noisy_counts
        and len(names) <= _MOST_ENUMERATED
        and not _is_bounded_at_random(table, kappa)
    ):
        law, other = (
            _law_of_names(strategy, records, kappa, names) for records in (table, without)
        )
        exact = functools.partial(exact_epsilon, law, other, gmpy2.mpq(strategy.delta))

    def selected(output: dict[Any, int]) -> frozenset[Any]:
        return frozenset(name for name in names if name in output)

    def number(output: dict[Any, int]) -> int:
        return len(selected(output))

    def noisy_sum(output: dict[Any, int]) -> tuple[int, int]:
        return number(output), sum(output[name] for name in selected(output))

    def draw(records: pa.Table, count: int) -> list[dict[Any, int]]:
        return [_select(strategy, noisy_counts, records, JobSecret.from_os()) for _ in range(count)]

    return Audit(
        draw=(functools.partial(draw, table), functools.partial(draw, without)),
        statistics=(selected, number, *([noisy_sum] if noisy_counts else [])),
        exact=exact,
        epsilon=float(strategy.epsilon),
        delta=float(strategy.delta),
        pair=f"{table.num_rows - without.num_rows:,} of {table.num_rows:,} records removed",
    )


def report(audit: Audit, draws: int, error_rate: float) -> tuple[str, bool]:
    """(what the audit found, whether the promise is broken)."""
    outputs, others = (draw(draws) for draw in audit.draw)
    bound = epsilon_lower_bound(outputs, others, audit.delta, error_rate, audit.statistics)
    exact = None if audit.exact is None else audit.exact()
    broken = bound.epsilon > audit.epsilon
    broken |= exact is not None and exact > audit.epsilon * (1 + _ROUNDING)
    if broken:
        verdict = "THE PROMISE IS BROKEN for this pair"
    elif exact is not None:
        verdict = "the promise is kept for this pair"
    else:
        verdict = "nothing contradicts the promise for this pair"
    at = f"at delta {audit.delta:.3g}"
    found = "not known" if exact is None else f"epsilon = {exact:.6g} {at}"
    return (
        f"pair:      {audit.pair}\n"
        f"promised:  epsilon = {audit.epsilon:.6g} {at}\n"
        f"exact:     {found}\n"
        f"certified: epsilon >= {bound.epsilon:.4f} {at}, with error rate {error_rate:.3g} "
        f"(an event in {bound.hits:,} of {bound.draws:,} draws against {bound.other_hits:,})\n"
        f"verdict:   {verdict}",
        broken,
    )


def main(argv: Sequence[str] | None = None) -> int:
    flags = make_parser().parse_args(argv)
    try:
        text, broken = report(audit_from_flags(flags), max(2, flags.draws), flags.error_rate)
    except InputError as error:
        return _failed(str(error), FAILURE)
    except ValueError as error:
        return _failed(str(error), USAGE_ERROR)
    print(text)
    return FAILURE if broken else SUCCESS


def _counts(records: pa.Table, kappa: int, secret: JobSecret) -> pa.Table:
    key = secret.key("bound contributions")
    return sum_counts(count_pairs(distinct_pairs(records, at_most=kappa, key=key)))


def _select(
    strategy: SelectionStrategy, noisy_counts: bool, records: pa.Table, secret: JobSecret
) -> dict[Any, int]:
    """The selected partitions with their noisy counts, or zeros."""
    kappa = strategy.max_partitions_per_user
    if isinstance(strategy, WeightedStrategy):
        pairs = distinct_pairs(records)
        bound = functools.partial(
            distinct_pairs, at_most=kappa, key=secret.key("bound contributions")
        )
        found: list[pa.Table] = []
        for index in range(len(strategy.rounds)):
            weighed = sum_weights(weigh_remaining(pairs, bound, found))
            found.append(select_round(weighed, strategy, index, secret.key(f"round {index}")))
        return dict.fromkeys(concat(found)[PARTITION].to_pylist(), 0)
    assert isinstance(strategy, CountStrategy)
    counts = _counts(records, kappa, secret)
    selected = select_from_counts(counts, strategy, secret.key("selection"), noisy_counts)
    names = selected[PARTITION].to_pylist()
    noisy = selected[NOISY_COUNT].to_pylist() if noisy_counts else [0] * len(names)
    return dict(zip(names, noisy, strict=True))


def _law_of_names(
    strategy: CountStrategy, records: pa.Table, kappa: int, names: Iterable[Any]
) -> dict[tuple[bool, ...], Any]:
    """Which of some partitions are selected: they are decided on independently."""
    table = _counts(records, kappa, JobSecret.from_os())
    counts = dict(zip(table[PARTITION].to_pylist(), table[COUNT].to_pylist(), strict=True))
    keeps = [gmpy2.mpq(strategy.keep_enclosure(counts.get(name, 0), 256)[0]) for name in names]
    law = {}
    for choice in itertools.product((False, True), repeat=len(keeps)):
        law[choice] = gmpy2.mpq(1)
        for keep, kept in zip(keeps, choice, strict=True):
            law[choice] *= keep if kept else 1 - keep
    return law


def _is_bounded_at_random(records: pa.Table, kappa: int) -> bool:
    pairs = distinct_pairs(records)
    return any(count > kappa for count in pc.value_counts(pairs[USER]).field("counts").to_pylist())


def _loss(released: FrequencyList, lists: tuple[FrequencyList, FrequencyList]) -> int:
    # All that the output tells about which of the two lists it was made from.
    return released.l1_distance(lists[1]) - released.l1_distance(lists[0])


def _mechanism(flags: argparse.Namespace) -> IntegerPartitionMechanism:
    return IntegerPartitionMechanism(
        epsilon=flags.epsilon, sensitivity=flags.max_partitions_per_user
    )


def _neighbours(flags: argparse.Namespace) -> tuple[pa.Table, pa.Table, list[Any]]:
    """The records, those without the user, and the user's partitions."""
    files = match_files(local_path(flags.input))
    if len(files) > 1:
        raise InputError(f"{flags.input} are {len(files)} files: an audit takes one")
    path, columns = files[0].path, (flags.user_column, flags.partition_column)
    file_format = format_of(path)
    schema = file_format.schema(path, columns)
    tables = list(file_format.read(FileRange(path, 0, _TO_THE_END), columns))
    table = pa.concat_tables([schema.empty_table(), *tables]).combine_chunks()
    table = table.rename_columns([USER, PARTITION])
    if any(column.null_count for column in table.columns):
        raise InputError(f"{path} has records without a user or without a partition: fill these in")
    is_user = pc.equal(table[USER].cast(pa.string()), flags.user)
    theirs = table.filter(is_user)
    if not theirs.num_rows:
        raise InputError(f"{path} has no records of the user {flags.user!r}")
    own = pc.unique(theirs[PARTITION]).to_pylist()
    return table, table.filter(pc.invert(is_user)), own


def _read_list(path: str) -> FrequencyList:
    try:
        return FrequencyList.from_csv(os.path.expanduser(path))
    except OSError as error:
        raise InputError(f"{path} can not be read: {reason(error)}") from None
    except ValueError:
        raise InputError(
            f"{path} is not a list with the header frequency,multiplicity and descending "
            f"frequencies"
        ) from None


def _failed(message: str, code: int) -> int:
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
