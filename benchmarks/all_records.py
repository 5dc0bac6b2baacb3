"""Compares estimates of the list of all records with releases without an estimate.

    python -m benchmarks.all_records [--pairs=DIR] [--edges=DIR] [--epsilons 0.25 1 4]
        [--declared_at 1] [--repeats=3] [--output=benchmarks/results]

Each number is the mean of dist (half the L1 distance) to the list of ALL records. "Before" is a
release without an estimate: it spends a tenth of epsilon on degrees, chooses kappa as version 0.2
did (``kappa_by_cells``), and releases a list at the rest. "choose-kappa" is the same with today's
``choose_kappa``, which has the model of a survey. "Now" is a release with an estimate: it surveys
degrees, chooses kappa, releases a list and estimates. If kappa is declared, "before" releases a
list at the whole epsilon, and "now" makes a survey too. PRIVATE evaluation: it needs the true
lists.

Some sets of pairs (user, item) are in benchmarks/data, and three are made from seeds. The directory
of ``--pairs`` has more, as .csv.gz files with the header user,item and each pair once. The
directory of ``--edges`` has graphs with the header src,dst: each node is a user, and its neighbours
are its items.

In two kinds of data, users with many things have the same things, which the model of the estimate
excludes: made-up groups, whose members have all things of their group; and graphs of authors, since
all authors of a paper are neighbours of one another.
"""

from __future__ import annotations

import contextlib
import pathlib
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from benchmarks.harness import (
    integer_pairs,
    numbered_tapes,
    page_parser,
    pair_files,
    write_page,
)
from benchmarks.kappa_by_cells import kappa_by_cells
from dp_transforms.mechanisms import FrequencyList, RandomTape, partition_mechanism
from dp_transforms.mechanisms.arrays import IntArray
from dp_transforms.mechanisms.user_degrees import UserDegreeMechanism
from dp_transforms.postprocessing.all_records import estimate_all_records
from dp_transforms.postprocessing.decoded_surveys import decoded_survey
from dp_transforms.postprocessing.kappa_choice import choose_kappa
from dp_transforms.releases import AllRecordsSpec

DECLARED = (8, 16, 32)


class Source(NamedTuple):
    """A named set of pairs, which is loaded or made when it is needed."""

    name: str
    pairs: Callable[[], IntArray]


class Pairs:
    """Private pairs of users and items. The items of each user have a random order."""

    def __init__(self, source: Source):
        self.name, pairs = source.name, source.pairs()
        random = np.random.default_rng(0)
        users, self._items = pairs[np.lexsort((random.random(len(pairs)), pairs[:, 0]))].T
        starts = np.flatnonzero(np.append(True, np.diff(users)))
        degrees = np.diff(np.append(starts, len(users)))
        self._ranks = np.arange(len(users)) - np.repeat(starts, degrees)
        self.users_by_degree = Counter(degrees.tolist())
        self.everything = self.bounded(len(pairs))

    def bounded(self, kappa: int) -> FrequencyList:
        """Returns the list of the records that a bound of kappa keeps."""
        counts = np.bincount(self._items[self._ranks < kappa])
        return FrequencyList.from_counts(counts[counts > 0])

    def kept(self, kappa: int) -> float:
        """Returns the part of all pairs that a bound of kappa keeps."""
        return float((self._ranks < kappa).mean())

    def released(self, epsilon: Fraction, kappa: int, tape: RandomTape) -> FrequencyList:
        """Returns a release of the bounded list."""
        return partition_mechanism(epsilon, kappa).release(self.bounded(kappa), tape)

    def estimated(self, spec: AllRecordsSpec, tapes: Iterator[RandomTape]) -> float:
        """Returns dist of the estimate of a release with a survey."""
        survey = spec.survey_under(self.users_by_degree, lambda context: next(tapes))
        bounded = self.bounded(survey.kappa)
        released = spec.list_mechanism(survey).release(bounded, next(tapes))
        decoded = decoded_survey(survey.degrees)
        return self.dist(estimate_all_records(released, survey.kappa, decoded))

    def dist(self, estimate: FrequencyList) -> float:
        """Returns half the L1 distance to the list of all records."""
        return self.everything.l1_distance(estimate) / 2


def main() -> None:
    parser = page_parser("all_records", __doc__, "repeats", "edges", "pairs")
    parser.add_argument("--epsilons", nargs="+", default=["0.25", "1", "4"])
    parser.add_argument("--declared_at", default="1", metavar="EPSILON")
    flags = parser.parse_args()
    sources = [*MADE, *map(source_of, pair_files(flags.pairs))]
    if flags.edges:
        graphs = sorted(flags.edges.glob("*.csv.gz"))
        sources += [source_of(path, of_edges=True) for path in graphs]
    lines = report(sources, flags.epsilons, flags.declared_at, flags.repeats)
    write_page(flags.output / "all_records.md", lines)


def source_of(path: pathlib.Path, of_edges: bool = False) -> Source:
    """Returns the source of the pairs, or edges, of a file."""

    def pairs() -> IntArray:
        rows = integer_pairs(path)
        return np.concatenate([rows, rows[:, ::-1]]) if of_edges else rows

    return Source(path.name.removesuffix(".csv.gz"), pairs)


def one_thing_each() -> IntArray:
    """Returns pairs of 40,000 users with one thing each, of 20,000 by Zipf's law."""
    weights = 1 / np.arange(1, 20_001) ** 0.9
    items = np.random.default_rng(1).choice(20_000, 40_000, p=weights / weights.sum())
    return np.stack([np.arange(40_000), items], axis=1)


def independent() -> IntArray:
    """Returns pairs of users whose numbers of things have a Pareto distribution, and who draw the
    things independently by Zipf's law."""
    random = np.random.default_rng(2)
    degrees = np.minimum(1 + random.pareto(1.3, 30_000).astype(int), 2_000)
    users = np.repeat(np.arange(30_000), degrees)
    weights = 1 / np.arange(1, 20_001) ** 0.9
    items = random.choice(20_000, len(users), p=weights / weights.sum())
    return np.unique(np.stack([users, items], axis=1), axis=0)


def groups() -> IntArray:
    """Returns pairs of users in groups: a user has all things of the group, and no others."""
    random = np.random.default_rng(3)
    pairs, users, items = [], 0, 0
    for members, things in np.minimum(2 + random.pareto(1.2, (2_500, 2)), 200).astype(int):
        grid = np.indices((members, things)).reshape(2, -1).T
        pairs.append(grid + np.array([users, items]))
        users, items = users + members, items + things
    return np.concatenate(pairs)


MADE = (
    Source("one thing each (made)", one_thing_each),
    Source("independent (made)", independent),
    Source("groups (made)", groups),
)


def report(
    sources: Sequence[Source], epsilons: list[str], declared_at: str, repeats: int
) -> Iterator[str]:
    """Yields the lines of the page."""
    yield "# Lists of all records\n"
    yield f"Mean dist (half the L1 distance) of {repeats} releases to the list of all records."
    yield "Before: a tenth of epsilon for degrees, the kappa that choose-kappa of version 0.2"
    yield "recommended, and a list. choose-kappa: the same with the kappa that it recommends now."
    yield "Now: a survey, its choice, a list and the estimate. The ratio is that of now to before."
    yield "Of groups, and of authors of one paper, the model of the estimate is wrong.\n"
    yield "| pairs | epsilon | before | choose-kappa | now | ratio |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    ratios, ratios_to_choice, tapes = [], [], numbered_tapes()
    for source in sources:
        pairs = Pairs(source)
        for text in epsilons:
            spec = AllRecordsSpec(epsilon=text)
            bounded = [bounded_lists(pairs, Fraction(text), tapes) for _ in range(repeats)]
            before, chosen = map(statistics.fmean, zip(*bounded, strict=True))
            now = mean(pairs.estimated(spec, tapes) for _ in range(repeats))
            ratios.append(now / before if before else 1.0)
            ratios_to_choice.append(now / chosen if chosen else 1.0)
            yield (
                f"| {pairs.name} | {text} | {before:,.0f} | {chosen:,.0f} | {now:,.0f} "
                f"| {ratios[-1]:.2f} |"
            )
    middle, to_choice = map(geometric_mean, (ratios, ratios_to_choice))
    yield f"\nThe geometric mean of the ratios is {middle:.2f}, the largest {max(ratios):.2f}."
    yield f"The geometric mean of now to choose-kappa is {to_choice:.2f}.\n"
    yield f"With kappa declared, at epsilon {declared_at}, where it drops anything:\n"
    yield "| pairs | kappa | kept | before | now | ratio |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for source in sources:
        pairs = Pairs(source)
        for kappa in DECLARED:
            if pairs.kept(kappa) == 1:
                continue
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


def geometric_mean(ratios: Sequence[float]) -> float:
    return statistics.geometric_mean(max(ratio, 1e-9) for ratio in ratios)


def bounded_lists(
    pairs: Pairs, epsilon: Fraction, tapes: Iterator[RandomTape]
) -> tuple[float, float]:
    """Returns dist of releases at the kappas that choose-kappa recommended in version 0.2, and that
    it recommends now, by degrees that cost a tenth of epsilon."""
    degrees = UserDegreeMechanism(epsilon / 10).release(pairs.users_by_degree, next(tapes))
    rest = epsilon * 9 / 10
    chosen = 1
    # Degrees that show no user recommend nothing.
    with contextlib.suppress(ValueError):
        chosen = choose_kappa(degrees, rest).recommended
    before, now = (
        pairs.dist(pairs.released(rest, kappa, next(tapes)))
        for kappa in (kappa_by_cells(degrees, rest), chosen)
    )
    return before, now


if __name__ == "__main__":
    main()
