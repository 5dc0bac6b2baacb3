"""Measures how often intervals hold on lists that played no part in their making.

    python -m benchmarks.interval_coverage [--edges=DIR] [--releases=8]

The lists are samples of distributions that no constant was chosen by, heaped and stepped ones,
numbers of users by item and of items by user of two public commit logs, and the degrees of graphs,
if given.
"""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow.compute as pc

from benchmarks.frequency_lists import Input
from benchmarks.harness import page_parser, write_page
from benchmarks.partition_selection import DATA, user_items
from dp_transforms.mechanisms import FrequencyList
from dp_transforms.mechanisms.partition.exponential import GeometricPartitionMechanism
from dp_transforms.mechanisms.partition.frobenius import FrobeniusMechanism
from dp_transforms.postprocessing.estimates import Answers, Estimate, ReleaseIntervals
from dp_transforms.postprocessing.guessing_metrics import (
    alpha_guesswork_bits,
    success_rate,
)
from dp_transforms.postprocessing.intervals import intervals_of, model_intervals_of

RATES = (2, 1, 0.5, 0.1, 0.02)
CONFIDENCE = 0.95
USERS = 20_000
THRESHOLD, RANK, TOP, ALPHA = 20, 10, 30, "0.5"
QUESTIONS = ("partitions", "total", f"at least {THRESHOLD}", f"rank {RANK}", f"top {TOP}", "G_0.5")


def samples() -> Iterator[tuple[str, FrequencyList]]:
    """Users who each take one item of these distributions, and lists of other shapes."""
    rng = np.random.default_rng(2026)

    def sample(weights: np.ndarray) -> FrequencyList:
        counts = rng.multinomial(USERS, weights / weights.sum())
        return FrequencyList.from_counts(counts[counts > 0])

    items = np.arange(1, 10_001)
    yield "Zipf", sample(1 / items)
    yield "log-normal", sample(np.exp(2 * rng.standard_normal(10_000)))
    yield "power of the rank, 0.5", sample(items**-0.5)
    yield "Poisson of mean 40", FrequencyList.from_counts(rng.poisson(40, 500) + 1)
    yield "uniform over 2,000", sample(np.ones(2_000))
    yield "heaped on tens", FrequencyList.from_counts(10 * rng.integers(1, 20, 200))
    yield "staircase", FrequencyList.from_counts(np.arange(1, 201))
    yield "two levels", FrequencyList([100, 1], [100, 10_000])


def commit_logs() -> Iterator[tuple[str, FrequencyList]]:
    for name, words in (("git_rails_author_word", "Rails"), ("git_tldr_author_file", "tldr")):
        table = user_items(DATA / f"{name}.csv.gz")
        for column, what in (("partition", "users by item"), ("user", "items by user")):
            counts = pc.value_counts(table[column].combine_chunks()).field("counts").to_numpy()
            yield f"{words}, {what}", FrequencyList.from_counts(counts)


def degrees(directory: pathlib.Path | None) -> Iterator[tuple[str, FrequencyList]]:
    for path in sorted(directory.glob("*.csv.gz")) if directory else ():
        yield f"degrees of {path.name.removesuffix('.csv.gz')}", Input.degrees(path).private


def answers(facts: Answers) -> list[Estimate]:
    """The estimates of ``QUESTIONS``."""
    return [
        facts.number_of_partitions(CONFIDENCE),
        facts.total(CONFIDENCE),
        facts.partitions_with_at_least(THRESHOLD, CONFIDENCE),
        facts.frequency_at(RANK, CONFIDENCE),
        facts.share_of_top(TOP, CONFIDENCE),
        facts.alpha_guesswork_bits(ALPHA, CONFIDENCE),
    ]


def truth(private: FrequencyList) -> list[float]:
    """The true values of the numbers that ``answers`` estimates."""
    return [
        private.distinct,
        private.total,
        int(private.at_least([THRESHOLD])[0]),
        int(private.at_ranks([RANK])[0]),
        success_rate(private, TOP),
        alpha_guesswork_bits(private, ALPHA),
    ]


def hits(private: FrequencyList, facts: Answers) -> list[bool]:
    """Tells of each interval whether it holds."""
    return [
        one.low - 1e-9 <= true <= one.high + 1e-9
        for one, true in zip(answers(facts), truth(private), strict=True)
    ]


def band_holds(private: FrequencyList, facts: ReleaseIntervals) -> bool:
    """Tells whether the bounds of all ranks hold together."""
    lower, upper = facts.bands(CONFIDENCE)
    ranks = np.unique(np.concatenate([np.cumsum(one.multiplicities) for one in (private, lower)]))
    ranks = np.append(ranks, private.distinct + 1)
    true = private.at_ranks(ranks)
    return bool(((lower.at_ranks(ranks) <= true) & (true <= upper.at_ranks(ranks))).all())


def measured(private: FrequencyList, mechanism: Any, releases: int) -> dict[str, np.ndarray]:
    """Measures how often each interval holds, by its kind, and how much shorter the model's are."""
    proved, model, parts = [], [], []
    for released in mechanism.release_many(private, releases):
        facts = intervals_of(released)
        proved.append([*hits(private, facts), band_holds(private, facts)])
        if released.coordinates is None or not len(released):
            continue
        other = model_intervals_of(released)
        model.append(hits(private, other))
        widths = [[one.high - one.low for one in answers(kind)] for kind in (facts, other)]
        parts.append([b / a if a else 1.0 for a, b in zip(*widths, strict=True)])
    found = {"proved": np.mean(proved, axis=0)}
    if model:
        found |= {"model": np.mean(model, axis=0), "widths": np.median(parts, axis=0)}
    return found


def report(flags: argparse.Namespace) -> Iterator[str]:
    lists = dict([*samples(), *commit_logs(), *degrees(flags.edges)])
    found: dict[tuple[str, float], Mapping[str, np.ndarray]] = {}
    for name, private in lists.items():
        for rate in RATES:
            found[name, rate] = measured(private, FrobeniusMechanism(rate), flags.releases)
    yield "# Coverage of intervals on lists that nobody had seen"
    yield ""
    yield (
        f"How often {CONFIDENCE:.0%} intervals from a release alone hold the private list's "
        f"numbers, in {flags.releases} releases each, at c = epsilon / kappa: the number of "
        f"partitions, the total, the partitions with at least {THRESHOLD} users, the frequency at "
        f"rank {RANK}, the part of the first {TOP}, and the guesswork to break half. None of these "
        "lists played a part in the making of the decoder or of an interval."
    )
    for kind, about in (
        ("proved", "*All ranks* counts a release if the bounds of all ranks hold together."),
        ("model", "Quantiles of 200 lists that are drawn from the decoder's posterior."),
    ):
        yield ""
        yield f"## Frobenius mechanism, {kind} intervals"
        yield ""
        yield about
        yield ""
        yield from table(
            {
                **{f"{name}, all c": [found[name, rate][kind] for rate in RATES] for name in lists},
                **{f"c = {rate:g}": [found[name, rate][kind] for name in lists] for rate in RATES},
                "together": [parts[kind] for parts in found.values()],
            }
        )
    widths = np.median([parts["widths"] for parts in found.values()], axis=0)
    shorter = ", ".join(f"{name} {w:.2f}" for name, w in zip(QUESTIONS, widths, strict=True))
    yield ""
    yield f"Widths of the model's intervals as parts of the proved ones, medians: {shorter}."
    yield ""
    yield "## Geometric mechanism at c = 1.1, proved intervals"
    yield ""
    geometric = GeometricPartitionMechanism(1.1)
    yield from table(
        {
            name: [measured(private, geometric, flags.releases)["proved"]]
            for name, private in lists.items()
        }
    )


def table(rows: Mapping[str, list[np.ndarray]]) -> Iterator[str]:
    """Means of rows, as Markdown."""
    means = {name: np.mean(parts, axis=0) for name, parts in rows.items()}
    heads = [*QUESTIONS, "all ranks"][: len(next(iter(means.values())))]
    yield f"| | {' | '.join(heads)} |"
    yield "| --- " + "| ---: " * len(heads) + "|"
    for name, parts in means.items():
        yield f"| {name} | {' | '.join(f'{part:.1%}' for part in parts)} |"


def main() -> None:
    parser = page_parser("interval_coverage", __doc__)
    parser.add_argument("--edges", type=pathlib.Path, metavar="DIR", help="graphs, .csv.gz files")
    parser.add_argument("--releases", type=int, default=8)
    flags = parser.parse_args()
    write_page(flags.output / "interval_coverage.md", report(flags))


if __name__ == "__main__":
    main()
