"""Kills jobs that share a ledger, and their workers, with SIGKILL at random moments.

    python -m tests.budget.ledger_kills [--store=file|postgresql] [--minutes=15] [--rounds=N]

In each round a few jobs want a budget that is too small for all of them. A job reserves its part,
starts workers that begin a release under it, and ends in one of the ways in which jobs end. Some
pretend to be on another machine, and some have leases that have run out. Jobs and workers are
killed, often while another job reserves. A server of PostgreSQL crashes in some rounds too, and is
started again. In the end a last job takes what is left. Then

* what was begun does not exceed the budget, by the words of those who began it;
* the ledger has each of these releases on record, as begun and not as given back.

Exits with 1 if that is not so in some round.
"""

import argparse
import collections
import contextlib
import ctypes
import dataclasses
import heapq
import itertools
import os
import random
import select
import signal
import sys
import tempfile
import time
from fractions import Fraction

from dp_transforms.budget import (
    BudgetExceededError,
    CorruptedLedgerError,
    Cost,
    Ledger,
    PrivacyBudget,
    Request,
    State,
    processes,
)
from tests.budget.postgresql import Unavailable, server

_SET_CHILD_SUBREAPER = 36
_LEASES = (None, 60.0, -10.0)
"""A negative lease has run out when it begins."""
_ROUNDS_OF_A_PACE = 20
_COSTS = (Fraction(1, 2), Fraction(2, 3), Fraction(1))
_ENDS = ("gives back", "commits", "waits")


@dataclasses.dataclass(frozen=True)
class _Pace:
    """How long a job takes, and how long a question to the ledger."""

    job: float = 0.03
    ask: float = 0.003


class _Files:
    """Makes ledgers in the files of a directory."""

    faults = ()

    def __init__(self, folder):
        self._folder = folder

    @contextlib.contextmanager
    def ledger(self, name):
        path = os.path.join(self._folder, name)
        yield Ledger.create(path, epsilon=1)
        os.unlink(path)

    def crash(self):
        """Files do not crash."""


class _Postgresql:
    """Makes ledgers in the schemas of a server, which may crash: then jobs have OSErrors."""

    faults = (OSError,)

    def __init__(self, running):
        self._server = running

    @contextlib.contextmanager
    def ledger(self, name):
        import psycopg

        schema = name.replace("-", "_")
        yield Ledger.create(f"{self._server.url}#{schema}", epsilon=1)
        with psycopg.connect(self._server.url, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA {schema} CASCADE")

    def crash(self):
        self._server.stop()
        self._server.start()


class _Channel:
    """A pipe on which processes tell what they do; it ends when all of them have ended."""

    def __init__(self):
        self._reader, self._writer = os.pipe()

    def tell(self, word, number):
        os.write(self._writer, f"{word} {number}\n".encode())

    def messages(self, kills):
        """Yields the words and numbers of all messages, and in the meantime kills processes, which
        stand in a heap of (time, process), at their times."""
        os.close(self._writer)
        rest = b""
        while True:
            wait = max(0.0, kills[0][0] - time.monotonic()) if kills else None
            if not select.select([self._reader], [], [], wait)[0]:
                _kill(heapq.heappop(kills)[1])
                continue
            received = os.read(self._reader, 1 << 16)
            if not received:
                os.close(self._reader)
                return
            *lines, rest = (rest + received).split(b"\n")
            for word, number in map(bytes.split, lines):
                yield word.decode(), int(number)


def _kill(process):
    # Processes of a round are waited for at its end, so that no other one has the number.
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def _fork(act, *arguments):
    process = os.fork()
    if process:
        return process
    code = 70
    try:
        act(*arguments)
        code = 0
    finally:
        os._exit(code)


def _worker(ledger, ids, channel, seconds, faults):
    channel.tell("worker", os.getpid())
    time.sleep(seconds)
    with contextlib.suppress(ValueError, *faults):
        ledger.begin(ids)
        for number in ids:
            channel.tell("begun", number)


def _job(ledger, channel, rng, store, pace):
    channel.tell("job", os.getpid())
    with contextlib.suppress(*store.faults):
        _reserve_and_end(ledger, channel, rng, store, pace)


def _reserve_and_end(ledger, channel, rng, store, pace):
    if rng.random() < 0.3:
        processes._namespace = lambda: "another machine"
    time.sleep(rng.uniform(0, pace.job / 2))
    requests = [Request("part", Cost(PrivacyBudget(rng.choice(_COSTS))))]
    if rng.random() < 0.3:
        requests = [Request("half", Cost(PrivacyBudget(Fraction(1, 4))))] * 2
    lease, until = rng.choice(_LEASES), time.monotonic() + pace.job
    while time.monotonic() < until:
        channel.tell("asks", os.getpid())
        try:
            made = ledger.reserve_all(requests, announces=True, lease_seconds=lease)
        except BudgetExceededError:
            time.sleep(rng.uniform(0, pace.ask))
            continue
        ids = [reservation.id for reservation in made]
        for _ in range(rng.randint(1, 2)):
            wait = rng.uniform(0, pace.job)
            _fork(_worker, ledger, ids, channel, wait, store.faults)
        end = rng.choice(_ENDS)
        time.sleep(rng.uniform(0, 2 * pace.job))
        if lease is not None and rng.random() < 0.3:
            ledger.renew(ids, lease)
        if end == "gives back":
            ledger.give_back(ids)
        elif end == "commits":
            _worker(ledger, ids, channel, 0, store.faults)
            with contextlib.suppress(ValueError):
                ledger.commit(*ids)
        return


def measured_pace(store):
    """Returns a pace at which jobs come to begin, on this machine and as busy as it is now."""

    def work():
        (made,) = ledger.reserve_all([Request("part", Cost(PrivacyBudget(1)))], announces=True)
        ledger.begin([made.id])

    with store.ledger("ledger-pace") as ledger:
        start = time.monotonic()
        os.waitpid(_fork(work), 0)
        seconds = time.monotonic() - start
    usual = _Pace()
    slower = max(1.0, 3 * seconds / usual.job)
    return _Pace(slower * usual.job, slower * usual.ask)


def play(store, rng, pace):
    """Plays one round; returns how often each thing happened, and what must not be."""
    with store.ledger(f"ledger-{rng.getrandbits(64):x}") as ledger:
        return _play(store, ledger, rng, pace)


def _play(store, ledger, rng, pace):
    seen, begun, kills = collections.Counter(), set(), []
    jobs, alive = [], set()
    channel, crashes = _Channel(), bool(store.faults) and rng.random() < 0.1
    for _ in range(rng.randint(2, 4)):
        jobs.append(_fork(_job, ledger, channel, random.Random(rng.getrandbits(64)), store, pace))
    start = time.monotonic()
    for word, number in channel.messages(kills):
        seen[word] += 1
        if word == "begun":
            begun.add(number)
            continue
        now = time.monotonic()
        if crashes and word == "worker":
            crashes = False
            store.crash()
            seen["crashes"] += 1
        if word == "asks":
            other_workers = sorted(alive - {number})
            if other_workers and rng.random() < 0.3:
                victim = rng.choice(other_workers)
                heapq.heappush(kills, (now + rng.uniform(0, pace.ask), victim))
            continue
        alive.add(number)
        # Everybody is killed in the end, if not before.
        last = start + 4 * pace.job
        heapq.heappush(kills, (rng.uniform(now, last) if rng.random() < 0.5 else last, number))
    # The workers of a job become children of this process when it has ended.
    for process in [*jobs, *alive.difference(jobs)]:
        _, status = os.waitpid(process, 0)
        seen["killed"] += os.WIFSIGNALED(status)
        seen["failed"] += not os.WIFSIGNALED(status) and os.waitstatus_to_exitcode(status) != 0
    faults = ["a job or worker failed by itself"] * seen["failed"]
    try:
        left = ledger.remaining().epsilon
        if left:
            (last_job,) = ledger.reserve_all([Request("rest", Cost(PrivacyBudget(left)))])
            last_job.commit()
            begun.add(last_job.id)
        lines = {line.id: line for line in ledger.lines()}
        faults += _faults(ledger, lines, begun)
        seen["given back"] += sum(line.state is State.FAILED for line in lines.values())
    except CorruptedLedgerError as error:
        # By reservations that exceed its budget, for one.
        faults.append(str(error).removeprefix(ledger.path))
    return seen, faults


def _faults(ledger, lines, begun):
    spent = sum(lines[number].cost.budget.epsilon for number in begun)
    if spent > ledger.budget.epsilon:
        yield f"epsilon {spent} was begun, of {ledger.budget.epsilon}"
    for number in begun:
        line = lines[number]
        if not (line.begun or line.state is State.COMMITTED) or not line.counts:
            yield f"a release was begun, and its line is {line.state.value}"


@contextlib.contextmanager
def _stores(kind):
    if kind == "postgresql":
        # Forks have the driver already.
        with server() as running:
            yield _Postgresql(running)
        return
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield _Files(folder)


def play_rounds(kind, seed, seconds, rounds=None):
    """Plays rounds on a kind of ledger for so long, and at most so many; returns the sums of what
    ``play`` returns."""
    # Workers of a killed job become children of this process, which waits for them.
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    rng, seen, faults = random.Random(seed), collections.Counter(), []
    with _stores(kind) as store:
        until = time.monotonic() + seconds
        for number in itertools.count() if rounds is None else range(rounds):
            if time.monotonic() >= until:
                break
            if number % _ROUNDS_OF_A_PACE == 0:
                pace = measured_pace(store)
            counts, wrong = play(store, rng, pace)
            seen.update(counts, rounds=1)
            faults += wrong
    return seen, faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--store", choices=("file", "postgresql"), help="default: one after the other"
    )
    parser.add_argument("--minutes", type=float, default=15, help="for each kind of ledger")
    parser.add_argument("--rounds", type=int, help="at most so many")
    parser.add_argument("--seed", type=int, default=1)
    flags = parser.parse_args()
    code = 0
    for kind in [flags.store] if flags.store else ["file", "postgresql"]:
        try:
            seen, faults = play_rounds(kind, flags.seed, 60 * flags.minutes, flags.rounds)
        except Unavailable as reason:
            print(f"no ledgers in PostgreSQL: {reason}")
            code = 1
            continue
        numbers = ", ".join(f"{word}: {count}" for word, count in sorted(seen.items()))
        print(f"{kind}: {numbers}, faults: {len(faults)}", flush=True)
        for fault, count in collections.Counter(faults).items():
            print(f"{count} times: {fault}")
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
