"""Selects partitions and releases frequency lists under differential privacy.

Functions on data frames: ``release`` says how many users partitions have, without their names.
``select`` names partitions. ``plan`` and ``choose_kappa`` help to decide before, and ``Session`` is
a budget for several releases.

Transforms of Apache Beam: ``BoundContributions``, ``CountDistinctUsers``, ``ReleaseFrequencyList``
and ``SelectPartitions``.
"""

from dp_transforms.public_names import lazy_exports

__version__ = "0.3.0"

# Names are loaded when they are first used, so that dp_transforms.mechanisms does not import Beam.
__all__, __getattr__ = lazy_exports(__name__, __file__)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
