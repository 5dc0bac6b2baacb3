"""The published way to sample integer partitions, as a baseline: a table over ranks and values.

    python -m benchmarks.row_dynamic_program [--output=benchmarks/results]

Two versions. Floats with distance bounds around the private list (Blocki, Datta, Bonneau, NDSS
2016, Mechanism 1 and Equation 1), vectorised over the values of a rank: on lists with many
different frequencies about N**1.5 / epsilon cells. Exact integers in base 2 with the public bounds
n / i (Ilvento), which is ``PartitionTable``: its cells grow with N too, to about eta * N bits.
"""

from __future__ import annotations

import argparse
import math
import pathlib
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dp_transforms.mechanisms import Eta, FrequencyList, PartitionTable, RandomTape

IntArray = npt.NDArray[np.int64]

EXACT_TOTALS = [1_000, 3_000, 10_000]
PUBLISHED_SECONDS = {1_000: 0.13, 3_000: 1.9, 10_000: 88.0}
"""The public exact implementation in Rust, with MPFR floats: about these times."""
FLOAT_TOTALS = [1_000, 10_000, 100_000, 1_000_000]


@dataclass(frozen=True)
class FloatRowProgram:
    """The dynamic program in floats: not exact, and (epsilon, delta)-private at best.

    Attributes:
      lowest: the lower bound of each rank.
      offsets: where each rank's cells begin in ``sums``; one more at the end.
      sums: cumulative weights, rank by rank, each rank divided by its largest.
    """

    lowest: IntArray
    offsets: IntArray
    sums: npt.NDArray[np.float64]

    @classmethod
    def build(
        cls, frequency_list: FrequencyList, epsilon: float, lower: IntArray, upper: IntArray
    ) -> FloatRowProgram:
        """Weights e**(-epsilon / 2 * ||y - f||_1) among the lists between descending bounds."""
        ranks = len(upper)
        targets = _per_rank(frequency_list, ranks)
        offsets = np.concatenate([[0], np.cumsum(upper - lower + 1)])
        sums = np.empty(offsets[-1])
        reach = int(max((upper - targets).max(), (targets - lower).max(), 0))
        # powers[reach + v - f] is the weight of a value v at target f.
        powers = np.exp(-epsilon / 2 * np.abs(np.arange(-reach, reach + 1)))
        # A rank with one possible value has one cell, and needs no work.
        sums[offsets[:-1][lower == upper]] = 1.0
        for i in np.flatnonzero(lower < upper)[::-1].tolist():
            low, high = int(lower[i]), int(upper[i])
            if i + 1 < ranks:
                below = sums[offsets[i + 1] : offsets[i + 2]]
                below_lowest, below_highest = int(lower[i + 1]), int(upper[i + 1])
            else:
                below, below_lowest, below_highest = np.ones(1), 0, 0
            cells = sums[offsets[i] : offsets[i + 1]]
            cells[:] = powers[reach + low - targets[i] : reach + high - targets[i] + 1]
            shared = min(high, below_highest) - low + 1
            if shared > 0:
                first = low - below_lowest
                cells[:shared] *= below[first : first + shared]
                cells[shared:] *= below[-1]
            else:
                cells *= below[-1]
            np.cumsum(cells, out=cells)
            cells /= cells[-1]
        return cls(lower, offsets, sums)

    def sample(self, tape: RandomTape, channel: str = "row program") -> FrequencyList:
        """One list."""
        released = self.lowest.copy()
        free = np.flatnonzero(np.diff(self.offsets) > 1).tolist()
        uniforms = tape.words(channel, len(free)) * 2.0**-64
        for i, uniform in zip(free, uniforms.tolist(), strict=True):
            cells = self.sums[self.offsets[i] : self.offsets[i + 1]]
            low = int(self.lowest[i])
            if i > 0:
                cells = cells[: int(released[i - 1]) - low + 1]
            released[i] = low + np.searchsorted(cells, uniform * cells[-1], side="right")
        return FrequencyList.from_counts(released[released > 0])


def distance_bounds(frequency_list: FrequencyList, distance: int) -> tuple[IntArray, IntArray]:
    """(L, U) per rank: the least and the greatest value of any list within this L1 distance.

    A value v > f_i at rank i needs v at the ranks before it, too, which costs the sum of (v - f_j)+
    over j <= i; a value v < f_i costs the sum of (f_j - v)+ over j >= i (Equation 1).
    """
    ranks = frequency_list.distinct + distance
    targets = _per_rank(frequency_list, ranks)
    totals = np.concatenate([[0], np.cumsum(targets)])
    counts = np.arange(ranks)
    ascending = targets[::-1]

    def raising(values: IntArray) -> IntArray:
        at_least = ranks - np.searchsorted(ascending, values, side="left")
        changed = np.maximum(counts + 1 - at_least, 0)
        return changed * values - (totals[counts + 1] - totals[counts + 1 - changed])

    def lowering(values: IntArray) -> IntArray:
        above = ranks - np.searchsorted(ascending, values, side="right")
        changed = np.maximum(above - counts, 0)
        return (totals[counts + changed] - totals[counts]) - changed * values

    upper = _largest(targets, targets + distance, lambda values: raising(values) <= distance)
    steps = _largest(
        np.zeros(ranks, dtype=np.int64),
        np.minimum(targets, distance),
        lambda down: lowering(targets - down) <= distance,
    )
    last = int(np.flatnonzero(upper)[-1]) + 1 if upper.any() else 0
    return (targets - steps)[:last], upper[:last]


def harmonic_bounds(total: int) -> IntArray:
    """The public upper bounds n / i."""
    return total // np.arange(1, total + 1)


def zipf_list(total: int) -> FrequencyList:
    """A list of this total with frequencies of about total / 100 * i**-0.75, then ones."""
    head = (total / 100 * np.arange(1, total + 1) ** -0.75).astype(np.int64)
    head = head[(head > 1) & (np.cumsum(head) <= total)]
    return FrequencyList.from_counts(
        np.concatenate([head, np.ones(total - int(head.sum()), dtype=np.int64)])
    )


def usual_distance(total: int, epsilon: float) -> int:
    """An L1 distance of the order that the bounds' analysis needs: 4 * sqrt(N) / epsilon."""
    return math.ceil(4 * math.sqrt(total) / epsilon)


def _per_rank(frequency_list: FrequencyList, ranks: int) -> IntArray:
    targets = np.zeros(ranks, dtype=np.int64)
    values = np.repeat(frequency_list.frequencies, frequency_list.multiplicities)[:ranks]
    targets[: len(values)] = values
    return targets


def _largest(
    low: IntArray, high: IntArray, holds: Callable[[IntArray], npt.NDArray[np.bool_]]
) -> IntArray:
    """Finds per element the largest value in [low, high] for which a monotone condition holds."""
    low, high = low.copy(), high.copy()
    while (low < high).any():
        middle = (low + high + 1) // 2
        good = holds(middle)
        low = np.where(good, middle, low)
        high = np.where(good, high, middle - 1)
    return low


def exact_times(totals: list[int], eta: Eta) -> list[tuple[int, float]]:
    """(N, seconds) for building the exact table with bounds n / i and sampling once."""
    rows = []
    for total in totals:
        private, upper = zipf_list(total), harmonic_bounds(total).tolist()
        start = time.perf_counter()
        PartitionTable(private, eta, upper).sample(RandomTape.from_os())
        rows.append((total, time.perf_counter() - start))
    return rows


def float_times(totals: list[int], epsilon: float) -> list[tuple[int, float, int]]:
    """(N, seconds, cells) for bounds, table and one sample in floats."""
    rows = []
    for total in totals:
        private = zipf_list(total)
        start = time.perf_counter()
        bounds = distance_bounds(private, usual_distance(total, epsilon))
        program = FloatRowProgram.build(private, epsilon, *bounds)
        program.sample(RandomTape.from_os())
        rows.append((total, time.perf_counter() - start, len(program.sums)))
    return rows


def exponent(rows: list[tuple[int, float]]) -> float:
    """The exponent of a power law through the times."""
    sizes, spent = np.log(np.array(rows, dtype=np.float64)).T
    return float(np.polyfit(sizes, spent, 1)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("benchmarks/results"))
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    floats = float_times(FLOAT_TOTALS, epsilon=1.0)
    exact = exact_times(EXACT_TOTALS, Eta(1, 1, 1))
    lines = ["# The row dynamic program: one release, tables included", ""]
    lines += ["Floats, distance bounds, epsilon = 1:", ""]
    lines += ["| N | cells | seconds |", "| ---: | ---: | ---: |"]
    lines += [f"| {total:,} | {cells:,} | {spent:.3f} |" for total, spent, cells in floats]
    lines += ["", f"Time grows as N^{exponent([row[:2] for row in floats]):.2f}.", ""]
    lines += ["Exact, base 2, eta = 1, public bounds n / i:", ""]
    lines += ["| N | this library's table | published implementation |", "| ---: | ---: | ---: |"]
    for total, spent in exact:
        lines.append(f"| {total:,} | {spent:.2f} s | {PUBLISHED_SECONDS[total]} s |")
    published = list(PUBLISHED_SECONDS.items())
    lines += ["", "The published times are of another machine and other lists.", ""]
    lines += [f"Time grows as N^{exponent(exact):.2f}; published, N^{exponent(published):.2f}."]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peak_mib = peak / (2**20 if sys.platform == "darwin" else 2**10)
    lines += [f"Peak memory of the process: {peak_mib:,.0f} MiB.", ""]
    text = "\n".join(lines)
    print(text)
    (arguments.output / "row_dynamic_program.md").write_text(text, encoding="utf-8")
    _plot(arguments.output / "row_dynamic_program.png", [row[:2] for row in floats], exact)


def _plot(
    path: pathlib.Path, floats: list[tuple[int, float]], exact: list[tuple[int, float]]
) -> None:
    # Here, so that the baselines can be imported without it.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axis = figure.subplots()
    axis.loglog(*zip(*floats, strict=True), "o-", label="floats")
    axis.loglog(*zip(*exact, strict=True), "s-", label="exact integers")
    axis.loglog(*zip(*PUBLISHED_SECONDS.items(), strict=True), "k*--", label="exact, published")
    axis.set(xlabel="users N", ylabel="seconds for one release")
    axis.grid(alpha=0.3)
    axis.legend()
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
