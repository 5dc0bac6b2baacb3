"""Exact mechanisms run on one machine: Python, numpy and gmpy2, no Beam and no Arrow."""

from dp_transforms.public_names import lazily

__all__, __getattr__ = lazily(__name__, __file__)


def __dir__() -> list[str]:
    return __all__
