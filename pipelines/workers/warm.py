"""A process that has imported what workers need, and makes a worker of a copy of itself.

    python -m pipelines.workers.warm DESCRIPTOR

Importing takes a worker two seconds, and a cluster's node starts many: a job of ten stages, of
which each starts a worker on each of two nodes, spends most of its time on it. A copy takes
some milliseconds.

The descriptor is of a socket to the pool that started this process. For each worker the pool sends
a byte, and with it the descriptor of a socket of that worker's own, in which

* the pool first writes a line with the worker's id and the address that it reports to;
* the worker writes a byte when it is about to report;
* either side hears of the other's end.
"""

import gc
import importlib
import json
import os
import signal
import socket
import sys
import threading

from pipelines.workers import FAILURE
from pipelines.workers.local_worker import end_with_any_thread, quiet, run

NEEDED = (
    "apache_beam.runners.worker.sdk_worker_main",
    "pipelines.on_beam",
    "pipelines.release_job",
    "pipelines.workers.early_connection",
)
FORKS = sys.platform == "linux"
"""True where one warm process makes many workers: elsewhere libraries do not bear to be copied."""


def serve(requests: socket.socket) -> None:
    """Makes workers until the pool ends; returns in each worker when it has done its work."""
    # Nobody waits for them.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        asked, descriptors, *_ = socket.recv_fds(requests, 1, 1)
        if not asked:
            return
        if FORKS and os.fork():
            os.close(descriptors[0])
            continue
        requests.close()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        work(socket.socket(fileno=descriptors[0]))
        return


def work(pool: socket.socket) -> None:
    """Is a worker, until its runner or its pool ends."""
    worker, endpoint = json.loads(pool.makefile().readline())
    os.environ["WORKER_ID"] = worker
    os.environ["CONTROL_API_SERVICE_DESCRIPTOR"] = endpoint
    threading.Thread(target=_end_with, args=(pool,), daemon=True).start()
    run(lambda: pool.sendall(b"\n"))


def _end_with(pool: socket.socket) -> None:
    pool.recv(1)
    os._exit(FAILURE)


if __name__ == "__main__":
    quiet()
    end_with_any_thread()
    for module in NEEDED:
        importlib.import_module(module)
    # What is there stays shared by the copies.
    gc.freeze()
    serve(socket.socket(fileno=int(sys.argv[1])))
