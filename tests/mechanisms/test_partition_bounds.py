import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dp_transforms.mechanisms import FrequencyList, PartitionBounds
from tests.cases import refused
from tests.enumeration import as_list, l1_distance, partitions, partitions_of_at_most

RANKS, LARGEST = 4, 5
ALL = [tuple(x) for x in partitions(RANKS, LARGEST)]
entries = st.tuples(*[st.integers(0, LARGEST)] * RANKS)
small_lists = st.sampled_from(list(partitions_of_at_most(9)))


def values_of(values, ranks):
    frequencies = values if isinstance(values, FrequencyList) else as_list(values)
    return frequencies.at_ranks(np.arange(1, ranks + 1)).tolist()


@given(entries, entries, small_lists)
def test_the_closure_is_tight_and_the_nearest_list_is_the_nearest(lower, upper, private):
    kept = [x for x in ALL if all(a <= v <= b for a, v, b in zip(lower, x, upper, strict=True))]
    if not kept:
        with pytest.raises(ValueError, match="no list lies between"):
            PartitionBounds.of_runs(lower, upper, [1] * RANKS)
        return
    bounds = PartitionBounds.of_runs(lower, upper, [1] * RANKS)
    assert [x for x in ALL if bounds.contain(as_list(x))] == kept
    assert values_of(bounds.lower, RANKS) == np.min(kept, axis=0).tolist()
    assert values_of(bounds.upper, RANKS) == np.max(kept, axis=0).tolist()
    nearest = bounds.nearest(as_list(private))
    assert bounds.contain(nearest)
    assert nearest.l1_distance(as_list(private)) == min(l1_distance(x, private) for x in kept)


@given(st.integers(0, 10**8))
@example(0)
def test_of_total_is_the_quotient_at_every_rank(total):
    """The i-th value is at most total / i, since those before it are no less."""
    bounds = PartitionBounds.of_total(total)
    assert bounds == PartitionBounds(upper=bounds.upper)
    ends = bounds.upper.multiplicities.cumsum()
    assert bounds.upper.distinct == total
    for ranks in (ends - bounds.upper.multiplicities + 1, ends):
        assert (total // ranks == bounds.upper.frequencies).all()


@given(small_lists, st.integers(0, 6))
@settings(max_examples=50)
def test_within_distance_is_what_lists_in_the_ball_reach(reference, distance):
    ball = [
        values_of(x, 16)
        for x in partitions_of_at_most(sum(reference) + distance)
        if l1_distance(x, reference) <= distance
    ]
    bounds = PartitionBounds.within_distance(as_list(reference), distance)
    assert values_of(bounds.upper, 16) == np.max(ball, axis=0).tolist()
    assert values_of(bounds.lower, 16) == np.min(ball, axis=0).tolist()


@given(small_lists, st.integers(0, 3), small_lists)
def test_around_is_a_width_at_every_rank(reference, width, other):
    bounds = PartitionBounds.around(as_list(reference), width)
    gaps = np.abs(np.subtract(*(values_of(x, 10) for x in (reference, other))))
    assert bounds.contain(as_list(other)) == (gaps.max() <= width)


@given(small_lists, small_lists, st.integers(0, 3), st.integers(0, 2))
def test_unbounded_ranks_come_first_and_beyond_last(other, upper, unbounded, beyond):
    upper = [value for value in upper if value >= beyond]
    bounds = PartitionBounds(upper=as_list(upper), unbounded_ranks=unbounded, beyond=beyond)
    limits = [10**6] * unbounded + [*upper] + [beyond] * 20
    expected = tuple(map(min, other, limits))
    assert bounds.contain(as_list(other)) == (expected == other)
    assert bounds.nearest(as_list(other)) == as_list(expected)


test_bad_bounds_are_refused_by_name = refused(
    lambda make: make(),
    (lambda: PartitionBounds(beyond=-1), "beyond must be between 0"),
    (lambda: PartitionBounds(unbounded_ranks=2.5), "unbounded_ranks must be an integer"),
    (lambda: PartitionBounds(upper=as_list([5, 2]), beyond=3), "not fall below beyond = 3"),
    (lambda: PartitionBounds(as_list([5, 4, 4]), as_list([5, 5, 3])), "above upper at rank 3"),
    (lambda: PartitionBounds.of_total(-1), "total must be between 0 and 2"),
    (lambda: PartitionBounds.around(FrequencyList(), -1), "width must be between 0 and 2"),
    (lambda: PartitionBounds.within_distance(FrequencyList(), -2), "distance must not be"),
    (lambda: PartitionBounds.of_runs([1], [2], [1, 1]), "must be equally long"),
    (lambda: PartitionBounds.of_runs([0, -1], [2, 2], [1, 1]), r"lower\[1\] must be between"),
    (lambda: PartitionBounds.of_runs([0], [2.5], [1]), r"upper\[0\] must be an integer"),
)
