import itertools
import math
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from unittest import mock

import gmpy2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_transforms.mechanisms import ClampedLaplace, Eta, ExponentialMechanism
from dp_transforms.mechanisms.enclosure import as_fraction
from dp_transforms.mechanisms.exponential import InexactArithmeticError
from dp_transforms.mechanisms.randomness import draw_below
from tests.cases import refused
from tests.statistical import distributions
from tests.tapes import InsecureSeededTape

SMALL_ETAS = [Eta(x, y, z) for y in range(1, 7) for z in range(1, 4) for x in range(1, 2**y)]
utility_lists = st.lists(st.integers(-8, 8), min_size=1, max_size=8)


def definition(eta, utilities, lowest, highest):
    """The distribution by the textbook, in rationals."""
    clamped = (min(max(u, lowest), highest) for u in utilities)
    weights = [as_fraction(eta.base) ** (u - lowest) for u in clamped]
    return {i: weight / sum(weights) for i, weight in enumerate(weights)}


def test_every_small_eta_has_exactly_the_distribution_of_the_definition():
    # Negative, equal and clamped on both sides.
    utilities = [-9, -2, -2, 0, 1, 3, 50]
    for eta in SMALL_ETAS:
        mechanism = ExponentialMechanism(eta, -3, 4, max_outcomes=7)
        distribution = definition(eta, utilities, -3, 4)
        assert mechanism.probabilities(utilities) == list(distribution.values())
        # The choice as a function of the uniform integer below the total: an outcome's share of
        # those integers is its probability.
        levels = mechanism._levels(utilities, None, "")
        total, shares = int(mechanism._total(levels)), dict.fromkeys(distribution, 0)
        ends = [0, *itertools.accumulate(p * total for p in distribution.values())]
        for start, end in itertools.pairwise(ends):
            first, last = (mechanism._locate(levels, gmpy2.mpz(int(n))) for n in (start, end - 1))
            assert first == last
            shares[first] += (end - start) / total
        assert shares == distribution
    # Float weights would all be zero but one: 2**-3000 is exact here.
    mechanism = ExponentialMechanism(Eta(1, 1, 1), -3000, 3000, max_outcomes=3)
    assert mechanism.probabilities([2999, 3000, 3001]) == [0.5, 0.25, 0.25]


def test_fractional_utilities_draw_the_mixture_over_all_roundings():
    eta, utilities = Eta(1, 1, 1), [Fraction(1, 4), Fraction(-3, 2), 1.75, 9]
    mechanism, tape = ExponentialMechanism(eta, -1, 3, max_outcomes=4), InsecureSeededTape(1)
    draws = [mechanism.sample(utilities, tape, f"choice {i}") for i in range(2_500)]
    distribution = mixture(eta, [min(max(Fraction(u), -1), 3) for u in utilities])
    distributions.assert_follows(draws, distribution)


def mixture(eta, utilities):
    """The distribution over all ways to round utilities."""
    distribution = Counter()
    for rounded in itertools.product(*((math.floor(u), math.floor(u) + 1) for u in utilities)):
        chance = math.prod(1 - abs(u - n) for u, n in zip(utilities, rounded, strict=True))
        for i, p in definition(eta, rounded, min(rounded), max(rounded)).items():
            distribution[i] += chance * p
    return distribution


@given(st.sampled_from(SMALL_ETAS), utility_lists, st.integers(0, 3), st.data())
def test_neighbours_are_within_twice_eta_times_the_sensitivity(eta, utilities, sensitivity, data):
    moves = st.integers(-sensitivity, sensitivity)
    neighbours = [u + data.draw(moves) for u in utilities]
    mechanism = ExponentialMechanism(eta, -5, 5, max_outcomes=8)
    both = map(mechanism.probabilities, (utilities, neighbours))
    bound = (1 / eta.base) ** (2 * sensitivity)
    assert all(1 / bound <= p / q <= bound for p, q in zip(*both, strict=True))


@settings(max_examples=30)
@given(st.data())
def test_rounding_costs_the_sensitivity_rounded_up(data):
    quarters = st.fractions(-3, 3, max_denominator=4)
    utilities = data.draw(st.lists(quarters, min_size=1, max_size=4))
    sensitivity = data.draw(st.sampled_from([Fraction(1, 4), Fraction(1), Fraction(5, 4)]))
    moves = st.fractions(-sensitivity, sensitivity, max_denominator=4)
    neighbours = [u + data.draw(moves) for u in utilities]
    bound = 2 ** (2 * math.ceil(sensitivity))
    here, there = (mixture(Eta(1, 1, 1), scores) for scores in (utilities, neighbours))
    assert all(1 / bound <= here[i] / there[i] <= bound for i in here)


@given(st.sampled_from(SMALL_ETAS), st.integers(-20, 20), st.integers(0, 12), st.integers(1, 300))
def test_the_precision_suffices_and_is_tight(eta, lowest, span, outcomes):
    highest = lowest + span
    theoretical, empirical = (
        ExponentialMechanism(eta, lowest, highest, outcomes, precision=kind)
        for kind in ("theoretical", "empirical")
    )
    assert empirical.precision_bits <= theoretical.precision_bits
    # The worst case: one outcome at the far end, the others at the near one.
    worst, tape = [*[lowest] * (outcomes - 1), highest], InsecureSeededTape(1)
    assert 0 <= empirical.sample(worst, tape) < outcomes
    if outcomes > 1 and (span > 0 or outcomes % 2 == 1):
        empirical.__dict__["precision_bits"] -= 1
        with pytest.raises(InexactArithmeticError):
            empirical.sample(worst, tape)


def test_the_same_tape_gives_the_same_choice_whatever_the_options():
    utilities = [3, 1, 2, 2.5, 1]
    options = itertools.product((1, 4), ("theoretical", "empirical"))
    mechanisms = [ExponentialMechanism(Eta(1, 1, 1), 0, 9, 5, *some) for some in options]
    for tape in map(InsecureSeededTape, range(50)):
        assert len({mechanism.sample(utilities, tape) for mechanism in mechanisms}) == 1


def test_epsilon():
    mechanism = ExponentialMechanism(Eta(1, 1, 1), 0, 10, max_outcomes=3)
    assert mechanism.epsilon() == Eta(1, 1, 2).epsilon
    assert mechanism.epsilon(2.5) == mechanism.epsilon(3) == Eta(1, 1, 6).epsilon
    assert mechanism.epsilon(0) == 0
    for priced in (mechanism, ClampedLaplace(Eta(1, 1, 1), 0, 10)):
        with pytest.raises(ValueError, match="sensitivity must be finite and not negative"):
            priced.epsilon(-0.5)


GOOD = {"eta": Eta(1, 1, 1), "utility_min": 0, "utility_max": 10, "max_outcomes": 5}
test_bad_parameters_are_named = refused(
    lambda change: ExponentialMechanism(**(GOOD | change)),
    ({"eta": 0.5}, "eta must be an Eta"),
    *[({f"utility_{end}": 0.5}, f"utility_{end} must be an integer") for end in ("min", "max")],
    ({"utility_min": 11}, "must not be above utility_max"),
    ({"utility_min": -(2**63)}, r"between -2\*\*62"),
    ({"utility_max": 2**40}, "narrow the range"),
    *[({name: 0}, f"{name} must be at least 1") for name in ("max_outcomes", "min_retries")],
    ({"max_outcomes": True}, "max_outcomes must be an integer"),
    ({"precision": 128}, 'precision must be "theoretical" or "empirical"'),
)
FIVE = ExponentialMechanism(**GOOD)
test_bad_utilities = refused(
    lambda utilities: FIVE.sample(utilities, InsecureSeededTape(1)),
    *[([], "at least one outcome"), ([1] * 6, "more than max_outcomes=5")],
    *[(7, "utilities must be a sequence"), ([1, math.nan], "utilities must be finite")],
    ([1, "2"], "utilities must be real numbers, got one of type str"),
)
test_fractions_have_no_probabilities = refused(FIVE.probabilities, ([0.5], "integers"))


def test_all_numbers_below_the_total_are_as_likely_and_others_are_drawn_again():
    # The total just above a power of two is the worst case: nearly half of the draws are rejected.
    draws = [draw_below(9, InsecureSeededTape(seed), "c") for seed in range(5_000)]
    distributions.assert_follows([int(n) for n in draws], {n: Fraction(1, 9) for n in range(9)})
    for seed in range(99):  # a total that is a power of two rejects nothing
        tape = InsecureSeededTape(seed)
        assert draw_below(256, tape, "c") == tape.prefix("c", 0, 8)


@pytest.mark.thorough
def test_more_than_min_retries_draws_are_made_with_probability_below_two_to_the_minus_k():
    total, tape, calls = 2**20 + 1, InsecureSeededTape(3), 1_000
    rejection = 1 - Fraction(total, 2**21)
    for k in (1, 2, 4, 8):
        more = 0
        for i in range(calls):
            counted = mock.Mock(wraps=tape)
            draw_below(total, counted, f"{k} {i}", min_retries=k)
            assert counted.prefix.call_count >= k
            more += counted.prefix.call_count > k
        distributions.assert_probability(more, calls, rejection**k)


@pytest.mark.parametrize("value", [0.3, -10, 10, 9.9, -1e9, Fraction(22, 7)])
def test_the_distribution_of_a_clamped_number(value):
    laplace, tape = ClampedLaplace(Eta(3, 2, 1), -10, 10, granularity=0.25), InsecureSeededTape(1)
    draws = [laplace.release(value, tape, f"release {i}") for i in range(200)]
    points = [Fraction(i, 4) for i in range(-40, 41)]
    nearest = min(points, key=lambda point: (abs(point - Fraction(value)), -point))
    weights = [Fraction(3, 4) ** int(4 * abs(point - nearest)) for point in points]
    expected = {point: w / sum(weights) for point, w in zip(points, weights, strict=True)}
    assert laplace.distribution(value) == expected
    distributions.assert_follows(draws, expected)


def test_the_grid_starts_at_the_lower_bound_stays_within_the_upper_and_halves_go_up():
    laplace = ClampedLaplace(Eta(1, 1, 1), Decimal("0.1"), 1, granularity=Fraction(2, 5))
    assert list(laplace.distribution(0)) == [Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)]
    assert ClampedLaplace(Eta(1, 1, 1), 3, 3).distribution(0) == {Fraction(3): 1}
    distribution = ClampedLaplace(Eta(1, 1, 1), 0, 10).distribution(4.5)
    assert max(distribution, key=distribution.get) == 5


@given(
    st.fractions(-3, 13, max_denominator=50),
    st.fractions(0, 3, max_denominator=50),
    st.sampled_from([Fraction(1), Fraction(1, 3), Fraction(5, 2)]),
)
def test_a_clamped_number_is_within_epsilon(value, change, granularity):
    eta = Eta(5, 3, 1)
    laplace = ClampedLaplace(eta, 0, 10, granularity)
    steps = -(-change // granularity)
    here, there = laplace.distribution(value), laplace.distribution(value + change)
    bound = 1 / eta.base ** (2 * steps)
    assert all(1 / bound <= here[point] / there[point] <= bound for point in here)
    assert laplace.epsilon(change) == (Eta(5, 3, 2 * int(steps)).epsilon if steps else 0)


test_bad_grids = refused(
    lambda arguments: ClampedLaplace(Eta(1, 1, 1), *arguments),
    ((0, -1), "lower=0 must not be above upper=-1"),
    ((0, float("inf")), "upper must be a finite real number, got inf"),
    ((0, 1, 0), "granularity must be a positive finite number"),
    ((0, 1, 2.0**-40), "more than 2"),
    ((0, 1, 1, 0), "min_retries must be at least 1"),
)
test_bad_values_are_not_repeated = refused(
    lambda value: ClampedLaplace(Eta(1, 1, 1), 0, 1).release(value, InsecureSeededTape(1)),
    *((bad, r"^value must be a finite real number$") for bad in (math.nan, "1", None, True)),
)
