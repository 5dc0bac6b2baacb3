"""The command that starts and stops an engine."""

from __future__ import annotations

import argparse
import sys
from types import ModuleType

from runner_configs.parts import Unavailable


def main(name: str, engine: ModuleType, where: str) -> int:
    """Runs `python -m NAME up` or `down`.

    Args:
      name: the command's module.
      engine: a module with functions up and down.
      where: what to print when it is up.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m {name}", description="An engine on this machine's loopback interface."
    )
    parser.add_argument("command", choices=("up", "down"))
    if parser.parse_args().command == "down":
        engine.down()
        return 0
    try:
        engine.up()
    except (Unavailable, TimeoutError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(where)
    return 0
