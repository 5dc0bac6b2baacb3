"""Reports progress on standard error, and exact counts to people who may see the data."""

from __future__ import annotations

import collections
import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

_SECONDS_BETWEEN_LINES = 2.0

_rows: collections.Counter[str] = collections.Counter()
"""The number of rows that this process has seen at each stage."""
_begun: dict[str, float] = {}


@dataclass
class Stage:
    """A stage of a job, such as "reading records", reports its progress on stderr.

    The first line says that it starts. Every few seconds, a further line gives its rate, to two
    digits, since the exact number of rows is private. With an estimated ``total`` it also gives the
    time left. On a terminal, this is a single line that is written anew.
    """

    name: str
    total: int = 0
    _reported_at: float = 0.0

    def seen(self, rows: int) -> None:
        """Adds rows to those seen at this stage, and reports its pace if it is time to."""
        now = time.monotonic()
        if self.name not in _begun:
            _begun[self.name] = self._reported_at = now
            self._report("", "\n" if len(_begun) > 1 else "")
        elif now - self._reported_at > _SECONDS_BETWEEN_LINES:
            seconds = now - _begun[self.name]
            self._report(f": {_pace(_rows[self.name], seconds, self.total)}", "\r\033[K")
            self._reported_at = now
        _rows[self.name] += rows

    def _report(self, pace: str, begin: str) -> None:
        terminal = _on_terminal()
        say(self.name + pace, begin if terminal else "", "" if terminal else "\n")


def terminal_only(stage: Stage) -> Callable[[int], None]:
    """Returns a function that reports rows of a stage. Without a terminal, it does nothing."""
    return stage.seen if _on_terminal() else lambda rows: None


@dataclass
class Watch:
    """Reports the stages of ``dp_transforms.engines.in_process``, see ``in_process.Watch``.

    Attributes:
      shows_progress: whether stages are reported as by ``Stage``.
      shows_counters: whether ``end`` prints the exact numbers of rows, which are private.
    """

    shows_progress: bool
    shows_counters: bool
    _counts: collections.Counter[str] = field(default_factory=collections.Counter)

    def __call__(
        self, tables: Iterable[Any], stage: str, rows: str, total: int = 0, private: bool = True
    ) -> Iterator[Any]:
        """Passes on the tables of a stage, and counts their rows if the number is private."""
        shown_stage = Stage(stage, total)
        if private:
            self._counts[rows] += 0
        for table in tables:
            if self.shows_progress:
                shown_stage.seen(table.num_rows)
            if private:
                self._counts[rows] += table.num_rows
            yield table

    def end(self) -> None:
        """Ends the last line, and prints the counts if they are wanted."""
        end_lines()
        if self.shows_counters:
            for rows, count in self._counts.items():
                say_private(rows, count)


@contextlib.contextmanager
def patience(doing: str) -> Iterator[None]:
    """Returns a context that reports, on a terminal, after 2, 4, 8, ... seconds that something
    still goes on. It is silent once a stage has begun, since stages report themselves."""
    over = threading.Event()

    def report() -> None:
        seconds = wait = _SECONDS_BETWEEN_LINES
        while not over.wait(wait):
            if not _begun:
                say(f"{doing} has been working for {seconds:.0f} seconds")
            # The next report comes when twice as many seconds have passed.
            wait = seconds
            seconds += wait

    if _on_terminal():
        threading.Thread(target=report, daemon=True).start()
    try:
        yield
    finally:
        over.set()


def say(line: str, begin: str = "", end: str = "\n") -> None:
    """Prints one line with the time of day on standard error, if that can be written."""
    # Not sys.stderr: worker processes of a local run close it, to silence Beam's log.
    clock = time.strftime("%H:%M:%S")
    if sys.__stderr__ is not None:  # ``print`` would write to standard output instead.
        with contextlib.suppress(OSError):
            print(f"{begin}{clock} {line}", end=end, file=sys.__stderr__, flush=True)


def say_private(rows: str, count: int) -> None:
    """Prints one exact count on stderr, labelled as private."""
    say(f"PRIVATE, do not publish: {count:,} {rows}")


def end_lines() -> None:
    """Ends the last line of progress."""
    if _rows and _on_terminal():
        print(file=sys.__stderr__)


def _on_terminal() -> bool:
    return sys.__stderr__ is not None and sys.__stderr__.isatty()


def _pace(rows: int, seconds: float, total: int) -> str:
    """Returns the share that is done, the rate and the time left, in words.

    >>> _pace(5_000_000, 10, 20_000_000)
    '25%, 500 thousand a second, 30 seconds left'
    >>> _pace(30, 10, 20), _pace(30, 10, 0)
    ('99%, 3 a second', '3 a second')
    """
    rate = f"{_rate(rows / seconds)} a second"
    if not total:
        return rate
    # The total is an estimate.
    percent = min(100 * rows // total, 99)
    left = seconds * (total - rows) / max(rows, 1)
    if left <= 0:
        return f"{percent}%, {rate}"
    return f"{percent}%, {rate}, {duration_words(left)} left"


def duration_words(seconds: float) -> str:
    """Returns a duration in words. It is in minutes if it exceeds a minute and a half.

    >>> duration_words(90), duration_words(3_600)
    ('90 seconds', '60 minutes')
    """
    return f"{seconds / 60:,.0f} minutes" if seconds > 90 else f"{seconds:.0f} seconds"


def _rate(per_second: float) -> str:
    """Returns a number in words, rounded to two digits.

    >>> _rate(1_234_567), _rate(786_543), _rate(999_999), _rate(421)
    ('1.2 million', '790 thousand', '1 million', '420')
    """
    rounded = float(f"{per_second:.2g}")
    for unit, name in ((1e6, " million"), (1e3, " thousand")):
        if rounded >= unit:
            return f"{rounded / unit:g}{name}"
    return f"{rounded:g}"
