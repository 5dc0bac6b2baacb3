"""What no estimate from a release can do: python -m benchmarks.guessing_limits

Two lists whose releases are nearly alike can not be told apart, so that any estimate of a metric is
wrong for one of them (Le Cam's two-point method; Tsybakov, "Introduction to nonparametric
estimation", 2009, section 2.2): if the metric differs by 2 e between them and the releases have
total variation distance t, then an estimate is off by at least e, for one of the two lists, with
probability (1 - t) / 2 or more.

The pair lies on both sides of a smooth curve (``smooth_lists``), in the direction in which a
release tells least of the metric, among curves as smooth as those of real lists. The likelihood
ratio of a release x is q**(||x - g||_1 - ||x - f||_1) up to a constant, so that t is a mean over
releases of f.
"""

from __future__ import annotations

import argparse
import math
import pathlib
from collections.abc import Callable, Iterator

import numpy as np

from dp_transforms.guessing import alpha_guesswork_bits, success_rate_bits
from dp_transforms.mechanisms import FrequencyList, IntegerPartitionMechanism
from dp_transforms.sample_data import rockyou, yahoo
from dp_transforms.smooth_lists import (
    fit_smooth_list,
    simulated_releases,
    thinned,
)

EPSILONS = (0.25 / 22, 0.4 / 22, 0.55 / 22)
USERS = (1_000_000, 2_000_000, 3_000_000)
APART = 0.2
RESULT_FILE = "guessing_limits.md"

Metric = Callable[[FrequencyList], float]

METRICS: dict[str, Metric] = {
    "λ_100": lambda one: success_rate_bits(one, 100),
    "G_0.25": lambda one: alpha_guesswork_bits(one, "0.25"),
}


def pair(
    private: FrequencyList, mechanism: IntegerPartitionMechanism, metric: Metric
) -> tuple[FrequencyList, FrequencyList]:
    """Two lists near this one whose metric differs by ``APART`` bits or a little more."""
    fit = fit_smooth_list(private, mechanism)
    direction = fit.least_known(fit.curve.metric_derivative(metric))
    for step in np.arange(0.02, 10, 0.02):
        one, other = (fit.curve.moved(side * step * direction).to_list() for side in (1, -1))
        if abs(metric(one) - metric(other)) >= APART:
            return one, other
    raise ValueError("metric hardly changes with the list")


def total_variation(
    one: FrequencyList, other: FrequencyList, mechanism: IntegerPartitionMechanism, draws: int
) -> tuple[float, float]:
    """An estimate of the distance between the releases of two lists, and its standard error."""
    rate = mechanism.epsilon_cost / (2 * mechanism.sensitivity)
    releases = simulated_releases(mechanism)(one, draws)
    ratios = np.exp([rate * (x.l1_distance(one) - x.l1_distance(other)) for x in releases])
    parts = np.abs(ratios / ratios.mean() - 1) / 2
    return float(parts.mean()), float(parts.std() / math.sqrt(draws))


def rows(name: str, private: FrequencyList, epsilon: float, draws: int) -> Iterator[str]:
    """The table's rows of one list: a metric each."""
    mechanism = IntegerPartitionMechanism(epsilon=epsilon)
    for metric_name, metric in METRICS.items():
        one, other = pair(private, mechanism, metric)
        apart = abs(metric(one) - metric(other))
        distance, error = total_variation(one, other, mechanism, draws)
        yield (
            f"| {name} | {private.total:,} | {epsilon:.3g} | {metric_name} | {apart:.2f} | "
            f"{distance:.2f} ± {error:.2f} | {apart / 2:.2f} | {max(0, 1 - distance) / 2:.0%} |"
        )


def report(draws: int) -> Iterator[str]:
    yield "# What no estimate from a release can do"
    yield ""
    yield (
        "Two lists on both sides of a smooth one, whose metric differs by so many bits, and the "
        "total variation distance of their releases. Whatever is computed from a release is off "
        "by at least half of the difference, for one of the two, with at least this probability "
        f"(Le Cam). {draws} draws each."
    )
    yield ""
    yield (
        "| samples of | users | epsilon | metric | bits apart | releases apart | off by | "
        "with probability |"
    )
    yield "| --- | ---: | ---: | --- " + "| ---: " * 4 + "|"
    for name, private in (("yahoo", yahoo()), ("rockyou", rockyou())):
        for users in USERS:
            for epsilon in EPSILONS:
                yield from rows(name, thinned(private, users), epsilon, draws)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.guessing_limits", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("benchmarks/results"))
    parser.add_argument("--draws", type=int, default=400)
    flags = parser.parse_args()
    flags.output.mkdir(parents=True, exist_ok=True)
    lines = []
    for line in report(flags.draws):
        print(line, flush=True)
        lines.append(line)
    (flags.output / RESULT_FILE).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
