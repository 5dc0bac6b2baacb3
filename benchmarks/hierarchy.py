"""Compares lists of hierarchies with those of Kuo et al., at equal epsilon, and times many groups.

    python -m benchmarks.hierarchy [--repeats=5] [--output=benchmarks/results]

The peer is the method of Kuo, Cho, Kifer, Hay and Machanavajjhala, "Differentially private
hierarchical count-of-counts histograms" (VLDB 2018). It has three steps. First, each group gets a
cumulative histogram with isotonic regression in L1. Then, from the top down, the sizes of a parent
and of its children are matched in order, and averaged with weights by their estimated variances.
Last, lists are added from the bottom up. It is told, free of charge, the number of partitions of
each group, which it takes for public, and twice the largest size. No code of the authors was
available, so it was written from the paper.
"""

from __future__ import annotations

import argparse
import csv
import functools
import gzip
import hashlib
import pathlib
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmarks.baselines import PublicBounds, cumulative_histogram_l1
from benchmarks.harness import in_new_process, page_parser, peak_gibibytes, write_page
from dp_transforms.mechanisms import FrequencyList, RandomTape
from dp_transforms.mechanisms.partition.frobenius import FrobeniusMechanism
from dp_transforms.mechanisms.partition.hierarchy import release_lists_of_tree
from dp_transforms.sample_data import rockyou

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
HERE = pathlib.Path(__file__).resolve().parent
EPSILONS = (1.0, 0.2)
TITLES = ("top", "middle", "leaves")


@dataclass(frozen=True)
class Tree:
    """A hierarchy of three levels: a description, the private lists of each level, the places of
    the groups' parents in the level above, and kappa."""

    about: str
    levels: list[list[FrequencyList]]
    parents: list[list[int]]
    kappa: int


def tree_of(
    about: str, sizes: IntArray, leaf: IntArray, parents: Sequence[int], kappa: int
) -> Tree:
    """Returns the tree of partitions, given their sizes, their leaf groups, and the leaf groups'
    parents."""
    middle = np.asarray(parents)
    levels = [
        [FrequencyList.from_counts(sizes[sizes > 0])],
        [_list(sizes[middle[leaf] == group]) for group in range(int(middle.max()) + 1)],
        [_list(sizes[leaf == group]) for group in range(len(middle))],
    ]
    return Tree(about, levels, [[0] * len(levels[1]), list(parents)], kappa)


def _list(sizes: IntArray) -> FrequencyList:
    sizes = sizes[sizes > 0]
    return FrequencyList.from_counts(sizes) if len(sizes) else FrequencyList()


def trees() -> Iterator[Tree]:
    """Yields the hierarchies of the comparison. Groups are made up; sizes are real except for the
    taxis."""
    rng = np.random.default_rng(2018)
    users: dict[str, list[int]] = {}
    with gzip.open(HERE / "data" / "git_tldr_author_file.csv.gz", "rt") as file:
        for row in csv.DictReader(file):
            users.setdefault(row["user"], []).append(int(row["item"]))
    kappa = 3
    kept = [item for items in users.values() for item in rng.permutation(items)[:kappa].tolist()]
    counts = np.unique(np.array(kept), return_counts=True)[1].astype(np.int64)
    leaf = _placed(rng, counts, 150, bend=0.2)
    yield tree_of(
        "files of tldr-pages, in made-up directories",
        counts,
        leaf,
        rng.integers(0, 8, 150).tolist(),
        kappa,
    )
    passwords = rockyou()
    some = FrequencyList.from_histogram(
        {
            value: number
            for value, number in zip(
                passwords.frequencies.tolist(),
                rng.binomial(passwords.multiplicities, 0.01).tolist(),
                strict=True,
            )
            if number
        }
    )
    counts = np.repeat(some.frequencies, some.multiplicities)
    leaf = _placed(rng, counts, 200, bend=0.2)
    yield tree_of(
        "a hundredth of RockYou's passwords, in made-up sites",
        counts,
        leaf,
        rng.integers(0, 10, 200).tolist(),
        1,
    )
    # 28 neighbourhoods in two halves; 360,872 pairs of a taxi and a neighbourhood.
    shares = rng.dirichlet(np.full(28, 2.0))
    leaf = rng.choice(28, 360_872, p=np.full(28, 1 / 28))
    busy = shares[leaf] / shares.mean()
    counts = rng.negative_binomial(1.5, 1 / (1 + 363 / 1.5 * busy)).astype(np.int64)
    yield tree_of("taxis, all made up", counts, leaf, [0] * 12 + [1] * 16, 1)


def _placed(rng: np.random.Generator, counts: IntArray, groups: int, bend: float) -> IntArray:
    """Returns a random group for each partition.

    The probability of a group is that of Zipf's law, times a power of the partition's size. Each
    group has its own exponent, so that some groups have more of the popular partitions.
    """
    weight = 1 / np.arange(1.0, groups + 1)
    power = rng.normal(0, bend, groups)
    values, inverse = np.unique(counts, return_inverse=True)
    leaf = np.empty(len(counts), np.int64)
    for place, value in enumerate(values.tolist()):
        here = np.flatnonzero(inverse == place)
        chance = weight * value**power
        leaf[here] = rng.choice(groups, len(here), p=chance / chance.sum())
    return leaf


def joint(
    tree: Tree, epsilon: float, seed: int, knows_sizes: bool = False
) -> list[list[FrequencyList]]:
    """Returns this project's release. If it ``knows_sizes``, it is told the numbers of partitions
    that the peer is told."""
    mechanism = _mechanism(tree, epsilon)
    tapes = [
        [_tape(seed, depth, group) for group in range(len(lists))]
        for depth, lists in enumerate(tree.levels)
    ]
    most = [private.distinct for private in tree.levels[-1]] if knows_sizes else None
    released = release_lists_of_tree(tree.levels, tree.parents, [mechanism] * 3, tapes, most)
    return [[*lists] for lists in released]


def alone(tree: Tree, epsilon: float, seed: int) -> list[list[FrequencyList]]:
    """Returns each list released by itself, at its level's share, with the noise of ``joint``."""
    mechanism = _mechanism(tree, epsilon)
    return [
        [
            mechanism.release(private, _tape(seed, depth, group))
            for group, private in enumerate(lists)
        ]
        for depth, lists in enumerate(tree.levels)
    ]


def _mechanism(tree: Tree, epsilon: float) -> FrobeniusMechanism:
    return FrobeniusMechanism(epsilon / len(tree.levels), tree.kappa)


def _tape(*numbers: int) -> RandomTape:
    return RandomTape(hashlib.sha256(repr(numbers).encode()).digest())


def kuo(tree: Tree, epsilon: float, seed: int) -> list[list[FrequencyList]]:
    """Returns the release of Kuo et al., see the module."""
    rng = np.random.default_rng(seed)
    rate = epsilon / len(tree.levels) / tree.kappa
    bounds = PublicBounds(tree.levels[0][0].distinct, 2 * int(tree.levels[0][0].frequencies[0]))
    sizes: list[list[FloatArray]] = []
    variances: list[list[FloatArray]] = []
    for lists in tree.levels:
        sizes.append([])
        variances.append([])
        for private in lists:
            noisy = cumulative_histogram_l1(private, rate, bounds, rng)
            # The number of partitions of a group is public for this method.
            estimates = noisy.at_ranks(np.arange(1, private.distinct + 1)).astype(float)
            _, inverse, numbers = np.unique(estimates, return_inverse=True, return_counts=True)
            sizes[-1].append(estimates)
            variances[-1].append(4 / rate**2 / numbers[inverse])
    for depth, above in enumerate(tree.parents):
        for parent in range(len(tree.levels[depth])):
            children = [group for group, place in enumerate(above) if place == parent]
            below = np.concatenate([sizes[depth + 1][group] for group in children])
            spread = np.concatenate([variances[depth + 1][group] for group in children])
            order = np.lexsort((rng.random(len(below)), -below))
            own, of_own = sizes[depth][parent], variances[depth][parent]
            both = of_own + spread[order]
            below[order] = (spread[order] * own + of_own * below[order]) / both
            spread[order] = of_own * spread[order] / both
            cuts = np.cumsum([len(sizes[depth + 1][group]) for group in children])[:-1]
            for group, part, rest in zip(
                children, np.split(below, cuts), np.split(spread, cuts), strict=True
            ):
                falling = np.argsort(-part, kind="stable")
                sizes[depth + 1][group], variances[depth + 1][group] = part[falling], rest[falling]
    leaves = [np.rint(leaf).astype(np.int64) for leaf in sizes[-1]]
    released = [[_list(leaf) for leaf in leaves]]
    for above in reversed(tree.parents):
        members: list[list[IntArray]] = [[] for _ in range(max(above) + 1)]
        for leaf, parent in zip(leaves, above, strict=True):
            members[parent].append(leaf)
        leaves = [np.concatenate(parts) for parts in members]
        released.insert(0, [_list(leaf) for leaf in leaves])
    return released


def errors(tree: Tree, epsilon: float, seed: int) -> list[list[list[float]]]:
    """Returns half the L1 distance of each list, by method, level and group. Checks that the lists
    of this project add up."""
    distances = []
    methods = joint, functools.partial(joint, knows_sizes=True), alone, kuo
    for method in methods:
        levels = method(tree, epsilon, seed)
        if method not in methods[2:]:
            check_sums(levels, tree.parents)
        distances.append(
            [
                [private.l1_distance(released) / 2 for private, released in zip(*pair, strict=True)]
                for pair in zip(tree.levels, levels, strict=True)
            ]
        )
    return distances


def are_noisy(tree: Tree, epsilon: float, seeds: Iterable[int]) -> npt.NDArray[np.bool_]:
    """Returns which leaves are noisy, as the page defines it.

    It makes releases for this alone. By the releases of the table, a leaf whose releases happen to
    be accurate would not count as noisy.
    """
    distances = [
        [
            private.l1_distance(released) / 2
            for private, released in zip(
                tree.levels[-1], alone(tree, epsilon, seed)[-1], strict=True
            )
        ]
        for seed in seeds
    ]
    contributions = np.array([private.total for private in tree.levels[-1]])
    noisy: npt.NDArray[np.bool_] = np.mean(distances, 0) > np.sqrt(contributions)
    return noisy


def check_sums(levels: Sequence[Sequence[FrequencyList]], parents: Sequence[Sequence[int]]) -> None:
    """Raises a ValueError if a list is not the union of the lists of its children."""
    for lists, below, above in zip(levels, levels[1:], parents, strict=False):
        for place, whole in enumerate(lists):
            parts = [part for part, parent in zip(below, above, strict=True) if parent == place]
            values = np.concatenate([part.frequencies for part in parts])
            repeats = np.concatenate([part.multiplicities for part in parts])
            order = np.argsort(-values)
            if FrequencyList.from_runs(values[order], repeats[order]) != whole:
                raise ValueError("lists do not add up")


def many_groups(epsilon: float, groups: int) -> tuple[float, float]:
    """Returns CPU seconds and peak memory in GiB of a release of so many leaf groups, which are in
    50 groups above them."""
    rng = np.random.default_rng(49)
    counts = np.floor(rng.pareto(1.0, 1_000_000) + 1).astype(np.int64)
    leaf = rng.choice(groups, len(counts), p=rng.dirichlet(np.full(groups, 0.5)))
    tree = tree_of("", counts, leaf, rng.integers(0, 50, groups).tolist(), 1)
    begin = time.process_time()
    levels = joint(tree, epsilon, 0)
    seconds = time.process_time() - begin
    check_sums(levels, tree.parents)
    return seconds, peak_gibibytes()


def lines(repeats: int) -> Iterator[str]:
    """Yields the lines of the page."""
    yield "# Lists that add up"
    yield ""
    yield (
        f"Means of half the L1 distance to the true lists, summed over the groups of a level, in "
        f"{repeats} releases of three levels that share epsilon equally; ± is a standard error. "
        "*Alone* releases each list by itself with the same noise: such lists do not add up. *Kuo* "
        "is the method of Kuo et al. (VLDB 2018), which is told for nothing the number of "
        "partitions of each group; it was written from the paper. *Told* is this project's release "
        "with the same numbers as public bounds. *Noisy leaves* are those whose "
        "noise exceeds their sampling fluctuation: lists that are released alone, other ones than "
        "those of the table, err more than the square root of their number of contributions."
    )
    for tree in trees():
        yield ""
        sizes = ", ".join(f"{len(lists):,}" for lists in tree.levels)
        top = tree.levels[0][0]
        yield (
            f"## {tree.about.capitalize()}\n\n{top.distinct:,} partitions, {top.total:,} "
            f"contributions, kappa {tree.kappa}; {sizes} groups.\n"
        )
        yield (
            "| epsilon | level | this project | told | alone | Kuo | alone / this | Kuo / this | "
            "Kuo / told |"
        )
        yield f"| --- | --- |{' ---: |' * 7}"
        for epsilon in EPSILONS:
            runs = [errors(tree, epsilon, seed) for seed in range(repeats)]
            for depth, title in enumerate(TITLES):
                level = np.array([[method[depth] for method in run] for run in runs])
                yield _row(epsilon, title, level)
            leaves = np.array([[method[-1] for method in run] for run in runs])
            noisy = are_noisy(tree, epsilon, range(repeats, 2 * repeats))
            if 0 < noisy.sum() < len(noisy):
                yield _row(epsilon, f"{noisy.sum()} noisy leaves", leaves[:, :, noisy])
                yield _row(epsilon, f"{(~noisy).sum()} other leaves", leaves[:, :, ~noisy])
    yield ""
    yield "## Many groups"
    yield ""
    yield (
        "A million partitions in leaf groups below 50 others, from counts to lists, in one process "
        "of its own."
    )
    yield ""
    yield "| leaf groups | epsilon | CPU seconds | peak GiB |"
    yield "| ---: | --- | ---: | ---: |"
    for groups, epsilon in ((10_000, 1.0), (10_000, 0.1)):
        seconds, peak = in_new_process(
            many_groups, epsilon, groups, environment={"OPENBLAS_NUM_THREADS": "1"}
        )
        yield f"| {groups:,} | {epsilon:g} | {seconds:.1f} | {peak:.2f} |"


def _row(epsilon: float, title: str, level: FloatArray) -> str:
    """Returns a line of the table, given errors by run, method and group."""
    sums = level.sum(2)
    means = sums.mean(0)
    wide = sums.std(0, ddof=1) / len(sums) ** 0.5 if len(sums) > 1 else np.zeros(4)
    cells = " | ".join(f"{mean:,.1f} ± {e:,.1f}" for mean, e in zip(means, wide, strict=True))
    this, informed, alone_, peer = np.maximum(means, 1e-9)
    ratios = " | ".join(f"{ratio:.2f}" for ratio in (alone_ / this, peer / this, peer / informed))
    return f"| {epsilon:g} | {title} | {cells} | {ratios} |"


def main(argv: Sequence[str] | None = None) -> int:
    parser = page_parser("hierarchy", __doc__ or "", "repeats")
    flags: argparse.Namespace = parser.parse_args(argv)
    write_page(flags.output / "hierarchy.md", lines(flags.repeats))
    return 0


if __name__ == "__main__":
    sys.exit(main())
