"""Makes runners, and pools of workers for runners that get jobs by a job service.

    python -m pipelines.worker_pool --port=50000

starts a pool, on a node of a cluster or in a container beside one. Jobs use it with
--environment_type=EXTERNAL --environment_config=localhost:50000, the address as seen from the
engine's worker nodes.

A runner's worker node, such as a Flink TaskManager, asks the pool at an address for Python workers,
and these connect back to the node. Beam has such a pool too. This one differs as follows:

* Several worker nodes can share a pool. Nodes number their workers alike, and when Beam's pool is
  told to stop the worker of one node, it may stop that of another.
* It answers when a worker is ready, not when its process is started. A runner waits forever for a
  worker that it was promised, but notices at once if the pool or the worker ends before.
* It writes no log, since tracebacks would quote records. The runner is told of errors anyway.
* By default it listens on this machine alone, since anyone who reaches a pool can run code in it.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import json
import queue
import shlex
import signal
import socket
import subprocess
import sys
import threading
import types
from typing import Any
from urllib.parse import urlsplit

import grpc
from apache_beam.options.pipeline_options import (
    DebugOptions,
    DirectOptions,
    FlinkRunnerOptions,
    PipelineOptions,
    PortableOptions,
    StandardOptions,
    WorkerOptions,
)
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc, endpoints_pb2
from apache_beam.runners.portability import local_job_service
from apache_beam.runners.portability.flink_runner import MAGIC_HOST_NAMES, FlinkRunner
from apache_beam.runners.portability.fn_api_runner import FnApiRunner, worker_handlers
from apache_beam.runners.portability.portable_runner import PortableRunner
from apache_beam.runners.portability.prism_runner import PrismRunner
from apache_beam.runners.runner import PipelineRunner, create_runner
from apache_beam.transforms.environments import SubprocessSDKEnvironment
from apache_beam.utils.thread_pool_executor import shared_unbounded_instance

from dp_transforms.__main__ import RUN_MODULE
from dp_transforms.errors import InputError
from dp_transforms.runtime.sealing import draw_seal, seal_from_environment, seal_runner
from pipelines import SUCCESS, printing
from pipelines.command_line import DEFAULT_RUNNER, OneLineParser, command
from pipelines.endpoints import listens
from pipelines.worker import FORKS

LOOPBACK = "127.0.0.1"
_SECONDS_BETWEEN_LOOKS = 5.0
_EMBEDDED = "embed"
_ENVIRONMENTS = (
    "LOOPBACK starts workers on this machine, EXTERNAL uses worker pools "
    "(--environment_config=HOST:PORT), DOCKER uses an image"
)


class WorkerPool(beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolServicer):
    """A pool, which starts a process for each worker that a runner asks for.

    Each process is a copy of a *warm* one, which has imported everything. A worker ends by itself
    when the runner closes the connection to it. If it does not, for example because its node died
    while it was at work, the pool ends it once nothing listens any more at the address that it
    reports to. All workers end with this process.

    Args:
      host: the address to listen at.
      port: the port to listen at; 0 for any free one.
      seal: a seal, under which its workers can open secrets (see ``runtime.sealing``).

    Raises:
      OSError: it cannot listen at its port.
    """

    def __init__(self, host: str = LOOPBACK, port: int = 0, seal: bytes | None = None):
        self._seal = None if seal is None else seal.hex()
        # The sockets to the workers.
        self._workers: set[socket.socket] = set()
        self._lock = threading.Lock()
        # By default gRPC would let two pools share a port.
        options = [("grpc.so_reuseport", 0)]
        self._server = grpc.server(shared_unbounded_instance(), options=options)
        beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(self, self._server)
        try:
            port = self._server.add_insecure_port(f"{host}:{port}")
        except RuntimeError:
            port = 0
        if not port:
            raise OSError("the port cannot be listened on: it may be taken")
        self.address = f"{host}:{port}"
        self._warm_up()
        self._server.start()
        atexit.register(self.stop)

    def StartWorker(self, request: Any, context: Any) -> Any:
        ready = self._start(request.worker_id, request.control_endpoint.url)
        error = "" if ready else "the worker ended before it was ready"
        return beam_fn_api_pb2.StartWorkerResponse(error=error)

    def StopWorker(self, request: Any, context: Any) -> Any:
        # This does nothing, since workers of several nodes may have the number in the request.
        return beam_fn_api_pb2.StopWorkerResponse()

    def wait(self) -> None:
        """Serves until the process is interrupted."""
        self._server.wait_for_termination()

    def stop(self) -> None:
        """Stops serving, and ends all workers."""
        self._server.stop(None)
        with self._lock:
            self._warm.kill()
            self._warm.wait()
            self._requests.close()
            for worker in self._workers:
                _hang_up(worker)

    def _start(self, worker: str, endpoint: str) -> bool:
        """Starts a worker and waits until it is ready or has ended. Returns whether it is ready."""
        descriptor = endpoints_pb2.ApiServiceDescriptor(url=endpoint)
        ours, theirs = socket.socketpair()
        with theirs, self._lock:
            ours.sendall(json.dumps([worker, str(descriptor), self._seal]).encode() + b"\n")
            if self._warm.poll() is not None:
                self._warm_up()
            try:
                socket.send_fds(self._requests, [b"\n"], [theirs.fileno()])
            except OSError:
                # The warm process has just ended.
                return False
            if not FORKS:
                self._warm_up()
            self._workers.add(ours)
        ready_queue: queue.SimpleQueue[bool] = queue.SimpleQueue()
        threading.Thread(
            target=self._watch, args=(ours, endpoint, ready_queue), daemon=True
        ).start()
        return ready_queue.get()

    def _watch(
        self, worker: socket.socket, endpoint: str, ready_queue: queue.SimpleQueue[bool]
    ) -> None:
        """Puts into the queue whether a worker became ready; then watches the worker, and ends it
        when the node that it serves is gone."""
        worker.settimeout(_SECONDS_BETWEEN_LOOKS)
        with worker:
            is_alive = _sends_byte(worker, endpoint)
            ready_queue.put(is_alive)
            while is_alive:
                is_alive = _sends_byte(worker, endpoint)
            with self._lock:
                self._workers.discard(worker)

    def _warm_up(self) -> None:
        self._requests, theirs = socket.socketpair()
        with theirs:
            descriptor = theirs.fileno()
            self._warm = subprocess.Popen(
                [sys.executable, "-c", RUN_MODULE, "pipelines.worker", str(descriptor)],
                stdin=subprocess.DEVNULL,
                pass_fds=(descriptor,),
            )


def _sends_byte(worker: socket.socket, endpoint: str) -> bool:
    """Waits until a worker sends a byte or ends, and returns whether it has sent one. It is ended
    when nothing listens at the endpoint any more."""
    while True:
        try:
            return bool(worker.recv(1))
        except TimeoutError:
            if not listens(endpoint):
                _hang_up(worker)
        except OSError:
            return False


def _hang_up(worker: socket.socket) -> None:
    with contextlib.suppress(OSError):
        worker.shutdown(socket.SHUT_RDWR)


def make_runner(flags: argparse.Namespace, options: PipelineOptions) -> PipelineRunner:
    """Returns the runner that the options name. Its workers do not print errors unless the flags
    ask for that.

    Raises:
      ValueError: the runner does not exist, or needs further flags.
      InputError: an engine does not answer.
    """
    name = options.view_as(StandardOptions).runner
    direct = options.view_as(DirectOptions)
    multi_processing = direct.direct_running_mode == "multi_processing"
    loud = flags.show_private_errors or flags.log_level
    if multi_processing:
        _serve_this_machine_alone()
    if name != DEFAULT_RUNNER or not multi_processing or loud:
        # Not all versions of Beam know this runner by its short name.
        runner = FnApiRunner() if name == DEFAULT_RUNNER else create_runner(name)
        if isinstance(runner, PortableRunner):
            prepare_portable(runner, options)
        return runner
    # In its own multi-processing mode the runner starts workers that log to stderr.
    direct.direct_running_mode = "in_memory"
    command = shlex.join([sys.executable, "-c", RUN_MODULE, "pipelines.worker"])
    return FnApiRunner(SubprocessSDKEnvironment.from_command_string(command))


def _serve_this_machine_alone() -> None:
    """Makes the ports for workers of local runs reachable from this machine alone.

    Beam opens them to other machines too. Anyone who reaches one can read any file, the records and
    the job's secret.
    """

    def server(*arguments: Any, **options: Any) -> grpc.Server:
        made = grpc.server(*arguments, **options)
        listen = made.add_insecure_port
        made.add_insecure_port = lambda address: listen(address.replace("[::]", "localhost"))
        return made

    # If Beam moves these, test_ports_of_local_workers_are_reached_from_this_machine_alone fails.
    worker_handlers.grpc = local_job_service.grpc = types.SimpleNamespace(server=server)


def prepare_portable(runner: PortableRunner, options: PipelineOptions) -> None:
    """Checks that a job can be submitted, and starts a pool of workers here if the options ask for
    one.

    Beam itself would wait for minutes for a missing service, and use containers by default. Errors
    are those of ``make_runner``.
    """
    portable = options.view_as(PortableOptions)
    if type(runner) is PortableRunner and not portable.job_endpoint:
        raise ValueError(
            "--runner=PortableRunner needs --job_endpoint=HOST:PORT, where a job service listens"
        )
    if isinstance(runner, PrismRunner) and not portable.job_endpoint:
        return
    if portable.job_endpoint and portable.job_endpoint != _EMBEDDED:
        _check("job_endpoint", portable.job_endpoint, portable.job_endpoint)
    elif isinstance(runner, FlinkRunner):
        master = options.view_as(FlinkRunnerOptions).flink_master
        if master not in MAGIC_HOST_NAMES:
            _check("flink_master", master, urlsplit(runner.add_http_scheme(master)).netloc)
    worker = options.view_as(WorkerOptions)
    if worker.default_sdk_harness_log_level == "CRITICAL":
        # Job servers in Java refuse log levels that Java does not have.
        worker.default_sdk_harness_log_level = "ERROR"
    # Otherwise Beam first lists all packages by pip, so that workers can log differences.
    options.view_as(DebugOptions).add_experiment("disable_logging_submission_environment")
    if not portable.environment_type:
        raise ValueError(f"--environment_type is needed: {_ENVIRONMENTS}")
    if portable.environment_type == "EXTERNAL":
        if not (portable.environment_config or portable.environment_options):
            raise ValueError("--environment_type=EXTERNAL needs --environment_config=HOST:PORT")
    elif portable.environment_type == "LOOPBACK":
        # Beam's own LOOPBACK runs workers in this process, by a pool that several worker nodes
        # cannot share. The pool here also gives its workers the seal, which does not pass through
        # the engine.
        seal = draw_seal()
        seal_runner(runner, seal)
        portable.environment_type = "EXTERNAL"
        portable.environment_config = WorkerPool(seal=seal).address


def _check(flag: str, given: str, endpoint: str) -> None:
    if not listens(endpoint):
        raise InputError(
            f"nothing listens at --{flag}={given}: start the engine, or correct the flag"
        )


def make_parser() -> OneLineParser:
    parser = OneLineParser(
        prog="python -m pipelines.worker_pool",
        description="Start Python workers for the runner of a cluster, on one of its nodes.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--port", type=int, default=50000, help="where to listen")
    parser.add_argument(
        "--host", default=LOOPBACK, help="where to listen; whoever reaches it can run code here"
    )
    return parser


@command(make_parser)
def main(flags: argparse.Namespace) -> None:
    seal_from_environment()  # raises an error now if workers could not read the file
    try:
        pool = WorkerPool(flags.host, flags.port)
    except OSError as error:
        raise InputError(f"{flags.host}:{flags.port}: {error}") from None
    # A container is ended by SIGTERM. This exits, and the pool ends its workers at exit.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(SUCCESS))
    with printing():
        print(f"serving workers at {pool.address}")
    with contextlib.suppress(KeyboardInterrupt):
        pool.wait()


if __name__ == "__main__":
    sys.exit(main())
