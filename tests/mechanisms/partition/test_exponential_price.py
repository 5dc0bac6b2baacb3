import itertools
import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_transforms.evaluation import exact_partition_epsilon
from dp_transforms.mechanisms import Eta, FrequencyList, IntegerPartitionMechanism, PartitionBounds
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.enclosure import as_fraction
from dp_transforms.mechanisms.partition.exponential import rate_of, unit_cost
from tests import enumeration
from tests.cases import refused
from tests.geometric_reference import rational_decay


def number(value):
    return mpmath.mpf(value.numerator) / value.denominator


def price(rate):
    """c + ln R(c), in another arithmetic and with phi as a product."""
    c = number(rate)
    return c + mpmath.log(mpmath.exp(c) - mpmath.qp(mpmath.exp(-c)) * 2 * mpmath.sinh(c))


@pytest.mark.thorough
@settings(max_examples=25)
@given(st.fractions(Fraction(1, 100), 60, max_denominator=1000))
def test_the_rate_costs_no_more_than_epsilon_and_nearly_as_much(epsilon):
    rate = rate_of(epsilon)
    # At small rates phi is as small as 1e-143.
    with mpmath.workdps(200):
        assert price(rate) <= number(epsilon)
        cost = as_fraction(unit_cost(Decay(rate)).upper)
        assert price(rate) <= number(cost) * (1 + mpmath.mpf("1e-50"))
        if epsilon > Fraction(1, 4):
            assert price(rate * (1 + Fraction(1, 10**12))) > number(epsilon)
        else:
            assert rate == epsilon / 2


@pytest.mark.parametrize(
    ("epsilon", "rate"), [(1, 0.568526), (2, 1.7237), (4, 3.963), (8, 7.99933), (0.6, 0.304776)]
)
def test_rates_worked_out_elsewhere(epsilon, rate):
    mechanism = IntegerPartitionMechanism(epsilon)
    assert mechanism.rate == pytest.approx(rate, abs=6e-5)
    for max_partitions, bounds in itertools.product((1, 3), (None, PartitionBounds.of_total(9))):
        price = Fraction(str(epsilon)) * max_partitions
        other = IntegerPartitionMechanism(price, max_partitions, bounds=bounds)
        assert other.decay == mechanism.decay


@pytest.mark.parametrize("q", [Fraction(9, 10), Fraction(3, 5), Fraction(3, 10)], ids=str)
def test_ratios_between_walls_are_within_the_price(q):
    """For all neighbours in boxes of 3 by 4; the price is that of all lists, so it is not met."""
    limit = math.exp(float(unit_cost(rational_decay(q)).upper))
    outcomes = list(enumeration.partitions(3, 4))
    distribution = {f: enumeration.distribution(q, f, iter(outcomes)) for f in outcomes}
    worst = max(
        max(p / distribution[g][x] for x, p in distribution[f].items())
        for f, g in enumeration.neighbours(outcomes)
    )
    assert worst <= limit
    # A smaller q needs less room: then the walls hardly matter.
    assert q > Fraction(1, 2) or worst > 0.97 * limit


@pytest.mark.parametrize("eta", [Eta(1, 1, 1), Eta(3, 2, 1), Eta(1, 2, 1)], ids=str)
def test_the_empty_list_and_one_user_meet_the_price(eta):
    mechanism = IntegerPartitionMechanism(eta=eta)
    exact = exact_partition_epsilon(mechanism, FrequencyList(), FrequencyList([1], [1]))
    assert exact == pytest.approx(mechanism.epsilon_cost, rel=1e-13)


test_bad_parameters_are_named = refused(
    lambda arguments: IntegerPartitionMechanism(**arguments),
    *[({"epsilon": e}, "epsilon") for e in (0, -1.0, math.nan, math.inf, 1e-12, "a tenth")],
    *[({"epsilon": e}, "must be at most 65536") for e in (2**16 + 1, 4e8, 1e300)],
    *[({"epsilon": 1.0, "sensitivity": s}, "sensitivity") for s in (0, 1.5)],
    ({"epsilon": 1.0, "eta": Eta(1, 1, 1)}, "eta, not both"),
    ({"sensitivity": 2}, "give epsilon or eta: what a release costs has no default"),
)
