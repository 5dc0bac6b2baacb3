# The public names and their homes: see public_names.

from .choice import STRATEGIES as STRATEGIES
from .choice import Explanation as Explanation
from .choice import choose_strategy as choose_strategy
from .choice import explain as explain
from .choice import make_strategy as make_strategy
from .count_strategies import GaussianSelection as GaussianSelection
from .count_strategies import LaplaceSelection as LaplaceSelection
from .count_strategies import OptimalSelection as OptimalSelection
from .count_strategies import TruncatedGeometricSelection as TruncatedGeometricSelection
from .measured import MeasuredSelection as MeasuredSelection
from .rounds import RenyiRoundsSelection as RenyiRoundsSelection
from .rounds import WeightedStrategy as WeightedStrategy
from .strategy import CountStrategy as CountStrategy
from .strategy import NoisyCountStrategy as NoisyCountStrategy
from .strategy import SelectionStrategy as SelectionStrategy
