"""Exact mechanisms for one machine: pure Python, numpy and gmpy2. Imports no Beam and no Arrow."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dp_transforms.mechanisms.eta import Eta as Eta
from dp_transforms.mechanisms.frequency_list import FrequencyList as FrequencyList
from dp_transforms.mechanisms.noise.discrete_noise import DiscreteLaplace as DiscreteLaplace
from dp_transforms.mechanisms.noise.discrete_noise import TwoSidedGeometric as TwoSidedGeometric
from dp_transforms.mechanisms.noisy_coordinates import NoisyCoordinates as NoisyCoordinates
from dp_transforms.mechanisms.partition.distance_bounded import (
    DistanceBoundedPartitionMechanism as DistanceBoundedPartitionMechanism,
)
from dp_transforms.mechanisms.partition.exponential import (
    IntegerPartitionMechanism as IntegerPartitionMechanism,
)
from dp_transforms.mechanisms.partition.frobenius import (
    FrobeniusMechanism as FrobeniusMechanism,
)
from dp_transforms.mechanisms.partition.geometric import (
    GeometricPartitionMechanism as GeometricPartitionMechanism,
)
from dp_transforms.mechanisms.partition.known_total import (
    ExactTotalMechanism as ExactTotalMechanism,
)
from dp_transforms.mechanisms.partition.known_total import (
    MaximumTotalMechanism as MaximumTotalMechanism,
)
from dp_transforms.mechanisms.partition.registry import (
    partition_mechanism as partition_mechanism,
)
from dp_transforms.mechanisms.partition.table import PartitionTable as PartitionTable
from dp_transforms.mechanisms.partition_bounds import PartitionBounds as PartitionBounds
from dp_transforms.mechanisms.randomness import RandomTape as RandomTape
from dp_transforms.mechanisms.released_list import ReleasedList as ReleasedList

if TYPE_CHECKING:
    from dp_transforms.mechanisms.exponential.mechanism import ClampedLaplace as ClampedLaplace
    from dp_transforms.mechanisms.exponential.mechanism import (
        ExponentialMechanism as ExponentialMechanism,
    )
    from dp_transforms.mechanisms.selection import GaussianSelection as GaussianSelection
    from dp_transforms.mechanisms.selection import LaplaceSelection as LaplaceSelection
    from dp_transforms.mechanisms.selection import MeasuredSelection as MeasuredSelection
    from dp_transforms.mechanisms.selection import OptimalSelection as OptimalSelection
    from dp_transforms.mechanisms.selection import (
        RenyiRoundsSelection as RenyiRoundsSelection,
    )
    from dp_transforms.mechanisms.selection import (
        TruncatedGeometricSelection as TruncatedGeometricSelection,
    )
    from dp_transforms.mechanisms.selection import choose_strategy as choose_strategy
    from dp_transforms.mechanisms.selection import make_strategy as make_strategy

_HOMES = {
    "exponential.mechanism": ("ClampedLaplace", "ExponentialMechanism"),
    "selection": (
        "GaussianSelection",
        "LaplaceSelection",
        "MeasuredSelection",
        "OptimalSelection",
        "RenyiRoundsSelection",
        "TruncatedGeometricSelection",
        "choose_strategy",
        "make_strategy",
    ),
}


def __getattr__(name: str) -> Any:
    # Loaded when first used: a release of a list needs none of them.
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *(name for names in _HOMES.values() for name in names)]
