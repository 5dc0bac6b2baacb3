"""Jobs on a Flink cluster that are watched while they run, and what they leave behind."""

import dataclasses
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping

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


@dataclasses.dataclass(frozen=True)
class JobKind:
    """A job, and its flags beside those that all have."""

    module: str
    flags: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        return self.module.rpartition(".")[2]


FREQUENCY_LIST = JobKind("pipelines.release_frequency_list", ("--epsilon=1",))
NAMES = JobKind("pipelines.select_partitions", ("--epsilon=1", "--delta=1e-5"))
PAIRS = JobKind("tests.clusters.bounded_pairs")


class EndedEarly(Exception):
    """A job, or the stage that was waited for, ended before what was to be done to it.

    Attributes:
      code: the job's exit code; 0 if it goes on.
    """

    def __init__(self, code: int):
        super().__init__(f"the job ended early, with exit code {code}")
        self.code = code


class Run:
    """One job on the cluster, with a pool of workers of its own."""

    def __init__(self, kind: JobKind, records: str, directory: pathlib.Path):
        self.kind = kind
        self.output = directory / "release"
        self.started = time.monotonic()
        self._log = directory / "printed.log"
        self._earlier = {job["id"] for job in cluster.ask("/jobs")["jobs"]}
        self.start_pool()
        arguments = command(kind, records, self.output, f"--config={_CONFIG}")
        self.process = self._spawn("tests.clusters.seeded_job", str(SEED), *arguments)

    def start_pool(self) -> None:
        self._pool = self._spawn("pipelines.worker_pool")

    def kill_pool(self) -> None:
        """Kills the pool and its workers, as the end of their container would."""
        os.killpg(self._pool.pid, signal.SIGKILL)
        self._pool.wait()

    def kill_a_worker(self) -> None:
        """Kills the worker that was started last."""
        os.kill(max(self._workers())[0], signal.SIGKILL)

    def job(self) -> str | None:
        """The job's id once Flink knows it."""
        new = [job["id"] for job in cluster.ask("/jobs")["jobs"] if job["id"] not in self._earlier]
        return new[0] if new else None

    def wait_for_stage(self, words: str) -> None:
        """Waits until tasks run whose name has these words.

        Raises:
          EndedEarly: the job has ended.
          TimeoutError: they did not run.
        """

        def runs() -> bool:
            self._go_on()
            return self._runs(words)

        wait_until(runs, _SECONDS_FOR_A_JOB)

    def wait_for_work(self, words: str) -> None:
        """Waits until workers are at work in a stage that runs.

        Raises:
          EndedEarly: it has no work any more.
        """
        time.sleep(_SECONDS_TO_WORK)
        self._go_on()
        if not self._runs(words):
            raise EndedEarly(0)

    def wait_for_workers(self) -> None:
        """Waits until a worker is just being started.

        Raises:
          EndedEarly: the job has ended.
          TimeoutError: there was none.
        """

        def there() -> bool:
            self._go_on()
            return any(age < _SECONDS_OF_A_START for _, age in self._workers())

        wait_until(there, _SECONDS_FOR_A_JOB)

    def wait(self) -> int | None:
        """The job's exit code; None if it had to be cancelled because it did not end."""
        try:
            return self.process.wait(_SECONDS_FOR_A_JOB)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None

    def wait_for_flink(self) -> None:
        """Waits until the job has ended on the cluster."""
        wait_until(
            lambda: cluster.ask(f"/jobs/{self.job()}")["state"] in _ENDED, _SECONDS_FOR_A_JOB
        )

    def end(self) -> None:
        """Leaves nothing behind that runs."""
        job = self.job()
        if job and cluster.ask(f"/jobs/{job}").get("state", _ENDED[0]) not in _ENDED:
            cluster.cancel(job)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self._pool.poll() is None:
            self.kill_pool()

    def printed(self) -> bytes:
        return self._log.read_bytes()

    def _go_on(self) -> None:
        code = self.process.poll()
        if code is not None:
            raise EndedEarly(code)

    def _runs(self, words: str) -> bool:
        job = self.job()
        vertices = cluster.ask(f"/jobs/{job}").get("vertices", []) if job else []
        return any(words in one["name"] and one["status"] == "RUNNING" for one in vertices)

    def _workers(self) -> list[tuple[int, int]]:
        """The process ids of the pool's workers, and their ages in seconds."""
        # They are copies of a process that the pool has started.
        return [worker for warm, _ in _children(self._pool.pid) for worker in _children(warm)]

    def _spawn(self, module: str, *arguments: str) -> subprocess.Popen:
        with open(self._log, "ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                cwd=ROOT,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )


def _children(process: int) -> list[tuple[int, int]]:
    command = ["ps", f"--ppid={process}", "-o", "pid=,etimes="]
    numbers = map(int, subprocess.run(command, capture_output=True).stdout.split())
    return list(zip(numbers, numbers, strict=True))


def command(kind: JobKind, records: str, output: pathlib.Path, *more: str) -> list[str]:
    """A job's module and flags."""
    return [
        kind.module,
        *kind.flags,
        f"--input={records}",
        "--user_column=user",
        "--partition_column=partition",
        f"--max_partitions_per_user={KAPPA}",
        f"--output={output}",
        *more,
    ]


def look(output: pathlib.Path, reference: Mapping[str, bytes]) -> str:
    """Says in what state an output directory is, beside the files of ``in_process``."""
    visible = visible_files(output)
    if not visible:
        return ABSENT
    if visible.keys() != {*reference, PRIVACY_FILE}:
        return f"PARTIAL: {sorted(visible)}"
    return COMPLETE if reference.items() <= visible.items() else "DIFFERENT"


def visible_files(output: pathlib.Path) -> dict[str, bytes]:
    """The contents of a directory's files by name; none if there is no directory."""
    paths = output.iterdir() if output.exists() else ()
    return {path.name: path.read_bytes() for path in paths if not path.name.startswith(".")}


def in_process(kind: JobKind, records: str) -> tuple[dict[str, bytes], float]:
    """Returns what the in-process runner writes under the same secret, but for its statement, which
    has the time, and its seconds."""
    with tempfile.TemporaryDirectory() as scratch:
        output = pathlib.Path(scratch, "release")
        started = time.monotonic()
        arguments = command(kind, records, output)
        subprocess.run(
            [sys.executable, "-m", "tests.clusters.seeded_job", str(SEED), *arguments],
            cwd=ROOT,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        seconds = time.monotonic() - started
        written = visible_files(output)
        del written[PRIVACY_FILE]
        return written, seconds


def most_partitions_of_a_user(pairs: bytes) -> int:
    """From a file of bounded pairs; these must be different."""
    lines = pairs.decode().splitlines()[1:]
    if len(set(lines)) < len(lines):
        raise AssertionError("a pair is there twice")
    users: dict[str, int] = {}
    for line in lines:
        user = line.partition(",")[0]
        users[user] = users.get(user, 0) + 1
    return max(users.values())
