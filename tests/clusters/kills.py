"""Kills jobs in one process with SIGKILL at random moments, and looks at what they leave behind.

    python -m tests.clusters.kills [--moments=20] [--only=JOB] [--output=FILE.md]

What is killed when, and what must not be found then, is said at the head of the page that it makes.
All jobs have one secret, known to the test. Exits with 1 if something is found.

A killed process is not a power cut: what it handed to the system is kept.
"""

import argparse
import collections
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

from dp_transforms.budget import Ledger, PrivacyUnit, State
from dp_transforms.files.filenames import PRIVACY_FILE, RELEASED_FILES, REPORT_FILE
from tests.clusters import seeded_job
from tests.clusters.leaks import show

_EVENTS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "sqlite3.connect"}
# Users, partitions and groups, as ``write_inputs`` makes them.
_NAMES = re.compile(rb"\b(?:user|item|tongue)-\w+-end\b")
_SECONDS_OF_A_JOB = 120
_SEED = 20


@dataclasses.dataclass(frozen=True)
class JobKind:
    """A job: its name in the table, its module, its own flags, what it costs, its input."""

    title: str
    module: str
    flags: str
    epsilon: float = 1
    delta: float = 0
    table: str = "--input={}/records.csv --user_column=user --partition_column=item"
    unit: PrivacyUnit = PrivacyUnit.USER

    def arguments(self, inputs, place):
        flags = f"{self.table} {self.flags} --ledger={place}/budget --output={place}/release"
        return flags.format(inputs).split()


_KAPPA = "--max_partitions_per_user=3"
_LIST = f"--epsilon=1 {_KAPPA}"
_SELECT = f"{_LIST} --delta=1e-5 --strategy="
_DAYS = "--period=day --time_column=at --periods=2026-01-05..2026-01-06 --max_periods_per_user=2"
_GROUPS = "--group_by=tongue --epsilon_all=1 --epsilon_groups=1 --epsilon_selection=1 --delta=1e-5"
_NODE = "--privacy_unit=node --degree_bound=9 --epsilon=1"
_EDGES = "--input={}/edges.csv --source_column=a --target_column=b"
KINDS = (
    JobKind("release", "release_frequency_list", _LIST),
    JobKind("release --report", "release_frequency_list", f"{_LIST} --report"),
    JobKind("release on Beam", "release_frequency_list", f"{_LIST} --runner=FnApiRunner"),
    JobKind("release --period=day", "release_frequency_list", f"{_LIST} {_DAYS}"),
    JobKind(
        "select --noisy_counts", "select_partitions", f"{_SELECT}laplace --noisy_counts", 1, 1e-5
    ),
    JobKind("select, in rounds", "select_partitions", f"{_SELECT}renyi_rounds", 1, 1e-5),
    JobKind("release-all", "release_all", f"--epsilon=2 --delta=1e-5 {_KAPPA}", 2, 1e-5),
    JobKind("release-groups", "release_grouped_lists", f"{_GROUPS} {_KAPPA}", 3, 1e-5),
    JobKind("degrees", "release_degree_list", _NODE, table=_EDGES, unit=PrivacyUnit.NODE),
)


def write_inputs(directory):
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


def child(kind, inputs, place, kill_at):
    """The job, in a process of its own; it kills itself before its ``kill_at``-th event."""
    (place / "tmp").mkdir(exist_ok=True)
    tempfile.tempdir = os.environ["TMPDIR"] = str(place / "tmp")
    printed = os.open(place / "printed", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(printed, 1)
    os.dup2(printed, 2)
    seen = 0

    def count(event, arguments):
        nonlocal seen
        if event not in _EVENTS or (event == "open" and arguments[1] in ("r", "rb")):
            return
        if event == "sqlite3.connect" or str(arguments[0]).startswith(str(place)):
            seen += 1
            if seen == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
    arguments = kind.arguments(inputs, place)
    code = seeded_job.main(_SEED, f"pipelines.{kind.module}", *arguments)
    (place / "events").write_text(str(seen))
    sys.stdout.flush()
    os._exit(code)


def run(kind, inputs, place, kill_at=0, kill_after=_SECONDS_OF_A_JOB):
    """A run's exit code, None if it was killed, and its seconds; it must end within two minutes."""
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


def released(place):
    """The released files, and the report, by their paths below the output directory."""
    output = place / "release"
    return {
        str(path.relative_to(output)): path.read_bytes()
        for path in sorted(output.rglob("*"))
        if path.match(RELEASED_FILES) or path.name == REPORT_FILE
    }


def look(place, whole):
    """What must not be there."""
    output = place / "release"
    for name, content in released(place).items():
        # A report tells of the budget, which another run has spent from.
        if name != REPORT_FILE and content != whole[name]:
            yield f"{name} is not that of a run that nobody kills"
        elif name == REPORT_FILE and not content.rstrip().endswith(b"</html>"):
            yield "half a report"
        elif not (output / name).with_name(PRIVACY_FILE).exists():
            yield f"{name} without its {PRIVACY_FILE}"
    ledger = Ledger.open(place / "budget")
    spent, budget = ledger.spent(), ledger.budget
    if spent.epsilon > budget.epsilon or spent.delta > budget.delta:
        yield "overspent"
    if any(output.rglob("*")) and not ledger.lines():
        yield "a release without a reservation"
    allowed = set(_NAMES.findall(b"".join(whole.values())))
    for path in filter(pathlib.Path.is_file, place.rglob("*")):
        other = set(_NAMES.findall(path.read_bytes())) - allowed
        if other:
            yield f"{len(other)} names in {path.relative_to(place)}"


def new_place(kind, root, number):
    place = root / f"{kind.module}{number}"
    place.mkdir()
    Ledger.create(place / "budget", 2 * kind.epsilon, 2 * kind.delta, unit=kind.unit)
    return place


_SEEN = ("killed", "had ended", "left nothing", "left some files, whole", "left all")
_SEEN += ("second run needed --overwrite", "given back")


def sweep(kind, inputs, root, moments):
    """One job, killed at so many moments: how often each of ``_SEEN`` was seen, and faults."""
    rng, seen = random.Random(f"{kind.title} {moments}"), collections.Counter()
    # The first run imports what is imported late, for it to count less.
    importlib.import_module(f"pipelines.{kind.module}")
    place = new_place(kind, root, -1)
    code, seconds = run(kind, inputs, place)
    whole, events = released(place), int((place / "events").read_text())
    lists = whole.keys() - {REPORT_FILE}
    faults = [*look(place, whole)]
    if code or not whole:
        faults.append(f"exit code {code} of a run that nobody killed")
    shutil.rmtree(place)
    for moment in range(moments):
        place = new_place(kind, root, moment)
        if moment % 2:
            code, _ = run(kind, inputs, place, kill_at=rng.randint(1, events))
        else:
            code, _ = run(kind, inputs, place, kill_after=rng.uniform(0, seconds))
        seen["killed" if code is None else "had ended"] += 1
        faults += look(place, whole)
        left = lists & released(place).keys()
        some = "left some files, whole" if left else "left nothing"
        seen["left all" if left == lists else some] += 1
        code, _ = run(kind, inputs, place)
        if code and left != lists:
            # Some of its files are there, which are replaced only on demand.
            again = dataclasses.replace(kind, flags=f"{kind.flags} --overwrite")
            code, _ = run(again, inputs, place)
            seen["second run needed --overwrite"] += 1
        faults += look(place, whole)
        lines = Ledger.open(place / "budget").lines()
        if code == 0 and any(line.may_be_given_back for line in lines):
            faults.append("what a killed run reserved was not given back")
        seen["given back"] += any(line.state is State.FAILED for line in lines)
        if lists - released(place).keys() or (code and left != lists):
            printed = (place / "printed").read_text(errors="replace").splitlines()[-1:]
            faults.append(f"no release by a second run, exit code {code}: {printed}")
        shutil.rmtree(place)
    return seen, faults


_HEAD = f"""\
# Jobs in one process, killed at random moments

`python -m tests.clusters.kills`: each job is killed (SIGKILL) at {{moments}} moments, half of them
at a random time and half before a change of a file or the ledger, and runs again. Every file that
it leaves is looked at, twice: released files are those of a run that nobody kills, or absent, and
have their statement; the ledger, of twice the job's price, is not overspent, has a line for what is
there, and gave back what a killed run reserved that had not begun to write; no file has the name of
a user, or of a partition or group that is not released.

| job | {" | ".join(_SEEN)} | faults |
| --- {"| ---: " * (len(_SEEN) + 1)}|
"""


def report(moments, only):
    """The lines of the page, and whether each is as it must be."""
    yield from ((line, True) for line in _HEAD.format(moments=moments).splitlines())
    with tempfile.TemporaryDirectory() as scratch:
        inputs, root = pathlib.Path(scratch) / "in", pathlib.Path(scratch) / "out"
        inputs.mkdir()
        root.mkdir()
        write_inputs(inputs)
        for kind in KINDS:
            if only in kind.title:
                seen, faults = sweep(kind, inputs, root, moments)
                counts = [str(seen[event]) for event in _SEEN]
                listed_faults = "; ".join(dict.fromkeys(faults)) or "none"
                yield f"| {' | '.join([kind.title, *counts, listed_faults])} |", not faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
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
