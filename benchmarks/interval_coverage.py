"""How often intervals hold on lists that played no part in their making.

    python -m benchmarks.interval_coverage [--edges=DIR] [--releases=100] [--estimates=20]

The lists are samples of distributions that no constant was chosen by, numbers of users by item and
of items by user of two public commit logs, and the degrees of graphs, if given. All constants were
fixed before this benchmark was written, and lists were chosen before any result was seen.
"""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow.compute as pc

from benchmarks.frequency_lists import Input
from benchmarks.harness import page_parser, write_page
from benchmarks.partition_selection import DATA, user_items
from dp_transforms.mechanisms import FrequencyList
from dp_transforms.mechanisms.integer_partition.choice import partition_mechanism
from dp_transforms.mechanisms.integer_partition.mechanism import PartitionMechanism
from dp_transforms.postprocessing.frequency_intervals import distinct_interval
from dp_transforms.postprocessing.guessing_estimates import GuessingEstimates
from dp_transforms.postprocessing.guessing_intervals import (
    ReleaseError,
    alpha_guesswork_bits_interval,
    success_rate_bits_interval,
)
from dp_transforms.postprocessing.guessing_metrics import alpha_guesswork_bits, success_rate_bits
from dp_transforms.postprocessing.rank_intervals import rank_frequency_band
from dp_transforms.postprocessing.release_estimates import ReleaseEstimates

EPSILONS = (2, 1, 0.5, 0.1)
GUESSES, ALPHAS = (1, 10, 100), ("0.25", "0.5")
CONFIDENCE = 0.95
USERS = 100_000


def samples() -> Iterator[tuple[str, FrequencyList]]:
    """Users who each take one item of these distributions."""
    rng = np.random.default_rng(2026)

    def sample(weights: np.ndarray) -> FrequencyList:
        counts = rng.multinomial(USERS, weights / weights.sum())
        return FrequencyList.from_counts(counts[counts > 0])

    items = np.arange(1, 50_001)
    yield "log-normal", sample(np.exp(2 * rng.standard_normal(50_000)))
    yield "power of the rank, 1.5", sample(items**-1.5)
    yield "power of the rank, 0.5", sample(items**-0.5)
    yield "geometric, mean 300", sample(np.exp(-items / 300))
    yield "uniform over 2,000", sample(np.ones(2_000))
    yield "two levels", sample(np.repeat([100.0, 1.0], [200, 20_000]))
    yield "gamma, shape 0.2", sample(rng.gamma(0.2, size=20_000))


def commit_logs() -> Iterator[tuple[str, FrequencyList]]:
    for name, words in (("git_rails_author_word", "Rails"), ("git_tldr_author_file", "tldr")):
        table = user_items(DATA / f"{name}.csv.gz")
        for column, what in (("partition", "users by item"), ("user", "items by user")):
            counts = pc.value_counts(table[column].combine_chunks()).field("counts").to_numpy()
            yield f"{words}, {what}", FrequencyList.from_counts(counts)


def degrees(directory: pathlib.Path | None) -> Iterator[tuple[str, FrequencyList]]:
    for path in sorted(directory.glob("*.csv.gz")) if directory else ():
        yield f"degrees of {path.name.removesuffix('.csv.gz')}", Input.degrees(path).private


def proven(private: FrequencyList, mechanism: PartitionMechanism, releases: int) -> list[float]:
    """How often each proven interval holds, all numbers of one release together."""
    ends = np.cumsum(private.multiplicities)
    frequencies = np.append(private.frequencies, 0)
    metrics = _metrics(private)
    hits = []
    for released in mechanism.release_many(private, releases):
        law = mechanism.law
        grid, lower, upper = rank_frequency_band(released, law, CONFIDENCE)
        true = frequencies[np.searchsorted(ends, grid)]
        low, high = distinct_interval(released, law, CONFIDENCE)
        error = ReleaseError.of_release(released, law, CONFIDENCE)
        bits = [success_rate_bits_interval(released, beta, error) for beta in GUESSES]
        bits += [alpha_guesswork_bits_interval(released, alpha, error) for alpha in ALPHAS]
        hits.append(
            [
                bool(((lower <= true) & (true <= upper)).all()),
                low <= private.distinct <= high,
                all(one.lower <= x <= one.upper for one, x in zip(bits, metrics, strict=True)),
            ]
        )
    return np.mean(hits, axis=0).tolist()


def likely(private: FrequencyList, mechanism: PartitionMechanism, releases: int) -> list[float]:
    """How often each of the intervals holds that are estimates, one number at a time."""
    metrics, hits = _metrics(private), []
    for released in mechanism.release_many(private, releases):
        whole, guessing = (
            ReleaseEstimates(released, mechanism),
            GuessingEstimates(released, mechanism),
        )
        found = [whole.distinct(CONFIDENCE), whole.total(CONFIDENCE)]
        bits = [guessing.success_rate_bits(beta, CONFIDENCE) for beta in GUESSES]
        bits += [guessing.alpha_guesswork_bits(alpha, CONFIDENCE) for alpha in ALPHAS]
        true = [private.distinct, private.total, *metrics]
        hits.append(
            [one.lower <= x <= one.upper for one, x in zip([*found, *bits], true, strict=True)]
        )
    return np.mean(hits, axis=0).tolist()


def _metrics(one: FrequencyList) -> list[float]:
    return [success_rate_bits(one, beta) for beta in GUESSES] + [
        alpha_guesswork_bits(one, alpha) for alpha in ALPHAS
    ]


def rows(
    lists: dict[str, FrequencyList],
    measure: Callable[[FrequencyList, PartitionMechanism, int], list[float]],
    releases: int,
) -> Iterator[tuple[str, list[float]]]:
    for name, private in lists.items():
        for epsilon in EPSILONS:
            found = measure(private, partition_mechanism(epsilon), releases)
            cells = " | ".join(f"{part:.0%}" for part in found)
            yield f"| {name} | {private.total:,} | {epsilon:g} | {cells} |", found


def report(flags: argparse.Namespace) -> Iterator[str]:
    lists = dict([*samples(), *commit_logs(), *degrees(flags.edges)])
    yield "# Coverage of intervals on lists that nobody had seen"
    yield ""
    yield (
        f"How often {CONFIDENCE:.0%} intervals from a release alone hold the private list's "
        "numbers, by the default mechanism at sensitivity 1. None of these lists played a part in "
        "the making of any interval, and no constant was changed after."
    )
    yield ""
    yield "## Proven intervals"
    yield ""
    yield (
        f"{flags.releases} releases. *Ranks* counts a release if the bounds of all ranks of the "
        "grid hold, *guessing* if those of all five metrics do."
    )
    yield ""
    yield "| list | total | epsilon | ranks | distinct | guessing |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    found = []
    for line, parts in rows(lists, proven, flags.releases):
        found += parts
        yield line
    yield ""
    yield f"The least is {min(found):.0%}."
    yield ""
    yield "## Estimates"
    yield ""
    yield (
        f"{flags.estimates} releases. Of how many partitions there are and of their total "
        "(`ReleaseEstimates`), and of guessing metrics with the noise's bias taken out "
        "(`GuessingEstimates`): one number at a time."
    )
    yield ""
    names = [f"λ_{beta}" for beta in GUESSES] + [f"G_{alpha}" for alpha in ALPHAS]
    yield f"| list | total | epsilon | distinct | sum | {' | '.join(names)} |"
    yield "| --- " + "| ---: " * 9 + "|"
    whole, guessing = [], []
    for line, parts in rows(lists, likely, flags.estimates):
        whole += parts[:2]
        guessing += parts[2:]
        yield line
    yield ""
    for words, parts in (("distinct and sum", whole), ("guessing metrics", guessing)):
        short = sum(part < CONFIDENCE - 0.1 for part in parts)
        yield (
            f"* {words}: {np.mean(parts):.0%} on average, {min(parts):.0%} at worst, below "
            f"{CONFIDENCE - 0.1:.0%} in {short} of {len(parts)} cases."
        )


def main() -> None:
    parser = page_parser("interval_coverage", __doc__)
    parser.add_argument("--edges", type=pathlib.Path, metavar="DIR", help="graphs, .csv.gz files")
    parser.add_argument("--releases", type=int, default=100)
    parser.add_argument("--estimates", type=int, default=20)
    flags = parser.parse_args()
    write_page(flags.output / "interval_coverage.md", report(flags))


if __name__ == "__main__":
    main()
