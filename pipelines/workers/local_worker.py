"""A worker process of a local run or a pool: Beam's own, but quiet, and dead if a part of it is.

Beam's worker also writes its log to stderr, at length, with the tracebacks of errors. The runner
hears of errors in another way, and passes on what a user should see.
"""

import contextlib
import os
import sys
import threading
from collections.abc import Callable

from pipelines.workers import FAILURE
from pipelines.workers.allocation import take_system_memory


def end_with_any_thread() -> None:
    """Ends this process when one of its threads dies of an error.

    A worker whose connection for data broke answers on its other connections as if nothing were
    wrong, and a runner may wait for its data forever. It notices at once that a worker has died.
    """
    threading.excepthook = lambda _: os._exit(FAILURE)


def run(tell_ready: Callable[[], object] = lambda: None) -> None:
    """Runs Beam's own main, and calls ``tell_ready`` when this worker is about to report."""
    from apache_beam.runners.worker import sdk_worker_main

    from pipelines.workers.early_connection import connect_early

    connect_early()
    take_system_memory()
    log_handler, harness, _ = sdk_worker_main.create_harness(os.environ)
    tell_ready()
    with contextlib.closing(log_handler) if log_handler else contextlib.nullcontext():
        harness.run()


def quiet() -> None:
    """Closes stderr to Beam's log; to be called before Beam is imported, which logs."""
    # Progress is written to sys.__stderr__.
    sys.stderr = open(os.devnull, "w")


if __name__ == "__main__":
    quiet()
    end_with_any_thread()
    run()
