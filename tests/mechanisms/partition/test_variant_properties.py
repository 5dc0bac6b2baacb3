"""Every release of every variant is a possible one, whatever the list."""

from hypothesis import given, settings
from hypothesis import strategies as st

from dp_transforms.mechanisms import (
    DistanceBoundedPartitionMechanism,
    ExactTotalMechanism,
    IntegerPartitionMechanism,
    MaximumTotalMechanism,
    PartitionBounds,
)
from tests.list_strategies import frequency_lists
from tests.tapes import InsecureSeededTape

epsilons = st.sampled_from([0.05, 0.3, 1.0, 4.0])
tapes = st.integers(0, 10**6).map(InsecureSeededTape)
few = settings(deadline=None, max_examples=15)


@few
@given(frequency_lists(), frequency_lists(), st.integers(0, 40), epsilons, tapes)
def test_between_bounds_around_another_list(private, reference, width, epsilon, tape):
    for bounds in (
        PartitionBounds.around(reference, width),
        PartitionBounds.within_distance(reference, width),
        PartitionBounds(upper=reference, unbounded_ranks=width),
    ):
        released = IntegerPartitionMechanism(bounds=bounds, epsilon=epsilon).release(private, tape)
        assert bounds.contain(released)


@few
@given(frequency_lists(), st.integers(1, 10**6), epsilons, tapes)
def test_between_bounds_from_a_total(private, total, epsilon, tape):
    bounds = PartitionBounds.of_total(total % 3000)
    released = IntegerPartitionMechanism(bounds=bounds, epsilon=epsilon).release(private, tape)
    assert bounds.contain(released)


@settings(deadline=None, max_examples=8)
@given(frequency_lists(1000), st.integers(0, 500), st.sampled_from([1.0, 4.0]), tapes)
def test_within_a_distance(private, extra, epsilon, tape):
    mechanism = DistanceBoundedPartitionMechanism(
        max_total=private.total + extra, delta=1e-6, epsilon=epsilon
    )
    released = mechanism.release(private, tape)
    bounds = PartitionBounds.within_distance(private, mechanism.distance)
    assert bounds.contain(released)


@settings(deadline=None, max_examples=8)
@given(frequency_lists(1000), st.integers(-3, 3), st.sampled_from([1.0, 4.0]), tapes)
def test_of_a_total(private, difference, epsilon, tape):
    total = max(private.total + difference, 0)
    exact = ExactTotalMechanism(total=total, epsilon=3 * epsilon, sensitivity=3)
    assert exact.release(private, tape).total == total
    most = MaximumTotalMechanism(max_total=total, epsilon=3 * epsilon, sensitivity=3)
    assert most.release(private, tape).total <= total
