"""Kills jobs that share a ledger, and their workers, with SIGKILL at random moments.

    python -m tests.budget.ledger_kills [--minutes=30] [--rounds=N] [--seed=1]

In each round a few jobs want a budget that is too small for all of them. A job reserves its part,
starts workers that begin a release under it, and ends in one of the ways in which jobs end. Some
pretend to be on another machine. Jobs and workers are killed, often while another job reserves. In
the end a last job takes what is left. Then

* what was begun does not exceed the budget, by the words of those who began it;
* the ledger has each of these releases on record, as begun and not as given back.

Exits with 1 if that is not so in some round.
"""

import argparse
import collections
import contextlib
import ctypes
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
    ledger_file,
)

_SET_CHILD_SUBREAPER = 36
_SECONDS_OF_A_JOB = 0.03
_SECONDS_OF_AN_ASK = 0.003
_COSTS = (Fraction(1, 2), Fraction(2, 3), Fraction(1))
_ENDS = ("gives back", "commits", "waits")


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


def _worker(ledger, ids, channel, seconds):
    channel.tell("worker", os.getpid())
    time.sleep(seconds)
    with contextlib.suppress(ValueError):
        ledger.begin(ids)
        for number in ids:
            channel.tell("begun", number)


def _job(ledger, channel, rng):
    channel.tell("job", os.getpid())
    if rng.random() < 0.2:
        ledger_file._namespace = lambda: "another machine"
    time.sleep(rng.uniform(0, _SECONDS_OF_A_JOB / 2))
    requests = [Request("part", Cost(PrivacyBudget(rng.choice(_COSTS))))]
    if rng.random() < 0.3:
        requests = [Request("half", Cost(PrivacyBudget(Fraction(1, 4))))] * 2
    until = time.monotonic() + _SECONDS_OF_A_JOB
    while time.monotonic() < until:
        channel.tell("asks", os.getpid())
        try:
            made = ledger.reserve_all(requests, announces=True)
        except BudgetExceededError:
            time.sleep(rng.uniform(0, _SECONDS_OF_AN_ASK))
            continue
        ids = [reservation.id for reservation in made]
        for _ in range(rng.randint(1, 2)):
            _fork(_worker, ledger, ids, channel, rng.uniform(0, _SECONDS_OF_A_JOB))
        end = rng.choice(_ENDS)
        time.sleep(rng.uniform(0, 2 * _SECONDS_OF_A_JOB))
        if end == "gives back":
            ledger.give_back(ids)
        elif end == "commits":
            _worker(ledger, ids, channel, 0)
            with contextlib.suppress(ValueError):
                ledger.commit(*ids)
        return


def play(folder, rng):
    """Plays one round; returns how often each thing happened, and what must not be."""
    seen, begun, kills = collections.Counter(), set(), []
    jobs, alive = [], set()
    path = os.path.join(folder, f"ledger-{rng.getrandbits(64):x}")
    ledger, channel = Ledger.create(path, epsilon=1), _Channel()
    for _ in range(rng.randint(2, 4)):
        jobs.append(_fork(_job, ledger, channel, random.Random(rng.getrandbits(64))))
    start = time.monotonic()
    for word, number in channel.messages(kills):
        seen[word] += 1
        if word == "begun":
            begun.add(number)
            continue
        now = time.monotonic()
        if word == "asks":
            others = sorted(alive - {number})
            if others and rng.random() < 0.3:
                victim = rng.choice(others)
                heapq.heappush(kills, (now + rng.uniform(0, _SECONDS_OF_AN_ASK), victim))
            continue
        alive.add(number)
        # Everybody is killed in the end, if not before.
        last = start + 4 * _SECONDS_OF_A_JOB
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
        faults.append(str(error).removeprefix(path))
    os.unlink(path)
    return seen, faults


def _faults(ledger, lines, begun):
    spent = sum(lines[number].cost.budget.epsilon for number in begun)
    if spent > ledger.budget.epsilon:
        yield f"epsilon {spent} was begun, of {ledger.budget.epsilon}"
    for number in begun:
        line = lines[number]
        if not (line.begun or line.state is State.COMMITTED) or not line.counts:
            yield f"a release was begun, and its line is {line.state.value}"


def play_rounds(seed, seconds, rounds=None):
    """Plays rounds for so long, and at most so many; returns the sums of what ``play`` returns."""
    # Workers of a killed job become children of this process, which waits for them.
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    rng, seen, faults = random.Random(seed), collections.Counter(), []
    until = time.monotonic() + seconds
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        for _ in itertools.count() if rounds is None else range(rounds):
            if time.monotonic() >= until:
                break
            what, wrong = play(folder, rng)
            seen.update(what, rounds=1)
            faults += wrong
    return seen, faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--rounds", type=int, help="at most so many")
    parser.add_argument("--seed", type=int, default=1)
    flags = parser.parse_args()
    seen, faults = play_rounds(flags.seed, 60 * flags.minutes, flags.rounds)
    print(", ".join(f"{word}: {count}" for word, count in sorted(seen.items())))
    for fault, count in collections.Counter(faults).items():
        print(f"{count} times: {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
