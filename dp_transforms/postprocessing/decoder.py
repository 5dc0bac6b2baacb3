"""Keeps the decoder importable under its name of version 0.2. It is removed in version 0.4."""

from __future__ import annotations

import warnings
from typing import Any

from dp_transforms.mechanisms.decoding import decoder


def __getattr__(name: str) -> Any:
    value = getattr(decoder, name)
    warnings.warn(
        f"{__name__} is deprecated: take dp_transforms.mechanisms.decoding.decoder",
        DeprecationWarning,
        stacklevel=2,
    )
    return value
