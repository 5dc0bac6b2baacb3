"""The command ``dp-frequency-lists``, which ``python -m dp_transforms`` runs too.

Its jobs are the package ``pipelines``. A user may have a package of that name, in the current
directory or on PYTHONPATH, so the jobs are loaded from beside this package.
"""

from __future__ import annotations

import importlib
import os
import runpy
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

RUN_MODULE = "import sys; from dp_transforms.__main__ import run; run(sys.argv.pop(1))"
"""For ``python -c``, before a module's name and its arguments: runs a module of ``pipelines``."""


def sort_settings(cpuinfo: str = "/proc/cpuinfo") -> dict[str, str]:
    """Returns the environment by which numpy sorts fast on this machine.

    On AMD's Zen 4, AVX-512's way of sorting takes five times as long as that of AVX2
    (https://github.com/numpy/x86-simd-sort/issues/6): up to a third of a job's time.
    """
    try:
        with open(cpuinfo) as file:
            lines = file.read(1 << 13).partition("\n\n")[0].splitlines()
    except OSError:
        return {}
    parted = (line.partition(":") for line in lines)
    about = {name.strip(): value.strip() for name, _, value in parted}
    found = about.get("vendor_id"), about.get("cpu family")
    if found != ("AuthenticAMD", "25") or "avx512f" not in about.get("flags", "").split():
        return {}
    return {"NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_SKX AVX512_ICL AVX512_SPR"}


def load_jobs() -> None:
    """Makes ``pipelines`` in this process the package of this project."""
    # numpy warns of features that it does not know, and not every version knows all of these.
    if "numpy" not in sys.modules and not sys.warnoptions:
        os.environ.update(sort_settings() | os.environ)
    start = Path(__file__).parents[1] / "pipelines" / "__init__.py"
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
    return code


if __name__ == "__main__":
    sys.exit(main())
