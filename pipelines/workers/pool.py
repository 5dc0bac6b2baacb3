"""Worker processes for runners that ask for them: the other end of --environment_type=EXTERNAL.

A runner's worker node, such as a Flink TaskManager, asks the pool at an address for Python workers,
and these connect back to it. Beam has such a pool too. This one

* lets several worker nodes share a pool: nodes number their workers alike, and Beam's pool, told to
  stop the worker of one node, stops that of another;
* answers when a worker is ready, not when its process is started: a runner waits without an end for
  a worker that it was promised, but hears at once of a pool or a worker that ends before that;
* writes no log: a worker's log quotes records in tracebacks of errors, which the runner hears of
  in another way;
* listens on this machine alone unless told otherwise: whoever reaches a pool can run code in it.
"""

from __future__ import annotations

import atexit
import os
import socket
import subprocess
import sys
import threading
import time
from typing import Any

import grpc
from apache_beam.portability.api import (
    beam_fn_api_pb2,
    beam_fn_api_pb2_grpc,
    endpoints_pb2,
)
from apache_beam.utils.thread_pool_executor import shared_unbounded_instance

from pipelines.workers.local_worker import READY_DESCRIPTOR

LOOPBACK = "127.0.0.1"
CONNECT_SECONDS = 5.0

_SECONDS_BETWEEN_LOOKS = 5.0


class WorkerPool(beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolServicer):
    """Starts a process for each worker that a runner asks for.

    A worker ends by itself when the runner closes the connection to it. One that does not, for
    example because its node died while it was at work, is killed when nobody listens any more where
    it reports to. All end with this process.

    Args:
      host: where to listen.
      port: likewise; a free one by default.

    Raises:
      OSError: the port cannot be listened on.
    """

    def __init__(self, host: str = LOOPBACK, port: int = 0):
        self._processes: set[subprocess.Popen] = set()
        # A port is one pool's.
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
        self._server.start()
        atexit.register(self.stop)

    def StartWorker(self, request: Any, context: Any) -> Any:
        ready = self._start(request.worker_id, request.control_endpoint.url)
        error = "" if ready else "the worker ended before it was ready"
        return beam_fn_api_pb2.StartWorkerResponse(error=error)

    def StopWorker(self, request: Any, context: Any) -> Any:
        # The request has a number that workers of several nodes may have.
        return beam_fn_api_pb2.StopWorkerResponse()

    def wait(self) -> None:
        """Serves until the process is interrupted."""
        self._server.wait_for_termination()

    def stop(self) -> None:
        """Stops serving, and all workers."""
        self._server.stop(None)
        for process in list(self._processes):
            process.kill()

    def _start(self, worker: str, endpoint: str) -> bool:
        descriptor = endpoints_pb2.ApiServiceDescriptor(url=endpoint)
        ready, told = os.pipe()
        variables = {
            "WORKER_ID": worker,
            "CONTROL_API_SERVICE_DESCRIPTOR": str(descriptor),
            READY_DESCRIPTOR: str(told),
        }
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", "pipelines.workers.local_worker"],
                env={**os.environ, **variables},
                stdin=subprocess.DEVNULL,
                pass_fds=(told,),
            )
        finally:
            os.close(told)
        self._processes.add(process)
        threading.Thread(target=self._watch, args=(process, endpoint), daemon=True).start()
        with open(ready, "rb") as pipe:
            # Nothing comes of a worker that has ended.
            return bool(pipe.read(1))

    def _watch(self, process: subprocess.Popen, endpoint: str) -> None:
        while process.poll() is None:
            time.sleep(_SECONDS_BETWEEN_LOOKS)
            if not listens(endpoint):
                process.kill()
                process.wait()
        self._processes.discard(process)


def listens(endpoint: str) -> bool:
    """Whether something accepts connections at a host:port."""
    host, _, port = endpoint.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except (OSError, ValueError, OverflowError):
        return False
    return True
