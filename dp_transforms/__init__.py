"""Differentially private partition selection and frequency lists: functions on data frames, and
transforms of Apache Beam."""

from dp_transforms.public_names import lazily

__version__ = "0.2.0"

# Loaded when first used, so that dp_transforms.mechanisms can be imported without Beam.
__all__, __getattr__ = lazily(__name__, __file__)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
