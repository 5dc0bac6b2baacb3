"""Breaks a Flink cluster under running jobs, and looks at what they leave behind.

    python -m tests.clusters.faults [--rows=5000000] [--only=WORDS] [--output=FILE.md]

Each job runs with a worker pool (EXTERNAL) on two task managers, under a test secret. Its output
must be the one of the in-process runner under the same secret, or not be there. Afterwards all
logs, all that the cluster's REST interface says, and all that was printed are searched for user
ids, partitions and the secret. Exits with 1 if an output is anything else, something is found, a
job hung or could not be tried, or one failed for which there was all that it needs.
"""

import argparse
import dataclasses
import functools
import itertools
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable

import pyarrow as pa

from benchmarks.throughput_data import visits, write
from dp_transforms.runtime.job_secret import JobSecret
from runner_configs.flink import cluster
from runner_configs.parts import ROOT
from tests.clusters.leaks import leaks, logs, needles, rest_answers, show
from tests.clusters.runs import (
    ABSENT,
    COMPLETE,
    FREQUENCY_LIST,
    KAPPA,
    NAMES,
    SEED,
    EndedEarly,
    Run,
    in_process,
    look,
)

# Users and partitions of `visits`.
_PATTERNS = (rb"\bu[0-9]{9}\b", rb"\bitem-[0-9]+\b")


def kill_task_manager(run):
    cluster.kill_task_manager()


def replace_task_manager(run):
    cluster.kill_task_manager()
    time.sleep(2)
    cluster.start_task_manager()


def restart_pool(run):
    run.kill_pool()
    time.sleep(2)
    run.start_pool()


def kill_job_manager(run):
    cluster.kill_job_manager()


def cancel(run):
    cluster.cancel(run.job() or "")


def kill_submitter(run):
    run.process.kill()


# Workers start in the first stage, and in the one that asks for more memory.
STARTING, READING, COUNTING, RELEASING, NAMING = (
    "ReadRecords/{Match, Split}",
    "{ReadRecords, Bound}",
    "{Bound, FrequencyList}",
    "FrequencyList/Release/Release",
    "{ReadRecords, Partitions}",
)


@dataclasses.dataclass(frozen=True)
class Scenario:
    """A fault in a stage, which is named by words of its tasks. It comes when a worker of the stage
    is at work, or when workers are being started."""

    name: str
    stage: str = ""
    fault: Callable[[Run], None] | None = None
    kind: tuple[str, ...] = FREQUENCY_LIST
    at_work: bool = True


_REPLACED = "task manager killed while reading, replaced"
_POOL_AT_START = "worker pool killed at its workers' start"
SCENARIOS = (
    Scenario("none"),
    Scenario("none", kind=NAMES),
    Scenario(_REPLACED, READING, replace_task_manager),
    Scenario(_REPLACED, NAMING, replace_task_manager, NAMES),
    Scenario("task manager killed while counting, replaced", COUNTING, replace_task_manager),
    Scenario("task manager killed while counting, not replaced", COUNTING, kill_task_manager),
    Scenario("one worker killed at its start", STARTING, Run.kill_a_worker, at_work=False),
    Scenario("one worker killed at work", READING, Run.kill_a_worker),
    Scenario(f"{_POOL_AT_START}, started again", RELEASING, restart_pool, at_work=False),
    Scenario("worker pool killed at work, started again", READING, restart_pool),
    Scenario(f"{_POOL_AT_START}, not started again", RELEASING, Run.kill_pool, at_work=False),
    Scenario("worker pool killed at work, not started again", READING, Run.kill_pool),
    Scenario("submitting process killed", READING, kill_submitter),
    Scenario("job cancelled", COUNTING, cancel),
    Scenario("the same again from scratch"),
    Scenario("job manager killed", COUNTING, kill_job_manager),
    Scenario("a record without a user in the input"),
)
_BAD_RECORD = SCENARIOS[-1]
# What is lost comes back, or there is another.
_SURVIVED = (None, kill_task_manager, replace_task_manager, Run.kill_a_worker, restart_pool)

# A job that ends before its fault is run again on so many times the records.
_FACTORS = (1, 4, 16)
_DIRECTORY = ROOT / "out" / "faults"


def records(rows, bad=False):
    """A file of so many records."""
    # The partition of a bad one is looked for like the others.
    bad_row = pa.table({"user": pa.array([None], pa.string()), "partition": ["item-7"]})
    made = itertools.chain(visits(rows), [bad_row] * bad)
    return write(_DIRECTORY / f"{'bad' if bad else 'visits'}{rows}.parquet", made)


@functools.cache
def reference(kind, rows):
    """What the in-process runner makes of these: its output but for its statement, and seconds."""
    return in_process(kind, records(rows))


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The end of a job: its exit code (None: it hung), its output, seconds, leaks. If the fault
    could not be tried, ``trouble`` says why."""

    code: int | None
    output: str
    seconds: float
    leaks: dict[str, int]
    trouble: str = ""

    @property
    def sound(self):
        allowed = (COMPLETE,) if self.code == 0 else (COMPLETE, ABSENT)
        tried = self.code is not None and not self.trouble
        return tried and self.output in allowed and not self.leaks

    @property
    def ended(self):
        words = {0: "finished", None: "HUNG", -signal.SIGKILL: "killed"}
        return self.trouble or words.get(self.code, f"failed, exit code {self.code}")


def rehearse(scenario, rows):
    """Runs a job on the cluster, with a fault in the middle. Whatever happens is an outcome: one
    run's trouble must not keep the others from being tried."""
    started = time.monotonic()
    try:
        for factor in _FACTORS:
            try:
                return run_once(scenario, rows * factor)
            except EndedEarly as early:
                (code,) = early.args
                trouble = f"NOT TRIED: exit code {code} before the fault"
                if code:
                    break
    except Exception as error:
        trouble = f"NOT TRIED: {type(error).__name__}"
    return Outcome(None, "not looked at", time.monotonic() - started, {}, trouble)


def run_once(scenario, rows):
    expected, _ = reference(scenario.kind, rows)
    file = records(rows, scenario is _BAD_RECORD)
    cluster.up()
    with tempfile.TemporaryDirectory() as scratch:
        run = Run(scenario.kind, file, pathlib.Path(scratch))
        try:
            code = attempt(scenario, run)
            seconds = time.monotonic() - run.started
            cluster.up()
            shown = [("printed", run.log.read_bytes()), *logs(cluster.LOGS), *rest_answers()]
        finally:
            run.end()
        output = look(run.output, expected)
    secret = JobSecret.insecure_for_testing(SEED).secret
    return Outcome(code, output, seconds, leaks(needles(secret, _PATTERNS), shown))


def attempt(scenario, run):
    """Breaks something in the middle of a run; the job's exit code, or None if it hung."""
    if scenario.fault:
        run.wait_for_stage(scenario.stage)
        if scenario.at_work:
            run.wait_for_work(scenario.stage)
        else:
            run.wait_for_workers()
        scenario.fault(run)
    code = run.wait()
    if scenario.fault is kill_submitter:
        run.wait_for_flink()
    return code


_HEAD = """\
# Faults on a Flink cluster

`python -m tests.clusters.faults --rows={rows}`: at most {kappa} partitions of a user, two task
managers, EXTERNAL workers; {cores} cores, shared. *Complete* is byte for byte what the in-process
runner writes under the same secret.

Searched for every user id and partition, and for the secret as bytes, hexadecimal, base64, Python
and decimal text: the logs of the job manager, the task managers and the job server, what the jobs
and the pools print, and Flink's REST answers on the cluster, its configuration, each job's graph,
plan, configuration, exceptions, accumulators, metrics and tasks.

{seconds}

| job | fault | the job | its output | time | leaks |
| --- | --- | --- | --- | ---: | --- |
"""


def report(rows, only):
    """The lines of the table, and whether each is as it must be."""
    scenarios = [scenario for scenario in SCENARIOS if only in scenario.name]
    seconds = "\n".join(
        f"* {kind[0]}, {rows:,} records: {reference(kind, rows)[1]:.0f} s in process"
        for kind in dict.fromkeys(scenario.kind for scenario in scenarios)
    )
    head = {"rows": rows, "kappa": KAPPA, "cores": os.cpu_count(), "seconds": seconds}
    yield from ((line, True) for line in _HEAD.format(**head).splitlines())
    for scenario in scenarios:
        outcome = rehearse(scenario, rows)
        survives = scenario.fault in _SURVIVED and scenario is not _BAD_RECORD
        yield row(scenario, outcome), outcome.sound and (outcome.code == 0 or not survives)
        if outcome.code is None:
            # What did not end may hold on to slots.
            cluster.down()


def row(scenario, outcome):
    leaked = ", ".join(f"{name}: {n}" for name, n in outcome.leaks.items()) or "none"
    return (
        f"| {scenario.kind[0]} | {scenario.name} | {outcome.ended} | {outcome.output} | "
        f"{outcome.seconds:.0f} s | {leaked} |"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000, help="how many records")
    parser.add_argument("--only", default="", help="faults whose name has these words")
    parser.add_argument("--output", type=pathlib.Path, help="also write the table to this file")
    flags = parser.parse_args()
    shutil.rmtree(cluster.LOGS, ignore_errors=True)
    try:
        return show(report(flags.rows, flags.only), flags.output)
    finally:
        cluster.down()


if __name__ == "__main__":
    sys.exit(main())
