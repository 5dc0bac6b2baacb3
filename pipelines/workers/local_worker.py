"""A worker process of a local run or a pool: Beam's own, but quiet, and dead if a part of it is.

Beam's worker also writes its log to stderr, at length, with the tracebacks of errors. The runner
hears of errors in another way, and passes on what a user should see.
"""

import os
import sys
import threading

from pipelines.workers import FAILURE

# The environment variable with the descriptor of a pipe to the pool that started this process.
READY_DESCRIPTOR = "POOL_READY_DESCRIPTOR"


def end_with_any_thread() -> None:
    """Ends this process when one of its threads dies of an error.

    A worker whose connection for data broke answers on its other connections as if nothing were
    wrong, and a runner may wait for its data forever. It notices at once that a worker has died.
    """
    threading.excepthook = lambda _: os._exit(FAILURE)


def run() -> None:
    """Runs Beam's own main, and tells the pool when this worker is about to report."""
    from apache_beam.runners.worker import sdk_worker, sdk_worker_main

    from pipelines.workers.early_connection import ConnectedFirst

    sdk_worker.BundleProcessorCache = ConnectedFirst  # type: ignore[misc]
    log_handler, harness, _ = sdk_worker_main.create_harness(os.environ)
    if READY_DESCRIPTOR in os.environ:
        with open(int(os.environ[READY_DESCRIPTOR]), "wb") as pipe:
            pipe.write(b"\n")
    try:
        harness.run()
    finally:
        if log_handler:
            log_handler.close()


if __name__ == "__main__":
    # Before Beam is imported, which logs. Progress is written to sys.__stderr__.
    sys.stderr = open(os.devnull, "w")
    end_with_any_thread()
    run()
