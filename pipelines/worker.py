"""The program of a worker process of a local run, and of the process that makes a pool's workers.

    python -m pipelines.worker [DESCRIPTOR]

Without a descriptor, this process is a worker. It is Beam's own worker with two differences. It
ends if any of its threads dies. It is quiet: Beam's worker would log tracebacks of errors to
stderr, although the runner is told of errors in another way.

With a descriptor, it makes the workers of a pool by copying itself. Imports take a new worker two
seconds, and a node of a cluster starts many workers. With ten stages, which each start a worker on
each of two nodes, imports would take most of a job's time. Copying a process that has imported
everything already takes some milliseconds.

The descriptor is that of a socket to the pool that started this process. For each worker, the pool
sends a byte and, with it, the descriptor of another socket, which is the worker's own:

* The pool first writes a line to it: the worker's id, the address that it reports to, and the seal
  of the job's secret if the pool has one (see ``dp_transforms.runtime.sealing``).
* The worker writes a byte to it when it is about to report.
* By its end, either side notices that the other one has ended.
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

from pipelines import FAILURE

# Functions import Beam themselves, since it writes to stderr, which a quiet worker closes before.

FORKS = sys.platform == "linux"
"""Whether one process makes many workers. On other systems libraries fail in a copied process."""
SECONDS_TO_MAKE_STEPS = 180.0
"""The time limit for making a stage's steps. Runners would wait as long."""

_NEEDED = (
    "apache_beam.runners.worker.sdk_worker_main",
    "dp_transforms.beam.engine",
    "pipelines.release_job",
)
# The numbers of parameters of glibc's function mallopt.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8


def end_with_any_thread() -> None:
    """Makes this process end as soon as one of its threads dies of an error.

    If only the data connection of a worker breaks, the worker goes on answering on its other
    connections, and a runner may wait for its data forever. But a runner notices at once if a
    worker process ends.
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
    """Makes the workers of this process connect before they make a stage's steps, for which they
    get a limited time.

    Beam's runners in Java wait for a worker's data connection, three minutes at each attempt,
    before they look at its answers or notice its end
    (https://github.com/apache/beam/issues/20391, at least up to Beam 2.62). Beam's own worker
    connects after it has unpickled the steps. If it is killed before, or cannot unpickle them since
    its pool has another version of this package, each attempt takes three minutes, and a job seems
    to hang.
    """
    from apache_beam.portability.api import beam_fn_api_pb2
    from apache_beam.runners.worker import bundle_processor, sdk_worker

    data = (bundle_processor.DATA_INPUT_URN, bundle_processor.DATA_OUTPUT_URN)

    class ConnectedFirst(sdk_worker.BundleProcessorCache):
        """Beam's cache of a worker's steps, which connects before it makes steps."""

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
    """Makes Arrow use the system's allocator in this process. Arrow's own allocator returns memory
    to the system and requests it again, which takes up to a fifth of the time."""
    import pyarrow as pa

    pa.set_memory_pool(pa.system_memory_pool())


def keep_freed_memory() -> None:
    """Makes this process, which ends with its job, keep up to 256 MiB of freed memory.

    By default glibc returns large columns to the system at once, and has an arena for each thread,
    which it empties by itself. This takes a tenth of the time. One arena is enough, since each
    thread has a cache of small pieces. With other C libraries only Arrow's allocator changes.
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
    # The system removes ended workers, since nobody waits for them.
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
    """Runs as a worker until the runner or the pool ends."""
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
    # This makes the worker quiet. Progress is written to sys.__stderr__.
    sys.stderr = open(os.devnull, "w")
    end_with_any_thread()
    if len(sys.argv) == 1:
        run()
    else:
        for module in _NEEDED:
            importlib.import_module(module)
        # Otherwise garbage collection would write to memory that copies share with this process.
        gc.freeze()
        serve(socket.socket(fileno=int(sys.argv[1])))
