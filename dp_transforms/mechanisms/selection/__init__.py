"""Selects the partitions that may be named under differential privacy, at a stated cost.

This package consists of mathematics and exact decisions, without Beam. Begin with
``choose_strategy`` or ``explain``.
"""

from dp_transforms.public_names import lazy_exports

__all__, __getattr__ = lazy_exports(__name__, __file__)


def __dir__() -> list[str]:
    return __all__
