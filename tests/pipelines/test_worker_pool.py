import argparse
import contextlib
import socket
import threading
import time
from concurrent import futures

import grpc
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_fn_api_pb2 as fn
from apache_beam.portability.api import beam_fn_api_pb2_grpc as fn_grpc
from apache_beam.portability.api import beam_runner_api_pb2 as runner
from apache_beam.portability.api import endpoints_pb2
from apache_beam.runners.portability import local_job_service
from apache_beam.runners.portability.fn_api_runner import worker_handlers
from apache_beam.runners.worker.bundle_processor import DATA_INPUT_URN

from pipelines import worker_pool
from pipelines.endpoints import listens
from pipelines.worker_pool import WorkerPool
from tests.clusters.agreement import worker_pool_process


def nothing_until_its_end(stream):
    with contextlib.suppress(grpc.RpcError):
        yield from (None for _ in stream if False)


class Node(fn_grpc.BeamFnControlServicer, fn_grpc.BeamFnDataServicer, fn_grpc.BeamFnStateServicer):
    """A node that a worker reports to; it gives the worker nothing to do."""

    def __init__(self):
        self.reported, self.left = threading.Event(), threading.Event()
        self.server = grpc.server(futures.ThreadPoolExecutor())
        fn_grpc.add_BeamFnControlServicer_to_server(self, self.server)
        fn_grpc.add_BeamFnDataServicer_to_server(self, self.server)
        fn_grpc.add_BeamFnStateServicer_to_server(self, self.server)
        self.port = self.server.add_insecure_port("localhost:0")
        self.server.start()

    def Control(self, request_iterator, context):
        self.reported.set()
        yield from nothing_until_its_end(request_iterator)
        self.left.set()


@pytest.fixture
def nodes():
    """Two nodes; more may be put there."""
    made = [Node(), Node()]
    yield made
    for node in made:
        node.server.stop(None)


@pytest.fixture
def pool(monkeypatch):
    monkeypatch.setattr("pipelines.worker_pool._SECONDS_BETWEEN_LOOKS", 0.2)
    made = WorkerPool()
    yield made
    made.stop()


def request(port):
    """The request that a runner makes of a pool."""
    endpoint = endpoints_pb2.ApiServiceDescriptor(url=f"localhost:{port}")
    return fn.StartWorkerRequest(worker_id="1-1", control_endpoint=endpoint)


@contextlib.contextmanager
def pool_in_a_process():
    with worker_pool_process("--port=0") as (process, address):
        with grpc.insecure_channel(address) as channel:
            yield process, fn_grpc.BeamFnExternalWorkerPoolStub(channel)


@pytest.mark.slow
def test_nodes_can_share_a_pool(pool, nodes):
    # What workers are copied from may end; there is another one then.
    pool._warm.kill()
    pool._warm.wait()
    # Two nodes have a worker of the same number. One asks to stop its own, the other dies.
    for node in nodes:
        assert not pool.StartWorker(request(node.port), None).error
        assert node.reported.wait(20)
    assert len(pool._workers) == 2
    pool.StopWorker(request(nodes[0].port), None)
    assert not nodes[0].left.wait(1) and not nodes[1].left.is_set()
    nodes[1].server.stop(None)
    deadline = time.monotonic() + 20
    while len(pool._workers) > 1 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(pool._workers) == 1
    assert not nodes[0].left.is_set()


@pytest.mark.slow
def test_a_pool_that_is_told_to_end_takes_its_workers_along(nodes):
    with pool_in_a_process() as (process, pool):
        pool.StartWorker(request(nodes[0].port))
        assert nodes[0].reported.wait(20)
        process.terminate()
        assert process.wait(20) == 0
        assert nodes[0].left.wait(20)


def test_a_runner_hears_of_a_worker_that_ends_before_it_is_ready(pool):
    with socket.socket() as gone:
        # Nobody listens here.
        gone.bind(("localhost", 0))
        answer = pool.StartWorker(request(gone.getsockname()[1]), None)
    assert answer.error == "the worker ended before it was ready"


@pytest.mark.slow
def test_a_runner_hears_of_a_pool_that_ends_before_its_worker_is_ready():
    # A node that does not answer keeps the worker from being ready.
    with socket.create_server(("localhost", 0)) as node, pool_in_a_process() as (process, pool):
        answer = pool.StartWorker.future(request(node.getsockname()[1]))
        node.settimeout(60)
        worker = node.accept()[0]
        assert not answer.done()
        process.kill()
        assert answer.exception(20).code() is grpc.StatusCode.UNAVAILABLE
        # The worker has ended as well.
        worker.settimeout(10)
        while worker.recv(1 << 10):
            pass
        worker.close()


def test_a_pool_on_a_taken_port_is_refused(pool, failure):
    port = f"--port={pool.address.rpartition(':')[2]}"
    failure(1, f"error: {pool.address}: ", worker_pool.main, [port])


class NodeWithWork(Node):
    """A node that asks for a stage of which a step cannot be made, and waits for its data."""

    def __init__(self):
        super().__init__()
        self.connected = threading.Event()
        self.answers = []

    def Control(self, request_iterator, context):
        work = fn.ProcessBundleRequest(process_bundle_descriptor_id="2")
        yield fn.InstructionRequest(instruction_id="1", process_bundle=work)
        self.answers.append(next(request_iterator))
        self.reported.set()

    def GetProcessBundleDescriptor(self, request, context):
        address = endpoints_pb2.ApiServiceDescriptor(url=f"localhost:{self.port}")
        port = fn.RemoteGrpcPort(api_service_descriptor=address)
        spec = runner.FunctionSpec
        source = spec(urn=DATA_INPUT_URN, payload=port.SerializeToString())
        transforms = {
            "read": runner.PTransform(spec=source, outputs={"out": "records"}),
            "step": runner.PTransform(spec=spec(urn="made up"), inputs={"in": "records"}),
        }
        return fn.ProcessBundleDescriptor(
            id="2", transforms=transforms, state_api_service_descriptor=address
        )

    def Data(self, request_iterator, context):
        self.connected.set()
        yield from nothing_until_its_end(request_iterator)

    def State(self, request_iterator, context):
        yield from nothing_until_its_end(request_iterator)


@pytest.mark.slow
def test_a_runner_hears_of_a_step_that_cannot_be_made(pool, nodes):
    # Runners in Java do not look at the answer before they have the connection for data.
    node = NodeWithWork()
    nodes.append(node)
    pool.StartWorker(request(node.port), None)
    assert node.connected.wait(20)
    assert node.reported.wait(20)
    assert "made up" in node.answers[0].error


@pytest.mark.parametrize("loud", [True, False])
def test_ports_of_local_workers_are_reached_from_this_machine_alone(loud, monkeypatch):
    for module in (worker_handlers, local_job_service):
        monkeypatch.setattr(module, "grpc", grpc)
    flags = argparse.Namespace(show_private_errors=loud, log_level=None)
    processes = ["--runner=FnApiRunner", "--direct_running_mode=multi_processing"]
    worker_pool.make_runner(flags, PipelineOptions(processes))
    # Of the runner, then of each worker's log.
    server = worker_handlers.GrpcServer(None, None, None)
    ports = [server.control_port, server.data_port, server.state_port, server.logging_port]
    log = local_job_service.grpc.server(futures.ThreadPoolExecutor())
    ports.append(log.add_insecure_port("[::]:0"))
    log.start()
    reached = [[listens(f"{host}:{port}") for host in ("localhost", "127.0.0.2")] for port in ports]
    server.close()
    log.stop(None)
    assert reached == [[True, False]] * 5
