"""The mechanisms over lists of a public total: their law, their levels, and their errors."""

import itertools
import math
from fractions import Fraction

import pytest

from dp_transforms.mechanisms import (
    Eta,
    ExactTotalMechanism,
    FrequencyList,
    IntegerPartitionMechanism,
    MaximumTotalMechanism,
)
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.randomness import InsecureSeededTape
from dp_transforms.mechanisms.sampler.levels import Level, Sampler
from dp_transforms.mechanisms.sampler.walk import Blocks
from tests import enumeration
from tests.cases import slow_unless
from tests.expected_excess import expected_excess
from tests.row_law import RowLaw
from tests.statistical import laws
from tests.statistical.draws import RELEASES

HALF = Eta(1, 1, 1)

# Lists, and totals that are those of the list, below, and above.
CASES = [((3, 1), 4), ((3, 1), 7), ((3, 1), 2), ((), 3), ((2, 2, 2), 6), ((5,), 8), ((1,) * 6, 4)]


def release(mechanism, target, draws, first=0):
    tapes = (InsecureSeededTape(seed) for seed in range(first, first + draws))
    return mechanism.release_many(enumeration.as_list(target), draws, tapes)


def exact_law(base, target, total):
    return enumeration.law(
        base, target, enumeration.partitions_of_at_most(total), lambda x: sum(x) == total
    )


def fit_exact(target, total, eta, draws, first=0):
    mechanism = ExactTotalMechanism(total=total, eta=eta)
    law = exact_law(eta.base, target, total)
    return laws.fit(release(mechanism, target, draws, first), law)


def fit_maximum(target, total, eta, draws, first=0):
    mechanism = MaximumTotalMechanism(max_total=total, eta=eta)
    law = enumeration.law(eta.base, target, enumeration.partitions_of_at_most(total))
    return laws.fit(release(mechanism, target, draws, first), law)


@pytest.mark.parametrize(("target", "total"), slow_unless(CASES, CASES[2:4]), ids=str)
def test_the_exact_total_has_the_law_of_enumeration(target, total):
    assert fit_exact(target, total, HALF, 600).p_value >= laws.SIGNIFICANCE


@pytest.mark.parametrize(("target", "total"), slow_unless(CASES, CASES[3:4]), ids=str)
def test_the_maximum_total_has_the_law_of_enumeration(target, total):
    assert fit_maximum(target, total, HALF, 600).p_value >= laws.SIGNIFICANCE


@pytest.mark.law
@pytest.mark.parametrize("eta", [HALF, Eta(3, 2, 1)], ids=str)
@pytest.mark.parametrize("fit", [fit_exact, fit_maximum])
def test_many_releases_of_each(fit, eta):
    draws = RELEASES // 2
    fits = {case: fit(*case, eta, draws, i * draws) for i, case in enumerate(CASES)}
    laws.assert_all_follow(fits)


@pytest.mark.slow
def test_an_irrational_ratio():
    weights = {
        x: math.exp(-0.3 * enumeration.l1_distance(x, (4, 2)))
        for x in enumeration.partitions_of_at_most(9)
    }
    for mechanism, kept in (
        (ExactTotalMechanism(total=9, epsilon=0.6), [x for x in weights if sum(x) == 9]),
        (MaximumTotalMechanism(max_total=9, epsilon=0.6), list(weights)),
    ):
        whole = sum(weights[x] for x in kept)
        law = {enumeration.as_list(x): weights[x] / whole for x in kept}
        laws.assert_follows(release(mechanism, (4, 2), 400), law)


@pytest.mark.slow
def test_the_unrestricted_law_given_the_total_is_the_exact_one():
    law = exact_law(Fraction(1, 2), (3, 1), 5)
    released = release(IntegerPartitionMechanism(eta=HALF), (3, 1), 4000)
    laws.assert_follows([x for x in released if x.total == 5], law)


@pytest.mark.parametrize("price", [{"eta": HALF}, {"epsilon": 1, "sensitivity": 2}], ids=str)
def test_neighbours_keep_the_ratio_of_probabilities(price):
    """By no more than the mechanisms say that they cost, over every set of totals."""
    lists, worst = list(enumeration.partitions_of_at_most(6)), 0
    for total in range(8):
        within = list(enumeration.partitions_of_at_most(total))
        of_total = [x for x in within if sum(x) == total]
        for mechanism, outcomes in (
            (ExactTotalMechanism(total=total, **price), of_total),
            (MaximumTotalMechanism(max_total=total, **price), within),
        ):
            base, most = math.exp(-mechanism.rate), math.exp(mechanism.epsilon_cost)
            law = {f: enumeration.law(base, f, iter(outcomes)) for f in lists}
            for a, b in itertools.permutations(lists, 2):
                if enumeration.l1_distance(a, b) == mechanism.sensitivity:
                    ratio = max(p / law[b][x] for x, p in law[a].items())
                    assert ratio <= most * (1 + 1e-12)
                    worst = max(worst, ratio)
    # Three quarters of the cost would not do.
    assert worst > most**0.75


@pytest.mark.parametrize("tilt", [Fraction(1, 5), Fraction(-1, 3)], ids=str)
@pytest.mark.parametrize(
    "rate", slow_unless([Fraction(1, 2), Fraction(1, 20)], [Fraction(1, 2)]), ids=str
)
def test_every_level_gives_the_same_tilted_walk_from_the_same_tape(rate, tilt):
    blocks = Blocks.of(enumeration.as_list((9, 9, 9, 4, 4, 1, 1, 1, 1, 1)))
    sampler = Sampler(blocks, Decay(rate * (1 + tilt)), Decay(rate * (1 - tilt)))
    window = 2 * sampler.first_level.window
    levels = [Level(window), Level(window, 128), Level(window + 9, 256)]
    for seed in range(10):
        chains = [sampler.at_level(at).states(InsecureSeededTape(seed)).tolist() for at in levels]
        assert all(chain == chains[0] for chain in chains)


@pytest.mark.parametrize("target", [(), (3, 1), (2, 2, 2), (9, 9, 4, 1, 1, 1)], ids=str)
def test_a_walk_s_excess_is_the_difference_of_the_totals(target):
    private = enumeration.as_list(target)
    sampler = Sampler(Blocks.of(private), Decay(Fraction(1, 10)))
    for seed in range(100):
        walk = sampler.walk(InsecureSeededTape(seed))
        released = walk.applied_to(sampler.blocks)
        assert walk.excess(sampler.blocks) == released.total - private.total


@pytest.mark.parametrize("target", [(), (3, 1), (9, 9, 4, 1, 1, 1)], ids=str)
def test_the_expected_excess_is_that_of_the_rows(target):
    law = RowLaw(target, 0.75, 150)
    exact = law.expected_total - sum(target)
    rate = -math.log(0.75)
    blocks = Blocks.of(enumeration.as_list(target))
    assert expected_excess(blocks, rate, 0.0, 60) == pytest.approx(exact)


def test_the_expected_excess_under_a_tilt_is_that_of_enumeration():
    target = (3, 1)
    mean = weight = 0.0
    for x in enumeration.partitions_of_at_most(24):
        excess = sum(x) - sum(target)
        w = math.exp(-1.5 * enumeration.l1_distance(x, target) - 0.4 * excess)
        mean, weight = mean + w * excess, weight + w
    blocks = Blocks.of(enumeration.as_list(target))
    assert expected_excess(blocks, 1.5, 0.4, 40) == pytest.approx(mean / weight)


def test_large_lists_have_the_total_that_was_asked_for():
    private = FrequencyList([10**6, 4000, 300, 2, 1], [1, 10, 200, 10**5, 10**6])
    exact = ExactTotalMechanism(total=private.total + 40, epsilon=1)
    assert exact.release(private, InsecureSeededTape(1)).total == private.total + 40
    most = MaximumTotalMechanism(max_total=private.total - 40, epsilon=1)
    for seed in range(5):
        assert most.release(private, InsecureSeededTape(seed)).total <= private.total - 40


@pytest.mark.parametrize("total", [-1, 2.0, True, 2**62 + 1])
def test_totals_that_are_none_are_refused(total):
    with pytest.raises(ValueError, match="total must be an integer between 0 and"):
        ExactTotalMechanism(total=total, epsilon=1)
    with pytest.raises(ValueError, match="max_total must be an integer between 0 and"):
        MaximumTotalMechanism(max_total=total, epsilon=1)


def test_a_total_out_of_reach_is_refused_without_numbers():
    private = FrequencyList([5000, 10], [3, 100])
    for mechanism in (
        ExactTotalMechanism(total=100_000, epsilon=4),
        ExactTotalMechanism(total=10_000, epsilon=4),
        MaximumTotalMechanism(max_total=10_000, epsilon=4),
    ):
        with pytest.raises(ValueError, match="too far from what the list has") as error:
            mechanism.release(private)
        assert "16000" not in str(error.value)
    # A bound far above the total is true of the data.
    assert MaximumTotalMechanism(max_total=10**9, epsilon=4).release(private).total < 10**9
