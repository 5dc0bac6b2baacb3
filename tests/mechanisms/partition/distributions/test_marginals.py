"""Marginals of the walk against a dynamic program over rows, enumeration, and means of releases."""

import math

import numpy as np
import pytest

from dp_transforms import sample_data
from dp_transforms.mechanisms import FrequencyList, IntegerPartitionMechanism
from dp_transforms.mechanisms.partition.distributions.marginals import (
    IntegerDistribution,
    Marginals,
    conjugate,
)
from dp_transforms.mechanisms.partition.distributions.walk_sums import WalkSums, window_for
from dp_transforms.mechanisms.partition.walk.walk import Blocks
from dp_transforms.mechanisms.randomness import InsecureSeededTape
from tests import enumeration
from tests.row_distribution import RowDistribution

LISTS = [
    (),
    (1,),
    (3, 1),
    (2, 2, 2),
    (9, 9, 9, 4, 4, 1, 1, 1, 1, 1),
    (30,),
    (1,) * 30,
    (12,) * 12,
    (40, 7, 7, 7, 7, 7, 7, 2),
    (8, 7, 6, 5, 4, 3, 2, 1),
]
RATES = [0.2, 0.5, 2.0]
EXACT = {"rtol": 1e-9, "atol": 1e-11}


def reach(rate):
    return int(60 / rate) + 50


def table(distribution, size):
    """P(X = 0), ..., P(X = size - 1)."""
    found = np.zeros(max(size, distribution.least + len(distribution.probabilities)))
    found[distribution.least : distribution.least + len(distribution.probabilities)] = (
        distribution.probabilities
    )
    assert found[size:].sum() < 1e-12
    return found[:size]


def names(private):
    return f"{private[:5]}x{len(private)}"


@pytest.mark.parametrize(
    ("private", "rate"), [(private, RATES[i % len(RATES)]) for i, private in enumerate(LISTS)]
)
def test_distributions_and_bias_are_those_of_the_rows(private, rate):
    rows = RowDistribution(private, math.exp(-rate), reach(rate))
    marginals = Marginals(enumeration.as_list(private), rate)
    for rank in (1, 2, 3, 5, 8, 12, 13, 30, 31, 45):
        distribution = marginals.distribution_of_frequency(rank)
        assert distribution.least >= 0
        np.testing.assert_allclose(
            table(distribution, reach(rate) + 1), rows.marginals[rank - 1], **EXACT
        )
    lengths = list(rows.of_length().values())
    np.testing.assert_allclose(
        table(marginals.distribution_of_distinct(), len(lengths)), lengths, **EXACT
    )
    padded = np.array([*private, *[0] * (reach(rate) - len(private))])
    bias = rows.marginals @ np.arange(reach(rate) + 1) - padded
    np.testing.assert_allclose(marginals.mean_differences(np.arange(1, 46)), bias[:45], **EXACT)
    ranges = [(0, 3), (3, 4), (4, 17), (17, 45)]
    means = [bias[start:end].mean() for start, end in ranges]
    np.testing.assert_allclose(marginals.mean_differences([3, 4, 17, 45]), means, **EXACT)
    assert marginals.total_difference == pytest.approx(bias.sum(), rel=1e-9, abs=1e-11)


@pytest.mark.parametrize(
    "rate", [pytest.param(1 / 256, marks=pytest.mark.slow), 0.02, 0.1, 0.5, 4.0]
)
def test_the_window_holds_the_walk_at_the_largest_corner(rate):
    """There |D| follows q**(d**2) / (q; q)_d**2."""
    window = window_for(rate)
    marginals = Marginals(FrequencyList([10**7], [10**7]), rate)
    states = np.arange(1, 2 * window)
    logarithm = -rate * states**2 - 2 * np.cumsum(np.log(-np.expm1(-rate * states)))
    distribution = np.exp(np.append(0, logarithm) - max(0, logarithm.max()))
    distribution /= distribution.sum()
    assert distribution[window + 1 :].sum() < 1e-20
    # What is missing at the corner is an unrestricted partition; its largest part is below j with
    # the probability prod_{i >= j} (1 - q**i).
    smallest = marginals.distribution_of_frequency(10**7)
    for drop in (1, 3, 10):
        parts = np.exp(-rate * np.arange(drop, 100 / rate))
        not_below = smallest.probabilities[10**7 - drop + 1 - smallest.least :].sum()
        expected = np.prod(1 - parts)
        assert not_below == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.slow
def test_expectations_on_rockyou_are_those_of_releases():
    """Seeded; for another seed this fails with probability below 1e-2."""
    private, count = sample_data.rockyou(), 100
    mechanism = IntegerPartitionMechanism(epsilon=1)
    marginals = Marginals(private, mechanism.rate)
    tapes = map(InsecureSeededTape, range(count))
    released = mechanism.release_many(private, count, tapes)
    ends = np.array([1, 100, 1_000, 10_000, 1_000_000, private.distinct])

    def sums(frequency_list):
        """The sums over the first ranks."""
        counts = frequency_list.multiplicities
        last = np.minimum(np.cumsum(counts)[None, :], ends[:, None])
        widths = np.diff(last, axis=1, prepend=0)
        return widths @ frequency_list.frequencies

    moved = np.diff([sums(x) - sums(private) for x in released], axis=1, prepend=0)
    expected = marginals.mean_differences(ends) * np.diff(ends, prepend=0)
    error = moved.std(axis=0, ddof=1) / count**0.5
    assert (np.abs(moved.mean(axis=0) - expected) < 4 * error).all()
    for distribution, values in (
        (marginals.distribution_of_frequency(1), [int(x.frequencies[0]) for x in released]),
        (marginals.distribution_of_frequency(1_000), [value_at(x, 1_000) for x in released]),
        (marginals.distribution_of_distinct(), [x.distinct for x in released]),
    ):
        deviation = distribution.variance**0.5
        assert abs(np.mean(values) - distribution.mean) < 4 * deviation / count**0.5
        assert np.std(values) == pytest.approx(deviation, rel=0.3)


def value_at(frequency_list, rank):
    run = np.searchsorted(np.cumsum(frequency_list.multiplicities), rank)
    return int(frequency_list.frequencies[run])


def test_ranges_in_run_length_form_add_up():
    private = FrequencyList([9000, 800, 7, 6, 5, 2, 1], [1, 2, 30, 4, 500, 60, 7000])
    marginals = Marginals(private, 0.5)
    ends = np.cumsum(private.multiplicities)
    ends = np.append(ends, ends[-1] + 1000)
    by_run = marginals.mean_differences(ends)
    assert by_run @ np.diff(ends, prepend=0) == pytest.approx(marginals.total_difference)
    assert by_run[-1] > 0


def test_the_total_weight_is_that_of_the_rows():
    for private in LISTS:
        sums = WalkSums(0.5, 0.5, window_for(0.5))
        found = sums.log_total(Blocks.of(enumeration.as_list(private)))
        exact = math.log(RowDistribution(private, math.exp(-0.5), reach(0.5)).total)
        assert found == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("private", LISTS, ids=names)
def test_conjugates_count_the_items_of_each_frequency_and_more(private):
    found = conjugate(enumeration.as_list(private))
    at_least = [sum(v >= j for v in private) for j in range(1, max(private, default=0) + 1)]
    assert found == enumeration.as_list(at_least)
    assert conjugate(found) == enumeration.as_list(private)


def test_bad_arguments_are_named():
    marginals = Marginals(FrequencyList([5], [2]), 0.5)
    with pytest.raises(ValueError, match="ends"):
        marginals.mean_differences([3, 3])
    with pytest.raises(ValueError, match="ends"):
        marginals.mean_differences([0])
    with pytest.raises(ValueError, match="rank"):
        marginals.distribution_of_frequency(0)
    with pytest.raises(ValueError, match="sensitivity"):
        Marginals(FrequencyList(), 0.001)


def test_quantiles():
    distribution = IntegerDistribution(-1, np.array([0.25, 0.5, 0.25]))
    assert [distribution.quantile(level) for level in (0.1, 0.25, 0.26, 0.75, 0.76)] == [
        -1,
        -1,
        0,
        0,
        1,
    ]
    assert (distribution.mean, distribution.variance, distribution.probability(2)) == (0, 0.5, 0)
    for level in (0, 1):
        with pytest.raises(ValueError, match="level"):
            distribution.quantile(level)
