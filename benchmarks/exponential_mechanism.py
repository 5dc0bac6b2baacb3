"""Times of the base-2 exponential mechanism on the tests of Ilvento (2019), and its retries.

    python -m benchmarks.exponential_mechanism [--output=benchmarks/results] [--repeats=5]

Prints tables, and writes them with a plot to the output directory:

* a choice among n outcomes with utilities 1..n, the paper's test of outcome spaces;
* a choice among 1,000 outcomes whose utilities span a growing range;
* clamped discrete Laplace on [-10, 10] with a growing number of points;
* the timing channel of rejected draws, with min_retries 1, 2, 4, 8 (the paper's Figure 9).

The first two stand beside the paper's Algorithm 1 as it is written there, in MPFR: every weight is
a float of the precision of Lemma 3.4, with the inexact flag trapped.
"""

from __future__ import annotations

import argparse
import functools
import pathlib
import time
from collections.abc import Callable
from fractions import Fraction

import gmpy2
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from dp_transforms.mechanisms import ClampedLaplace, Eta, ExponentialMechanism, RandomTape

ETA = Eta(1, 1, 1)
SIZES = [100, 300, 1_000, 3_000, 10_000, 25_000, 50_000, 75_000]
RANGES = [100, 1_000, 3_000, 10_000, 25_000, 50_000]
GRANULARITIES = [Fraction(1, 4**k) for k in range(6)]
LITERAL_UP_TO = 10_000
"""Algorithm 1 as written keeps n weights of about 3 n bits: 37 MB at this n, 2 GB at 75,000."""
RETRIES = [1, 2, 4, 8]
CHOICES = 2_000


def seconds(action: Callable[[RandomTape], object], repeats: int) -> float:
    """The median time of one call, each with a tape of its own."""
    times = []
    for _ in range(repeats):
        tape = RandomTape.from_os()
        start = time.perf_counter()
        action(tape)
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def literal_choice(utilities: list[int], precision: int, tape: RandomTape) -> int:
    """Algorithm 1 as the paper has it: MPFR weights, their sum, a draw, and cumulative weights."""
    with gmpy2.context(precision=precision, trap_inexact=True):
        base = gmpy2.mpfr(ETA.base)
        weights = [base**u for u in utilities]
        total = functools.reduce(lambda sum_so_far, weight: sum_so_far + weight, weights)
        exponent = int(gmpy2.get_exp(total))
        attempt = 0
        while True:
            drawn = gmpy2.mpfr(gmpy2.mpz(tape.prefix("literal", attempt, precision)))
            drawn = gmpy2.mul_2exp(gmpy2.div_2exp(drawn, precision), exponent)
            if drawn < total:
                break
            attempt += 1
        chosen, cumulative = None, gmpy2.mpfr(0)
        for index, weight in enumerate(weights):
            cumulative += weight
            if chosen is None and cumulative > drawn:
                chosen = index
    assert chosen is not None
    return chosen


def outcome_space_times(repeats: int) -> list[tuple[int, float, float | None]]:
    rows = []
    for size in SIZES:
        utilities = np.arange(1, size + 1)
        mechanism = ExponentialMechanism(ETA, 0, size, max_outcomes=size)
        literal = None
        if size <= LITERAL_UP_TO:
            literal = seconds(
                functools.partial(literal_choice, utilities.tolist(), mechanism.precision_bits),
                repeats,
            )
        exact = seconds(functools.partial(mechanism.sample, utilities), repeats)
        rows.append((size, exact, literal))
    return rows


def utility_range_times(repeats: int) -> list[tuple[int, float, float | None]]:
    rows = []
    for width in RANGES:
        utilities = np.arange(1_000) + width
        utilities[0] = 0
        mechanism = ExponentialMechanism(ETA, 0, width + 1_000, max_outcomes=1_000)
        exact = seconds(functools.partial(mechanism.sample, utilities), repeats)
        literal = seconds(
            functools.partial(literal_choice, utilities.tolist(), mechanism.precision_bits),
            repeats,
        )
        rows.append((width, exact, literal))
    return rows


def laplace_times(repeats: int) -> list[tuple[int, float]]:
    rows = []
    for granularity in GRANULARITIES:
        laplace = ClampedLaplace(ETA, -10, 10, granularity)
        rows.append((laplace.points, seconds(functools.partial(laplace.release, 0), repeats)))
    return rows


def retry_times() -> list[tuple[int, float, float, float, float]]:
    """(k, seconds on database A, on B, share of B's choices with more than k draws, 2**-k).

    256 outcomes. On A all utilities are 1 and the total weight is a power of two: no draw is ever
    rejected. On B one utility is 0, the total is just above, and nearly half of the draws are.
    """
    databases = np.ones((2, 256), dtype=np.int64)
    databases[1, 0] = 0
    rows = []
    for k in RETRIES:
        mechanism = ExponentialMechanism(ETA, 0, 256, max_outcomes=256, min_retries=k)
        times = np.zeros((2, CHOICES))
        more = 0
        for i in range(CHOICES):
            for database in (0, 1):
                tape = _CountingTape.from_os()
                start = time.perf_counter()
                mechanism.sample(databases[database], tape)
                times[database, i] = time.perf_counter() - start
                more += database == 1 and tape.draws > k
        # The slowest choices were interrupted by something else.
        means = [float(np.sort(row)[: CHOICES * 98 // 100].mean()) for row in times]
        rows.append((k, *means, more / CHOICES, 2.0**-k))
    return rows


class _CountingTape(RandomTape):
    """A tape that counts the draws."""

    draws = 0

    def prefix(self, channel: str, index: int, bits: int) -> int:
        self.draws += 1
        return super().prefix(channel, index, bits)


def growth(rows: list[tuple[int, float]]) -> float:
    """The exponent of a power law fitted to the upper half of the measurements."""
    upper = rows[len(rows) // 2 :]
    size, spent = np.log([row[0] for row in upper]), np.log([row[1] for row in upper])
    return float(np.polyfit(size, spent, 1)[0])


def report(
    sizes: list[tuple[int, float, float | None]],
    ranges: list[tuple[int, float, float | None]],
    laplace: list[tuple[int, float]],
    retries: list[tuple[int, float, float, float, float]],
) -> str:
    lines = ["# The base-2 exponential mechanism: times of one choice, eta = 1", ""]
    lines += [
        "One thread. Algorithm 1 as written is the paper's, in MPFR (gmpy2), on this machine;"
    ]
    lines += ["at 75,000 outcomes the paper reports about 10 s for Rust on a low-end machine.", ""]
    for title, rows in (("outcomes", sizes), ("utility range", ranges)):
        lines += [f"| {title} | this library | Algorithm 1 as written |", "| ---: | ---: | ---: |"]
        for n, exact, literal in rows:
            shown = "" if literal is None else f"{literal * 1000:,.2f} ms"
            lines.append(f"| {n:,} | {exact * 1000:,.2f} ms | {shown} |")
        mine = growth([row[:2] for row in rows])
        theirs = growth([(n, literal) for n, _, literal in rows if literal is not None])
        lines += ["", f"Growth in the upper half: n^{mine:.2f}; as written n^{theirs:.2f}.", ""]
    lines += ["| points of clamped Laplace on [-10, 10] | this library |", "| ---: | ---: |"]
    lines += [f"| {points:,} | {spent * 1000:,.2f} ms |" for points, spent in laplace]
    lines += ["", f"Growth in the upper half: n^{growth(laplace):.2f}.", ""]
    lines += ["The timing channel: two neighbouring databases, 256 outcomes. On A no draw is ever"]
    lines += ["rejected, on B nearly half of them are. Means without the slowest 2%.", ""]
    lines += ["| min_retries k | A | B | B - A | B needs more than k draws | 2^-k |"]
    lines += ["| ---: | ---: | ---: | ---: | ---: | ---: |"]
    for k, a, b, more, bound in retries:
        lines.append(
            f"| {k} | {a * 1e6:.1f} us | {b * 1e6:.1f} us | {(b - a) * 1e6:+.1f} us "
            f"| {more:.2%} | {bound:.2%} |"
        )
    return "\n".join(lines) + "\n"


def plot(
    path: pathlib.Path,
    sizes: list[tuple[int, float, float | None]],
    ranges: list[tuple[int, float, float | None]],
    laplace: list[tuple[int, float]],
    retries: list[tuple[int, float, float, float, float]],
) -> None:
    figure, axes = plt.subplots(2, 2, figsize=(10, 7.5), layout="constrained")
    for axis, rows, label in (
        (axes[0, 0], sizes, "outcomes (utilities 1..n)"),
        (axes[0, 1], ranges, "utility range (1,000 outcomes)"),
    ):
        axis.loglog([r[0] for r in rows], [r[1] for r in rows], "o-", label="this library")
        literal = [(r[0], r[2]) for r in rows if r[2] is not None]
        axis.loglog(*zip(*literal, strict=True), "s--", label="Algorithm 1 as written (MPFR)")
        axis.set(xlabel=label, ylabel="seconds for one choice")
        axis.legend()
    axes[0, 0].loglog([75_000], [10], "k*", label="Rust, low-end machine (Ilvento 2019)")
    axes[0, 0].legend()
    axes[1, 0].loglog(*zip(*laplace, strict=True), "o-")
    axes[1, 0].set(xlabel="points of clamped Laplace", ylabel="seconds for one release")
    places = np.arange(len(retries))
    axes[1, 1].bar(places - 0.2, [1e6 * r[1] for r in retries], 0.4, label="A: no draw rejected")
    axes[1, 1].bar(places + 0.2, [1e6 * r[2] for r in retries], 0.4, label="B: half rejected")
    axes[1, 1].set_xticks(places, [str(r[0]) for r in retries])
    axes[1, 1].set(xlabel="min_retries", ylabel="mean microseconds for one choice")
    axes[1, 1].legend(loc="upper left")
    for axis in axes.flat[:3]:
        axis.grid(alpha=0.3)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("benchmarks/results"))
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    results = (
        outcome_space_times(arguments.repeats),
        utility_range_times(arguments.repeats),
        laplace_times(arguments.repeats),
        retry_times(),
    )
    text = report(*results)
    print(text)
    (arguments.output / "exponential_mechanism.md").write_text(text, encoding="utf-8")
    plot(arguments.output / "exponential_mechanism.png", *results)


if __name__ == "__main__":
    main()
