import subprocess
import sys

CODE = """
import threading, time
from pipelines.local_worker import end_with_any_thread
end_with_any_thread()
def fail():
    raise RuntimeError("zanzibar")
threading.Thread(target=fail).start()
time.sleep(60)
"""


def test_a_worker_ends_with_any_of_its_threads(repository):
    done = subprocess.run(
        [sys.executable, "-c", CODE], cwd=repository, capture_output=True, text=True, timeout=30
    )
    # Neither does it say of what: that may quote records.
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")
