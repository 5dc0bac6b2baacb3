"""Exact mechanisms run on one machine: Python, numpy and gmpy2, no Beam and no Arrow."""

from dp_transforms.public_names import lazy_exports

__all__, __getattr__ = lazy_exports(
    __name__,
    __file__,
    deprecated={
        "MaximumTotalMechanism": "take FrobeniusMechanism(max_total=...), which errs less",
        "PartitionTable": "it is an oracle of this project's tests, and goes in version 0.4",
    },
)


def __dir__() -> list[str]:
    return __all__
