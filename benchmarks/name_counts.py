"""Users of named partitions in ALL records: estimates beside noisy counts.

    python -m benchmarks.name_counts [--pairs=DIR] [--epsilons 0.25 1 4] [--repeats=3]
        [--output=benchmarks/results]

writes name_counts.md. Records are those of benchmarks/data, and CSV files with the header
``user,item`` of DIR. Half of epsilon is for a list with its survey, and half, with delta 1e-5, for
names with noisy counts. Before there were estimates, a tenth of epsilon bought degrees, by which
choose-kappa recommends a kappa, and what was left went in halves to a list and to counts at that
kappa. Errors are means over names, of |number - users in all records|. Each release has a secret of
its own, and so numbers differ from run to run. PRIVATE evaluation: it needs the true numbers.
"""

from __future__ import annotations

import pathlib
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import dp_transforms as dp
from benchmarks.harness import page_parser, pair_files, title_of, write_page
from benchmarks.partition_selection import amount, table, user_items

DELTA = Fraction("1e-5")
KAPPAS = (3, 10, 30, None)
"""Values of kappa; None: a look at the records chooses it."""
COUNTING = ("truncated_geometric", "gaussian")
"""Strategies that count what a declared kappa keeps, without a look."""


class NamedCounts(NamedTuple):
    """Names with numbers of users, each an array in the order of the names.

    Attributes:
      truth: users in all records.
      noisy: noisy counts of those that count.
      estimates: of users in all records.
      proved: whether the proved interval holds the truth.
      modelled: whether the model's interval does.
    """

    truth: Any
    noisy: Any
    estimates: Any
    proved: Any
    modelled: Any


class Beside(NamedTuple):
    """A release with estimates, and one as it was before.

    Attributes:
      names: how many are named now.
      names_before: how many were named before.
      error: the mean error of estimates where both name a partition, NaN if there is none.
      error_before: the mean error of noisy counts there.
    """

    names: int
    names_before: int
    error: float
    error_before: float


class Pairs:
    """The private pairs of a file."""

    def __init__(self, path: pathlib.Path):
        self.name = title_of(path)
        self.table = user_items(path)
        self.users = Counter(self.table["partition"].to_pylist())
        self.columns = {"user": "user", "partition": "partition"}

    def truth(self, names: pa.Table) -> Any:
        """Users of each name in all records."""
        return np.array([self.users[name] for name in names["partition"].to_pylist()])

    def select(self, epsilon: Fraction, kappa: int | None, **options: Any) -> dp.NamesRelease:
        """Names with noisy counts."""
        return dp.select(
            self.table,
            **self.columns,
            epsilon=epsilon,
            delta=DELTA,
            max_partitions_per_user=kappa,
            counts=True,
            **options,
        )

    def estimated(self, names: dp.NamesRelease) -> NamedCounts:
        """Names with the numbers of users that follow from a list of all records beside them."""
        rows = names.to_arrow()
        truth = self.truth(rows)
        low, high = rows["low"].to_numpy(), rows["high"].to_numpy().astype(float)
        high = np.where(np.isnan(high), np.inf, high)
        least, most = names.model_intervals() if len(rows) else (low, high)
        noisy = dict(zip(*(names.names[name].to_pylist() for name in NOISY_COLUMNS), strict=True))
        counts = np.array([noisy[name] for name in rows["partition"].to_pylist()])
        proved, modelled = (low <= truth) & (truth <= high), (least <= truth) & (truth <= most)
        return NamedCounts(truth, counts, rows["users"].to_numpy(), proved, modelled)

    def before(self, epsilon: Fraction) -> pa.Table:
        """Names with noisy counts at the kappa that choose-kappa recommends: those of the strategy
        that names more."""
        half = epsilon * 9 / 20
        choice = dp.choose_kappa(
            self.table, user="user", partition="partition", epsilon=epsilon / 10, for_epsilon=half
        )
        tables = [
            self.select(half, choice.recommended, strategy=strategy).to_arrow()
            for strategy in COUNTING
        ]
        return max(tables, key=len)

    def beside(self, now: pa.Table, before: pa.Table) -> Beside:
        """Compares a release with estimates and one as it was before."""
        users = dict(zip(now["partition"].to_pylist(), now["users"].to_pylist(), strict=True))
        counts = dict(zip(*(before[name].to_pylist() for name in NOISY_COLUMNS), strict=True))
        both = users.keys() & counts.keys()
        errors = [
            float(np.mean([abs(numbers[name] - self.users[name]) for name in both]))
            if both
            else float("nan")
            for numbers in (users, counts)
        ]
        return Beside(len(users), len(counts), *errors)


NOISY_COLUMNS = ("partition", "noisy_count")


def report(files: Sequence[pathlib.Path], epsilons: Sequence[str], repeats: int) -> Iterator[str]:
    """The lines of the page."""
    yield "# Users of named partitions\n"
    yield "`python -m benchmarks.name_counts --pairs=DIR` writes this.\n"
    yield (
        f"Mean error of the users of named partitions, about all records, in {repeats} releases: "
        "of noisy counts, and of estimates beside a list of all records. Coverage of proved 95% "
        "intervals: of all names, of the tenth with the smallest and the tenth with the largest "
        "noisy counts; then of the model's.\n"
    )
    rows, rows_before = [], []
    for path in files:
        pairs = Pairs(path)
        for text in epsilons:
            epsilon = Fraction(text)
            lists = [
                dp.release(pairs.table, **pairs.columns, epsilon=epsilon / 2)
                for _ in range(repeats)
            ]
            for kappa in KAPPAS:
                releases = [
                    pairs.select(epsilon / 2, kappa).beside(frequency_list)
                    for frequency_list in lists
                ]
                runs = [pairs.estimated(names) for names in releases]
                rows.append([pairs.name, text, str(kappa or "chosen"), *cells(runs)])
            # The last kappa is the one that a look chose.
            compared = [pairs.beside(names.to_arrow(), pairs.before(epsilon)) for names in releases]
            rows_before.append([pairs.name, text, *cells_beside(compared)])
            print(pairs.name, text, flush=True)
    heads = ["pairs", "epsilon", "kappa", "names", "noisy", "estimate", "ratio"]
    yield table([*heads, "proved", "smallest", "largest", "model"], rows)
    yield (
        "Nothing declared, beside a release with noisy counts at the kappa that choose-kappa "
        "recommends: names, and errors where both name a partition.\n"
    )
    heads = ["pairs", "epsilon", "names before", "names", "error before", "error", "ratio"]
    yield table(heads, rows_before)


def cells(runs: Sequence[NamedCounts]) -> list[str]:
    """The numbers of several releases, as text; those without a name have no errors."""
    names = amount(float(np.mean([len(run.truth) for run in runs])))
    some = [run for run in runs if len(run.truth)]
    if not some:
        return [names, *7 * ["-"]]
    noisy = float(np.mean([np.abs(run.noisy - run.truth).mean() for run in some]))
    estimate = float(np.mean([np.abs(run.estimates - run.truth).mean() for run in some]))
    shares = [
        np.mean([run.proved.mean() for run in some]),
        *(np.mean([run.proved[tenth(run)[end]].mean() for run in some]) for end in (0, 1)),
        np.mean([run.modelled.mean() for run in some]),
    ]
    errors = [f"{noisy:,.1f}", f"{estimate:,.1f}", f"{noisy / estimate:.2f}"]
    return [names, *errors, *(f"{share:.3f}" for share in shares)]


def tenth(run: NamedCounts) -> tuple[Any, Any]:
    """The places of the tenth of names with the smallest, and with the largest noisy counts."""
    order = np.argsort(run.noisy, kind="stable")
    several = max(len(order) // 10, 1)
    return order[:several], order[-several:]


def cells_beside(compared: Sequence[Beside]) -> list[str]:
    """The means of several comparisons, as text; errors of those with a partition that both
    name."""
    now = amount(float(np.mean([pair.names for pair in compared])))
    before = amount(float(np.mean([pair.names_before for pair in compared])))
    errors = np.array([[pair.error_before, pair.error] for pair in compared])
    errors = errors[~np.isnan(errors).any(axis=1)]
    if not len(errors):
        return [before, now, *3 * ["-"]]
    error_before, error = errors.mean(axis=0)
    return [before, now, f"{error_before:,.1f}", f"{error:,.1f}", f"{error_before / error:.2f}"]


def main() -> None:
    parser = page_parser("name_counts", __doc__, "repeats", "pairs")
    parser.add_argument("--epsilons", nargs="+", default=["0.25", "1", "4"])
    flags = parser.parse_args()
    write_page(
        flags.output / "name_counts.md",
        report(pair_files(flags.pairs), flags.epsilons, flags.repeats),
    )


if __name__ == "__main__":
    main()
