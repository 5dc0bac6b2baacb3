# The public names and their homes: see public_names.

from .decay import Eta as Eta
from .discrete_noise import DiscreteLaplace as DiscreteLaplace
from .discrete_noise import TwoSidedGeometric as TwoSidedGeometric
from .exponential import ClampedLaplace as ClampedLaplace
from .exponential import ExponentialMechanism as ExponentialMechanism
from .frequency_list import FrequencyList as FrequencyList
from .frequency_list import ReleasedList as ReleasedList
from .noisy_coordinates import NoisyCoordinates as NoisyCoordinates
from .partition.deprecated import MaximumTotalMechanism as MaximumTotalMechanism
from .partition.exponential import GeometricPartitionMechanism as GeometricPartitionMechanism
from .partition.exponential import IntegerPartitionMechanism as IntegerPartitionMechanism
from .partition.frobenius import FrobeniusMechanism as FrobeniusMechanism
from .partition.registry import partition_mechanism as partition_mechanism
from .partition.restricted import (
    DistanceBoundedPartitionMechanism as DistanceBoundedPartitionMechanism,
)
from .partition.restricted import ExactTotalMechanism as ExactTotalMechanism
from .partition.table import PartitionTable as PartitionTable
from .partition_bounds import PartitionBounds as PartitionBounds
from .randomness import RandomTape as RandomTape
from .selection import GaussianSelection as GaussianSelection
from .selection import LaplaceSelection as LaplaceSelection
from .selection import MeasuredSelection as MeasuredSelection
from .selection import OptimalSelection as OptimalSelection
from .selection import RenyiRoundsSelection as RenyiRoundsSelection
from .selection import TruncatedGeometricSelection as TruncatedGeometricSelection
from .selection import choose_strategy as choose_strategy
from .selection import make_strategy as make_strategy
