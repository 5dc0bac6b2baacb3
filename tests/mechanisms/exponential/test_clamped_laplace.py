"""Clamped discrete Laplace: law, privacy ratio, grid, and errors."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_transforms.mechanisms import Eta
from dp_transforms.mechanisms.exponential.clamped_laplace import ClampedLaplace
from dp_transforms.mechanisms.randomness import InsecureSeededTape
from tests.cases import slow_unless
from tests.statistical import laws


@pytest.mark.parametrize("value", slow_unless([0.3, -10, 10, 9.9, -1e9, Fraction(22, 7)], [-10]))
def test_law(value):
    laplace = ClampedLaplace(Eta(3, 2, 1), -10, 10, granularity=0.25)
    tape = InsecureSeededTape(1)
    draws = [laplace.release(value, tape, f"release {i}") for i in range(10_000)]
    clamped = min(max(Fraction(value), -10), 10)
    near = min((abs(point - clamped), -point) for point in laplace.law(value))
    weights = {
        point: Fraction(3, 4) ** int(4 * abs(point + near[1])) for point in laplace.law(value)
    }
    expected = {point: weight / sum(weights.values()) for point, weight in weights.items()}
    assert laplace.law(value) == expected
    laws.assert_follows(draws, expected)


def test_the_grid_starts_at_the_lower_bound_and_stays_within_the_upper():
    laplace = ClampedLaplace(Eta(1, 1, 1), Decimal("0.1"), 1, granularity=Fraction(2, 5))
    assert list(laplace.law(0)) == [Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)]
    assert ClampedLaplace(Eta(1, 1, 1), 3, 3).law(0) == {Fraction(3): 1}


def test_halves_go_up():
    law = ClampedLaplace(Eta(1, 1, 1), 0, 10).law(4.5)
    assert max(law, key=law.get) == 5


@settings(deadline=None)
@given(
    st.fractions(-3, 13, max_denominator=50),
    st.fractions(0, 3, max_denominator=50),
    st.sampled_from([Fraction(1), Fraction(1, 3), Fraction(5, 2)]),
)
def test_neighbours(value, change, granularity):
    eta = Eta(5, 3, 1)
    laplace = ClampedLaplace(eta, 0, 10, granularity)
    steps = -(-change // granularity)
    here, there = laplace.law(value), laplace.law(value + change)
    for point in here:
        assert eta.base ** (2 * steps) <= here[point] / there[point] <= 1 / eta.base ** (2 * steps)
    assert laplace.epsilon(change) == (Eta(5, 3, 2 * int(steps)).epsilon if steps else 0)


def test_the_same_tape_gives_the_same_release():
    laplace = ClampedLaplace(Eta(1, 1, 1), 0, 100, min_retries=3)
    plain = ClampedLaplace(Eta(1, 1, 1), 0, 100)
    for seed in range(20):
        tape = InsecureSeededTape(seed)
        assert laplace.release(50, tape) == plain.release(50, tape)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ((0, -1), "lower=0 must not be above upper=-1"),
        ((0, float("inf")), "upper must be a finite real number, got inf"),
        ((float("nan"), 1), "lower must be a finite real number, got nan"),
        ((0, 1, 0), "granularity must be a positive finite number"),
        ((0, 1, 2.0**-40), "more than 2"),
        ((0, 1, 1, 0), "min_retries must be at least 1"),
    ],
)
def test_bad_parameters(arguments, match):
    with pytest.raises(ValueError, match=match):
        ClampedLaplace(Eta(1, 1, 1), *arguments)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "1", None, True])
def test_bad_values_are_not_repeated(value):
    with pytest.raises(ValueError, match=r"^value must be a finite real number$"):
        ClampedLaplace(Eta(1, 1, 1), 0, 1).release(value, InsecureSeededTape(1))
