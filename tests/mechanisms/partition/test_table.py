from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_transforms.mechanisms import Eta, FrequencyList
from dp_transforms.mechanisms.enclosure import as_fraction
from dp_transforms.mechanisms.partition.table import PartitionTable
from tests import enumeration
from tests.cases import refused
from tests.statistical import distributions
from tests.tapes import InsecureSeededTape

TARGETS = [(), (1,), (3, 1), (2, 2, 2), (4, 3, 3, 1), (7, 0), (1, 1, 1, 1, 1)]
ETAS = [Eta(1, 1, 1), Eta(3, 2, 1), Eta(5, 3, 2), Eta(63, 6, 3)]
bounds = st.lists(st.integers(0, 5), min_size=0, max_size=5)


def exact_distribution(target, eta, upper, lower=()):
    lower = [*lower, *[0] * (len(upper) - len(lower))]
    return enumeration.distribution(
        as_fraction(eta.base),
        target,
        enumeration.partitions(len(upper), max(upper, default=0)),
        lambda y: all(low <= v <= high for low, v, high in zip(lower, y, upper, strict=True)),
    )


@settings(max_examples=150)
@given(st.sampled_from(TARGETS), st.sampled_from(ETAS), bounds, bounds)
def test_probabilities_are_those_of_the_definition(target, eta, upper, lower):
    lower = lower[: len(upper)]
    expected = exact_distribution(target, eta, upper, lower)
    if not expected:
        with pytest.raises(ValueError, match=r"no list is within|lower must be zero"):
            PartitionTable(enumeration.as_list(target), eta, upper, lower)
        return
    table = PartitionTable(enumeration.as_list(target), eta, upper, lower)
    assert {y: table.probability(y) for y in expected} == expected
    for released in map(enumeration.as_list, enumeration.partitions(2, 7)):
        assert table.probability(released) == expected.get(released, 0)


@settings(max_examples=60)
@given(st.sampled_from(TARGETS), st.sampled_from(ETAS), bounds)
def test_bias_marginals_and_distance(target, eta, upper):
    expected, private = exact_distribution(target, eta, upper), enumeration.as_list(target)
    table = PartitionTable(private, eta, upper)
    for rank, bias in enumerate(table.bias()):
        value = {y: y.at_ranks([rank + 1]).item() for y in (private, *expected)}
        assert bias == sum(p * value[y] for y, p in expected.items()) - value[private]
        distribution = Counter()
        for y, p in expected.items():
            distribution[value[y]] += p
        assert {v: p for v, p in table.marginal(rank).items() if p} == distribution
    assert table.expected_l1() == sum(p * y.l1_distance(private) for y, p in expected.items())


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("target", "upper", "lower", "eta"),
    [
        *[((3, 1), [4, 3, 2], [], ETAS[0]), ((2, 2, 2), [5, 2, 2, 1], [2, 1], ETAS[1])],
        *[((9,), [4, 4], [0, 0], ETAS[2]), ((2,), [], [], ETAS[0])],
    ],
)
def test_samples_follow_the_distribution(target, upper, lower, eta):
    table = PartitionTable(enumeration.as_list(target), eta, upper, lower)
    tape = InsecureSeededTape(1)
    samples = [table.sample(tape, f"sample {i}") for i in range(5_000)]
    distributions.assert_follows(samples, exact_distribution(target, eta, upper, lower))


def test_neighbouring_lists_are_within_twice_eta():
    eta, lists = Eta(3, 2, 2), list(enumeration.partitions(4, 4))
    tables = {x: PartitionTable(enumeration.as_list(x), eta, [5, 4, 3, 2]) for x in lists}
    outcomes = [enumeration.as_list(y) for y in enumeration.partitions(4, 2)]
    for here, there in enumeration.neighbours(lists):
        ratios = (tables[here].probability(y) / tables[there].probability(y) for y in outcomes)
        assert max(ratios) <= 1 / eta.base**2


TWO = FrequencyList([2], [1])
test_bad_bounds = refused(
    lambda upper, lower: PartitionTable(TWO, ETAS[0], upper, lower),
    ([2, -1], [], r"upper\[1\] must not be negative"),
    ([2.5], [], r"upper\[0\] must be an integer"),
    ([3, 1], [2, 2], "no list is within the bounds: rank 1 must be at least 2 and at most 1"),
    ([3], [1, 1], "lower must be zero"),
    ([10**6] * 100, [], "would not fit in memory"),
    (FrequencyList([1], [10**9]), [], "would not fit in memory"),
)
test_other_arguments_are_checked = refused(
    lambda private, eta, rank: PartitionTable(private, eta, [2, 2]).marginal(rank),
    ([1, 3], ETAS[0], 0, "must be a FrequencyList"),
    (FrequencyList(), 0.5, 0, r"eta must be an Eta, got 0\.5"),
    (TWO, ETAS[0], 2, "rank must be between 0 and 1"),
)
