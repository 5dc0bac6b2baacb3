import subprocess
import sys

FAILING = """
import threading, time
from pipelines.workers.local_worker import end_with_any_thread
end_with_any_thread()
def fail():
    raise RuntimeError("zanzibar")
threading.Thread(target=fail).start()
time.sleep(60)
"""


def test_a_worker_ends_with_any_of_its_threads(repository):
    done = subprocess.run(
        [sys.executable, "-c", FAILING], cwd=repository, capture_output=True, text=True, timeout=30
    )
    # Neither does it say of what: that may quote records.
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")


STUCK = """
import time
from apache_beam.runners.worker import sdk_worker
sdk_worker.BundleProcessorCache.get = lambda *_: time.sleep(60)
from apache_beam.portability.api import beam_fn_api_pb2
from pipelines.workers.pool import early_connection
early_connection.SECONDS_TO_MAKE_STEPS = 0.5
fns = {"2": beam_fn_api_pb2.ProcessBundleDescriptor(id="2")}
early_connection.ConnectedFirst(frozenset(), None, None, fns).get("1", "2")
"""


def test_a_worker_that_is_stuck_before_its_steps_are_made_ends(repository):
    done = subprocess.run([sys.executable, "-c", STUCK], cwd=repository, timeout=30)
    assert done.returncode == 1
