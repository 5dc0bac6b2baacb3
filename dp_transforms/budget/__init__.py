"""Keeps privacy budgets: amounts, costs, composition, and a ledger that jobs share."""

from dp_transforms.public_names import lazy_exports

__all__, __getattr__ = lazy_exports(__name__, __file__)


def __dir__() -> list[str]:
    return __all__
