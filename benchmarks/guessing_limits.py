"""What no estimate from a release can do: python -m benchmarks.guessing_limits

Two lists whose releases are nearly alike cannot be told apart, so that any estimate of a metric is
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

import math
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.harness import page_parser, write_page
from dp_transforms.mechanisms import FrequencyList, IntegerPartitionMechanism
from dp_transforms.postprocessing.guessing_metrics import alpha_guesswork_bits, success_rate_bits
from dp_transforms.postprocessing.smoothing import (
    fit_smooth_list,
    simulated_releases,
    thinned,
)
from dp_transforms.sample_data import rockyou, yahoo

EPSILON = 0.25 / 22
USERS = (1_000_000, 1_250_000, 1_500_000, 2_000_000, 3_000_000)
STEPS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
"""In posterior deviations, on each side."""
MOST_DISTANCE = 0.5

Metric = Callable[[FrequencyList], float]

METRICS: dict[str, Metric] = {
    "λ_100": lambda one: success_rate_bits(one, 100),
    "G_0.25": lambda one: alpha_guesswork_bits(one, "0.25"),
}


def total_variation(
    one: FrequencyList, other: FrequencyList, mechanism: IntegerPartitionMechanism, draws: int
) -> tuple[float, float]:
    """An estimate of the distance between the releases of two lists, and its standard error."""
    releases = simulated_releases(mechanism)(one, draws)
    ratios = np.exp(
        [mechanism.rate * (x.l1_distance(one) - x.l1_distance(other)) for x in releases]
    )
    parts = np.abs(ratios / ratios.mean() - 1) / 2
    return float(parts.mean()), float(parts.std() / math.sqrt(draws))


def limit(
    private: FrequencyList, mechanism: IntegerPartitionMechanism, metric: Metric, draws: int
) -> tuple[float, float, float]:
    """The difference between two lists near this one, and the distance of their releases.

    Returns:
      (apart, distance, error): of the pairs whose releases are at most ``MOST_DISTANCE`` apart the
        one whose metric, in bits, differs most; and the standard error of their distance.
    """
    fit = fit_smooth_list(private, mechanism)
    slopes = fit.curve.metric_derivative(metric)
    # The step of one posterior deviation that moves the metric most.
    direction = fit.covariance_with(slopes) / fit.deviation(slopes)
    found = 0.0, 0.0, 0.0
    for step in STEPS:
        one, other = (fit.curve.moved(side * step * direction).to_list() for side in (1, -1))
        distance, error = total_variation(one, other, mechanism, draws)
        if distance > MOST_DISTANCE:
            break
        found = abs(metric(one) - metric(other)), distance, error
    return found


def report(draws: int) -> Iterator[str]:
    yield "# What no estimate from a release can do"
    yield ""
    yield (
        "At epsilon = 0.25 / 22: two lists on both sides of a smooth one, whose metric differs by "
        "the bits shown, and the total variation distance of their releases. Whatever is computed "
        "from a release is off by at least half of the difference, for one of the two, with at "
        f"least this probability (Le Cam). {draws} draws each."
    )
    yield ""
    yield (
        "| samples of | users | metric | bits apart | releases apart | off by | with probability |"
    )
    yield "| --- | ---: | --- " + "| ---: " * 4 + "|"
    mechanism = IntegerPartitionMechanism(epsilon=EPSILON)
    for name, whole in (("yahoo", yahoo()), ("rockyou", rockyou())):
        for users in USERS:
            for metric_name, metric in METRICS.items():
                apart, distance, error = limit(thinned(whole, users), mechanism, metric, draws)
                yield (
                    f"| {name} | {users:,} | {metric_name} | {apart:.2f} | {distance:.2f} ± "
                    f"{error:.2f} | {apart / 2:.2f} | {(1 - distance) / 2:.0%} |"
                )


def main() -> None:
    parser = page_parser("guessing_limits", __doc__)
    parser.add_argument("--draws", type=int, default=400)
    flags = parser.parse_args()
    write_page(flags.output / "guessing_limits.md", report(flags.draws))


if __name__ == "__main__":
    main()
