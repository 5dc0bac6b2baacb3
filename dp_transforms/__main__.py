"""Runs the command ``dp-frequency-lists``, also as ``python -m dp_transforms``.

The jobs are modules of the package ``pipelines``. In a checkout this is the folder beside
``dp_transforms``. An installation has it as ``dp_transforms.pipelines``, so that it does not
replace a package ``pipelines`` of the user's own. In this process, and in workers that it starts,
it is imported under the name ``pipelines`` in either case.
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
"""The code that runs a module of ``pipelines``, as ``python -c CODE MODULE ARGUMENTS``."""


def load_jobs() -> None:
    """Loads this project's package ``pipelines`` into this process."""
    package = Path(__file__).parent
    candidates = (home / "pipelines" / "__init__.py" for home in (package, package.parent))
    init_file = next(filter(Path.exists, candidates))
    loaded = sys.modules.get("pipelines")
    if loaded is not None and loaded.__file__ == str(init_file):
        return
    spec = spec_from_file_location("pipelines", init_file)
    assert spec is not None and spec.loader is not None
    sys.modules["pipelines"] = module_from_spec(spec)
    spec.loader.exec_module(sys.modules["pipelines"])


def run(module: str) -> None:
    """Runs a module of ``pipelines`` as the main program."""
    load_jobs()
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def main() -> int:
    """Runs a command; returns its exit code."""
    load_jobs()
    code: int = importlib.import_module("pipelines.__main__").main()
    # With this handler, another Ctrl-C while threads end shows no traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    jobs = sys.modules["pipelines"]
    if code in (jobs.INTERRUPTED, jobs.TERMINATED):
        # After an interrupt, threads of libraries are in any state, and their end could change the
        # exit code.
        leave(code)
    if "grpc" in sys.modules:
        # After a failed job, gRPC's threads may wait for one another forever.
        atexit._run_exitfuncs()
        leave(code)
    return code


def leave(code: int) -> NoReturn:
    """Ends the process with an exit code, without waiting for its threads."""
    for stream in (sys.stdout, sys.stderr):
        # A stream may be closed, or its reader may have ended.
        with contextlib.suppress(AttributeError, OSError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
