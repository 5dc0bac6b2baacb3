"""Counts the partitions that each strategy releases, beside other packages.

    python -m benchmarks.partition_selection [--runs=10] [--peers_python=peers/bin/python]
        [--pairs=DIRECTORY] [--output=benchmarks/results]

writes partition_selection.md.

Real records are those of benchmarks/data, and of CSV files in DIRECTORY with the header
``user,item``. Such files, for example ml-100k and steam-200k, are not part of this repository.
Synthetic records have a universe of 100,000 items with a Zipf distribution, and one million users
with one item each, or 100,000 users with ten draws each.

All strategies have the same budget: delta = 1e-5, and epsilon = 1, then 1/4 and 4. In each run they
share the random numbers, and the strategies with a single round share the bounded records. Other
packages are measured if there is a Python that has them, see
benchmarks/partition_selection_peers.py; their draws cannot be chosen, and are others in each run.
"""

from __future__ import annotations

import concurrent.futures
import functools
import logging
import math
import multiprocessing
import pathlib
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from benchmarks.harness import DATA, answer_of, page_parser, write_page
from benchmarks.named_draws import following
from benchmarks.selection_strategies import (
    PEER_STRATEGIES,
    SipsSelection,
    WeightedGaussianSelection,
)
from dp_transforms import JobSecret
from dp_transforms.columnar.bounding import distinct_pairs
from dp_transforms.columnar.columns import COUNT
from dp_transforms.columnar.counting import count_pairs
from dp_transforms.engines.round_kernels import select_in_memory
from dp_transforms.engines.selection_kernels import select_from_counts
from dp_transforms.mechanisms.selection import (
    CountStrategy,
    OptimalSelection,
    SelectionStrategy,
    WeightedStrategy,
    make_strategy,
)
from dp_transforms.mechanisms.selection.choice import AUTO

EPSILON, OTHER_EPSILONS, DELTA = 1.0, (0.25, 4.0), 1e-5
KAPPAS = (1, 3, 10, 30, 100)
UNIVERSE = 100_000

REFERENCES = (
    (1_000_000, 1, 1, {"optimal": 7_760, "laplace": 7_455, "gaussian": 5_000}),
    (100_000, 10, 10, {"optimal, naive": 768, "gaussian": 1_414, "weighted_gaussian": 1_440}),
)
"""(users, draws, kappa, released partitions by strategy), measured elsewhere on such records."""
ABOUT_GAUSSIANS = (
    "Gaussian noise releases more here because noise and threshold do not halve delta between them."
)
UNIVERSES = 10
SMALLEST_TELLING = 10
WORTH = 1.05
SIPS = SipsSelection.name
NAMES = (
    "optimal",
    "truncated_geometric",
    "laplace",
    WeightedGaussianSelection.name,
    "gaussian",
    SIPS,
    "renyi",
    "renyi_rounds",
    "measured",
)
"""The strategies of this project, and those of ``selection_strategies``."""
PUBLISHED = ("optimal", "truncated_geometric", "laplace", "gaussian", "weighted_gaussian", SIPS)
PEERS = pathlib.Path(__file__).with_name("partition_selection_peers.py")

Peers = Callable[..., Any]
"""A function from the name of a task, and its parameters, to the answer of the other packages, or
None if there are none."""


def user_items(path: pathlib.Path) -> pa.Table:
    """Returns the records of a file such as those in benchmarks/data."""
    table = pyarrow.csv.read_csv(path)
    return pa.table({"user": table["user"], "partition": table["item"]})


def zipf_records(users: int, draws: int, rng: np.random.Generator) -> pa.Table:
    """Returns records of users with ``draws`` draws each, with replacement, from items of weight
    1 / rank."""
    weights = np.cumsum(1 / np.arange(1, UNIVERSE + 1))
    items = np.searchsorted(weights, rng.random(users * draws) * weights[-1])
    return pa.table({"user": np.repeat(np.arange(users), draws), "partition": items})


def datasets(more: pathlib.Path | None = None) -> dict[str, tuple[pa.Table, tuple[int, ...]]]:
    """Returns sets of records, with the values of kappa to try, by the name of the set."""
    rng = np.random.default_rng(1)
    paths = sorted(more.glob("*.csv*")) if more else []
    return {path.name.split(".")[0]: (user_items(path), KAPPAS) for path in paths} | {
        "Rails: authors, words": (user_items(DATA / "git_rails_author_word.csv.gz"), KAPPAS),
        "tldr: authors, files": (user_items(DATA / "git_tldr_author_file.csv.gz"), KAPPAS),
        **{
            f"{project}: authors, {items}s": (
                user_items(DATA / f"git_{project}_author_{items}.csv.gz"),
                KAPPAS,
            )
            for project in ("jekyll", "ohmyzsh")
            for items in ("file", "word")
        },
        "Zipf: 1M users, 1 each": (zipf_records(1_000_000, 1, rng), (1,)),
        "Zipf: 100k users, 10 each": (zipf_records(100_000, 10, rng), KAPPAS),
    }


def made(name: str, epsilon: float, delta: float, max_partitions: int) -> SelectionStrategy:
    """Returns a strategy of this project or of ``selection_strategies`` by its name."""
    if name in PEER_STRATEGIES:
        return PEER_STRATEGIES[name](epsilon, delta, max_partitions)
    return make_strategy(name, epsilon, delta, max_partitions_per_user=max_partitions)


def strategies(max_partitions: int) -> dict[str, SelectionStrategy]:
    """Returns the strategies to compare, by the name that the page has for them."""
    naive = OptimalSelection(EPSILON, DELTA, max_partitions, composition="naive")
    return {"optimal, naive": naive} | published(EPSILON, max_partitions, NAMES)


def published(
    epsilon: float, max_partitions: int, names: Sequence[str] = PUBLISHED
) -> dict[str, SelectionStrategy]:
    """Returns strategies by their names, and "auto"."""
    return {name: made(name, epsilon, DELTA, max_partitions) for name in (*names, AUTO)}


def bounded_counts(records: pa.Table, max_partitions: int, secret: JobSecret) -> pa.Table:
    """Returns the number of users of each partition after bounding."""
    key = secret.key("bound contributions")
    return count_pairs(distinct_pairs(records, at_most=max_partitions, key=key))


def released(
    strategy: SelectionStrategy, counts: pa.Table, pairs: pa.Table, secret: JobSecret
) -> int:
    """Returns the number of partitions that a strategy releases, by the kernels of the Beam
    transforms."""
    if isinstance(strategy, CountStrategy):
        return select_from_counts(counts, strategy, secret.key("selection 0")).num_rows
    assert isinstance(strategy, WeightedStrategy)
    return select_in_memory(pairs, strategy, secret).num_rows


@dataclass(frozen=True)
class Released:
    """The numbers of partitions that strategies release from some records, at an epsilon and a
    kappa.

    Attributes:
      records: the name of the records.
      epsilon, max_partitions: the epsilon, and kappa.
      auto: the strategy that "auto" takes.
      runs: the numbers of each run, by strategy.
      peers: mean numbers by strategies of other packages.
    """

    records: str
    epsilon: float
    max_partitions: int
    auto: str
    runs: dict[str, list[int]]
    peers: dict[str, float]

    @property
    def means(self) -> dict[str, float]:
        return {label: sum(numbers) / len(numbers) for label, numbers in self.runs.items()}

    @property
    def best(self) -> str:
        """The published strategy that releases the most."""
        return max(PUBLISHED, key=self.means.__getitem__)

    @property
    def beside_best(self) -> tuple[float, float]:
        """The ratio of auto's mean to that of ``best``, and its standard error."""
        means = [self.means[label] for label in (AUTO, self.best)]
        errors = [
            np.std(self.runs[label], ddof=1) / math.sqrt(len(self.runs[label])) / mean
            for label, mean in zip((AUTO, self.best), means, strict=True)
        ]
        ratio = means[0] / means[1]
        return ratio, ratio * float(np.hypot(*errors))

    @property
    def row(self) -> list[str]:
        means = {name: amount(mean) for name, mean in self.means.items()}
        means[AUTO] += f" ({self.auto})"
        peers = map(amount, self.peers.values())
        return [self.records, str(self.max_partitions), *means.values(), *peers]


def releases(runs: int, peers: Peers, more: pathlib.Path | None) -> Iterator[Released]:
    """Yields the results for every dataset at every kappa and epsilon."""
    tasks = [
        (name, records, kappas, epsilon)
        for name, (records, kappas) in datasets(more).items()
        for epsilon in (EPSILON, *OTHER_EPSILONS)
    ]
    # Processes are not forked, since Arrow has threads.
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(mp_context=spawn) as pool:
        drawn = secrets.token_hex()
        batches = []
        for task in tasks:
            name, _, _, epsilon = task
            draws = f"{drawn} {name} {epsilon}"
            batches.append(pool.submit(following, draws, releases_of, runs, peers, *task))
        for batch in batches:
            for release in batch.result():
                print(release.epsilon, " | ".join(release.row), flush=True)
                yield release


def releases_of(
    runs: int, peers: Peers, name: str, records: pa.Table, kappas: Sequence[int], epsilon: float
) -> list[Released]:
    """Returns the results for a dataset at one epsilon, for each kappa."""
    pairs, main, results = distinct_pairs(records), epsilon == EPSILON, []
    for max_partitions in kappas:
        compared = strategies(max_partitions) if main else published(epsilon, max_partitions)
        numbers: dict[str, list[int]] = {label: [] for label in compared}
        lists = []
        for _ in range(runs):
            secret = JobSecret.from_os()
            counts = bounded_counts(records, max_partitions, secret)
            lists.append(counts[COUNT].to_pylist())
            for label, strategy in compared.items():
                numbers[label].append(released(strategy, counts, pairs, secret))
        parameters = {"epsilon": epsilon, "delta": DELTA, "max_partitions": max_partitions}
        of_peers = peers("release", **parameters, runs=lists) if main else {}
        auto = compared[AUTO].name
        results.append(Released(name, epsilon, max_partitions, auto, numbers, of_peers or {}))
    return results


def findings(measured: Sequence[Released]) -> str:
    """Returns a text that compares "auto" with the best published strategy. Tiny releases are left
    out, since their ratios mean little."""
    telling = [
        release
        for release in measured
        if max(release.means[AUTO], release.means[release.best]) >= SMALLEST_TELLING
        and release.means[release.best]
    ]
    ratios = [release.beside_best for release in telling]
    rows = [
        [
            release.records,
            f"{release.epsilon:g}",
            str(release.max_partitions),
            release.best,
            amount(release.means[release.best]),
            amount(release.means[AUTO]),
            f"{ratio:.3f}",
            f"{error:.3f}",
        ]
        for release, (ratio, error) in zip(telling, ratios, strict=True)
    ]
    columns = ["records", "epsilon", "kappa", "best published", "it", AUTO, "auto : it", "error"]
    several = [
        ratio
        for release, (ratio, _) in zip(telling, ratios, strict=True)
        if release.max_partitions > 1
    ]
    mean = math.exp(sum(map(math.log, several)) / len(several))
    return (
        f"Beside the best published strategy of each row ({', '.join(PUBLISHED)}), where either "
        f"releases at least {SMALLEST_TELLING}, and it something; *error* is the standard error "
        f"of the ratio. From kappa = {min(KAPPAS[1:])} on the ratio is {mean:.2f} in the geometric "
        f"mean, below "
        f"{WORTH} in {sum(ratio < WORTH for ratio in several)} of {len(several)} rows, and "
        f"{min(several):.2f} at least.\n\n{table(columns, rows)}"
    )


def reference_rows() -> list[list[str]]:
    """Returns rows of numbers that were measured elsewhere, with the mean and standard deviation
    over universes here."""
    rng = np.random.default_rng(3)
    counted: dict[str, list[int]] = {}
    for _ in range(UNIVERSES):
        for users, draws, max_partitions, elsewhere in REFERENCES:
            records = zipf_records(users, draws, rng)
            pairs = distinct_pairs(records)
            secret = JobSecret.from_os()
            counts = bounded_counts(records, max_partitions, secret)
            compared = strategies(max_partitions)
            for label in elsewhere:
                released_count = released(compared[label], counts, pairs, secret)
                counted.setdefault(f"{max_partitions} {label}", []).append(released_count)
    return [
        [
            f"{users:,} users, {draws} each",
            str(max_partitions),
            label,
            f"{number:,}",
            f"{np.mean(counted[f'{max_partitions} {label}']):,.0f}",
            f"{np.std(counted[f'{max_partitions} {label}'], ddof=1):,.0f}",
        ]
        for users, draws, max_partitions, elsewhere in REFERENCES
        for label, number in elsewhere.items()
    ]


def amount(mean: float) -> str:
    """Returns a mean number as text. Small ones have a decimal."""
    return f"{mean:,.0f}" if mean >= SMALLEST_TELLING else f"{mean:.1f}"


def table(header: list[str], rows: list[list[str]]) -> str:
    """Returns a Markdown table, whose columns but the first are aligned to the right."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def ask_peers(python: str | None, task: str, **parameters: Any) -> Any:
    """Returns the answer of the other packages to a task, or None if no Python has them."""
    if python is None:
        return None
    return answer_of(python, PEERS, task, task=parameters)


def main() -> None:
    parser = page_parser("partition_selection", __doc__, "peers_python")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--pairs", type=pathlib.Path, metavar="DIR", help="more CSV files")
    flags = parser.parse_args()
    logging.disable(logging.WARNING)
    write_page(
        flags.output / "partition_selection.md", report(flags.runs, flags.peers_python, flags.pairs)
    )


def report(runs: int, peers_python: str | None, more: pathlib.Path | None) -> Iterator[str]:
    """Yields the lines of the page."""
    command = f"python -m benchmarks.partition_selection --runs={runs}"
    command += " --pairs=DIR" if more else ""
    columns = ["records", "kappa", *strategies(1)]
    if peers_python:
        command += " --peers_python=PYTHON"
        columns += [f"python-dp {name}" for name in ("optimal, naive", "laplace", "gaussian")]
        columns.append("OpenDP laplace")
    yield f"# Partition selection\n\n`{command}` writes this.\n"
    about = f"Partitions released at epsilon = {EPSILON:g}, delta = {DELTA:g}: mean of {runs} runs."
    yield f"{about}{' Those of python-dp and OpenDP are drawn anew.' if peers_python else ''}\n"
    measured = list(releases(runs, functools.partial(ask_peers, peers_python), more))
    yield table(columns, [release.row for release in measured if release.epsilon == EPSILON])
    yield findings(measured)
    yield f"Numbers measured elsewhere, and here over {UNIVERSES} universes drawn afresh:\n"
    columns = ["records", "kappa", "strategy", "elsewhere", "here, mean", "standard deviation"]
    yield table(columns, reference_rows())
    yield ABOUT_GAUSSIANS


if __name__ == "__main__":
    main()
