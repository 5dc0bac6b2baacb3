"""Runs the command ``dp-frequency-lists``, also as ``python -m dp_transforms``.

Its jobs are the package ``pipelines``: in a checkout the folder beside this package, and where it
is installed ``dp_transforms.pipelines``, so that a user's own package of the name ``pipelines`` is
not replaced. In this process, and in workers that it starts, the jobs have the name.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import runpy
import signal
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import NoReturn

RUN_MODULE = "import sys; from dp_transforms.__main__ import run; run(sys.argv.pop(1))"
"""``python -c`` with this code, a module's name and arguments runs a module of ``pipelines``."""


def load_jobs() -> None:
    """Loads this project's package ``pipelines`` into this process."""
    package = Path(__file__).parent
    homes = (home / "pipelines" / "__init__.py" for home in (package, package.parent))
    start = next(filter(Path.exists, homes))
    loaded = sys.modules.get("pipelines")
    if loaded is not None and loaded.__file__ == str(start):
        return
    spec = spec_from_file_location("pipelines", start)
    assert spec is not None and spec.loader is not None
    sys.modules["pipelines"] = module_from_spec(spec)
    spec.loader.exec_module(sys.modules["pipelines"])


def run(module: str) -> None:
    """Runs a module of ``pipelines`` as the program."""
    load_jobs()
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def main() -> int:
    """Runs a command; returns its exit code."""
    load_jobs()
    code: int = importlib.import_module("pipelines.__main__").main()
    # Another Ctrl-C while threads end shows no traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    jobs = sys.modules["pipelines"]
    if code in (jobs.INTERRUPTED, jobs.TERMINATED):
        # An interrupt leaves threads of libraries in any state, whose end may change the exit code.
        leave(code)
    if "grpc" in sys.modules:
        # At the end of a failed job gRPC's threads may wait for one another forever.
        atexit._run_exitfuncs()
        leave(code)
    return code


def leave(code: int) -> NoReturn:
    """Ends the process with this exit code, whatever its threads do."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError):  # closed, or its reader is gone
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
