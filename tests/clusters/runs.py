"""Jobs on a Flink cluster that are watched while they run, and what they leave behind."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from dp_transforms.files.filenames import PRIVACY_FILE
from runner_configs.flink import cluster
from runner_configs.parts import ROOT, wait_until

SEED = 20
KAPPA = 10
COMPLETE, ABSENT = "complete", "absent"

_CONFIG = ROOT / "runner_configs" / "flink" / "external.yaml"
# A job takes one or two minutes, and three more where a runner waits for a worker's connection.
_SECONDS_FOR_A_JOB = 600.0
_SECONDS_OF_A_START = 2
# Of a stage, until it is in the middle of its work.
_SECONDS_TO_WORK = 0.2
_ENDED = ("FINISHED", "FAILED", "CANCELED")

# A job's module, and its flags beside those that all have.
FREQUENCY_LIST = ("pipelines.release_frequency_list", "--epsilon=1")
NAMES = ("pipelines.select_partitions", "--epsilon=1", "--delta=1e-5")


class EndedEarly(Exception):
    """A job, or the stage that was waited for, ended before what was to be done to it. Has the
    job's exit code; 0 if it goes on."""


class Run:
    """One job on the cluster, with a pool of workers of its own. What waits for something in it
    raises EndedEarly if the job ends before that, and TimeoutError if it does not come."""

    def __init__(self, kind, records, directory):
        self.output = directory / "release"
        self.started = time.monotonic()
        self.log = directory / "printed.log"
        self._earlier = {job["id"] for job in cluster.ask("/jobs")["jobs"]}
        self.start_pool()
        self.process = self._spawn(*command(kind, records, self.output, f"--config={_CONFIG}"))

    def start_pool(self):
        self._pool = self._spawn("pipelines.worker_pool")

    def kill_pool(self):
        """Kills the pool and its workers, as the end of their container would."""
        os.killpg(self._pool.pid, signal.SIGKILL)
        self._pool.wait()

    def kill_a_worker(self):
        """Kills the worker that was started last."""
        os.kill(max(self._workers())[0], signal.SIGKILL)

    def job(self):
        """The job's id once Flink knows it."""
        new = [job["id"] for job in cluster.ask("/jobs")["jobs"] if job["id"] not in self._earlier]
        return new[0] if new else None

    def wait_for_stage(self, words):
        """Waits until tasks run whose name has these words."""
        wait_until(lambda: self._goes_on() and self._runs(words), _SECONDS_FOR_A_JOB)

    def wait_for_work(self, words):
        """Waits until workers are at work in a stage that runs."""
        time.sleep(_SECONDS_TO_WORK)
        if self._goes_on() and not self._runs(words):
            raise EndedEarly(0)

    def wait_for_workers(self):
        """Waits until a worker is just being started."""

        def there():
            ages = [age for _, age in self._workers()]
            return self._goes_on() and min(ages, default=99) < _SECONDS_OF_A_START

        wait_until(there, _SECONDS_FOR_A_JOB)

    def wait(self):
        """The job's exit code; None if it had to be cancelled because it did not end."""
        try:
            return self.process.wait(_SECONDS_FOR_A_JOB)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None

    def wait_for_flink(self):
        """Waits until the job has ended on the cluster."""
        path = f"/jobs/{self.job()}"
        wait_until(lambda: cluster.ask(path)["state"] in _ENDED, _SECONDS_FOR_A_JOB)

    def end(self):
        """Leaves nothing behind that runs."""
        job = self.job()
        if job and cluster.ask(f"/jobs/{job}").get("state", _ENDED[0]) not in _ENDED:
            cluster.cancel(job)
        self.process.kill()
        self.process.wait()
        if self._pool.poll() is None:
            self.kill_pool()

    def _goes_on(self):
        code = self.process.poll()
        if code is not None:
            raise EndedEarly(code)
        return True

    def _runs(self, words):
        job = self.job()
        vertices = cluster.ask(f"/jobs/{job}").get("vertices", []) if job else []
        return any(words in vertex["name"] and vertex["status"] == "RUNNING" for vertex in vertices)

    def _workers(self):
        """The process ids of the pool's workers, and their ages in seconds."""
        # They are copies of a process that the pool has started.
        return [worker for warm, _ in _children(self._pool.pid) for worker in _children(warm)]

    def _spawn(self, *arguments):
        call = [sys.executable, "-m", *arguments]
        with open(self.log, "ab") as log:
            return subprocess.Popen(call, cwd=ROOT, stdout=log, stderr=log, start_new_session=True)


def _children(process):
    command = ["ps", f"--ppid={process}", "-o", "pid=,etimes="]
    numbers = map(int, subprocess.run(command, capture_output=True).stdout.split())
    return list(zip(numbers, numbers, strict=True))


def command(kind, records, output, *more):
    """The module and flags of a job under the test secret."""
    return [
        *("tests.clusters.seeded_job", str(SEED), *kind),
        f"--input={records}",
        "--user_column=user",
        "--partition_column=partition",
        f"--max_partitions_per_user={KAPPA}",
        f"--output={output}",
        *more,
    ]


def look(output, reference):
    """Says in what state an output directory is, beside the files of ``in_process``."""
    visible = visible_files(output)
    if not visible:
        return ABSENT
    if visible.keys() != {*reference, PRIVACY_FILE}:
        return f"PARTIAL: {sorted(visible)}"
    return COMPLETE if reference.items() <= visible.items() else "DIFFERENT"


def visible_files(output):
    """The contents of a directory's files by name; none if there is no directory."""
    paths = output.iterdir() if output.exists() else ()
    return {path.name: path.read_bytes() for path in paths if not path.name.startswith(".")}


def in_process(kind, records):
    """Returns what the in-process runner writes under the same secret, but for its statement, which
    has the time, and its seconds."""
    with tempfile.TemporaryDirectory() as scratch:
        output = pathlib.Path(scratch, "release")
        started = time.monotonic()
        python = [sys.executable, "-m", *command(kind, records, output)]
        subprocess.run(python, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        seconds = time.monotonic() - started
        written = visible_files(output)
        del written[PRIVACY_FILE]
        return written, seconds
