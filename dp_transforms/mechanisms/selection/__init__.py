"""Differentially private partition selection: which partitions may be named, at what privacy cost.

Pure mathematics and exact decisions, without Beam. Start with ``choose_strategy`` or ``explain``.
"""

from dp_transforms.mechanisms.selection.choice import STRATEGIES as STRATEGIES
from dp_transforms.mechanisms.selection.choice import Explanation as Explanation
from dp_transforms.mechanisms.selection.choice import choose_strategy as choose_strategy
from dp_transforms.mechanisms.selection.choice import explain as explain
from dp_transforms.mechanisms.selection.choice import make_strategy as make_strategy
from dp_transforms.mechanisms.selection.count_strategies import (
    GaussianSelection as GaussianSelection,
)
from dp_transforms.mechanisms.selection.count_strategies import (
    LaplaceSelection as LaplaceSelection,
)
from dp_transforms.mechanisms.selection.count_strategies import (
    OptimalSelection as OptimalSelection,
)
from dp_transforms.mechanisms.selection.count_strategies import (
    TruncatedGeometricSelection as TruncatedGeometricSelection,
)
from dp_transforms.mechanisms.selection.measured import (
    MeasuredSelection as MeasuredSelection,
)
from dp_transforms.mechanisms.selection.rounds import (
    RenyiRoundsSelection as RenyiRoundsSelection,
)
from dp_transforms.mechanisms.selection.rounds import WeightedStrategy as WeightedStrategy
from dp_transforms.mechanisms.selection.strategy import CountStrategy as CountStrategy
from dp_transforms.mechanisms.selection.strategy import (
    NoisyCountStrategy as NoisyCountStrategy,
)
from dp_transforms.mechanisms.selection.strategy import (
    SelectionStrategy as SelectionStrategy,
)
