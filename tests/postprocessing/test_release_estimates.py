"""Estimates from a release alone: where they must be right, and how much of a bias they take."""

import math

import numpy as np
import pytest

from dp_transforms.mechanisms import (
    FrequencyList,
    GeometricPartitionMechanism,
    IntegerPartitionMechanism,
)
from dp_transforms.mechanisms.randomness import InsecureSeededTape
from dp_transforms.postprocessing.frequency_intervals import distinct_interval
from dp_transforms.postprocessing.release_estimates import ReleaseEstimates
from tests import enumeration
from tests.row_law import RowLaw

MECHANISM = IntegerPartitionMechanism(epsilon=1)


@pytest.mark.parametrize("released", [(), (3, 1), (9, 9, 4, 1, 1, 1)], ids=str)
def test_estimates_are_the_laws_at_the_released_list(released):
    rows = RowLaw(released, math.exp(-MECHANISM.law.rate), 160)
    estimates = ReleaseEstimates(enumeration.as_list(released), MECHANISM)
    assert estimates.l1 == pytest.approx(rows.expected_l1)
    padded = np.array([*released, *[0] * (160 - len(released))])
    bias = rows.marginals @ np.arange(161) - padded
    np.testing.assert_allclose(estimates.bias(range(1, 30)), bias[:29], atol=1e-10)
    length = sum(k * p for k, p in rows.of_length().items())
    distinct = estimates.distinct()
    expected = max(2 * len(released) - length, distinct.lower)
    assert distinct.value == pytest.approx(expected)
    total = estimates.total()
    assert total.value == pytest.approx(max(sum(released) - bias.sum(), 0), abs=1e-6)


def test_the_interval_of_the_number_of_items_is_the_proven_one():
    released = FrequencyList([50, 3], [2, 100])
    found = ReleaseEstimates(released, MECHANISM).distinct(0.9)
    assert (found.lower, found.upper) == distinct_interval(released, MECHANISM.law, 0.9)
    assert found.lower <= found.value <= found.upper


def test_an_isolated_corner_has_no_bias():
    """The last of many singletons moves up and down alike, and so does a single large item."""
    estimates = ReleaseEstimates(FrequencyList([10**5, 1], [1, 10**5]), MECHANISM)
    assert estimates.distinct().value == pytest.approx(10**5 + 1, abs=1e-6)
    assert estimates.bias([1])[0] == pytest.approx(0, abs=1e-9)


@pytest.mark.slow
def test_a_part_of_the_bias_is_taken_out_and_totals_are_covered():
    """Seeded; for another seed each assertion fails with probability below 1e-3."""
    private, count = FrequencyList([40, 5], [30, 500]), 60
    mechanism = IntegerPartitionMechanism(epsilon=1)
    released = mechanism.release_many(private, count, map(InsecureSeededTape, range(count)))
    estimates = [ReleaseEstimates(x, mechanism) for x in released]
    raw = np.mean([x.distinct - private.distinct for x in released])
    corrected = np.mean([e.distinct().value - private.distinct for e in estimates])
    # 2.3 and 0.8 in the long run, with a standard error of 0.4.
    assert abs(corrected) < raw - 0.3
    totals = [e.total() for e in estimates]
    assert sum(t.lower <= private.total <= t.upper for t in totals) >= 0.8 * count


def test_totals_of_geometric_releases_are_covered():
    """Seeded; 20 of 20 with a probability of 0.36, fewer than 15 with one of 3e-4."""
    private, count = FrequencyList([40, 5, 4, 3], [30, 5, 1, 50]), 20
    mechanism = GeometricPartitionMechanism(epsilon=1.2)
    released = mechanism.release_many(private, count, map(InsecureSeededTape, range(count)))
    totals = [ReleaseEstimates(x, mechanism).total() for x in released]
    assert sum(t.lower <= private.total <= t.upper for t in totals) >= 15


def test_too_small_rates_are_named():
    with pytest.raises(ValueError, match="epsilon"):
        ReleaseEstimates(FrequencyList(), IntegerPartitionMechanism(epsilon=0.003))


def test_bad_confidences_are_named():
    estimates = ReleaseEstimates(FrequencyList(), MECHANISM)
    for asked in (estimates.total, estimates.distinct):
        with pytest.raises(ValueError, match="confidence"):
            asked(1.0)
