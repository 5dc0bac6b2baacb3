"""Counts the names of ``auto``, by what its looks see, beside published strategies.

    python -m benchmarks.looks [--looks=4] [--epsilons 1 0.25 4] [--records NAME ...] [--pairs=DIR]
        [--output=benchmarks/results]

writes looks.md. Records are those of benchmarks/data, and of CSV files in DIR with the header
``user,item``. The last round of each strategy is not drawn: the page has its expected number of
names, so that a few runs suffice. Looks are drawn, since a misleading look costs many names.
Probabilities are computed with floats here. PRIVATE evaluation: it needs the true numbers.
"""

from __future__ import annotations

import argparse
import math
import pathlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from benchmarks.harness import (
    drawn_generator,
    numbered_tapes,
    page_parser,
    pair_files,
    title_of,
    write_page,
)
from benchmarks.partition_selection import DELTA, KAPPAS, amount, table, user_items
from benchmarks.selection_strategies import (
    SipsSelection,
    WeightedDistribution,
    WeightedGaussianSelection,
)
from dp_transforms.mechanisms.selection import CountStrategy, MeasuredSelection, OptimalSelection
from dp_transforms.mechanisms.selection.measured import MOST_PARTITIONS
from dp_transforms.mechanisms.selection.plan_search import plan_by_counts
from dp_transforms.mechanisms.selection.planned_rounds import SingleRound, noise_variance
from dp_transforms.mechanisms.selection.population import degree_cells, tail_cells
from dp_transforms.mechanisms.selection.rounds import RoundPlan

EPSILONS = (1, 0.25, 4)
RUNS = 4
"""The number of runs of a strategy or plan over which expectations are averaged. The i-th run of
each draws by the same seed, so that users whose records are bounded in the same way keep the same
ones in all strategies."""
PEERS: tuple[Any, ...] = (OptimalSelection, WeightedGaussianSelection, SipsSelection)
Keep = Callable[[Any], Any]


class Named(NamedTuple):
    """The expected number of named partitions, their share of all records, and the probability of
    each partition."""

    names: float
    records: float
    each: Any


class Pairs:
    """The private pairs of a file, sorted by user."""

    def __init__(self, path: pathlib.Path):
        self.name = title_of(path)
        pairs = user_items(path)
        users = np.unique(pairs["user"].to_numpy(), return_inverse=True)[1]
        items = np.unique(pairs["partition"].to_numpy(), return_inverse=True)[1]
        order = np.argsort(users, kind="stable")
        self.users, self.items = users[order], items[order]
        self.degrees, self.sizes = np.bincount(users), np.bincount(items)

    def look_cells(self, strategy: MeasuredSelection, random: np.random.Generator) -> Any:
        """Returns the cells that a look counts, without noise."""
        starts = np.cumsum(self.degrees) - self.degrees
        one_each = starts + (random.random(len(starts)) * self.degrees).astype(np.int64)
        counts = np.bincount(self.items[one_each])
        cells = degree_cells(self.degrees, strategy.edges), tail_cells(counts[counts > 0])
        return [of_list.tolist() for of_list in cells]

    def bounded(self, among: Any, most: int, order: Any) -> tuple[Any, Any, Any]:
        """Returns the users and the items of the pairs that bounding keeps, and how many each user
        has.

        Args:
          among: whether each partition is taken.
          most: the most pairs of each user.
          order: a number for each pair; those of the smallest numbers are kept.
        """
        is_among = among[self.items]
        users, items = self.users[is_among], self.items[is_among]
        degrees = np.bincount(users, minlength=len(self.degrees))
        by_user = np.lexsort((order[is_among], users))
        starts = np.cumsum(degrees) - degrees
        kept = by_user[np.arange(len(users)) - starts[users] < most]
        return users[kept], items[kept], np.minimum(degrees, most)

    def named(self, strategy: Any, random: np.random.Generator) -> Named:
        """Returns what a strategy names. All of its rounds but the last are drawn."""
        left, each = np.ones(len(self.sizes), bool), np.zeros(len(self.sizes))
        strategy = strategy.single if isinstance(strategy, SingleRound) else strategy
        by_counts = isinstance(strategy, CountStrategy)
        last = 0 if by_counts else strategy.most_rounds - 1
        for index in range(last + 1):
            order = random.random(len(self.users))
            if not by_counts and strategy.shared_order(index):
                order = random.random(len(self.sizes))[self.items]
            users, items, has = self.bounded(left, strategy.max_partitions_per_user, order)
            earlier = int((~left).sum())
            if by_counts:
                keep, weights = keep_of(strategy.distribution), np.ones(len(has))
            else:
                keep = keep_of(strategy.round_after(index, earlier))
                weights = strategy.weights(index, np.maximum(has, 1), earlier)
            sums = np.bincount(items, weights[users], minlength=len(self.sizes))
            probabilities = np.where(left, keep(sums), 0)
            if index == last:
                each = np.where(left, probabilities, 1)
            else:
                left &= random.random(len(left)) >= probabilities
        return Named(float(each.sum()), float(each @ self.sizes / self.sizes.sum()), each)

    def count_errors(
        self, variance: float, most: int, among: Any, random: np.random.Generator
    ) -> Any:
        """Returns the errors of noisy counts as estimates about all records: counts of bounded
        records are divided by the part of the records that bounding keeps."""
        users, items, _ = self.bounded(among, most, random.random(len(self.users)))
        kept = len(users) / max(among[self.items].sum(), 1)
        counts = np.bincount(items, minlength=len(self.sizes))
        noisy = counts + math.sqrt(variance) * random.standard_normal(len(counts))
        return np.abs(noisy / kept - self.sizes)


def keep_of(distribution: Any) -> Keep:
    """Returns the function from sums of weights to probabilities of being named, interpolated."""
    if isinstance(distribution, WeightedDistribution):
        sigma, threshold = math.sqrt(float(distribution.sigma2)), float(distribution.threshold)
        return lambda sums: np.where(sums >= 1, ndtr((sums - threshold) / sigma), 0)
    last = distribution.reach
    if last is None:
        return np.zeros_like
    few = np.arange(min(last, 300) + 1)
    places = np.unique(np.concatenate([few, np.linspace(0, last, 300).astype(np.int64)]))
    kept = [distribution.keep_probability(int(place)) if place else 0.0 for place in places]
    return lambda sums: np.interp(sums, places, kept)


class Published(NamedTuple):
    """The names of a published strategy at a kappa."""

    strategy: str
    kappa: int
    named: Named


class Records:
    """The names of strategies, for some pairs at one epsilon. Each plan is evaluated only once."""

    def __init__(self, pairs: Pairs, epsilon: float):
        self.pairs, self.epsilon = pairs, epsilon
        self.random = drawn_generator()
        self._seeds = self.random.integers(1 << 62, size=RUNS).tolist()
        self._of_plans: dict[tuple[int, RoundPlan], Named] = {}

    def best_published(self, kappa: int) -> Published:
        """Returns the published strategy that names the most partitions, and what it names."""
        each = [
            Published(kind.name, kappa, self._mean(kind(self.epsilon, DELTA, kappa)))
            for kind in PEERS
        ]
        return max(each, key=lambda published: published.named.names)

    def of_plan(self, strategy: MeasuredSelection, plan: RoundPlan) -> Named:
        """Returns what a plan of a strategy names."""
        key = strategy.max_partitions_per_user, plan
        if key not in self._of_plans:
            self._of_plans[key] = self._mean(strategy.planned(plan))
        return self._of_plans[key]

    def _mean(self, strategy: Any) -> Named:
        runs = [self.pairs.named(strategy, np.random.default_rng(seed)) for seed in self._seeds]
        return Named(*(np.mean(column, axis=0) for column in zip(*runs, strict=True)))


class Measured:
    """The results of looks at some records, at a declared kappa, or at one that each look chooses
    (None)."""

    def __init__(self, records: Records, kappa: int | None, looks: int, best: Published):
        self._records, self._best, self._kappa = records, best, kappa
        self.label = [records.pairs.name, f"{records.epsilon:g}", str(kappa or "chosen")]
        print(*self.label, flush=True)
        strategy, tapes = self._strategy(counted=False), numbered_tapes()
        cells = [records.pairs.look_cells(strategy, records.random) for _ in range(looks)]
        self._looks = [(of_look, next(tapes)) for of_look in cells]
        self.chosen = [strategy.choose(*cells, tape).plan for cells, tape in self._looks]
        self.named = [records.of_plan(strategy, plan) for plan in self.chosen]

    def _strategy(self, counted: bool) -> MeasuredSelection:
        return MeasuredSelection(
            self._records.epsilon,
            DELTA,
            self._kappa or MOST_PARTITIONS,
            counted=counted,
            declared=self._kappa is not None,
        )

    def row(self) -> list[str]:
        """Returns a row that compares names with those of the best published strategy, with the
        shares of records that are missing."""
        names = [named.names for named in self.named]
        published = self._best.named
        ratios = [number / max(published.names, 1e-9) for number in names]
        cost = np.mean([2**plan.look / 256 for plan in self.chosen])
        missing = [1 - np.mean([named.records for named in self.named]), 1 - published.records]
        numbers = [amount(published.names), amount(float(np.mean(names)))]
        shown = [f"{np.mean(ratios):.2f}", f"{min(ratios):.2f}", f"{cost:.1%}"]
        best = self._best.strategy
        if self._kappa is None:
            best += f" at {self._best.kappa}"
        return [*self.label, best, *numbers, *shown, *(f"{part:.3f}" for part in missing)]

    def row_with_counts(self) -> list[str]:
        """Returns a row on names with counts: how many names remain, and the errors of counts.

        Errors are compared with those of a strategy of noisy counts, where both name a partition:
        at the declared kappa, or at the one of ``KAPPAS`` at which noisy counts err the least.
        """
        strategy, rows = self._strategy(counted=True), []
        kappas = KAPPAS[::2] if self._kappa is None else (self._kappa,)
        for (cells, tape), without in zip(self._looks, self.named, strict=True):
            plan = strategy.choose(*cells, tape).plan
            named = self._records.of_plan(strategy, plan)
            errors = [self._errors(strategy, plan, named, kappa) for kappa in kappas]
            rows.append([without.names, named.names, *min(errors, key=lambda pair: pair[1])])
        before, after, error, error_of_noisy_counts = np.mean(rows, axis=0)
        kept = f"{after / max(before, 1e-9):.2f}"
        shown = [f"{mean:,.1f}" for mean in (error, error_of_noisy_counts)]
        return [*self.label, amount(before), amount(after), kept, *shown]

    def _errors(
        self, strategy: MeasuredSelection, plan: RoundPlan, named: Named, kappa: int
    ) -> tuple[float, float]:
        """Returns the mean errors of a plan's counts, and of noisy counts at kappa, where both name
        a partition."""
        pairs, random = self._records.pairs, self._records.random
        budget = strategy.budget_after(plan.look)
        by_counts = plan_by_counts(budget, kappa)
        both = named.each * self._records.of_plan(strategy, by_counts).each
        everything = np.ones(len(both), bool)
        later = strategy.planned(plan).later_counts
        if later is None:
            of_plan = noise_variance(budget.single(plan)), plan.partitions, everything
        else:
            is_named = random.random(len(both)) < named.each
            both, of_plan = both * is_named, (float(later.sigma2), later.partitions, is_named)
        of_counts = noise_variance(budget.single(by_counts)), kappa, everything
        error, error_of_noisy_counts = (
            float(both @ pairs.count_errors(*counts, random) / max(both.sum(), 1e-9))
            for counts in (of_plan, of_counts)
        )
        return error, error_of_noisy_counts


def report(flags: argparse.Namespace) -> Iterator[str]:
    """Yields the lines of the page."""
    files = [
        path for path in pair_files(flags.pairs) if any(part in path.name for part in flags.records)
    ]
    more = f" --looks={flags.looks} --epsilons {' '.join(f'{part:g}' for part in flags.epsilons)}"
    more += f" --records {' '.join(flags.records)}" if any(flags.records) else ""
    more += " --pairs=DIR" if flags.pairs else ""
    yield f"# Names by what a look tells\n\n`python -m benchmarks.looks{more}` writes this.\n"
    yield (
        f"Expected names at delta = {DELTA:g}, in the mean over {flags.looks} looks, beside the "
        f"best of {', '.join(kind.name for kind in PEERS)} at the same epsilon, delta and kappa "
        "(where kappa is chosen by the look: at the best of these kappa, in hindsight); "
        "*least* is the ratio of the worst look, *look* the mean share of epsilon that looks cost, "
        "*missing* the share of all records that partitions hold which are not named, of auto and "
        "of the best published strategy.\n"
    )
    heads = ["records", "epsilon", "kappa", "best published", "it", "auto", "auto : it", "least"]
    rows, with_counts = [], []
    for path in files:
        pairs = Pairs(path)
        for epsilon in flags.epsilons:
            records = Records(pairs, epsilon)
            published = [records.best_published(kappa) for kappa in KAPPAS[::2]]
            in_hindsight = max(published, key=lambda best: best.named.names)
            cases = [*((best.kappa, best) for best in published), (None, in_hindsight)]
            for kappa, best in cases:
                measured = Measured(records, kappa, flags.looks, best)
                rows.append(measured.row())
                if epsilon == flags.epsilons[0]:
                    with_counts.append(measured.row_with_counts())
    yield table([*heads, "look", "missing", "its"], rows)
    yield (
        f"With counts, at epsilon = {flags.epsilons[0]:g}: names, and the mean error of a count "
        "carried to all records, beside noisy counts at kappa (where it is chosen: at the one of "
        "these kappa where they err the least), where both name a partition.\n"
    )
    heads = ["records", "epsilon", "kappa", "names", "with counts", "kept", "error"]
    yield table([*heads, "of noisy counts"], with_counts)


def main() -> None:
    parser = page_parser("looks", __doc__, "pairs")
    parser.add_argument("--looks", type=int, default=4)
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    parser.add_argument("--records", nargs="+", default=[""], help="parts of names of files")
    flags = parser.parse_args()
    write_page(flags.output / "looks.md", report(flags))


if __name__ == "__main__":
    main()
