"""Differentially private partition selection: which partitions may be named, at what privacy cost.

Pure mathematics and exact decisions, without Beam. Start with ``choose_strategy`` or ``explain``.
"""

from dp_transforms.public_names import lazily

__all__, __getattr__ = lazily(__name__, __file__)


def __dir__() -> list[str]:
    return __all__
