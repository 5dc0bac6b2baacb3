"""Runnable jobs: one module per job, `python -m pipelines.<job> --help`."""

import contextlib
import glob
import importlib.util
import logging
import os
import sys
from types import TracebackType

SUCCESS, FAILURE, USAGE_ERROR, DONE_BEFORE, INTERRUPTED = 0, 1, 2, 3, 130
INTERRUPTED_TEXT = "interrupted: no release was written"
INTERRUPTED_AFTER_TEXT = "interrupted after the release was written"

# Without the gcp extra, Beam warns about BigQuery whenever it is imported. No job here uses
# BigQuery, and a user's first line of output should not be a warning that is not for them.
logging.getLogger().addFilter(lambda record: "apitools not found" not in record.getMessage())


def failed(message: str, exit_code: int = FAILURE) -> int:
    """Prints an error as one line on stderr, if that can be written; returns the exit code."""
    if sys.stderr is not None:  # as where it is closed
        with contextlib.suppress(OSError):
            print(f"error: {' '.join(message.split())}", file=sys.stderr, flush=True)
    return exit_code


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    os._exit(failed(INTERRUPTED_TEXT, INTERRUPTED))


def numpy_settings(cpuinfo: str = "/proc/cpuinfo") -> dict[str, str]:
    """Returns variables of the environment with which numpy, imported later, works best here.

    Threads of its linear algebra take half as long to start as numpy to import, and nothing here
    has matrices that are worth it. On AMD's Zen 4 sorts with AVX-512 take four times as long as
    those with AVX2. Wheels can do without AVX-512; a numpy that was built with it would not be
    imported then.
    """
    settings = {"OPENBLAS_NUM_THREADS": "1"}
    try:
        with open(cpuinfo) as file:
            first, _, _ = file.read().partition("\n\n")
    except OSError:  # not Linux
        return settings
    lines = (line.partition(":") for line in first.splitlines())
    described = {name.strip(): value.strip() for name, _, value in lines}
    zen4 = described.get("vendor_id") == "AuthenticAMD" and described.get("cpu family") == "25"
    if not zen4 or "avx512f" not in described.get("flags", "").split():
        return settings
    numpy = importlib.util.find_spec("numpy")
    packages = os.path.dirname(os.path.dirname((numpy and numpy.origin) or ""))
    # importlib.metadata would take as long to import as all else of the command's help.
    for path in glob.glob(os.path.join(glob.escape(packages), "numpy-*.dist-info", "WHEEL")):
        with open(path, encoding="utf-8") as file:
            if "manylinux" in file.read():
                # In numpy 2.4 the second one, and before it the first.
                settings["NPY_DISABLE_CPU_FEATURES"] = "AVX512_SKX X86_V4"
    return settings


# An interrupt while a command is still importing what it needs, which takes most of a second. In a
# program that imports this package, uncaught errors are the program's.
if sys.argv[:1] == ["-m"] or os.path.basename(sys.argv[0] or "-") == "dp-frequency-lists":
    sys.excepthook = _uncaught
    os.environ.update(numpy_settings() | os.environ)
