"""Keeps privacy budgets: amounts, costs, composition, and a ledger that jobs share."""

from dp_transforms.public_names import lazily

__all__, __getattr__ = lazily(__name__, __file__)


def __dir__() -> list[str]:
    return __all__
