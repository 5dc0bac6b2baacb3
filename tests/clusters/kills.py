"""Kills jobs in one process with SIGKILL at random moments, and looks at what they leave behind.

    python -m tests.clusters.kills [--moments=20] [--only=JOB] [--output=FILE.md]

Half of the moments are at a random time, and half before a random one of the job's changes of files
or of its ledger: what is written last takes no time. After a kill the job runs again, with what is
left of a ledger that two runs fit in, and is not charged for a run that did not begin to write. At
no time may there be a released file that is not the one of a run
that nobody kills (all have one secret, known to the test), a release without a reservation, more
spent than the budget, or, anywhere, the name of a user, or of a partition or group that is not
released. Exits with 1 if there is.

A killed process is not a power cut: what it handed to the system is kept.
"""

import argparse
import dataclasses
import importlib
import os
import pathlib
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator

from dp_transforms.budget import Ledger, PrivacyUnit, State
from dp_transforms.files.filenames import PRIVACY_FILE, RELEASED_FILES, REPORT_FILE
from dp_transforms.runtime.job_secret import JobSecret
from tests.clusters.leaks import show

_EVENTS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "sqlite3.connect"}
# Users, partitions and groups, as ``write_inputs`` makes them.
_NAMES = re.compile(rb"\b(?:user|item|tongue)-\w+-end\b")
_SECONDS_OF_A_JOB = 120
_SEED = 20


@dataclasses.dataclass(frozen=True)
class JobKind:
    """A job.

    Attributes:
      title: in the table.
      module: with a ``main``.
      flags: beside those of input, ledger and output.
      epsilon, delta: what it costs.
      table: the file of input, and the flags of its columns.
    """

    title: str
    module: str
    flags: str
    epsilon: str = "1"
    delta: str = "0"
    table: str = "--input={}/records.csv --user_column=user --partition_column=item"
    unit: PrivacyUnit = PrivacyUnit.USER

    def arguments(self, inputs: pathlib.Path, place: pathlib.Path) -> list[str]:
        flags = f"{self.table} {self.flags} --ledger={place}/budget --output={place}/release"
        return flags.format(inputs).split()


_KAPPA = "--max_partitions_per_user=3"
_LIST = f"--epsilon=1 {_KAPPA}"
KINDS = (
    JobKind("release", "release_frequency_list", _LIST),
    JobKind("release --report", "release_frequency_list", f"{_LIST} --report"),
    JobKind("release on Beam", "release_frequency_list", f"{_LIST} --runner=FnApiRunner"),
    JobKind(
        "release --period=day",
        "release_frequency_list",
        f"{_LIST} --period=day --time_column=at --periods=2026-01-05..2026-01-06 "
        "--max_periods_per_user=2",
    ),
    JobKind(
        "select --noisy_counts",
        "select_partitions",
        f"{_LIST} --delta=1e-5 --noisy_counts --strategy=laplace",
        delta="1e-5",
    ),
    JobKind(
        "select, in rounds",
        "select_partitions",
        f"{_LIST} --delta=1e-5 --strategy=renyi_rounds",
        delta="1e-5",
    ),
    JobKind("release-all", "release_all", f"--epsilon=2 --delta=1e-5 {_KAPPA}", "2", "1e-5"),
    JobKind(
        "release-groups",
        "release_grouped_lists",
        f"--group_by=tongue --epsilon_all=1 --epsilon_groups=1 --epsilon_selection=1 --delta=1e-5 "
        f"{_KAPPA}",
        "3",
        "1e-5",
    ),
    JobKind(
        "degrees",
        "release_degree_list",
        "--privacy_unit=node --degree_bound=9 --epsilon=1",
        table="--input={}/edges.csv --source_column=a --target_column=b",
        unit=PrivacyUnit.NODE,
    ),
)


def write_inputs(directory: pathlib.Path) -> None:
    """Records of 900 users: a few items and groups with many users, and many with one each."""
    rng = random.Random(5)
    lines = ["user,item,tongue,at"]
    for user in range(900):
        own = [f"item-{rng.randrange(4)}-end", f"item-rare{user}-end"]
        tongue = "tongue-common-end" if user % 9 else f"tongue-rare{user}-end"
        lines += [f"user-{user}-end,{item},{tongue},2026-01-0{5 + user % 2}" for item in own]
    (directory / "records.csv").write_text("\n".join([*lines, ""]))
    edges = [f"user-{a}-end,user-{(a * k + 1) % 400}-end" for a in range(400) for k in (2, 3, 5)]
    (directory / "edges.csv").write_text("\n".join(["a,b", *edges, ""]))


def child(kind: JobKind, inputs: pathlib.Path, place: pathlib.Path, kill_at: int) -> None:
    """The job, in a process of its own; it kills itself before its ``kill_at``-th event."""
    (place / "tmp").mkdir(exist_ok=True)
    tempfile.tempdir = os.environ["TMPDIR"] = str(place / "tmp")
    printed = os.open(place / "printed", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(printed, 1)
    os.dup2(printed, 2)
    secret = JobSecret.insecure_for_testing(_SEED)
    JobSecret.from_os = lambda: secret  # type: ignore[method-assign]
    seen = 0

    def count(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal seen
        if event not in _EVENTS or (event == "open" and arguments[1] in ("r", "rb")):
            return
        if event == "sqlite3.connect" or str(arguments[0]).startswith(str(place)):
            seen += 1
            if seen == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
    code = importlib.import_module(f"pipelines.{kind.module}").main(kind.arguments(inputs, place))
    (place / "events").write_text(str(seen))
    sys.stdout.flush()
    os._exit(code)


def run(
    kind: JobKind,
    inputs: pathlib.Path,
    place: pathlib.Path,
    kill_at: int = 0,
    kill_after: float = _SECONDS_OF_A_JOB,
) -> tuple[int | None, float]:
    """A run's exit code, None if it was killed, and its seconds.

    Raises:
      TimeoutError: it did not end by itself within two minutes.
    """
    started = time.monotonic()
    process = os.fork()
    if process == 0:
        try:
            child(kind, inputs, place, kill_at)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(70)
    while time.monotonic() - started < kill_after:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            break
        time.sleep(0.002)
    else:
        os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
        if kill_after == _SECONDS_OF_A_JOB:
            raise TimeoutError(f"{kind.title} did not end")
    code = None if os.WIFSIGNALED(status) else os.waitstatus_to_exitcode(status)
    return code, time.monotonic() - started


def released(place: pathlib.Path) -> dict[str, bytes]:
    """The released files, and the report, by their paths below the output directory."""
    output = place / "release"
    return {
        str(path.relative_to(output)): path.read_bytes()
        for path in sorted(output.rglob("*"))
        if path.name in {*RELEASED_FILES, REPORT_FILE}
    }


@dataclasses.dataclass
class Found:
    """Counts of the states that were seen of a job."""

    killed: int = 0
    ended_before: int = 0
    nothing_left: int = 0
    some_left: int = 0
    complete: int = 0
    overwritten: int = 0
    given_back: int = 0
    faults: list[str] = dataclasses.field(default_factory=list)

    def look(self, kind: JobKind, place: pathlib.Path, whole: dict[str, bytes]) -> None:
        """Adds what must not be there."""
        now = released(place)
        for name, content in now.items():
            # A report tells of the budget, which another run has spent from.
            if name != REPORT_FILE and content != whole[name]:
                self.faults.append(f"{name} is not that of a run that nobody kills")
            elif name == REPORT_FILE and not content.rstrip().endswith(b"</html>"):
                self.faults.append("half a report")
            elif not (place / "release" / name).with_name(PRIVACY_FILE).exists():
                self.faults.append(f"{name} without its {PRIVACY_FILE}")
        ledger = Ledger.open(place / "budget")
        spent, budget = ledger.spent(), ledger.budget
        if spent.epsilon > budget.epsilon or spent.delta > budget.delta:
            self.faults.append("overspent")
        begun = any((place / "release").rglob("*")) if (place / "release").exists() else False
        if begun and not ledger.lines():
            self.faults.append("a release without a reservation")
        allowed = set(_NAMES.findall(b"".join(whole.values())))
        for path in place.rglob("*"):
            if path.is_file():
                other = set(_NAMES.findall(path.read_bytes())) - allowed
                if other:
                    self.faults.append(f"{len(other)} names in {path.relative_to(place)}")


def new_place(kind: JobKind, root: pathlib.Path, number: int) -> pathlib.Path:
    place = root / f"{kind.module}{number}"
    place.mkdir()
    budget = (2 * float(kind.epsilon), 2 * float(kind.delta))
    Ledger.create(place / "budget", *budget, unit=kind.unit)
    return place


def sweep(kind: JobKind, inputs: pathlib.Path, root: pathlib.Path, moments: int) -> Found:
    """One job, killed at so many moments."""
    rng, found = random.Random(f"{kind.title} {moments}"), Found()
    # The first run imports what is imported late, for it to count less.
    importlib.import_module(f"pipelines.{kind.module}")
    place = new_place(kind, root, -1)
    code, seconds = run(kind, inputs, place)
    whole, events = released(place), int((place / "events").read_text())
    found.look(kind, place, whole)
    if code or not whole:
        found.faults.append(f"exit code {code} of a run that nobody killed")
    shutil.rmtree(place)
    for moment in range(moments):
        place = new_place(kind, root, moment)
        if moment % 2:
            code, _ = run(kind, inputs, place, kill_at=rng.randint(1, events))
        else:
            code, _ = run(kind, inputs, place, kill_after=rng.uniform(0, seconds))
        found.killed += code is None
        found.ended_before += code is not None
        found.look(kind, place, whole)
        lists = {name for name in whole if name != REPORT_FILE}
        left = lists & released(place).keys()
        found.nothing_left += not left
        found.some_left += bool(left) and left != lists
        found.complete += left == lists
        code, _ = run(kind, inputs, place)
        if code and left != lists:
            # Some of its files are there, which are replaced only on demand.
            again = dataclasses.replace(kind, flags=f"{kind.flags} --overwrite")
            code, _ = run(again, inputs, place)
            found.overwritten += 1
        found.look(kind, place, whole)
        lines = Ledger.open(place / "budget").lines()
        if code == 0 and any(line.may_be_given_back for line in lines):
            found.faults.append("what a killed run reserved was not given back")
        found.given_back += any(line.state is State.ABANDONED for line in lines)
        if lists - released(place).keys() or (code and left != lists):
            printed = (place / "printed").read_text(errors="replace").splitlines()[-1:]
            found.faults.append(f"no release by a second run, exit code {code}: {printed}")
        shutil.rmtree(place)
    return found


_HEAD = """\
# Jobs in one process, killed at random moments

`python -m tests.clusters.kills`: each job is killed (SIGKILL) at {moments} moments, half of them at
a random time and half before a change of a file or the ledger, and runs again. Every file that it
leaves is looked at, twice: released files are those of a run that nobody kills, or absent, and have
their statement; the ledger, of twice the job's price, is not overspent, has a line for what is
there, and gave back what a killed run reserved that had not begun to write; no file has the name of
a user, or of a partition or group that is not released.

"""


def report(moments: int, only: str) -> Iterator[tuple[str, bool]]:
    """The lines of the page, and whether each is as it must be."""
    for line in _HEAD.format(moments=moments).splitlines():
        yield line, True
    columns = ["job", "killed", "had ended", "left nothing", "left some files, whole", "left all"]
    columns += ["second run needed --overwrite", "given back", "faults"]
    yield f"| {' | '.join(columns)} |", True
    yield "| --- " + "| ---: " * 8 + "|", True
    with tempfile.TemporaryDirectory() as scratch:
        inputs, root = pathlib.Path(scratch) / "in", pathlib.Path(scratch) / "out"
        inputs.mkdir()
        root.mkdir()
        write_inputs(inputs)
        for kind in KINDS:
            if only in kind.title:
                found = sweep(kind, inputs, root, moments)
                counts = [str(value) for value in dataclasses.astuple(found)[:-1]]
                faults = "; ".join(dict.fromkeys(found.faults)) or "none"
                yield f"| {' | '.join([kind.title, *counts, faults])} |", not found.faults


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--moments", type=int, default=20)
    parser.add_argument("--only", default="", metavar="WORDS")
    parser.add_argument("--output", type=pathlib.Path, metavar="FILE.md")
    flags = parser.parse_args()
    # Imported once, and not by each run.
    for name in ("apache_beam.runners.portability.fn_api_runner", "pipelines.report"):
        importlib.import_module(name)
    return show(report(flags.moments, flags.only), flags.output)


if __name__ == "__main__":
    sys.exit(main())
