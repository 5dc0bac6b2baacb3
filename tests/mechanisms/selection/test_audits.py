"""Exhaustive audits: the exact output distributions of neighbours on two partitions against the
budget.

For kappa = 2 every pair of small neighbours is enumerated, and the smallest delta that their output
distributions allow at epsilon, max over events of P[S] - e**epsilon P'[S], is computed in both
orders. It must not exceed delta, and for strategies that use their budget fully it comes close.
"""

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


def exact(value):
    with mpmath.workprec(200):
        return as_mpf(value)


def worst_delta(distributions, neighbours, epsilon=EPSILON):
    """The largest delta over pairs of neighbouring inputs, in both orders.

    Args:
      distributions: maps each input to {output: probability}.
      neighbours: pairs of inputs.
    """
    with mpmath.workprec(200):
        grown = mpmath.exp(mpmath.mpf(epsilon))
        return max(
            mpmath.fsum(max(0, p - grown * there.get(output, 0)) for output, p in here.items())
            for a, b in neighbours
            for here, there in itertools.permutations((distributions[a], distributions[b]))
        )


def product(one, other):
    with mpmath.workprec(200):
        return {(x, y): p * q for x, p in one.items() for y, q in other.items()}


def names_distribution(strategy, users):
    keep = exact(strategy.keep_enclosure(users, BITS)[0])
    return {True: keep, False: 1 - keep}


def counts_distribution(strategy, users):
    """Noisy counts of one partition; what lies far out is one output, which adds to no delta."""
    if users == 0:
        return {None: mpmath.mpf(1)}
    noise, threshold, far = strategy.distribution.noise, strategy.distribution.threshold, 60
    with mpmath.workprec(200):
        masses = {y: exact(noise.probability(y - users, BITS)[0]) for y in range(threshold, far)}
        masses[threshold] *= exact(strategy.distribution.tie)
        masses["far"] = exact(noise.tail(far - users - 1, BITS)[0])
        masses[None] = 1 - mpmath.fsum(masses.values())
    return masses


def neighbouring_counts(most):
    """Users of both partitions, before and after a user with one or both of them comes."""
    for before in itertools.product(range(most), repeat=2):
        for added in ((0, 1), (1, 0), (1, 1)):
            yield before, tuple(n + a for n, a in zip(before, added, strict=True))


def of_both(distribution, chosen, most):
    """The distributions of two partitions of up to so many users each."""
    single = [distribution(chosen, n) for n in range(most + 1)]
    both = itertools.product(range(most + 1), repeat=2)
    return {(a, b): product(single[a], single[b]) for a, b in both}


def delta_of_names(chosen, neighbours, most=12):
    """The smallest delta of which partitions are selected."""
    return worst_delta(of_both(names_distribution, chosen, most), neighbours)


@pytest.mark.parametrize("strategy", COUNTS)
@pytest.mark.parametrize("options", [{}, {"pre_threshold": 3}], ids=["plain", "pre-threshold"])
def test_names_selected_by_counts(strategy, options):
    delta = delta_of_names(strategy(EPSILON, DELTA, 2, **options), neighbouring_counts(12))
    # The optimal distribution's delta is the stated one exactly, and is computed at 200 bits.
    assert DELTA / 2 < delta <= DELTA + ROUNDING


@pytest.mark.parametrize("strategy", SPLIT)
def test_naive_splitting(strategy):
    chosen = strategy(EPSILON, DELTA, 2, composition="naive")
    assert delta_of_names(chosen, neighbouring_counts(12)) <= DELTA + ROUNDING


def test_replacing_a_users_records():
    """Neighbours with one user's partitions exchanged for another's, at kappa = 1."""
    pairs = [((a + 1, b), (a, b + 1)) for a, b in itertools.product(range(12), repeat=2)]
    for strategy in COUNTS:
        chosen = strategy(EPSILON, DELTA, 1, neighbours="replace")
        assert delta_of_names(chosen, pairs) <= DELTA + ROUNDING


@pytest.mark.parametrize("strategy", slow_unless(NOISY, NOISY[:1]))
def test_names_with_noisy_counts(strategy):
    chosen, most = strategy(EPSILON, DELTA, 2), 5
    distributions = of_both(counts_distribution, chosen, most)
    # The delta of a pair of distributions does not change if one partition's distribution is the
    # same in both.
    pairs = [pair for pair in neighbouring_counts(most) if 0 not in pair[0][1:]]
    fresh = [(a, b) for a, b in neighbouring_counts(most) if a[1] == 0]
    assert worst_delta(distributions, [*pairs[::3], *fresh]) <= DELTA + ROUNDING


# Weighted strategies: an input is how many users have each set of partitions.
KINDS = ((0,), (1,), (0, 1))
UNITS = ((1, 0, 0), (0, 1, 0), (0, 0, 1))
KINDS_OF_THREE = tuple(
    kind for size in (1, 2, 3) for kind in itertools.combinations(range(3), size)
)


def transcript_distribution(strategy, users, kinds=KINDS):
    """{the round that selected each partition, or None: probability} by enumeration of rounds.

    Args:
      users: how many users have each of the kinds of sets of partitions.
    """
    partitions = range(1 + max(map(max, kinds)))
    states = {(None,) * len(partitions): mpmath.mpf(1)}
    for index in range(len(strategy.rounds)):
        following = {}
        for state, probability in states.items():
            named = len(partitions) - state.count(None)
            sums, counts = [0] * len(partitions), [0] * len(partitions)
            for kind, number in zip(kinds, users, strict=True):
                left = [place for place in kind if state[place] is None]
                for place in left:
                    # What was selected leaves more weight to the others.
                    (weight,) = strategy.weights(index, [len(left)], named).tolist()
                    sums[place] += number * weight
                    counts[place] += number
            keeps = [
                round_keep(strategy, index, *one, named) for one in zip(sums, counts, strict=True)
            ]
            for picks in itertools.product((True, False), repeat=len(partitions)):
                pairs = zip(picks, keeps, strict=True)
                with mpmath.workprec(200):
                    p = mpmath.fprod([probability, *(k if pick else 1 - k for pick, k in pairs)])
                if p:
                    after = tuple(
                        index if pick else old for pick, old in zip(picks, state, strict=True)
                    )
                    following[after] = following.get(after, 0) + p
        states = following
    return states


@functools.cache
def round_keep(strategy, index, total, users, named):
    distribution = strategy.round_after(index, named)
    beyond = total - (strategy.pre_threshold - 1) * distribution.step(1)
    if users < strategy.pre_threshold or beyond <= 0:
        return mpmath.mpf(0)
    return exact(distribution.keep_enclosure(beyond, BITS)[0])


@pytest.mark.parametrize(
    "chosen",
    [
        RenyiRoundsSelection(EPSILON, DELTA, 2, number_of_rounds=1),
        RenyiRoundsSelection(EPSILON, DELTA, 2),
        RenyiRoundsSelection(EPSILON, DELTA, 2, number_of_rounds=2, growth=1),
        RenyiRoundsSelection(EPSILON, DELTA, 2, pre_threshold=2),
    ],
    ids=["one round", "rounds", "two equal rounds", "pre-threshold"],
)
def test_weighted_rounds_with_their_transcript(chosen):
    assert DELTA / 10 < worst_transcript_delta(chosen) <= DELTA


ONE_MORE = [(unit, (0, 0, 0)) for unit in UNITS]


def worst_transcript_delta(strategy, moves=ONE_MORE):
    """The largest delta of up to three users of each kind, and others that come while some go."""
    inputs = list(itertools.product(range(4), repeat=3))
    distributions = {users: transcript_distribution(strategy, users) for users in inputs}
    pairs = [
        (users, moved)
        for users in inputs
        for come, gone in moves
        if (moved := tuple(np.add(users, come) - gone)) in distributions
    ]
    return worst_delta(distributions, pairs)


@pytest.mark.slow
def test_weighted_rounds_of_three_partitions():
    """Users of up to three partitions of three: one more of each kind beside up to two kinds."""
    chosen = RenyiRoundsSelection(EPSILON, DELTA, 3, number_of_rounds=2)
    distribution = functools.cache(
        functools.partial(transcript_distribution, chosen, kinds=KINDS_OF_THREE)
    )
    worst = mpmath.mpf(0)
    places = range(len(KINDS_OF_THREE))
    for first, second in itertools.combinations(places, 2):
        for a, b in itertools.product((0, 1, 4, 8), repeat=2):
            users = tuple({first: a, second: b}.get(i, 0) for i in places)
            for more in places:
                other = tuple(n + (i == more) for i, n in enumerate(users))
                both = {users: distribution(users), other: distribution(other)}
                worst = max(worst, worst_delta(both, [(users, other)]))
    assert DELTA / 10 < worst <= DELTA


@pytest.mark.parametrize("options", [{}, {"number_of_rounds": 1}], ids=str)
def test_weighted_rounds_when_a_user_is_replaced(options):
    chosen = RenyiRoundsSelection(EPSILON, DELTA, 2, neighbours="replace", **options)
    assert worst_transcript_delta(chosen, list(itertools.permutations(UNITS, 2))) <= DELTA
