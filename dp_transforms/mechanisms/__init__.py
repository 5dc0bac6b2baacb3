"""Exact mechanisms for one machine: pure Python, numpy and gmpy2. Imports no Beam and no Arrow."""

from dp_transforms.public_names import lazily

__all__, __getattr__ = lazily(__name__, __file__)


def __dir__() -> list[str]:
    return __all__
