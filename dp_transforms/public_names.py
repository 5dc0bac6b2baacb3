"""Loads public names when they are first used: those of a package, which only its stub lists, and
functions that were methods."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any


def lazy_exports(
    package: str, init: str, deprecated: Mapping[str, str] | None = None
) -> tuple[list[str], Callable[[str], Any]]:
    """Returns the ``__all__`` and ``__getattr__`` of a package, given its ``__name__`` and
    ``__file__``, for the names that the stub beside its ``__init__.py`` imports. The deprecated
    names are not in ``__all__``, and give a DeprecationWarning, which says what to do instead."""
    advice = deprecated or {}
    stub = ast.parse(Path(init).with_suffix(".pyi").read_text(encoding="utf-8"))
    homes = {
        alias.name: "." * node.level + (node.module or "")
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    }

    def load(name: str) -> Any:
        if name in advice:
            text = f"{package}.{name} is deprecated: {advice[name]}"
            warnings.warn(text, DeprecationWarning, stacklevel=2)
        if name in homes:
            return getattr(import_module(homes[name], package), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return sorted(homes.keys() - advice.keys()), load


def moved_method(module: str, function: str) -> Callable[..., Any]:
    """Returns a method that gives a DeprecationWarning, and calls a function of a module with the
    object as its first argument. The module is loaded by its name at the first call: it is in a
    storey above that of the class."""

    def method(self: Any, *arguments: Any, **options: Any) -> Any:
        text = f"this method is deprecated: call {module}.{function} with the list"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return getattr(import_module(module), function)(self, *arguments, **options)

    method.__doc__ = f"Deprecated: see ``{module}.{function}``."
    return method
