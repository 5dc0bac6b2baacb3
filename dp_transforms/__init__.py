"""Selects partitions and releases frequency lists under differential privacy.

On data frames use ``release`` (how many users partitions have, without their names), ``select``
(names of partitions), ``plan`` and ``choose_kappa`` beforehand, and ``Session`` for a budget; on
Apache Beam ``BoundContributions``, ``CountDistinctUsers``, ``ReleaseFrequencyList`` and
``SelectPartitions``.
"""

from dp_transforms.public_names import lazy_exports

__version__ = "0.3.0"

# Names are loaded when first used, so that dp_transforms.mechanisms does not import Beam.
__all__, __getattr__ = lazy_exports(__name__, __file__)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
