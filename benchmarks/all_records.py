"""The list of all records, estimated from bounded ones, beside what a release without it gives.

    python -m benchmarks.all_records --pairs=DIR [--epsilons 0.25 1 4] [--declared_at 1]
        [--repeats=3] [--output=benchmarks/results]

DIR has files .csv.gz with the header user,item, each pair once. Each number is the mean of dist
(half the L1 distance) to the list of ALL records. "before" spends a tenth of epsilon on degrees,
chooses kappa by ``choose_kappa``, and releases a list at the rest. "now" surveys degrees, chooses
kappa and estimates. With kappa declared, "before" is a release at the whole epsilon, and "now"
surveys as well and estimates. PRIVATE evaluation: it needs the true lists.
"""

from __future__ import annotations

import gzip
import pathlib
import statistics
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from benchmarks.harness import numbered_tapes, page_parser, write_page
from dp_transforms.mechanisms import FrequencyList, RandomTape, partition_mechanism
from dp_transforms.mechanisms.user_degrees import UserDegreeMechanism
from dp_transforms.postprocessing.all_records import estimate_all_records
from dp_transforms.postprocessing.kappa_choice import choose_kappa
from dp_transforms.releases import AllRecordsSpec
from dp_transforms.releases.all_records import decoded_survey

DECLARED = (8, 16, 32)


class Pairs:
    """The private pairs of a file, each user's in random order."""

    def __init__(self, path: pathlib.Path):
        with gzip.open(path, "rt") as file:
            pairs = np.loadtxt(file, delimiter=",", skiprows=1, dtype=np.int64)
        self.name = path.name.removesuffix(".csv.gz")
        random = np.random.default_rng(0)
        users, self._items = pairs[np.lexsort((random.random(len(pairs)), pairs[:, 0]))].T
        starts = np.flatnonzero(np.append(True, np.diff(users)))
        degrees = np.diff(np.append(starts, len(users)))
        self._ranks = np.arange(len(users)) - np.repeat(starts, degrees)
        self.users_by_degree = Counter(degrees.tolist())
        self.everything = self.bounded(len(pairs))

    def bounded(self, kappa: int) -> FrequencyList:
        """The list of the records that a bound of kappa keeps."""
        counts = np.bincount(self._items[self._ranks < kappa])
        return FrequencyList.from_counts(counts[counts > 0])

    def kept(self, kappa: int) -> float:
        """The part of all pairs that a bound of kappa keeps."""
        return float((self._ranks < kappa).mean())

    def released(self, epsilon: Fraction, kappa: int, tape: RandomTape) -> FrequencyList:
        """A release of the bounded list."""
        return partition_mechanism(epsilon, kappa).release(self.bounded(kappa), tape)

    def estimated(self, spec: AllRecordsSpec, tapes: Iterator[RandomTape]) -> float:
        """dist of the estimate of a release with a survey."""
        survey = spec.survey_under(self.users_by_degree, lambda context: next(tapes))
        bounded = self.bounded(survey.kappa)
        released = spec.list_mechanism(survey).release(bounded, next(tapes))
        decoded = decoded_survey(survey.degrees)
        return self.dist(estimate_all_records(released, survey.kappa, decoded))

    def dist(self, estimate: FrequencyList) -> float:
        """Half the L1 distance to the list of all records."""
        return self.everything.l1_distance(estimate) / 2


def main() -> None:
    parser = page_parser("all_records", __doc__, "repeats")
    parser.add_argument("--pairs", type=pathlib.Path, metavar="DIR", required=True)
    parser.add_argument("--epsilons", nargs="+", default=["0.25", "1", "4"])
    parser.add_argument("--declared_at", default="1", metavar="EPSILON")
    flags = parser.parse_args()
    files = sorted(flags.pairs.glob("*.csv.gz"))
    if not files:
        parser.error(f"--pairs: there are no .csv.gz files in {flags.pairs}")
    lines = report(files, flags.epsilons, flags.declared_at, flags.repeats)
    write_page(flags.output / "all_records.md", lines)


def report(
    files: list[pathlib.Path], epsilons: list[str], declared_at: str, repeats: int
) -> Iterator[str]:
    """The lines of the page."""
    yield "# Lists of all records\n"
    yield f"Mean dist (half the L1 distance) of {repeats} releases to the list of all records."
    yield "Before: a tenth of epsilon for degrees, choose-kappa, and a list. Now: a survey, its"
    yield "choice, a list and the estimate.\n"
    yield "| pairs | epsilon | before | now | ratio |\n| --- | ---: | ---: | ---: | ---: |"
    ratios, tapes = [], numbered_tapes()
    for path in files:
        pairs = Pairs(path)
        for text in epsilons:
            spec = AllRecordsSpec(epsilon=text)
            before = mean(chosen_before(pairs, Fraction(text), tapes) for _ in range(repeats))
            now = mean(pairs.estimated(spec, tapes) for _ in range(repeats))
            ratios.append(now / before if before else 1.0)
            yield f"| {pairs.name} | {text} | {before:,.0f} | {now:,.0f} | {ratios[-1]:.2f} |"
    middle = statistics.geometric_mean(max(ratio, 1e-9) for ratio in ratios)
    yield f"\nThe geometric mean of the ratios is {middle:.2f}, the largest {max(ratios):.2f}.\n"
    yield f"With kappa declared, at epsilon {declared_at}:\n"
    yield "| pairs | kappa | kept | before | now | ratio |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for path in files:
        pairs = Pairs(path)
        for kappa in DECLARED:
            spec = AllRecordsSpec(epsilon=declared_at, max_partitions_per_user=kappa)
            epsilon = Fraction(declared_at)
            before = mean(
                pairs.dist(pairs.released(epsilon, kappa, next(tapes))) for _ in range(repeats)
            )
            now = mean(pairs.estimated(spec, tapes) for _ in range(repeats))
            kept = f"{pairs.kept(kappa):.2f}"
            yield (
                f"| {pairs.name} | {kappa} | {kept} | {before:,.0f} | {now:,.0f} "
                f"| {now / before if before else 1:.2f} |"
            )


def mean(distances: Iterator[float]) -> float:
    return statistics.fmean(distances)


def chosen_before(pairs: Pairs, epsilon: Fraction, tapes: Iterator[RandomTape]) -> float:
    """dist of a release at a kappa that degrees, at a tenth of epsilon, recommend."""
    degrees = UserDegreeMechanism(epsilon / 10).release(pairs.users_by_degree, next(tapes))
    kappa = choose_kappa(degrees, epsilon * 9 / 10).recommended
    return pairs.dist(pairs.released(epsilon * 9 / 10, kappa, next(tapes)))


if __name__ == "__main__":
    main()
