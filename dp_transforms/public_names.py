"""Loads public names when they are first used.

``lazy_exports`` is for the names of a package, which its stub file lists. ``moved_method`` is for
functions that used to be methods.
"""

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
    """Returns the ``__all__`` and ``__getattr__`` of a package.

    Args:
      package: its ``__name__``.
      init: its ``__file__``. The names are those that the stub file beside it imports.
      deprecated: names that give a DeprecationWarning and are not in ``__all__``, with what to use
        instead.
    """
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
    """Returns a method that gives a DeprecationWarning, and calls a function with the object as its
    first argument.

    The function's module is loaded by its name at the first call, since the module of the class
    must not import it (see ARCHITECTURE.md).
    """

    def method(self: Any, *arguments: Any, **options: Any) -> Any:
        text = f"this method is deprecated: call {module}.{function} with the list"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return getattr(import_module(module), function)(self, *arguments, **options)

    method.__doc__ = f"Deprecated: see ``{module}.{function}``."
    return method
