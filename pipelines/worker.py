"""Runs a worker process of a local run, or copies itself into the workers of a pool.

    python -m pipelines.worker [DESCRIPTOR]

It is Beam's own worker, but ends if any of its threads dies, and is quiet: Beam's logs tracebacks
of errors to stderr, while the runner hears of errors in another way.

Importing takes a worker two seconds, and a cluster's node starts many: ten stages that each start a
worker on each of two nodes would spend most of a job's time on it. A copy of a process that has
already imported everything takes some milliseconds.

The descriptor is of a socket to the pool that started this process. For each worker the pool sends
a byte, and with it the descriptor of a socket of that worker's own, in which

* the pool first writes a line with the worker's id, the address that it reports to, and the seal
  of the job's secret if the pool has one (see ``dp_transforms.runtime.sealing``);
* the worker writes a byte when it is about to report;
* either side hears of the other's end.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable

# Functions import Beam, since it logs: a quiet worker closes stderr before.

FAILURE = 1
"""The exit code of a worker that ends because of a failure."""
FORKS = sys.platform == "linux"
"""Whether one warm process makes many workers: not where libraries fail in a copied process."""
SECONDS_TO_MAKE_STEPS = 180.0
"""The time limit for making a stage's steps, as long as runners would wait."""

_NEEDED = (
    "apache_beam.runners.worker.sdk_worker_main",
    "dp_transforms.beam.engine",
    "pipelines.release_job",
)
# glibc's numbers of the parameters of mallopt.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8


def end_with_any_thread() -> None:
    """Ends this process when one of its threads dies of an error.

    A worker whose data connection broke answers on its other connections as if nothing were wrong,
    and a runner may wait for its data forever. It notices at once that a worker has died.
    """
    threading.excepthook = lambda _: os._exit(FAILURE)


def run(tell_ready: Callable[[], object] = lambda: None) -> None:
    """Runs Beam's own main, and calls ``tell_ready`` when this worker is about to report."""
    from apache_beam.runners.worker import sdk_worker_main

    connect_early()
    take_system_memory()
    log_handler, harness, _ = sdk_worker_main.create_harness(os.environ)
    tell_ready()
    with contextlib.closing(log_handler) if log_handler else contextlib.nullcontext():
        harness.run()


def connect_early() -> None:
    """Makes the workers of this process connect before they make a stage's steps, in limited time.

    Beam's runners in Java wait for that connection, three minutes at each attempt, before they look
    at a worker's answers or notice its end (https://github.com/apache/beam/issues/20391, to Beam
    2.62 at least). Beam's worker connects when it has unpickled the steps. So if it is killed
    before, or its pool has another version of this package, they hear late, again and again: a job
    seems to hang.
    """
    from apache_beam.portability.api import beam_fn_api_pb2
    from apache_beam.runners.worker import bundle_processor, sdk_worker

    data = (bundle_processor.DATA_INPUT_URN, bundle_processor.DATA_OUTPUT_URN)

    class ConnectedFirst(sdk_worker.BundleProcessorCache):
        def get(
            self, instruction_id: str, bundle_descriptor_id: str
        ) -> bundle_processor.BundleProcessor:
            for transform in self.fns[bundle_descriptor_id].transforms.values():
                if transform.spec.urn in data:
                    port = beam_fn_api_pb2.RemoteGrpcPort.FromString(transform.spec.payload)
                    self.data_channel_factory.create_data_channel(port)
            # Once connected, the runner notices at once that this worker has died.
            end = threading.Timer(SECONDS_TO_MAKE_STEPS, os._exit, (FAILURE,))
            end.daemon = True
            end.start()
            try:
                return super().get(instruction_id, bundle_descriptor_id)
            finally:
                end.cancel()

    # The workers replace only this class of Beam. If Beam moves it,
    # test_a_runner_hears_of_a_step_that_cannot_be_made fails.
    sdk_worker.BundleProcessorCache = ConnectedFirst  # type: ignore[misc]


def take_system_memory() -> None:
    """Makes Arrow use the system's allocator in this process: Arrow's own one returns memory to the
    system and asks for it again, which takes up to a fifth of the time."""
    import pyarrow as pa

    pa.set_memory_pool(pa.system_memory_pool())


def keep_freed_memory() -> None:
    """Makes this process, which ends with its job, keep up to 256 MiB of freed memory for itself.

    glibc would return large columns at once, and have an arena for each thread, emptied on its own,
    which takes a tenth of the time. One arena is enough, since each thread has a cache of small
    pieces. With other C libraries only Arrow's allocator changes.
    """
    take_system_memory()
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library
        return
    mallopt(_MMAP_THRESHOLD, 32 << 20)
    mallopt(_TRIM_THRESHOLD, 256 << 20)
    mallopt(_ARENA_MAX, 1)


def serve(requests: socket.socket) -> None:
    """Makes workers until the pool ends; returns in each worker when it has done its work."""
    # The system reaps the workers: nobody waits for them.
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
    """Works until the runner or the pool ends."""
    from dp_transforms.runtime.sealing import learn_seal

    worker, endpoint, seal = json.loads(pool.makefile().readline())
    if seal is not None:
        learn_seal(bytes.fromhex(seal))
    os.environ["WORKER_ID"] = worker
    os.environ["CONTROL_API_SERVICE_DESCRIPTOR"] = endpoint
    threading.Thread(target=_end_with, args=(pool,), daemon=True).start()
    run(lambda: pool.sendall(b"\n"))


def _end_with(pool: socket.socket) -> None:
    pool.recv(1)
    os._exit(FAILURE)


if __name__ == "__main__":
    # Progress is written to sys.__stderr__.
    sys.stderr = open(os.devnull, "w")
    end_with_any_thread()
    if len(sys.argv) == 1:
        run()
    else:
        for module in _NEEDED:
            importlib.import_module(module)
        # Copies go on sharing the objects that exist now.
        gc.freeze()
        serve(socket.socket(fileno=int(sys.argv[1])))
