import math

import pytest

from dp_transforms.errors import NothingDrawnError, UnsuitableListError
from dp_transforms.mechanisms import Eta, ExactTotalMechanism, FrequencyList
from dp_transforms.mechanisms.partition import restricted
from tests import enumeration
from tests.statistical import distributions
from tests.statistical.draws import RELEASES
from tests.tapes import InsecureSeededTape

HALF = Eta(1, 1, 1)

# Lists, and totals that are those of the list, below, and above.
CASES = [((3, 1), 4), ((3, 1), 7), ((3, 1), 2), ((), 3), ((2, 2, 2), 6), ((5,), 8), ((1,) * 6, 4)]


def fit(target, total, eta, draws, first=0):
    mechanism = ExactTotalMechanism(eta=eta, sensitivity=9, total=total)
    outcomes = enumeration.partitions_of_at_most(total)
    distribution = enumeration.distribution(eta.base, target, outcomes, lambda x: sum(x) == total)
    tapes = map(InsecureSeededTape, range(first, first + draws))
    drawn = mechanism.release_many(enumeration.as_list(target), draws, tapes)
    return distributions.fit(drawn, distribution)


@pytest.mark.thorough
@pytest.mark.parametrize("case", [3, 4])
def test_releases_have_the_distribution_of_enumeration(case):
    assert fit(*CASES[case], HALF, 300).p_value >= distributions.SIGNIFICANCE


@pytest.mark.law
@pytest.mark.parametrize("eta", [HALF, Eta(3, 2, 1)], ids=str)
def test_many_releases_of_each(eta):
    draws = RELEASES // 2
    fits = {case: fit(*case, eta, draws, i * draws) for i, case in enumerate(CASES)}
    distributions.assert_all_follow(fits)


@pytest.mark.parametrize("price", [{"eta": HALF}, {"epsilon": 1, "sensitivity": 2}], ids=str)
def test_neighbours_keep_the_ratio_of_probabilities(price):
    """By no more than the mechanisms say that they cost, over every set of totals."""
    lists, worst = list(enumeration.partitions_of_at_most(6)), 0
    for total in range(8):
        mechanism = ExactTotalMechanism(total=total, **price)
        within = [x for x in enumeration.partitions_of_at_most(total) if sum(x) == total]
        base, most = math.exp(-mechanism.rate), math.exp(mechanism.epsilon_cost)
        distribution = {f: enumeration.distribution(base, f, within) for f in lists}
        for a, b in enumeration.neighbours(lists, mechanism.sensitivity):
            ratio = max(p / distribution[b][x] for x, p in distribution[a].items())
            assert ratio <= most * (1 + 1e-12)
            worst = max(worst, ratio)
    # Three quarters of the cost would not do.
    assert worst > most**0.75


def test_large_lists_have_the_total_that_was_asked_for():
    private = FrequencyList([10**6, 4000, 300, 2, 1], [1, 10, 200, 10**5, 10**6])
    exact = ExactTotalMechanism(total=private.total + 4, epsilon=4, sensitivity=4)
    assert exact.release(private, InsecureSeededTape(1)).total == private.total + 4


@pytest.mark.parametrize("total", [-1, 2.0, True, 2**62 + 1])
def test_totals_that_are_none_are_refused(total):
    with pytest.raises(ValueError, match="total must be an integer between 0 and"):
        ExactTotalMechanism(epsilon=1, total=total)


def test_a_list_that_no_neighbour_of_it_excuses_is_refused_without_numbers():
    private, price = FrequencyList([5000, 10], [3, 100]), {"epsilon": 4, "sensitivity": 2}
    for total in (16_003, 15_997):
        mechanism = ExactTotalMechanism(total=total, **price)
        with pytest.raises(UnsuitableListError, match="the list contradicts total") as error:
            mechanism.release(private)
        assert not any(digit in str(error.value) for digit in "0123456789")
    assert ExactTotalMechanism(total=16_002, **price).release(private).total == 16_002


def test_a_total_that_releases_hardly_have_ends_with_an_error(monkeypatch):
    """At this rate a release of the empty list is empty with a probability of 1e-13."""
    monkeypatch.setattr(restricted, "GIVE_UP_BITS", 5)
    with pytest.raises(NothingDrawnError, match="agrees with total was found: raise epsilon"):
        ExactTotalMechanism(total=0, epsilon=0.1).release(FrequencyList())


@pytest.mark.thorough
def test_failures_are_as_private_as_releases(monkeypatch):
    """At a rate of ln 2 a draw for the empty list is empty with probability phi(1/2) = 0.2888, and
    for one user with 0.2888 / (2 - 1.5 * 0.2888) / 2 = 0.0922 (see ``exponential``)."""
    monkeypatch.setattr(restricted, "GIVE_UP_BITS", 2)
    mechanism, draws = ExactTotalMechanism(eta=HALF, total=0), 600
    chances = []
    for private, empty in ((FrequencyList(), 0.28879), (FrequencyList([1], [1]), 0.09216)):
        chances.append(1 / 4 / (1 / 4 + 3 / 4 * empty))
        failures, draw = 0, mechanism._draw(private)
        for tape in map(InsecureSeededTape, range(draws)):
            try:
                draw(tape)
            except NothingDrawnError:
                failures += 1
        distributions.assert_probability(failures, draws, chances[-1])
    assert chances[1] <= chances[0] * math.exp(mechanism.epsilon_cost)


def test_a_retry_draws_the_same_lists_again():
    mechanism, tape = ExactTotalMechanism(total=4, epsilon=1), InsecureSeededTape(5)
    first, again = mechanism.release_many(FrequencyList([2], [2]), 2, iter([tape, tape]))
    assert first == again
