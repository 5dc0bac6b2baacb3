"""Accuracy of the default mechanism at each epsilon, and the CPU time of one release.

    python -m benchmarks.frequency_lists [LIST.csv ...] [--lists=DIR] [--releases=200]
        [--epsilons 8 1 0.1] [--output benchmarks/results]

For each list and epsilon: the exact mean of dist (half the L1 distance), which is computed without
drawing; the mean over releases with its standard error, and how many of these the two are apart;
and the mean L2 distance. Beside RockYou stands Table II of Blocki, Datta, Bonneau (NDSS 2016).
Without lists: those of the package. Writes a table and a plot.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import pathlib
import resource
import statistics
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from benchmarks.baselines import l2_distance
from dp_transforms import evaluation
from dp_transforms.mechanisms import FrequencyList, partition_mechanism
from dp_transforms.mechanisms.integer_partition.choice import chosen_mechanism
from dp_transforms.sample_data import rockyou, yahoo

TABLE_II = {
    8: 28.8,
    4: 228.8,
    2: 663.5,
    1: 1330.5,
    0.5: 2328.2,
    0.25: 3768.1,
    0.2: 4355.7,
    0.1: 6752.6,
}
PUBLISHED_FOR = "rockyou"
EPSILONS = (8, 4, 2, 1.1, 1, 0.5, 0.25, 0.1)

COLUMNS = (
    "list",
    "users",
    "epsilon",
    "mechanism",
    "exact mean dist",
    "mean of releases",
    "standard errors apart",
    "Table II",
    "mean L2",
    "one release",
)


@dataclass(frozen=True)
class Accuracy:
    """What releases of one list at one epsilon are worth.

    Attributes:
      exact: the mean of dist.
      mean: its mean over releases.
      error: the standard error of that.
      l2: the mean L2 distance.
      seconds: of the CPU, for the first release, with nothing kept from earlier ones.
    """

    exact: float
    mean: float
    error: float
    l2: float
    seconds: float


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=pathlib.Path, metavar="LIST.csv")
    parser.add_argument("--lists", type=pathlib.Path, metavar="DIR", help="all CSV files in it")
    parser.add_argument("--releases", type=int, default=200)
    parser.add_argument("--epsilons", type=float, nargs="+", default=list(EPSILONS))
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("benchmarks/results"))
    flags = parser.parse_args()
    files = [*flags.files, *(sorted(flags.lists.glob("*.csv")) if flags.lists else [])]
    lists = {path.stem: FrequencyList.from_csv(path) for path in files}
    lists = lists or {"rockyou": rockyou(), "yahoo_all": yahoo()}
    keys = [(name, epsilon) for name in lists for epsilon in flags.epsilons]
    with concurrent.futures.ProcessPoolExecutor() as pool:
        tasks = ((lists[name], epsilon, flags.releases) for name, epsilon in keys)
        found = dict(zip(keys, pool.map(accuracy, *zip(*tasks, strict=True)), strict=True))
    text = "\n".join(report(lists, found, flags.releases)) + "\n"
    print(text)
    flags.output.mkdir(parents=True, exist_ok=True)
    (flags.output / "frequency_lists.md").write_text(text, encoding="utf-8")
    plot(list(lists), flags.epsilons, found, flags.output / "frequency_lists.png")


def accuracy(private: FrequencyList, epsilon: float, releases: int) -> Accuracy:
    """Releases a list many times."""
    mechanism = partition_mechanism(epsilon)
    start = time.process_time()
    mechanism.release(private)
    seconds = time.process_time() - start
    released = mechanism.release_many(private, releases)
    distances = [private.l1_distance(x) / 2 for x in released]
    return Accuracy(
        exact=evaluation.expected_l1(mechanism, private) / 2,
        mean=statistics.fmean(distances),
        error=statistics.stdev(distances) / releases**0.5,
        l2=statistics.fmean(l2_distance(private, x) for x in released),
        seconds=seconds,
    )


def report(
    lists: Mapping[str, FrequencyList],
    found: Mapping[tuple[str, float], Accuracy],
    releases: int,
) -> Iterator[str]:
    """The lines of the page."""
    yield "# Accuracy of released frequency lists"
    yield ""
    yield (
        f"dist is half the L1 distance; its exact mean is computed without drawing. Means are of "
        f"{releases} releases by the default mechanism; times are CPU seconds, of the first "
        "release. Table II is that of Blocki, Datta and Bonneau (NDSS 2016), whose mechanism needs "
        "bounds and a delta."
    )
    yield ""
    yield f"| {' | '.join(COLUMNS)} |"
    yield "| --- |" + " ---: |" * (len(COLUMNS) - 1)
    for (name, epsilon), one in found.items():
        published = TABLE_II.get(epsilon) if name == PUBLISHED_FOR else None
        cells = [
            name,
            f"{lists[name].total:,}",
            f"{epsilon:g}",
            chosen_mechanism(epsilon),
            f"{one.exact:,.2f}",
            f"{one.mean:,.2f} +- {one.error:.2f}",
            f"{(one.mean - one.exact) / one.error:+.1f}",
            "" if published is None else f"{published:,}",
            f"{one.l2:,.2f}",
            f"{one.seconds:.2f} s",
        ]
        yield f"| {' | '.join(cells)} |"
    yield ""
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    yield f"Peak memory of a process, of which there is one for each core: {peak:.0f} MiB."
    yield ""
    yield "![dist and L2 against epsilon](frequency_lists.png)"


def plot(
    names: list[str],
    epsilons: list[float],
    found: Mapping[tuple[str, float], Accuracy],
    path: pathlib.Path,
) -> None:
    """dist and L2 against epsilon, a colour per list."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.5))
    for name in names:
        values = [found[name, epsilon] for epsilon in epsilons]
        (line,) = left.loglog(epsilons, [one.exact for one in values], label=f"{name}, exact mean")
        left.loglog(
            epsilons, [one.mean for one in values], "o", color=line.get_color(), markersize=4
        )
        right.loglog(epsilons, [one.l2 for one in values], marker="o", markersize=4, label=name)
    published = [epsilon for epsilon in epsilons if epsilon in TABLE_II]
    if PUBLISHED_FOR in names and published:
        values = [TABLE_II[epsilon] for epsilon in published]
        left.loglog(published, values, "kx", markersize=5, label=f"{PUBLISHED_FOR}, Table II")
    left.set_ylabel("mean dist (lines exact, points measured)")
    right.set_ylabel("mean L2 distance")
    for axis in (left, right):
        axis.set_xlabel("epsilon")
        axis.grid(alpha=0.3)
        axis.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
