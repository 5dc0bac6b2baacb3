"""Users of named partitions in ALL records: estimates beside noisy counts.

    python -m benchmarks.name_counts [--pairs=DIR] [--epsilons 0.25 1 4] [--repeats=3]
        [--output=benchmarks/results]

writes name_counts.md. Records are those of benchmarks/data, and of CSV files in DIR with the header
``user,item``. Half of epsilon pays for a list with its survey, and the other half, with delta 1e-5,
for names with noisy counts. This is compared with a release without estimates: a tenth of epsilon
pays for degrees, by which choose-kappa recommends a kappa, and the rest pays in halves for a list
and for counts at that kappa. Errors are means of |number - users in all records| over names.
PRIVATE evaluation: it needs the true numbers.
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
"""Values of kappa; with None, a look at the records chooses it."""
COUNTING = ("truncated_geometric", "gaussian")
"""Strategies that count what a declared kappa keeps, without a look."""


class NamedCounts(NamedTuple):
    """Names with numbers of users, each an array in the order of the names.

    Attributes:
      truth: the numbers of users in all records.
      noisy: the noisy counts of users after bounding.
      estimates: the estimates of the numbers of users in all records.
      proved: whether the proved interval holds the true number.
      modelled: whether the model's interval holds it.
    """

    truth: Any
    noisy: Any
    estimates: Any
    proved: Any
    modelled: Any


class Comparison(NamedTuple):
    """A comparison of a release with estimates and one without.

    Attributes:
      names: the number of names of the release with estimates.
      names_before: the number of names of the release without.
      error: the mean error of estimates, for partitions that both name; NaN if there is none.
      error_before: the mean error of noisy counts, for the same partitions.
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
        """Returns the number of users in all records of each name."""
        return np.array([self.users[name] for name in names["partition"].to_pylist()])

    def select(self, epsilon: Fraction, kappa: int | None, **options: Any) -> dp.NamesRelease:
        """Returns names with noisy counts."""
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
        """Returns names with estimated numbers of users, of a release that has a list of all
        records beside them."""
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
        """Returns names with noisy counts at the kappa that choose-kappa recommends, by the
        strategy that names more."""
        half = epsilon * 9 / 20
        choice = dp.choose_kappa(
            self.table, user="user", partition="partition", epsilon=epsilon / 10, for_epsilon=half
        )
        tables = [
            self.select(half, choice.recommended, strategy=strategy).to_arrow()
            for strategy in COUNTING
        ]
        return max(tables, key=len)

    def compared(self, now: pa.Table, before: pa.Table) -> Comparison:
        """Returns the comparison of a release with estimates and one without."""
        users = dict(zip(now["partition"].to_pylist(), now["users"].to_pylist(), strict=True))
        counts = dict(zip(*(before[name].to_pylist() for name in NOISY_COLUMNS), strict=True))
        both = users.keys() & counts.keys()
        errors = [
            float(np.mean([abs(numbers[name] - self.users[name]) for name in both]))
            if both
            else float("nan")
            for numbers in (users, counts)
        ]
        return Comparison(len(users), len(counts), *errors)


NOISY_COLUMNS = ("partition", "noisy_count")


def report(files: Sequence[pathlib.Path], epsilons: Sequence[str], repeats: int) -> Iterator[str]:
    """Yields the lines of the page."""
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
            # These releases are those of the last kappa, which a look chose.
            comparisons = [
                pairs.compared(names.to_arrow(), pairs.before(epsilon)) for names in releases
            ]
            rows_before.append([pairs.name, text, *cells_of_comparisons(comparisons)])
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
    """Returns the mean numbers of several releases, as text. Releases without a name are left out
    of errors."""
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
    """Returns the places of the tenth of names with the smallest noisy counts, and of the tenth
    with the largest."""
    order = np.argsort(run.noisy, kind="stable")
    several = max(len(order) // 10, 1)
    return order[:several], order[-several:]


def cells_of_comparisons(comparisons: Sequence[Comparison]) -> list[str]:
    """Returns the means of several comparisons, as text. Errors are means over comparisons in which
    both name a partition."""
    now = amount(float(np.mean([pair.names for pair in comparisons])))
    before = amount(float(np.mean([pair.names_before for pair in comparisons])))
    errors = np.array([[pair.error_before, pair.error] for pair in comparisons])
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
