"""Differentially private partition selection and frequency lists: functions on data frames, and
transforms of Apache Beam."""

import re
from importlib import import_module
from pathlib import Path

_HOMES = {
    name: home
    for home, name in re.findall(
        r"^from (\S+) import (\w+) as \2$",
        Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    # Loaded when first used, so that dp_transforms.mechanisms can be imported without Beam.
    if name == "__version__":
        from dp_transforms.version import VERSION

        return VERSION
    if name in _HOMES:
        return getattr(import_module(_HOMES[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
