"""The integer-partition mechanism beside the ``baselines``, by their errors against epsilon.

    python -m benchmarks.baseline_tables [LIST.csv ...] [--edges=DIR] [--epsilons 1 0.1]
        [--repeats 4] [--graph_repeats 40] [--output benchmarks/results]

Lists have the header frequency,multiplicity; N is the public bound on items and counts. Without any
it is the RockYou list of the package. DIR has edge lists, as .csv.gz files with the header src,dst,
each of which gives a degree list that is private for one edge: sensitivity 2, and the nodes are
public. Prints mean dist (half the L1 distance) and L2 distance to the private list, and writes them
with a plot to the output directory.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import gzip
import itertools
import pathlib
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from benchmarks.baselines import METHODS, PublicBounds, l2_distance
from dp_transforms.mechanisms import FrequencyList
from dp_transforms.sample_data import rockyou

EPSILONS = [8.0, 4.0, 2.0, 1.0, 0.5, 0.25, 0.1]
MEASURES = ("dist (half the L1 distance)", "L2 distance")


@dataclass(frozen=True)
class Mean:
    """A mean over releases, and its standard error as a part of it."""

    value: float
    relative_error: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Mean:
        """
        >>> Mean.of([1.0, 3.0])
        Mean(value=2.0, relative_error=0.5)
        """
        mean = statistics.fmean(values)
        error = statistics.stdev(values) / len(values) ** 0.5
        return cls(mean, error / mean if mean else 0.0)


Errors = dict[tuple[str, str, float], tuple[Mean, Mean]]
"""Of each measure, by list, method and epsilon."""


@dataclass(frozen=True)
class Input:
    """A list, how many times it is released, and what is public about it."""

    name: str
    private: FrequencyList
    sensitivity: int
    bounds: PublicBounds
    repeats: int

    @classmethod
    def users(cls, name: str, private: FrequencyList, repeats: int) -> Input:
        """Each user in one partition, N public."""
        return cls(name, private, 1, PublicBounds(private.total, private.total), repeats)

    @classmethod
    def degrees(cls, path: pathlib.Path, repeats: int) -> Input:
        """The degrees of an undirected graph from a file of edges src,dst."""
        with gzip.open(path, "rt") as file:
            edges = np.loadtxt(file, delimiter=",", skiprows=1, dtype=np.int64)
        _, counts = np.unique(edges, return_counts=True)
        private = FrequencyList.from_counts(counts)
        bounds = PublicBounds(private.distinct, private.distinct - 1)
        return cls(f"degrees of {path.name.split('.')[0]}", private, 2, bounds, repeats)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("lists", nargs="*", type=pathlib.Path)
    parser.add_argument("--edges", type=pathlib.Path, metavar="DIR", help="all .csv.gz files in it")
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    parser.add_argument("--repeats", type=int, default=4, help="releases of a list, at least 2")
    parser.add_argument("--graph_repeats", type=int, default=40, help="those of a degree list")
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("benchmarks/results"))
    flags = parser.parse_args()

    lists = {path.stem: FrequencyList.from_csv(path) for path in flags.lists}
    inputs = [
        Input.users(name, private, flags.repeats)
        for name, private in (lists or {"rockyou": rockyou()}).items()
    ]
    edges = sorted(flags.edges.glob("*.csv.gz")) if flags.edges else []
    inputs += [Input.degrees(path, flags.graph_repeats) for path in edges]
    tasks = list(itertools.product(inputs, METHODS, flags.epsilons))
    with concurrent.futures.ProcessPoolExecutor() as pool:
        found = pool.map(measured, *zip(*tasks, strict=True))
        errors = {
            (case.name, method, epsilon): means
            for (case, method, epsilon), means in zip(tasks, found, strict=True)
        }
    text = "\n\n".join(
        table(case, measure, flags.epsilons, errors) for case in inputs for measure in (0, 1)
    )
    print(text)
    flags.output.mkdir(parents=True, exist_ok=True)
    (flags.output / "baselines.md").write_text(text + "\n")
    plot([case.name for case in inputs], flags.epsilons, errors, flags.output / "baselines.png")


def measured(case: Input, method: str, epsilon: float) -> tuple[Mean, Mean]:
    """dist and L2 distance of releases."""
    rng, distances = np.random.default_rng(), []
    for _ in range(case.repeats):
        released = METHODS[method](case.private, epsilon, case.sensitivity, case.bounds, rng)
        distances.append(
            (case.private.l1_distance(released) / 2, l2_distance(case.private, released))
        )
    dist, l2 = (Mean.of(side) for side in zip(*distances, strict=True))
    return dist, l2


def table(
    case: Input,
    measure: int,
    epsilons: list[float],
    errors: Errors,
) -> str:
    """One measure on one list: a row per epsilon; in brackets, the ratio to the first method."""
    heading = (
        f"Mean {MEASURES[measure]} of {case.repeats} releases: {case.name} "
        f"(N = {case.private.total:,}, {case.private.distinct:,} items, "
        f"sensitivity {case.sensitivity})"
    )
    rows = [["epsilon", *METHODS], ["---"] * (1 + len(METHODS))]
    for epsilon in epsilons:
        values = [errors[case.name, method, epsilon][measure].value for method in METHODS]
        others = [f"{number(value)} ({number(value / values[0])}x)" for value in values[1:]]
        rows.append([f"{epsilon:g}", number(values[0]), *others])
    relative = [
        max(errors[case.name, method, epsilon][measure].relative_error for epsilon in epsilons)
        for method in METHODS
    ]
    rows.append(["standard error, at most", *(f"{error:.1%}" for error in relative)])
    return heading + "\n\n" + "\n".join(f"| {' | '.join(row)} |" for row in rows)


def number(value: float) -> str:
    """Three significant digits, with separators below a million."""
    if value >= 1e6:
        return f"{value:.1e}".replace("e+0", "e").replace("e+", "e")
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def plot(
    names: list[str],
    epsilons: list[float],
    errors: Errors,
    path: pathlib.Path,
) -> None:
    """Both measures against epsilon, a column per list."""
    figure, axes = plt.subplots(
        2, len(names), figsize=(1.5 + 4 * len(names), 7), sharex=True, squeeze=False
    )
    for column, name in enumerate(names):
        for measure, label in enumerate(MEASURES):
            axis = axes[measure, column]
            for method in METHODS:
                values = [errors[name, method, epsilon][measure].value for epsilon in epsilons]
                axis.loglog(epsilons, values, marker="o", markersize=3, label=method)
            axis.grid(alpha=0.3)
            if measure == 0:
                axis.set_title(name)
            else:
                axis.set_xlabel("epsilon")
            if column == 0:
                axis.set_ylabel(f"mean {label}, users")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=3, frameon=False)
    figure.tight_layout(rect=(0, 0.09, 1, 1))
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
