import platform
import subprocess
import sys

import pytest

# How much memory is resident after columns of 160 MiB were filled and freed, on a thread.
FREED = """
import pathlib, resource, threading
import numpy as np
import pyarrow as pa
from pipelines.workers.worker import keep_freed_memory

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
    done = subprocess.run([sys.executable, "-c", FREED], capture_output=True, check=True)
    backend, kept = done.stdout.decode().split()
    assert backend == "system"
    assert int(kept) > 150 << 20
