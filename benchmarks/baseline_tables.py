"""The integer-partition mechanism beside the ``baselines``, by their errors against epsilon.

    python -m benchmarks.baseline_tables [LIST.csv ...] [--edges=DIR] [--epsilons 1 0.1]
        [--repeats 10] [--output benchmarks/results]

Lists have the header frequency,multiplicity; N is the public bound on items and counts. Without any
it is the RockYou list of the package. DIR has edge lists, as .csv.gz files with the header src,dst,
each of which gives a degree list that is private for one edge: sensitivity 2, and the nodes are
public. Prints mean dist (half the L1 distance) and L2 distance to the private list, and writes them
with a plot to the output directory.
"""

from __future__ import annotations

import argparse
import gzip
import pathlib
import statistics
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
class Input:
    """A list to release, and what is public about it."""

    name: str
    private: FrequencyList
    sensitivity: int
    bounds: PublicBounds

    @classmethod
    def users(cls, name: str, private: FrequencyList) -> Input:
        """Each user in one partition, N public."""
        return cls(name, private, 1, PublicBounds(private.total, private.total))

    @classmethod
    def degrees(cls, path: pathlib.Path) -> Input:
        """The degrees of an undirected graph from a file of edges src,dst."""
        with gzip.open(path, "rt") as file:
            edges = np.loadtxt(file, delimiter=",", skiprows=1, dtype=np.int64)
        _, counts = np.unique(edges, return_counts=True)
        private = FrequencyList.from_counts(counts)
        bounds = PublicBounds(private.distinct, private.distinct - 1)
        return cls(f"degrees of {path.name.split('.')[0]}", private, 2, bounds)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("lists", nargs="*", type=pathlib.Path)
    parser.add_argument("--edges", type=pathlib.Path, metavar="DIR", help="all .csv.gz files in it")
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("benchmarks/results"))
    flags = parser.parse_args()

    inputs = [Input.users(path.stem, FrequencyList.from_csv(path)) for path in flags.lists]
    inputs = inputs or [Input.users("rockyou", rockyou())]
    if flags.edges:
        inputs += [Input.degrees(path) for path in sorted(flags.edges.glob("*.csv.gz"))]
    rng = np.random.default_rng()
    errors = {
        (case.name, method, epsilon): mean_errors(case, method, epsilon, flags.repeats, rng)
        for case in inputs
        for epsilon in flags.epsilons
        for method in METHODS
    }
    text = "\n\n".join(
        table(case, measure, flags.epsilons, flags.repeats, errors)
        for case in inputs
        for measure in (0, 1)
    )
    print(text)
    flags.output.mkdir(parents=True, exist_ok=True)
    (flags.output / "baselines.md").write_text(text + "\n")
    plot([case.name for case in inputs], flags.epsilons, errors, flags.output / "baselines.png")


def mean_errors(
    case: Input, method: str, epsilon: float, repeats: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Mean dist and mean L2 distance of ``repeats`` releases."""
    distances = []
    for _ in range(repeats):
        released = METHODS[method](case.private, epsilon, case.sensitivity, case.bounds, rng)
        distances.append(
            (case.private.l1_distance(released) / 2, l2_distance(case.private, released))
        )
    return statistics.fmean(d for d, _ in distances), statistics.fmean(d for _, d in distances)


def table(
    case: Input,
    measure: int,
    epsilons: list[float],
    repeats: int,
    errors: dict[tuple[str, str, float], tuple[float, float]],
) -> str:
    """One measure on one list: a row per epsilon; in brackets, the ratio to the first method."""
    heading = (
        f"Mean {MEASURES[measure]} of {repeats} releases: {case.name} (N = {case.private.total:,}, "
        f"{case.private.distinct:,} items, sensitivity {case.sensitivity})"
    )
    rows = [["epsilon", *METHODS], ["---"] * (1 + len(METHODS))]
    for epsilon in epsilons:
        values = [errors[case.name, method, epsilon][measure] for method in METHODS]
        others = [f"{number(value)} ({number(value / values[0])}x)" for value in values[1:]]
        rows.append([f"{epsilon:g}", number(values[0]), *others])
    return heading + "\n\n" + "\n".join(f"| {' | '.join(row)} |" for row in rows)


def number(value: float) -> str:
    """Three significant digits, with separators below a million."""
    if value >= 1e6:
        return f"{value:.1e}".replace("e+0", "e").replace("e+", "e")
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def plot(
    names: list[str],
    epsilons: list[float],
    errors: dict[tuple[str, str, float], tuple[float, float]],
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
                values = [errors[name, method, epsilon][measure] for epsilon in epsilons]
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
