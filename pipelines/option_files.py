"""Reads option files: a YAML mapping of a job's flags to their values."""

from __future__ import annotations

import os
from typing import Any

import dp_transforms


def read_settings(path: str) -> dict[Any, Any]:
    """Returns the flags of an option file with their values. Numbers and dates stay as they are
    written, as on the command line.

    Raises:
      ValueError: the file cannot be read, is no mapping, or has a flag twice. The text goes on
        after the file's name.
    """
    import yaml

    resolvers = {
        first: [kind for kind in kinds if kind[0].endswith(("bool", "null", "merge"))]
        for first, kinds in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    loader: Any = type("Loader", (yaml.SafeLoader,), {"yaml_implicit_resolvers": resolvers})
    loader.add_constructor("tag:yaml.org,2002:map", _mapping_without_repeats)

    try:
        with open(_option_file(os.path.expanduser(path)), encoding="utf-8") as file:
            settings = yaml.load(file, loader)
    except OSError as error:
        raise ValueError(f"cannot be read: {(error.strerror or '').lower()}") from None
    except _RepeatedKeyError as error:
        raise ValueError(f"has {error} twice: give each flag once") from None
    except Exception:
        # PyYAML passes on the errors of impossible numbers, dates and depths.
        raise ValueError("is not YAML: write one 'flag: value' on each line") from None
    if not isinstance(settings, dict):
        raise ValueError("must be a mapping: write one 'flag: value' on each line")
    return settings


class _RepeatedKeyError(Exception):
    """Raised for a mapping in an option file that has a key twice. Its text is the key."""


def _mapping_without_repeats(loader: Any, node: Any) -> Any:
    """Makes a mapping, of which PyYAML alone would silently take the last value of a key."""
    keys = [key.value for key, _ in node.value]
    for key in keys:
        if keys.count(key) > 1:
            raise _RepeatedKeyError(key)
    return loader.construct_yaml_map(node)


def _option_file(path: str) -> str:
    """Returns the path of an option file. If there is no such file, it is that of a file in
    ``runner_configs`` with this name, such as ``flink/session.yaml``, if there is one in the
    installed package or the checkout."""
    if os.path.exists(path):
        return path
    package = os.path.dirname(dp_transforms.__file__)
    for folder in (package, f"{package}/.."):
        candidate = os.path.join(folder, "runner_configs", path)
        if os.path.isfile(candidate):
            return candidate
    return path
