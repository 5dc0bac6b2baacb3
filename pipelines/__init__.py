"""Runnable jobs: one module per job, `python -m pipelines.<job> --help`."""

import logging
import os
import sys
from types import TracebackType

INTERRUPTED = 130
INTERRUPTED_TEXT = "interrupted: no release was written"

# Without the gcp extra, Beam warns about BigQuery whenever it is imported. No job here uses
# BigQuery, and a user's first line of output should not be a warning that is not for them.
logging.getLogger().addFilter(lambda record: "apitools not found" not in record.getMessage())


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    print(f"error: {INTERRUPTED_TEXT}", file=sys.stderr, flush=True)
    os._exit(INTERRUPTED)


# An interrupt while a command is still importing what it needs, which takes most of a second. In a
# program that imports this package, uncaught errors are the program's.
if sys.argv[:1] == ["-m"] or os.path.basename(sys.argv[0] or "-") == "dp-frequency-lists":
    sys.excepthook = _uncaught
