"""Texts from which random numbers are derived: equal in every version, and with every parameter."""

import dataclasses
from typing import ClassVar

import pytest

from dp_transforms.mechanisms import (
    DiscreteLaplace,
    DistanceBoundedPartitionMechanism,
    Eta,
    ExactTotalMechanism,
    FrequencyList,
    FrobeniusMechanism,
    GaussianSelection,
    GeometricPartitionMechanism,
    IntegerPartitionMechanism,
    LaplaceSelection,
    MeasuredSelection,
    OptimalSelection,
    PartitionBounds,
    RenyiRoundsSelection,
    TruncatedGeometricSelection,
    TwoSidedGeometric,
)
from dp_transforms.mechanisms.identifier import identifier
from dp_transforms.mechanisms.partition.registry import REGISTRY
from dp_transforms.mechanisms.selection.choice import STRATEGIES
from dp_transforms.mechanisms.user_degrees import UserDegreeMechanism

BOUNDS = PartitionBounds(upper=FrequencyList([3], [2]))
NAMED = {"max_partitions_per_user": 2, "pre_threshold": 3, "neighbours": "replace"}
OF_NAMES = "epsilon=1.0, delta=1e-05, max_partitions_per_user=2, pre_threshold=3, neighbours='repla"
PINNED = [
    (
        IntegerPartitionMechanism(0.5, 2, bounds=BOUNDS),
        "IntegerPartitionMechanism(epsilon=0.5, sensitivity=2, eta=None, bounds=<PartitionBounds "
        "912a246d6d623bc54a90e08213c39b7d5fd4e23eb1a02d292bb4d146892f308e>)",
    ),
    (
        GeometricPartitionMechanism(eta=Eta(1, 3, 2)),
        "GeometricPartitionMechanism(epsilon=None, sensitivity=1, eta=Eta(x=1, y=3, z=2), "
        "bounds=None)",
    ),
    (
        FrobeniusMechanism("1/3", max_total=70),
        "FrobeniusMechanism(epsilon=Fraction(1, 3), sensitivity=1, eta=None, bounds=None, "
        "max_total=70)",
    ),
    (
        ExactTotalMechanism(1, 3, total=9),
        "ExactTotalMechanism(epsilon=1.0, sensitivity=3, eta=None, total=9)",
    ),
    (
        DistanceBoundedPartitionMechanism(1, max_total=100, distance=200),
        "DistanceBoundedPartitionMechanism(epsilon=1.0, sensitivity=1, eta=None, max_total=100, "
        "delta=2.8177610738589015e-22, distance=200)",
    ),
    (UserDegreeMechanism(0.1), "UserDegreeMechanism(epsilon=0.1, max_degree=1000)"),
    (DiscreteLaplace("1/3"), "DiscreteLaplace(scale=Fraction(1, 3))"),
    (TwoSidedGeometric(Eta(1, 1, 1)), "TwoSidedGeometric(eta=Eta(x=1, y=1, z=1))"),
    (
        OptimalSelection(1, 1e-5, **NAMED),
        f"OptimalSelection({OF_NAMES}ce', composition='tight')",
    ),
    (
        TruncatedGeometricSelection(1, 1e-5, **NAMED),
        f"TruncatedGeometricSelection({OF_NAMES}ce', composition='tight')",
    ),
    (
        LaplaceSelection(1, 1e-5, **NAMED),
        f"LaplaceSelection({OF_NAMES}ce', composition='tight')",
    ),
    (GaussianSelection(1, 1e-5, **NAMED), f"GaussianSelection({OF_NAMES}ce')"),
    (
        RenyiRoundsSelection(1, 1e-5, **NAMED),
        f"RenyiRoundsSelection({OF_NAMES}ce', number_of_rounds=3, growth=16)",
    ),
    (
        MeasuredSelection(1, 1e-5, **NAMED),
        f"MeasuredSelection({OF_NAMES}ce', counted=False, declared=True)",
    ),
]


@pytest.mark.parametrize(("mechanism", "text"), PINNED, ids=[type(m).__name__ for m, _ in PINNED])
def test_a_mechanism_has_the_text_that_it_always_had(mechanism, text):
    assert identifier(mechanism) == text


def test_all_mechanisms_that_releases_name_are_pinned():
    pinned = {type(mechanism) for mechanism, _ in PINNED}
    missing = {*REGISTRY.values(), *STRATEGIES.values()} - pinned
    assert not missing, "give each of these a line of PINNED, with its text from now on"
    assert all("stable_name" in vars(kind) for kind in pinned)


def test_a_class_can_be_renamed():
    renamed = type("Renamed", (FrobeniusMechanism,), {"stable_name": "FrobeniusMechanism"})
    assert identifier(renamed(1)) == identifier(FrobeniusMechanism(1)) != repr(renamed(1))


def test_another_mechanism_never_has_the_text_of_its_base():
    @dataclasses.dataclass(frozen=True)
    class Wider(FrobeniusMechanism):
        wider: int = 2

    class Other(FrobeniusMechanism):
        pass

    assert len({identifier(kind(1)) for kind in (Wider, Other, FrobeniusMechanism)}) == 3
    assert identifier(Wider(1, wider=3)) != identifier(Wider(1, wider=2))


def test_values_are_written_by_their_stable_names():
    @dataclasses.dataclass(frozen=True)
    class Renamed(Eta):
        stable_name: ClassVar[str] = "Eta"

    @dataclasses.dataclass(frozen=True)
    class Holder:
        eta: Eta

    text = identifier(Holder(Renamed(1, 1, 1)))
    assert text.endswith("Holder(eta=Eta(x=1, y=1, z=1))") and "Renamed" not in text


def test_what_is_no_dataclass_is_written_by_its_repr():
    class Own:
        def __repr__(self):
            return "Own(scale=3)"

    assert identifier(Own()) == "Own(scale=3)"
