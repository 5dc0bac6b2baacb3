import pytest

from dp_transforms.mechanisms import Eta, FrequencyList, PartitionBounds, partition_mechanism
from dp_transforms.mechanisms.partition.registry import (
    MECHANISMS,
    REGISTRY,
    with_largest_count,
)
from dp_transforms.releases import ListRelease, ListSpec
from tests.cases import refused


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ({"epsilon": 1.0987}, "GeometricPartitionMechanism"),
        ({"epsilon": 1.0986}, "FrobeniusMechanism"),
        ({"epsilon": 3.3, "sensitivity": 3}, "GeometricPartitionMechanism"),
        ({"epsilon": 3.2, "sensitivity": 3}, "FrobeniusMechanism"),
        ({"eta": Eta(1, 2, 1)}, "GeometricPartitionMechanism"),
        ({"eta": Eta(1, 1, 1)}, "FrobeniusMechanism"),
        ({"epsilon": 8, "mechanism": "exponential"}, "IntegerPartitionMechanism"),
    ],
    ids=str,
)
def test_the_choice(arguments, kind):
    for bounds in (None, PartitionBounds.of_total(9)):
        chosen = partition_mechanism(**arguments, bounds=bounds)
        assert type(chosen).__name__ == kind and chosen.bounds == bounds


@pytest.mark.parametrize("largest", [1, 2**20, 2**40, 10**30])
def test_a_largest_count_of_any_size_makes_a_mechanism(largest):
    for epsilon in (0.5, 4):
        mechanism = with_largest_count(partition_mechanism(epsilon), largest)
        released = mechanism.release(FrequencyList([1], [30]))
        if mechanism.decodes:
            assert released.frequencies.max() <= largest


def test_the_registry_names_each_mechanism_once():
    # A statement names the mechanism by its title, from which intervals are computed.
    titles = {mechanism.title for mechanism in REGISTRY.values()}
    assert len(titles) == len(REGISTRY) == len(MECHANISMS) - 1


@pytest.mark.parametrize("kind", REGISTRY.values(), ids=REGISTRY)
def test_lists_of_every_mechanism_have_intervals(kind):
    # Pages, lists of groups, and lists of periods show them. They would fail after a release.
    mechanism = kind(epsilon=4)
    release = ListRelease(
        mechanism.release(FrequencyList([9, 2], [1, 5])), ListSpec(mechanism).statement(None)
    )
    assert release.why_without_intervals == ""
    assert release.total().low <= release.released.total <= release.total().high


test_bad_choices_are_named = refused(
    lambda arguments: partition_mechanism(**arguments),
    ({"epsilon": 1, "mechanism": "laplace"}, f"one of {', '.join(MECHANISMS)}, got 'laplace'"),
    ({"epsilon": 1, "mechanism": "geometric"}, r"raise epsilon to 1\.0987"),
    ({}, "give epsilon or eta"),
)
