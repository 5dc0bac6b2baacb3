"""Accuracy of the default release beside the peers of ``baselines``, at equal pure epsilon.

    python -m benchmarks.frequency_lists [LIST.csv ...] [--lists=DIR] [--edges=DIR] [--pairs=DIR]
        [--rates 1 0.1] [--precision=0.015] [--output=benchmarks/results] [--draw]

For each list and c = epsilon / kappa, the page has the mean of dist (half the L1 distance) over
releases with its standard error, and the ratio of the best peer's mean to ours. The exponential
mechanism's mean is exact. For RockYou the page also has the numbers of Table II of Blocki, Datta
and Bonneau (NDSS 2016). A table shows what the coordinates give and what the decoder gives, at each
c at which the default mechanism has a decoder.

Lists have kappa 1, and the peers' public bound on items and counts is N. If no lists are given,
they are those of the package. The directory of --edges has graphs, as .csv.gz files with the header
src,dst. Each graph gives a degree list that is private for one edge: kappa is 2, and the number of
nodes is public. The directory of --pairs has pairs, as .csv.gz files with the header user,item.
Each gives the list of how many items users have, which is private for one pair. A mean is over as
many releases as a relative standard error of --precision needs, or over fewer where they cost much
(``most_releases``).
"""

from __future__ import annotations

import concurrent.futures
import itertools
import math
import pathlib
import secrets
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from benchmarks.baselines import PEERS, PublicBounds, Release
from benchmarks.harness import (
    DATA,
    drawn_generator,
    integer_pairs,
    numbered_tapes,
    page_parser,
    pair_files,
    title_of,
    write_page,
)
from benchmarks.named_draws import following
from benchmarks.undecoded import isotonic_distance, noise_distance
from dp_transforms import evaluation
from dp_transforms.mechanisms import FrequencyList, partition_mechanism
from dp_transforms.mechanisms.noisy_coordinates import NoisyCoordinates
from dp_transforms.mechanisms.partition.frobenius import FrobeniusMechanism
from dp_transforms.mechanisms.partition.mechanism import PartitionMechanism
from dp_transforms.mechanisms.partition.registry import EXPONENTIAL, chosen_mechanism
from dp_transforms.sample_data import rockyou, yahoo

RATES = (4, 2, 1.1, 1, 0.8, 0.6, 0.5, 0.25, 0.1, 0.05, 0.02)
TABLE_II = {4: 228.8, 2: 663.5, 1: 1330.5, 0.5: 2328.2, 0.25: 3768.1, 0.1: 6752.6}
PUBLISHED_FOR = "rockyou"
PLOTTED = ("rockyou", "yahoo_all", "degrees of ca_grqc", "degrees of email_enron")
LINES = {
    "ours": {"color": "black", "marker": "o", "linewidth": 2, "zorder": 3},
    "exponential": {"color": "black", "linestyle": ":"},
    **{name: {"marker": "o", "linewidth": 1} for name in PEERS},
}
"""The columns of the page that the picture shows, and the styles of their lines."""
DECODER_HEADING = "\n## What the decoder gives\n"
"""Heads what the page says behind the tables of lists."""

UNDECODED = {
    "noisy coordinates": noise_distance,
    "isotonic regression, L1": isotonic_distance,
}
"""The errors of what there is without the decoder."""

LEAST, MOST = 8, 4000
"""The least and the largest number of releases in a mean."""
TRIAL_PRECISION = 0.04
"""The relative standard error of the means by which a way of a peer is chosen."""
WORK, ENOUGH = 400_000, 16
"""Releases of a list with one frequency at c = 1, and of lists that cost the most."""


@dataclass(frozen=True)
class Mean:
    """A mean over releases, and its standard error."""

    value: float
    error: float

    @classmethod
    def of(cls, numbers: Iterable[float]) -> Mean:
        numbers = list(numbers)
        return cls(statistics.fmean(numbers), statistics.stdev(numbers) / len(numbers) ** 0.5)

    def __str__(self) -> str:
        return f"{number(self.value)} +- {number(self.error, digits=2)}"

    def by(self, other: Mean) -> Mean:
        """Returns the ratio of this mean to an independent one that is not 0. Its standard error is
        that to the first order."""
        ratio = self.value / other.value
        own = self.error / self.value if self.value else 0.0
        return Mean(ratio, ratio * math.hypot(own, other.error / other.value))


@dataclass(frozen=True)
class Input:
    """A private list, the number of counts that one user or edge changes, and public bounds."""

    name: str
    private: FrequencyList
    max_partitions: int
    bounds: PublicBounds

    @classmethod
    def users(cls, name: str, private: FrequencyList) -> Input:
        """Returns the input for a list in which each user is in one partition."""
        return cls(name, private, 1, PublicBounds(private.total, private.total))

    @classmethod
    def items(cls, path: pathlib.Path) -> Input:
        """Returns the input for the numbers of items of users in a file of pairs user,item."""
        _, counts = np.unique(integer_pairs(path)[:, 0], return_counts=True)
        return cls.users(f"items of {title_of(path)}", FrequencyList.from_counts(counts))

    @classmethod
    def degrees(cls, path: pathlib.Path) -> Input:
        """Returns the input for the degrees of the undirected graph in a file of edges src,dst."""
        _, counts = np.unique(integer_pairs(path), return_counts=True)
        name = path.name.removesuffix(".csv.gz").removesuffix("_edges")
        bounds = PublicBounds(len(counts), len(counts) - 1)
        return cls(f"degrees of {name}", FrequencyList.from_counts(counts), 2, bounds)


@dataclass(frozen=True)
class Accuracy:
    """The accuracy of releases of one list at one rate.

    Attributes:
      ours: the mean of dist of the default release.
      peers: the means of dist of the peers, by name.
      undecoded: the means of dist without the decoder, by what takes its place; empty if the
        default mechanism has none.
      exponential: the exact mean of dist of the exponential mechanism.
      seconds: the CPU seconds of the first release, with nothing kept from earlier ones.
    """

    ours: Mean
    peers: Mapping[str, Mean]
    undecoded: Mapping[str, Mean]
    exponential: float
    seconds: float

    @property
    def best_peer(self) -> str:
        return min(self.peers, key=lambda name: self.peers[name].value)

    @property
    def ratio(self) -> Mean | None:
        """The ratio of the best peer's mean to ours; None if our mean is 0."""
        return self.peers[self.best_peer].by(self.ours) if self.ours.value else None


def main() -> None:
    parser = page_parser("frequency_lists", __doc__, "edges", "pairs")
    parser.add_argument("files", nargs="*", type=pathlib.Path, metavar="LIST.csv")
    parser.add_argument("--lists", type=pathlib.Path, metavar="DIR", help="all CSV files in it")
    parser.add_argument("--rates", type=float, nargs="+", default=list(RATES))
    parser.add_argument("--precision", type=float, default=0.015, help="relative standard error")
    parser.add_argument("--draw", action="store_true", help="only the picture, from the page")
    flags = parser.parse_args()
    page = flags.output / "frequency_lists.md"
    if flags.draw:
        plot(page, page.with_suffix(".png"))
        return
    files = [*flags.files, *(sorted(flags.lists.glob("*.csv")) if flags.lists else [])]
    lists = {path.stem: FrequencyList.from_csv(path) for path in files}
    graphs = sorted(flags.edges.glob("*.csv.gz")) if flags.edges else []
    lists = lists or {"rockyou": rockyou(), "yahoo_all": yahoo()}
    # Lists of the pairs in benchmarks/data are on the page of answers.
    pairs = [path for path in pair_files(flags.pairs) if not (DATA / path.name).exists()]
    inputs = [
        *itertools.starmap(Input.users, lists.items()),
        *map(Input.degrees, graphs),
        *map(Input.items, pairs),
    ]
    # The slowest tasks come first, so that no process is left with one at the end.
    tasks = sorted(
        itertools.product(inputs, flags.rates), key=lambda task: -task[0].private.total / task[1]
    )
    # A task is named by its list and c, so that other lists do not change what it draws.
    drawn = secrets.token_hex()
    with concurrent.futures.ProcessPoolExecutor() as pool:
        futures = {
            (case.name, rate): pool.submit(
                following, f"{drawn} {case.name} {rate}", accuracy, case, rate, flags.precision
            )
            for case, rate in tasks
        }
        accuracies = {
            (case.name, rate): futures[case.name, rate].result()
            for case, rate in itertools.product(inputs, flags.rates)
        }
    write_page(page, report(inputs, flags.rates, accuracies))
    plot(page, page.with_suffix(".png"))


def accuracy(case: Input, rate: float, precision: float) -> Accuracy:
    """Returns the accuracy of a list's releases, after many releases by each mechanism."""
    epsilon = rate * case.max_partitions
    start = time.process_time()
    mechanism = partition_mechanism(epsilon, case.max_partitions)
    mechanism.release(case.private)
    first = time.process_time() - start
    exponential = partition_mechanism(epsilon, case.max_partitions, EXPONENTIAL)
    most = most_releases(case, rate)
    return Accuracy(
        ours=measured(distances(mechanism, case.private), precision, most),
        peers={name: measured(peer_distances(name, case, rate), precision, most) for name in PEERS},
        undecoded={
            name: measured(undecoded_distances(measure, mechanism, case.private), precision, most)
            for name, measure in UNDECODED.items()
            if isinstance(mechanism, FrobeniusMechanism)
        },
        exponential=evaluation.expected_l1(exponential, case.private) / 2,
        seconds=first,
    )


def distances(mechanism: PartitionMechanism, private: FrequencyList) -> Iterator[float]:
    """Yields dist of any number of releases."""
    tapes = numbered_tapes()
    while True:
        # Several releases at once share what is prepared for a list.
        for released in mechanism.release_many(private, LEAST, tapes):
            yield private.l1_distance(released) / 2


def undecoded_distances(
    measure: Callable[[NoisyCoordinates, FrequencyList], float],
    mechanism: FrobeniusMechanism,
    private: FrequencyList,
) -> Iterator[float]:
    """Yields an error of noisy coordinates in any number of releases."""
    for tape in numbered_tapes():
        yield measure(mechanism.noisy_coordinates(private, tape), private)


def peer_distances(peer: str, case: Input, rate: float) -> Iterator[float]:
    """Returns dist of each of ``peer_releases``."""
    return dists(peer_releases(peer, case, rate), case.private)


def dists(released_lists: Iterable[FrequencyList], private: FrequencyList) -> Iterator[float]:
    """Returns dist of each released list."""
    return (private.l1_distance(released) / 2 for released in released_lists)


def peer_releases(peer: str, case: Input, rate: float) -> Iterator[FrequencyList]:
    """Returns any number of releases by a peer, in the way of it that errs least in trials."""
    ways = PEERS[peer]
    if len(ways) == 1:
        return releases(ways[0], case, rate)
    most = most_releases(case, rate)

    def error(way: Release) -> float:
        trials = dists(releases(way, case, rate), case.private)
        return measured(trials, TRIAL_PRECISION, most).value

    return releases(min(ways, key=error), case, rate)


def releases(way: Release, case: Input, rate: float) -> Iterator[FrequencyList]:
    """Yields any number of releases in one way of a peer."""
    rng = drawn_generator()
    while True:
        yield way(case.private, rate, case.bounds, rng)


def most_releases(case: Input, rate: float) -> int:
    """Returns the largest number of releases of a list at c = ``rate`` in a mean.

    A release costs about as much as the list has distinct frequencies, and the more the smaller c
    is. Measured times would not do: the page would have other means on another machine.
    """
    return min(max(int(WORK * rate / len(case.private.frequencies)), ENOUGH), MOST)


def measured(drawn: Iterator[float], precision: float, most: int) -> Mean:
    """Returns the mean of as many numbers as ``precision`` needs, judged by the first ``LEAST``,
    and of at most ``most``."""
    numbers = list(itertools.islice(drawn, LEAST))
    spread = statistics.stdev(numbers) / (statistics.fmean(numbers) or 1.0)
    # The spread of so few numbers is itself off by a quarter, so a quarter is added. If all of them
    # are equal, their spread shows nothing, and as many as allowed are drawn.
    wanted = (1.25 * spread / precision) ** 2 if spread else most
    numbers += itertools.islice(drawn, max(int(min(wanted, most)) - LEAST, 0))
    return Mean.of(numbers)


def report(
    inputs: Sequence[Input],
    rates: Sequence[float],
    accuracies: Mapping[tuple[str, float], Accuracy],
) -> Iterator[str]:
    """Yields the lines of the page."""
    yield "# Accuracy of released frequency lists\n"
    yield (
        "Mean dist (half the L1 distance) of releases at c = epsilon / kappa, +- one standard "
        "error. Ours is the default mechanism, which needs no public bounds; the exponential one's "
        "mean is exact. The peers have the whole epsilon, and are told for nothing: N (for degrees "
        "the number of nodes) as a bound on items and counts the cumulative histograms (Kuo et "
        "al. 2018), sorted counts (Hay et al. 2010) and cuts at a column; the exact number of "
        "users PrivHist (Suresh 2019) and the cut by N; which of four columns is the best one for "
        "the list and c the cut at the best column; the exact number of partitions and the largest "
        "frequency the cyclic Laplace (Kohli and "
        "Laskowski 2026). Table II is that of Blocki, Datta and Bonneau (NDSS 2016), whose "
        "mechanism needs bounds and a delta. Times are CPU seconds of the first release."
    )
    for case in inputs:
        yield f"\n## {case.name}\n"
        yield (
            f"{case.private.total:,} users, {case.private.distinct:,} partitions, "
            f"kappa = {case.max_partitions}.\n"
        )
        published = TABLE_II if case.name == PUBLISHED_FOR else {}
        heads = ["c", "mechanism", "ours", "exponential", *PEERS]
        heads += ["Table II"] * bool(published) + ["best peer : ours", "one release"]
        yield f"| {' | '.join(heads)} |"
        yield "| ---: | --- |" + " ---: |" * (len(heads) - 2)
        for rate in rates:
            result = accuracies[case.name, rate]
            cells = [f"{rate:g}", chosen_mechanism(rate * case.max_partitions, case.max_partitions)]
            cells += [str(result.ours), number(result.exponential)]
            cells += [str(result.peers[name]) for name in PEERS]
            if published:
                cells.append(f"{published[rate]:,}" if rate in published else "")
            ratio = result.ratio
            cells.append(f"{ratio.value:.2f} +- {ratio.error:.2f}" if ratio else "")
            yield f"| {' | '.join([*cells, f'{result.seconds:.2f} s'])} |"
    yield DECODER_HEADING
    yield (
        "Mean dist, +- one standard error, of the noisy coordinates, which are no list: half their "
        "L1 distance to the true coordinates, at all places drawn; of the list by isotonic "
        "regression in L1 of rows and of columns, which is told where they end; and of the list "
        "that the decoder makes, which is told nothing.\n"
    )
    yield f"| list | c | {' | '.join(UNDECODED)} | decoder | isotonic regression : decoder |"
    yield "| --- | ---: |" + " ---: |" * (len(UNDECODED) + 2)
    for (name, rate), result in accuracies.items():
        if result.undecoded:
            means = [*result.undecoded.values(), result.ours]
            ratio = means[-2].by(means[-1])
            cells = [name, f"{rate:g}", *map(str, means), f"{ratio.value:.2f} +- {ratio.error:.2f}"]
            yield f"| {' | '.join(cells)} |"
    yield "\n## The best peer beside ours\n"
    yield from comparison(accuracies)
    yield "\n![dist against c, ours and the peers'](frequency_lists.png)"


def comparison(accuracies: Mapping[tuple[str, float], Accuracy]) -> Iterator[str]:
    """Yields lines on the least ratios, and on the cases in which a peer is better by more than two
    standard errors."""
    ratios = {key: result.ratio for key, result in accuracies.items() if result.ratio}
    for title, chosen in (
        ("From c = 1 up", [key for key in ratios if key[1] >= 1]),
        ("Below c = 1", [key for key in ratios if key[1] < 1]),
    ):
        if chosen:
            name, rate = min(chosen, key=lambda key: ratios[key].value)
            least = ratios[name, rate]
            yield (
                f"* {title} the best peer's mean is {least.value:.2f} +- {least.error:.2f} times "
                f"ours or more: {name}, c = {rate:g}, {accuracies[name, rate].best_peer}."
            )
    better = [
        f"{name} at {rate:g} ({accuracies[name, rate].best_peer}, {ratio.value:.2f})"
        for (name, rate), ratio in ratios.items()
        if ratio.value + 2 * ratio.error < 1
    ]
    where = f"at these c: {', '.join(better)}" if better else "nowhere"
    yield f"* A peer is better by more than two standard errors {where}."


def number(value: float, digits: int = 3) -> str:
    """Returns a number as text with at least so many significant digits, and with separators in
    large whole numbers.

    >>> [number(x) for x in (0, 0.6824, 37.31, 12744.4, 45_027_298_479)]
    ['0', '0.682', '37.3', '12,744', '4.5e10']
    """
    if value >= 1e7:
        return f"{value:.1e}".replace("e+0", "e").replace("e+", "e")
    return f"{value:,.0f}" if value >= 10 ** (digits - 1) else f"{value:.{digits}g}"


def plot(page: pathlib.Path, path: pathlib.Path) -> None:
    """Draws dist against c for at most four lists of a page, with a line for each mechanism."""
    lists = list(tables(page.read_text(encoding="utf-8")))
    shown = [table for table in lists if table[0] in PLOTTED] or lists[:4]
    rows = -(-len(shown) // 2)
    figure, axes = plt.subplots(rows, 2, figsize=(9, 0.8 + 3.4 * rows), squeeze=False)
    for axis, (name, rates, means) in zip(axes.flat, shown, strict=False):
        for label, line in LINES.items():
            axis.loglog(rates, means[label], markersize=3, label=label, **line)
        ours = [mean for mean in means["ours"] if mean]
        axis.set_ylim(min(ours) / 2, 30 * max(ours))
        axis.set_xticks([0.02, 0.1, 0.5, 1, 4], ["0.02", "0.1", "0.5", "1", "4"])
        axis.minorticks_off()
        axis.set_title(name, fontsize=10)
        axis.set_xlabel("c = epsilon / kappa")
        axis.set_ylabel("mean dist")
        axis.grid(alpha=0.3)
    for axis in list(axes.flat)[len(shown) :]:
        axis.set_axis_off()
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=4, frameon=False)
    figure.tight_layout(rect=(0, 0.8 / (0.8 + 3.4 * rows), 1, 1))
    figure.savefig(path, dpi=90, pil_kwargs={"optimize": True})
    plt.close(figure)


def tables(page: str) -> Iterator[tuple[str, list[float], dict[str, list[float]]]]:
    """Yields (name, rates, means by mechanism) of each list in a page of ``report``."""
    for part in page.split(DECODER_HEADING)[0].split("\n## ")[1:]:
        name, _, text = part.partition("\n")
        lines = [line for line in text.splitlines() if line.startswith("|")]
        if lines:
            heads, _, *rows = [[cell.strip() for cell in line[1:-1].split("|")] for line in lines]
            columns = dict(zip(heads, zip(*rows, strict=True), strict=True))
            means = {
                label: [float(cell.partition(" ")[0].replace(",", "")) for cell in columns[label]]
                for label in LINES
            }
            yield name, [float(cell) for cell in columns["c"]], means


if __name__ == "__main__":
    main()
