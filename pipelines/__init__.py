"""The commands, one in each module: `python -m pipelines.<job> --help`.

An installation has this package as ``dp_transforms.pipelines``: `python -m
dp_transforms.pipelines.<job>`. Its modules import one another from ``pipelines``, so the package
takes that name in the process that loads it. Only commands load it, never the library.
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
"""Exit codes; docs/schedulers.md says what a scheduler should do after each of them."""
INTERRUPTED_TEXT, TERMINATED_TEXT = "interrupted", "terminated"

# Without the extra gcp, Beam warns about BigQuery whenever it is imported. No job uses BigQuery.
logging.getLogger().addFilter(lambda record: "apitools not found" not in record.getMessage())


def failed(message: str, exit_code: int = FAILURE) -> int:
    """Prints an error as one line on stderr, if that can be written, and returns the exit code."""
    if sys.stderr is not None:  # it is None if the process was started without one
        with contextlib.suppress(OSError):
            print(f"error: {' '.join(message.split())}", file=sys.stderr, flush=True)
    return exit_code


@contextlib.contextmanager
def printing() -> Iterator[None]:
    """Flushes standard output at the end of the block, and raises an InputError if it cannot be
    written.

    It is no error if the reader stops early, such as the program head. Characters that the encoding
    lacks are escaped.
    """
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        yield
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        if sys.stdout is None or error.filename is not None:
            raise  # the error is not about standard output
        from dp_transforms.errors import InputError
        from dp_transforms.files.paths import reason

        # Text that is still to be written would fail again when the process ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise InputError(f"standard output cannot be written: {reason(error)}") from None


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Ends the process at once after an interrupt that nothing has caught."""
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    os._exit(failed(INTERRUPTED_TEXT, INTERRUPTED))


def numpy_settings(cpuinfo: str = "/proc/cpuinfo") -> dict[str, str]:
    """Returns environment variables that make numpy fast, if they are set before it is imported.

    The threads of its linear algebra take half as long to start as numpy takes to import, and no
    job has matrices for them. On AMD's Zen 4, sorting by AVX-512 takes four times as long as by
    AVX2, so AVX-512 is disabled. This is done only for numpy's wheels: a numpy that was built to
    need AVX-512 could not be imported then.
    """
    settings = {"OPENBLAS_NUM_THREADS": "1"}
    try:
        with open(cpuinfo) as file:
            first, _, _ = file.read().partition("\n\n")
    except OSError:  # the system is not Linux
        return settings
    lines = (line.partition(":") for line in first.splitlines())
    described = {name.strip(): value.strip() for name, _, value in lines}
    is_zen = described.get("vendor_id") == "AuthenticAMD" and described.get("cpu family") == "25"
    if not is_zen or "avx512f" not in described.get("flags", "").split():
        return settings
    numpy = importlib.util.find_spec("numpy")
    init_file = "" if numpy is None or numpy.origin is None else numpy.origin
    packages = os.path.dirname(os.path.dirname(init_file))
    # The file is looked up here, since importing importlib.metadata takes as long as all else that
    # the help of a command needs.
    for path in glob.glob(os.path.join(glob.escape(packages), "numpy-*.dist-info", "WHEEL")):
        with open(path, encoding="utf-8") as file:
            if "manylinux" in file.read():
                # The first name is that of numpy before 2.4, and the second that of 2.4.
                settings["NPY_DISABLE_CPU_FEATURES"] = "AVX512_SKX X86_V4"
    return settings


# Imports take most of a second, during which interrupts are handled by this hook. If another
# program imports this package, the hook is that program's own affair.
if sys.argv[:1] == ["-m"] or os.path.basename(sys.argv[0] or "-") == "dp-frequency-lists":
    sys.excepthook = _uncaught
    os.environ.update(numpy_settings() | os.environ)
