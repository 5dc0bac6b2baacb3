"""Exhaustive audits: the exact output distributions of neighbours on two partitions against the
budget.

For kappa = 2 every pair of small neighbours is enumerated, and the smallest delta that their output
distributions allow at epsilon, max over events of P[S] - e**epsilon P'[S], is computed in both
orders. It must not exceed delta, and for strategies that use their budget fully it comes close.
"""

import collections
import functools
import itertools

import mpmath
import numpy as np
import pytest

from dp_transforms.mechanisms.selection import RenyiRoundsSelection
from tests.cases import slow_unless
from tests.mechanisms.selection.shared import COUNTS, NOISY, SPLIT, as_mpf

EPSILON, DELTA = 1.5, 0.03
BITS = 160
ROUNDING = mpmath.mpf(10) ** -35
# Weighted strategies: an input is how many users have each set of partitions.
KINDS = ((0,), (1,), (0, 1))


def worst_delta(distributions, neighbours):
    """The largest delta over pairs of neighbouring inputs, in both orders, from {input: {output:
    probability}}."""
    grown = mpmath.exp(mpmath.mpf(EPSILON))
    return max(
        mpmath.fsum(max(0, p - grown * there.get(output, 0)) for output, p in here.items())
        for a, b in neighbours
        for here, there in itertools.permutations((distributions[a], distributions[b]))
    )


def names_distribution(strategy, users):
    keep = as_mpf(strategy.keep_enclosure(users, BITS)[0])
    return {True: keep, False: 1 - keep}


def counts_distribution(strategy, users):
    """Noisy counts of one partition; what lies far out is one output, which adds to no delta."""
    if users == 0:
        return {None: mpmath.mpf(1)}
    noise, threshold, far = strategy.distribution.noise, strategy.distribution.threshold, 60
    masses = {y: as_mpf(noise.probability(y - users, BITS)[0]) for y in range(threshold, far)}
    masses[threshold] *= as_mpf(strategy.distribution.tie)
    masses["far"] = as_mpf(noise.tail(far - users - 1, BITS)[0])
    masses[None] = 1 - mpmath.fsum(masses.values())
    return masses


def neighbouring_counts(most):
    """Users of both partitions, before and after a user with one or both of them comes."""
    for before in itertools.product(range(most), repeat=2):
        for added in ((0, 1), (1, 0), (1, 1)):
            yield before, tuple(n + a for n, a in zip(before, added, strict=True))


@mpmath.workprec(200)
def delta_of_names(chosen, neighbours, most=12, distribution=names_distribution):
    """The smallest delta of what two partitions of up to so many users each release."""
    single = [distribution(chosen, n).items() for n in range(most + 1)]
    both = {
        (a, b): {(x, y): p * q for (x, p), (y, q) in itertools.product(single[a], single[b])}
        for a, b in itertools.product(range(most + 1), repeat=2)
    }
    return worst_delta(both, neighbours)


COMING = list(neighbouring_counts(12))
# One user's partition is exchanged for another.
MOVING = [((a + 1, b), (a, b + 1)) for a, b in itertools.product(range(12), repeat=2)]


@pytest.mark.parametrize(
    ("strategy", "max_partitions", "options", "neighbours"),
    [
        *itertools.product(COUNTS, [2], [{}, {"pre_threshold": 3}], [COMING]),
        *itertools.product(SPLIT, [2], [{"composition": "naive"}], [COMING]),
        *itertools.product(COUNTS, [1], [{"neighbours": "replace"}], [MOVING]),
    ],
)
def test_names_selected_by_counts(strategy, max_partitions, options, neighbours):
    delta = delta_of_names(strategy(EPSILON, DELTA, max_partitions, **options), neighbours)
    # The optimal distribution's delta is the stated one exactly, and is computed at 200 bits.
    assert DELTA / 2 < delta <= DELTA + ROUNDING


@pytest.mark.thorough
@pytest.mark.parametrize("strategy", slow_unless(NOISY, NOISY[:1]))
def test_names_with_noisy_counts(strategy):
    chosen, most = strategy(EPSILON, DELTA, 2), 5
    # The others exchange the two partitions.
    pairs = [pair for pair in neighbouring_counts(most) if pair[0][0] <= pair[0][1]]
    assert delta_of_names(chosen, pairs, most, counts_distribution) <= DELTA + ROUNDING


def transcript_distribution(strategy, users, kinds):
    """{the round that selected each partition, or None: probability} by enumeration of rounds, of
    so many users of each of the kinds of sets of partitions."""
    partitions = range(1 + max(map(max, kinds)))
    states = {(None,) * len(partitions): mpmath.mpf(1)}
    for index in range(len(strategy.rounds)):
        following = collections.defaultdict(mpmath.mpf)
        for state, probability in states.items():
            named = len(partitions) - state.count(None)
            given = [[0, 0] for _ in partitions]
            for kind, number in zip(kinds, users, strict=True):
                left = [place for place in kind if state[place] is None]
                for place in left:
                    # What was selected leaves more weight to the others.
                    (weight,) = strategy.weights(index, [len(left)], named).tolist()
                    given[place][0] += number * weight
                    given[place][1] += number
            keeps = [round_keep(strategy, index, named, *sums) for sums in given]
            for hits in itertools.product((True, False), repeat=len(partitions)):
                chances = (keep if hit else 1 - keep for hit, keep in zip(hits, keeps, strict=True))
                after = tuple(index if hit else old for hit, old in zip(hits, state, strict=True))
                if p := mpmath.fprod([probability, *chances]):
                    following[after] += p
        states = following
    return states


@functools.cache
def round_keep(strategy, index, named, total, users):
    distribution = strategy.round_after(index, named)
    beyond = total - (strategy.pre_threshold - 1) * distribution.step(1)
    if users < strategy.pre_threshold or beyond <= 0:
        return mpmath.mpf(0)
    return as_mpf(distribution.keep_enclosure(beyond, BITS)[0])


def moved_by(*moves):
    """Pairs of inputs of up to three users of each kind that differ by one of these."""
    pairs = itertools.combinations(itertools.product(range(4), repeat=3), 2)
    return [(a, b) for a, b in pairs if tuple(np.subtract(b, a)) in moves]


ONE_MORE = moved_by((1, 0, 0), (0, 1, 0), (0, 0, 1))
REPLACED = moved_by((1, -1, 0), (1, 0, -1), (0, 1, -1))


@mpmath.workprec(200)
def worst_transcript_delta(strategy, pairs=ONE_MORE, kinds=KINDS):
    inputs = set(itertools.chain(*pairs))
    return worst_delta(
        {users: transcript_distribution(strategy, users, kinds) for users in inputs}, pairs
    )


@pytest.mark.parametrize(
    ("options", "pairs"),
    [
        ({}, ONE_MORE),
        ({"number_of_rounds": 1}, ONE_MORE),
        ({"number_of_rounds": 2, "growth": 1}, ONE_MORE),
        ({"pre_threshold": 2}, ONE_MORE),
        ({"neighbours": "replace"}, REPLACED),
        ({"neighbours": "replace", "number_of_rounds": 1}, REPLACED),
    ],
)
def test_weighted_rounds_with_their_transcript(options, pairs):
    strategy = RenyiRoundsSelection(EPSILON, DELTA, 2, **options)
    assert DELTA / 10 < worst_transcript_delta(strategy, pairs) <= DELTA


@pytest.mark.slow
def test_weighted_rounds_of_three_partitions():
    """Users of up to three partitions of three: one more of each kind beside up to two kinds."""
    kinds = [kind for size in (1, 2, 3) for kind in itertools.combinations(range(3), size)]
    pairs = []
    for first, second in itertools.combinations(range(7), 2):
        for a, b in itertools.product((0, 1, 4, 8), repeat=2):
            users = tuple({first: a, second: b}.get(i, 0) for i in range(7))
            pairs += [
                (users, tuple(np.add(users, added).tolist())) for added in np.eye(7, dtype=int)
            ]
    strategy = RenyiRoundsSelection(EPSILON, DELTA, 3, number_of_rounds=2)
    assert DELTA / 10 < worst_transcript_delta(strategy, pairs, kinds) <= DELTA
