import platform

import pytest

from tests.jobs import python

FAILING = """
import threading, time
from pipelines.worker import end_with_any_thread
end_with_any_thread()
def fail():
    raise RuntimeError("zanzibar")
threading.Thread(target=fail).start()
time.sleep(60)
"""
STUCK = """
import time
from apache_beam.runners.worker import sdk_worker
sdk_worker.BundleProcessorCache.get = lambda *_: time.sleep(60)
from apache_beam.portability.api import beam_fn_api_pb2
from pipelines import worker
worker.SECONDS_TO_MAKE_STEPS = 0.5
worker.connect_early()
fns = {"2": beam_fn_api_pb2.ProcessBundleDescriptor(id="2")}
print("making", flush=True)
sdk_worker.BundleProcessorCache(frozenset(), None, None, fns).get("1", "2")
"""


@pytest.mark.parametrize(("script", "printed"), [(FAILING, ""), (STUCK, "making\n")])
def test_a_worker_ends_with_any_of_its_threads_and_if_it_is_stuck(repository, script, printed):
    done = python("-c", script, cwd=repository)
    assert (done.returncode, done.stdout) == (1, printed)
    # A worker does not say what failed: that may quote records.
    assert done.stderr == "" or (script is STUCK and "Traceback" not in done.stderr)


# How much memory is resident after columns of 160 MiB were filled and freed, on a thread.
FREED = """
import pathlib, resource, threading
import numpy as np
import pyarrow as pa
from pipelines.worker import keep_freed_memory

def columns():
    held = [pa.allocate_buffer(8 << 20) for _ in range(20)]
    for column in held:
        np.frombuffer(column, np.uint8)[::4096] = 1

def resident():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

keep_freed_memory()
before = resident()
thread = threading.Thread(target=columns)
thread.start()
thread.join()
print(pa.default_memory_pool().backend_name, resident() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of glibc")
def test_freed_memory_is_kept():
    backend, kept = python("-c", FREED, check=True).stdout.split()
    assert backend == "system"
    assert int(kept) > 150 << 20
