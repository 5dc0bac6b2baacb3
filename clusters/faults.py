"""Breaks a Flink cluster under running jobs, and looks at what they leave behind.

    python -m clusters.faults [--rows=1000000] [--only=WORDS] [--output=FILE.md]

Each job runs with a worker pool (EXTERNAL) on two task managers, under a test secret. Its output
must be the one of the in-process runner under the same secret, or not be there. Afterwards all
logs, all that the cluster's REST interface says, and all that was printed are searched for user
ids, partitions and the secret. Exits with 1 if an output is anything else or something is found.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

import pyarrow as pa

from benchmarks.throughput_data import visits, write
from clusters.flink import cluster
from clusters.leaks import leaks, logs, needles, rest_answers
from clusters.parts import ROOT
from clusters.runs import (
    ABSENT,
    COMPLETE,
    FREQUENCY_LIST,
    KAPPA,
    NAMES,
    PAIRS,
    SEED,
    JobKind,
    Run,
    in_process,
    look,
    most_partitions_of_a_user,
)
from dp_transforms.job_secret import JobSecret

# Users and partitions of `visits`.
_PATTERNS = (rb"\bu[0-9]{9}\b", rb"\bitem-[0-9]+\b")


def nothing(run: Run) -> None:
    """No fault."""


def kill_task_manager(run: Run) -> None:
    cluster.kill_task_manager()


def replace_task_manager(run: Run) -> None:
    cluster.kill_task_manager()
    time.sleep(2)
    cluster.start_task_manager()


def kill_worker(run: Run) -> None:
    run.kill_a_worker()


def restart_pool(run: Run) -> None:
    run.kill_pool()
    time.sleep(2)
    run.start_pool()


def kill_pool(run: Run) -> None:
    run.kill_pool()


def kill_job_manager(run: Run) -> None:
    cluster.kill_job_manager()


def cancel(run: Run) -> None:
    cluster.cancel(run.job() or "")


def kill_submitter(run: Run) -> None:
    run.process.kill()


READING, COUNTING = "{ReadRecords, Bound}", "{Bound, FrequencyList}"


@dataclasses.dataclass(frozen=True)
class Scenario:
    """A fault while tasks run whose name has some words."""

    name: str
    kind: JobKind
    stage: str
    fault: Callable[[Run], None]


SCENARIOS = (
    Scenario("none", FREQUENCY_LIST, "", nothing),
    Scenario("none", NAMES, "", nothing),
    Scenario("task manager killed while reading, replaced", PAIRS, "Bound", replace_task_manager),
    Scenario(
        "task manager killed while reading, replaced", FREQUENCY_LIST, READING, replace_task_manager
    ),
    Scenario(
        "task manager killed while counting, replaced",
        FREQUENCY_LIST,
        COUNTING,
        replace_task_manager,
    ),
    Scenario(
        "task manager killed while counting, not replaced",
        FREQUENCY_LIST,
        COUNTING,
        kill_task_manager,
    ),
    Scenario(
        "task manager killed while reading, replaced",
        NAMES,
        "{ReadRecords, Partitions}",
        replace_task_manager,
    ),
    Scenario("one worker killed", FREQUENCY_LIST, READING, kill_worker),
    Scenario("worker pool killed, started again", FREQUENCY_LIST, COUNTING, restart_pool),
    Scenario("worker pool killed, not started again", FREQUENCY_LIST, READING, kill_pool),
    Scenario("submitting process killed", FREQUENCY_LIST, READING, kill_submitter),
    Scenario("job cancelled", FREQUENCY_LIST, COUNTING, cancel),
    Scenario("the same again from scratch", FREQUENCY_LIST, "", nothing),
    Scenario("job manager killed", FREQUENCY_LIST, COUNTING, kill_job_manager),
    Scenario("a record without a user in the input", FREQUENCY_LIST, "", nothing),
)
_BAD_RECORD = SCENARIOS[-1]


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of a job: its exit code (None: it hung), its output, seconds, what leaked."""

    code: int | None
    output: str
    seconds: float
    leaks: dict[str, int]

    @property
    def sound(self) -> bool:
        allowed = (COMPLETE,) if self.code == 0 else (COMPLETE, ABSENT)
        return self.code is not None and self.output in allowed and not self.leaks


def rehearse(scenario: Scenario, records: str, reference: bytes) -> Outcome:
    """Runs a job on the cluster, with a fault in the middle."""
    cluster.up()
    with tempfile.TemporaryDirectory() as scratch:
        run = Run(scenario.kind, records, pathlib.Path(scratch))
        try:
            code = attempt(scenario, run)
            seconds = time.monotonic() - run.started
            cluster.up()
            shown = [("printed", run.printed()), *logs(cluster.LOGS), *rest_answers()]
        finally:
            run.end()
        output = look(run.output, scenario.kind.file_name, reference)
    secret = JobSecret.insecure_for_testing(SEED).secret
    return Outcome(code, output, seconds, leaks(needles(secret, _PATTERNS), shown))


def attempt(scenario: Scenario, run: Run) -> int | None:
    """Breaks something in the middle of a run; the job's exit code, or None if it hung."""
    if scenario.fault is not nothing:
        try:
            run.wait_for_stage(scenario.stage)
        except TimeoutError:
            return None
        time.sleep(1)
        scenario.fault(run)
    code = run.wait()
    if scenario.fault is kill_submitter:
        run.wait_for_flink()
    return code


def with_a_bad_record(rows: int) -> Iterator[pa.Table]:
    yield from visits(rows)
    # Its partition is looked for like the others.
    yield pa.table({"user": pa.array([None], pa.string()), "partition": ["item-7"]})


def report(rows: int, only: str, data: pathlib.Path) -> Iterator[tuple[str, bool]]:
    """The lines of the table, and whether each is as it must be."""
    records = write(data / f"visits{rows}.parquet", visits(rows))
    bad_records = write(data / f"bad{rows}.parquet", with_a_bad_record(rows))
    yield "# Faults on a Flink cluster", True
    yield "", True
    yield (
        (
            f"`python -m clusters.faults`: {rows:,} records, at most {KAPPA} partitions of a user, "
            f"two task managers, EXTERNAL workers; {os.cpu_count()} cores, shared. *Complete* is "
            "byte for byte what the in-process runner writes under the same secret."
        ),
        True,
    )
    yield "", True
    references = {}
    kinds = {scenario.kind for scenario in SCENARIOS if only in scenario.name}
    for kind in sorted(kinds, key=lambda kind: kind.module):
        references[kind], seconds = in_process(kind, records)
        yield f"* {kind.title} in process: {seconds:.0f} s", True
    if PAIRS in references:
        most = most_partitions_of_a_user(references[PAIRS])
        yield f"* most partitions of a user in bounded_pairs: {most}", most == KAPPA
    yield "", True
    yield "| job | fault | the job | its output | time | leaks |", True
    yield "| --- | --- | --- | --- | ---: | --- |", True
    outcomes = []
    for scenario in SCENARIOS:
        if only not in scenario.name:
            continue
        path = bad_records if scenario is _BAD_RECORD else records
        outcome = rehearse(scenario, path, references[scenario.kind])
        outcomes.append(outcome)
        yield row(scenario, outcome), outcome.sound
    yield "", True
    yield (
        (
            f"{len(outcomes)} runs: {sum(one.code == 0 for one in outcomes)} finished, "
            f"{sum(one.code is None for one in outcomes)} hung, and the others said that they "
            f"failed or were killed. Outputs that are neither complete nor absent: "
            f"{sum(one.output not in (COMPLETE, ABSENT) for one in outcomes)}."
        ),
        True,
    )
    yield "", True
    yield (
        (
            "Searched for every user id and partition, and for the secret as bytes, hexadecimal, "
            "base64, Python and decimal text: the logs of the job manager, the task managers and "
            "the job server, what the jobs and the pools print, and Flink's REST answers on the "
            "cluster, its configuration, each job's graph, plan, configuration, exceptions, "
            "accumulators, metrics and tasks."
        ),
        True,
    )


def row(scenario: Scenario, outcome: Outcome) -> str:
    ended = {0: "finished", None: "HUNG", -signal.SIGKILL: "killed"}
    job = ended.get(outcome.code, f"failed, exit code {outcome.code}")
    found = ", ".join(f"{name}: {n}" for name, n in outcome.leaks.items()) or "none"
    return (
        f"| {scenario.kind.title} | {scenario.name} | {job} | {outcome.output} | "
        f"{outcome.seconds:.0f} s | {found} |"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="how many records")
    parser.add_argument("--only", default="", help="faults whose name has these words")
    parser.add_argument("--output", type=pathlib.Path, help="also write the table to this file")
    flags = parser.parse_args()
    data = ROOT / "out" / "faults"
    shutil.rmtree(cluster.LOGS, ignore_errors=True)
    sound, lines = True, []
    try:
        for line, good in report(flags.rows, flags.only, data):
            print(line, "" if good else "<-- NOT AS IT MUST BE", flush=True)
            lines.append(line)
            sound &= good
    finally:
        cluster.down()
    if flags.output:
        flags.output.write_text("\n".join(lines) + "\n")
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
