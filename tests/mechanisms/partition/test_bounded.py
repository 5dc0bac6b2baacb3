"""The exponential mechanism with and without bounds: its weights and its distribution.

The walk shares no code with the table or with enumeration.
"""

import itertools
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest
from gmpy2 import mpq
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_transforms.mechanisms import Eta, FrequencyList, IntegerPartitionMechanism, PartitionBounds
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.partition.table import PartitionTable
from dp_transforms.mechanisms.partition.walk.levels import Sampler
from dp_transforms.mechanisms.partition.walk.transfer import independence_length
from dp_transforms.mechanisms.partition.walk.walk import Blocks
from tests import enumeration
from tests.cases import thorough_unless
from tests.statistical import distributions
from tests.statistical.draws import RELEASES, Numbers, drawn_lists
from tests.tapes import InsecureSeededTape
from tests.walk_reference import total_weight

HALF = Eta(1, 1, 1)
STAIRS = enumeration.as_list((5, 4, 3, 2, 1))
BOUNDS = {
    "total": PartitionBounds.of_total(8),
    "around": PartitionBounds.around(enumeration.as_list((4, 2, 2)), 1),
    "ball": PartitionBounds.within_distance(enumeration.as_list((3, 2)), 2),
    "one list": PartitionBounds(STAIRS, STAIRS),
    "below stairs": PartitionBounds(upper=STAIRS),
    "first rank free": PartitionBounds(upper=enumeration.as_list((3, 1)), unbounded_ranks=1),
    "at most two items": PartitionBounds(unbounded_ranks=2),
    "values up to two": PartitionBounds(beyond=2),
    "stairs and more": PartitionBounds(enumeration.as_list((3, 1)), unbounded_ranks=2, beyond=1),
}
LARGEST = 2**60
columns = st.lists(st.integers(0, 7), min_size=5, max_size=5)
descending = columns.map(lambda values: tuple(sorted(values, reverse=True)))


def decay_of(rate):
    return Decay(base=rate) if isinstance(rate, Eta) else Decay(Fraction(rate))


def weight_within(bounds, target, rate=HALF, window=40):
    """The walk's enclosure of the sum of q**||x - f||_1 over all lists, or those within bounds.
    Pr[x] is q**||x - f||_1 / Z, so the sum tells the distribution of every list at once."""
    private, decay = enumeration.as_list(target), decay_of(rate)
    lo, hi = total_weight(Blocks.of(private, bounds), decay, window)
    moved = decay.power(0 if bounds is None else private.l1_distance(bounds.nearest(private)), 128)
    return lo * mpq(moved[0]), hi * mpq(moved[1])


def within(bounds, reach=26):
    """The lists within bounds, cut off where 2**-distance is negligible, as rank bounds."""
    if bounds is None:
        return [70] * 70, ()
    inner = np.repeat(bounds.upper.frequencies, bounds.upper.multiplicities).tolist()
    behind = [bounds.beyond] * (reach if bounds.beyond else 0)
    upper = enumeration.as_list([reach] * bounds.unbounded_ranks + inner + behind)
    return upper, bounds.lower


@pytest.mark.parametrize(
    ("name", "eta", "most", "lost"),
    [
        *((name, HALF, 5, 2.0**-14) for name in BOUNDS),
        (None, HALF, 8, 2.0**-20),
        pytest.param(None, Eta(3, 2, 1), 8, 2.0**-20, marks=pytest.mark.thorough),
    ],
    ids=str,
)
def test_the_total_weight_of_all_lists_is_the_tables(name, eta, most, lost):
    """The table misses only lists with a frequency or a number of items above its bounds."""
    bounds = BOUNDS.get(name)
    for target in enumeration.partitions_of_at_most(most):
        lo, hi = weight_within(bounds, target, eta)
        table = PartitionTable(enumeration.as_list(target), eta, *within(bounds)).total_weight
        assert lo * (1 - lost) <= table <= hi


def test_the_total_weight_of_a_list_with_long_runs():
    """Runs of 70 and more are long here, so that their two ends are taken apart."""
    eta, target = Eta(1, 6, 1), (80,) * 75
    lo, hi = weight_within(None, target, eta, 8)
    table = PartitionTable(enumeration.as_list(target), eta, [92] * 87).total_weight
    assert lo * (1 - 2.0**-60) <= table <= hi
    assert independence_length(decay_of(eta), 8) <= 75


@settings(max_examples=10)
@given(descending, descending, columns, columns)
def test_random_bounds_have_the_total_weight_of_enumeration(target, inside, below, above):
    lower = np.maximum(np.subtract(inside, below), 0).tolist()
    upper = np.minimum(np.add(inside, above), 7).tolist()
    exact = sum(
        Fraction(3, 4) ** enumeration.l1_distance(x, target)
        for x in enumeration.partitions(5, 7)
        if all(a <= v <= b for a, v, b in zip(lower, x, upper, strict=True))
    )
    lo, hi = weight_within(PartitionBounds.of_runs(lower, upper, [1] * 5), target, Eta(3, 2, 1))
    assert lo <= exact <= hi


@pytest.mark.parametrize("name", BOUNDS)
def test_releases_follow_the_distribution(name):
    check_distribution([(name, (3, 1))], HALF, 300)


@pytest.mark.law
@pytest.mark.parametrize("eta", [HALF, Eta(3, 2, 1)], ids=str)
def test_many_releases_of_each_follow_the_distribution(eta):
    """Of lists which are different ones when they are moved between bounds."""
    targets = [(), (1,), (3, 1), (8,), (1,) * 8, (6, 2, 2, 1, 1)]
    moved = {
        (name, BOUNDS[name].nearest(enumeration.as_list(target))): (name, target)
        for name, target in itertools.product(BOUNDS, targets)
        if name != "one list"
    }
    check_distribution(list(moved.values()), eta, RELEASES)


def check_distribution(cases, eta, draws):
    fits = defaultdict(dict)
    for number, (name, target) in enumerate(cases):
        private, bounds = enumeration.as_list(target), BOUNDS[name]
        table = PartitionTable(private, eta, *within(bounds))
        sampler = Sampler(Blocks.of(private, bounds), decay_of(eta))
        drawn = drawn_lists(sampler, draws, first=number * draws)
        assert all(bounds.contain(x) for x in drawn)
        # The table is cut off; what lies within its bounds has its distribution.
        inside = {x: times for x, times in drawn.items() if table.probability(x)}
        assert sum(inside.values()) > 0.9 * draws
        numbers = Numbers(inside, target)
        for rank in range(min(3, table.ranks)):
            fit = distributions.fit(numbers.values[:, rank], table.marginal(rank))
            fits[rank][name, target] = fit
    for of_cases in fits.values():
        distributions.assert_all_follow(of_cases)


@pytest.mark.parametrize(
    ("name", "rate"),
    thorough_unless(
        [*((name, HALF) for name in [None, *BOUNDS]), (None, Eta(3, 2, 1)), (None, 0.05)],
        [(name, HALF) for name in [None, *BOUNDS]],
    ),
    ids=str,
)
def test_neighbours_keep_the_ratio_of_probabilities(name, rate):
    """Pr[x] / Pr'[x] = q**(||x - f|| - ||x - f'||) Z' / Z, and the exponent is at least -1."""
    # At most e**epsilon = q**-2 in all, so at most q**-1 from the totals.
    _, inverse = decay_of(rate).power(-1, 128)
    lists = enumeration.partitions_of_at_most(6 if name else 8)
    totals = {target: weight_within(BOUNDS.get(name), target, rate, 60) for target in lists}
    pairs = list(enumeration.neighbours(totals))
    for a, b in pairs:
        assert totals[b][0] <= totals[a][1] * inverse
    # Young's lattice has sum_{k <= n} p(k) edges from n to n + 1, each of them both ways.
    assert len(pairs) == (2 * 45 if name else 2 * 120)


def test_the_mechanism_is_its_sampler():
    bounds, private = BOUNDS["total"], enumeration.as_list((4, 2, 1))
    mechanism = IntegerPartitionMechanism(bounds=bounds, eta=HALF)
    sampler = Sampler(Blocks.of(private, bounds), mechanism.decay)
    tapes = list(map(InsecureSeededTape, range(20)))
    assert mechanism.release_many(private, 20, iter(tapes)) == list(map(sampler.release, tapes))


@pytest.mark.parametrize(
    "bounds_of",
    [
        lambda n: PartitionBounds(beyond=n, unbounded_ranks=LARGEST),
        lambda n: PartitionBounds(unbounded_ranks=n),
        lambda n: PartitionBounds(upper=FrequencyList([1], [n]), unbounded_ranks=LARGEST),
        lambda n: PartitionBounds(lower=FrequencyList([n], [1]), unbounded_ranks=1),
        lambda n: PartitionBounds(lower=FrequencyList([1], [n]), unbounded_ranks=n),
    ],
)
def test_bounds_work_or_are_refused_before_any_list_is_seen(bounds_of):
    """An error at a release would depend on the list, and could print its total."""
    mechanism = IntegerPartitionMechanism(bounds=bounds_of(LARGEST), epsilon=1.0)
    runs = [((), ()), ([2**62], [1]), ([1], [2**62]), ([2**31], [2**31])]
    for seed, private in enumerate(itertools.starmap(FrequencyList, runs)):
        assert mechanism.bounds.contain(mechanism.release(private, InsecureSeededTape(seed)))
    with pytest.raises(ValueError, match=r"must be at most 2\*\*60"):
        IntegerPartitionMechanism(bounds=bounds_of(LARGEST + 1), epsilon=1.0)
