"""The integer-partition mechanism beside the ``baselines``, by their errors against epsilon.

    python -m benchmarks.baseline_tables [LIST.csv ...] [--edges=DIR] [--epsilons 1 0.1]
        [--repeats 4 200] [--graph_repeats 40 4000] [--output benchmarks/results]

Lists have the header frequency,multiplicity; N is the public bound on items and counts. Without any
it is the RockYou list of the package. DIR has edge lists, as .csv.gz files with the header src,dst,
each of which gives a degree list that is private for one edge: sensitivity 2, and the nodes are
public. Prints mean dist (half the L1 distance) and L2 distance to the private list, and writes them
with a plot to the output directory. This project's mean dist is exact. Of the others there are at
least as many releases as the first number of --repeats says, and more, up to the second, until the
standard error is below a tenth of the difference from it.
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

from benchmarks.baselines import METHODS, OURS, OURS_BOUNDED, PublicBounds, l2_distance
from dp_transforms import evaluation
from dp_transforms.mechanisms import FrequencyList, partition_mechanism
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
    """A list, how often it is released at least and at most, and what is public about it."""

    name: str
    private: FrequencyList
    sensitivity: int
    bounds: PublicBounds
    repeats: tuple[int, int]
    methods: tuple[str, ...] = tuple(METHODS)

    @classmethod
    def users(cls, name: str, private: FrequencyList, repeats: tuple[int, int]) -> Input:
        """Each user in one partition, N public, which bounds no list more than N does."""
        methods = tuple(name for name in METHODS if name != OURS_BOUNDED)
        bounds = PublicBounds(private.total, private.total)
        return cls(name, private, 1, bounds, repeats, methods)

    @classmethod
    def degrees(cls, path: pathlib.Path, repeats: tuple[int, int]) -> Input:
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
    number = {"type": int, "nargs": 2, "metavar": ("LEAST", "MOST")}
    parser.add_argument("--repeats", **number, default=(4, 200), help="releases of a list")
    parser.add_argument("--graph_repeats", **number, default=(40, 4000), help="of a degree list")
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("benchmarks/results"))
    flags = parser.parse_args()

    lists = {path.stem: FrequencyList.from_csv(path) for path in flags.lists}
    inputs = [
        Input.users(name, private, tuple(flags.repeats))
        for name, private in (lists or {"rockyou": rockyou()}).items()
    ]
    edges = sorted(flags.edges.glob("*.csv.gz")) if flags.edges else []
    inputs += [Input.degrees(path, tuple(flags.graph_repeats)) for path in edges]
    tasks = [
        (case, *rest) for case in inputs for rest in itertools.product(case.methods, flags.epsilons)
    ]
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
    plot(inputs, flags.epsilons, errors, flags.output / "baselines.png")


def measured(case: Input, method: str, epsilon: float) -> tuple[Mean, Mean]:
    """dist and L2 distance of releases."""
    mechanism = partition_mechanism(epsilon, case.sensitivity)
    ours = evaluation.expected_l1(mechanism, case.private) / 2
    rng, distances = np.random.default_rng(), []
    least, most = case.repeats
    while True:
        released = METHODS[method](case.private, epsilon, case.sensitivity, case.bounds, rng)
        distances.append(
            (case.private.l1_distance(released) / 2, l2_distance(case.private, released))
        )
        if len(distances) < (10 * least if method in (OURS, OURS_BOUNDED) else least):
            continue
        dist, l2 = (Mean.of(side) for side in zip(*distances, strict=True))
        if method == OURS:
            return Mean(ours, 0.0), l2
        error = dist.value * dist.relative_error
        if method == OURS_BOUNDED or len(distances) >= most or error <= abs(dist.value - ours) / 10:
            return dist, l2


def table(
    case: Input,
    measure: int,
    epsilons: list[float],
    errors: Errors,
) -> str:
    """One measure on one list: a row per epsilon; in brackets, the ratio to the first method."""
    heading = (
        f"Mean {MEASURES[measure]} of {case.repeats[0]} to {case.repeats[1]} releases: {case.name} "
        f"(N = {case.private.total:,}, {case.private.distinct:,} items, "
        f"sensitivity {case.sensitivity})"
    )
    methods = case.methods
    rows = [["epsilon", *methods], ["---"] * (1 + len(methods))]
    for epsilon in epsilons:
        values = [errors[case.name, method, epsilon][measure].value for method in methods]
        others = [f"{number(value)} ({number(value / values[0])}x)" for value in values[1:]]
        rows.append([f"{epsilon:g}", number(values[0]), *others])
    relative = [
        max(errors[case.name, method, epsilon][measure].relative_error for epsilon in epsilons)
        for method in methods
    ]
    rows.append(["standard error, at most", *(f"{error:.1%}" for error in relative)])
    return heading + "\n\n" + "\n".join(f"| {' | '.join(row)} |" for row in rows)


def number(value: float) -> str:
    """Three significant digits, with separators below a million."""
    if value >= 1e6:
        return f"{value:.1e}".replace("e+0", "e").replace("e+", "e")
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def plot(
    inputs: list[Input],
    epsilons: list[float],
    errors: Errors,
    path: pathlib.Path,
) -> None:
    """Both measures against epsilon, a column per list."""
    figure, axes = plt.subplots(
        2, len(inputs), figsize=(1.5 + 4 * len(inputs), 7), sharex=True, squeeze=False
    )
    for column, case in enumerate(inputs):
        for measure, label in enumerate(MEASURES):
            axis = axes[measure, column]
            for method in case.methods:
                values = [errors[case.name, method, epsilon][measure].value for epsilon in epsilons]
                colour = f"C{list(METHODS).index(method)}"
                axis.loglog(epsilons, values, color=colour, marker="o", markersize=3, label=method)
            axis.grid(alpha=0.3)
            if measure == 0:
                axis.set_title(case.name)
            else:
                axis.set_xlabel("epsilon")
            if column == 0:
                axis.set_ylabel(f"mean {label}, users")
    handles, labels = axes[0, -1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=3, frameon=False)
    figure.tight_layout(rect=(0, 0.09, 1, 1))
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
