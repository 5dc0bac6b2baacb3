"""Runs jobs, one per module: `python -m pipelines.<job> --help`.

Where it is installed, this package is ``dp_transforms.pipelines``: `python -m
dp_transforms.pipelines.<job>`. Its modules know one another as ``pipelines``, so it takes that name
in the process in which it is loaded, which is a command's. The library never imports it.
"""

import contextlib
import glob
import importlib.util
import io
import logging
import os
import sys
from collections.abc import Iterator
from types import TracebackType

if __name__ != "pipelines":
    sys.modules["pipelines"] = sys.modules[__name__]

SUCCESS, FAILURE, USAGE_ERROR, DONE_BEFORE, NO_BUDGET, UNDER_WAY = range(6)
INTERRUPTED, TERMINATED = 130, 143
"""Exit codes; docs/schedulers.md says what each of them asks of a scheduler."""
INTERRUPTED_TEXT, TERMINATED_TEXT = "interrupted", "terminated"

# Without the gcp extra, Beam warns about BigQuery whenever it is imported. No job here uses it.
logging.getLogger().addFilter(lambda record: "apitools not found" not in record.getMessage())


def failed(message: str, exit_code: int = FAILURE) -> int:
    """Prints an error as one line on stderr, if that can be written; returns the exit code."""
    if sys.stderr is not None:  # as where it is closed
        with contextlib.suppress(OSError):
            print(f"error: {' '.join(message.split())}", file=sys.stderr, flush=True)
    return exit_code


@contextlib.contextmanager
def printing() -> Iterator[None]:
    """Flushes standard output in the end; an InputError says that it cannot be written. A reader
    that has seen enough, such as head, is no fault, nor are characters that its encoding lacks."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        yield
        if sys.stdout is not None:  # as where it is closed
            sys.stdout.flush()
    except OSError as error:
        if sys.stdout is None or error.filename is not None:
            raise  # not of standard output
        from dp_transforms.errors import InputError
        from dp_transforms.files.paths import reason

        # What is left to write would fail again when the process ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise InputError(f"standard output cannot be written: {reason(error)}") from None


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    os._exit(failed(INTERRUPTED_TEXT, INTERRUPTED))


def numpy_settings(cpuinfo: str = "/proc/cpuinfo") -> dict[str, str]:
    """Returns environment variables for a fast start of numpy, which is imported later.

    Threads of its linear algebra take half as long to start as numpy to import, and no matrix here
    is worth it. On AMD's Zen 4, sorting by AVX-512 takes four times as long as by AVX2. Wheels can
    do without AVX-512; a numpy that was built with it could not be imported then.
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
                # numpy 2.4 has the second one, and earlier versions the first.
                settings["NPY_DISABLE_CPU_FEATURES"] = "AVX512_SKX X86_V4"
    return settings


# Handles interrupts during imports, which take most of a second. Uncaught errors belong to a
# program that imports this package.
if sys.argv[:1] == ["-m"] or os.path.basename(sys.argv[0] or "-") == "dp-frequency-lists":
    sys.excepthook = _uncaught
    os.environ.update(numpy_settings() | os.environ)
