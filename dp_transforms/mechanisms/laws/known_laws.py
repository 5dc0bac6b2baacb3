"""The distributions of all mechanisms whose releases have error bars."""

from __future__ import annotations

from dp_transforms.mechanisms.laws.corner_law import CornerWeightedLaw
from dp_transforms.mechanisms.laws.release_law import ExponentialLaw, GeometricLaw, ReleaseLaw

LAWS: dict[str, type[ReleaseLaw]] = {
    law.words: law for law in (ExponentialLaw, CornerWeightedLaw, GeometricLaw)
}
"""By the name that a privacy statement gives the mechanism."""
