"""Progress of a local run on standard error, and exact counts for those who may see the data."""

from __future__ import annotations

import collections
import sys
import time
from collections.abc import Iterator
from typing import Any, TypeVar

import apache_beam as beam
import pyarrow as pa
from apache_beam.metrics import Metrics, MetricsFilter
from apache_beam.options.pipeline_options import DirectOptions

from dp_transforms.runtime.bounds import TellsBound

_SECONDS_BETWEEN_LINES = 2.0
_NAMESPACE = "private"

T = TypeVar("T")


class Watch(TellsBound, beam.PTransform):
    """Passes elements on unchanged, and tells of them.

    Args:
      stage: what is going on, for example "reading records".
      rows: what the rows of the elements are, for example "records".
      progress: print a line on stderr when the stage starts and then every few seconds, with a rate
        of two digits: the exact number of rows is private. On a terminal it is one line.
      counters: count the rows exactly in a Beam counter, which the runner's UI shows as well.
      total: about how many rows there are, if that is known: tells how much time is left, where
        one process sees all of them.
    """

    def __init__(self, stage: str, rows: str, progress: bool, counters: bool, total: int = 0):
        super().__init__()
        self._total = total
        self._stage = stage
        self._rows = rows
        self._progress = progress
        self._counters = counters

    def expand(self, elements: beam.PCollection[T]) -> beam.PCollection[T]:
        kind = elements.element_type
        if self._progress:
            options = elements.pipeline.options.view_as(DirectOptions)
            total = self._total if options.direct_num_workers == 1 else 0
            tell = _Tell(self._stage, total)
            elements |= "Progress" >> beam.ParDo(tell).with_output_types(kind)
        if self._counters:
            elements |= "Count" >> beam.Map(_counted, self._rows).with_output_types(kind)
        return elements


def say(line: str, begin: str = "", end: str = "\n") -> None:
    """One line on stderr, with the time of day."""
    # Not sys.stderr, which is closed to Beam's log in the worker processes of a local run.
    clock = time.strftime("%H:%M:%S")
    print(f"{begin}{clock} {line}", end=end, file=sys.__stderr__, flush=True)


def run_to_end(pipeline: beam.Pipeline, private_counters: bool) -> None:
    """Runs a pipeline, and then prints the counters of `Watch` if they are wanted."""
    result = pipeline.run()
    result.wait_until_finish()
    if _rows and _on_terminal():
        print(file=sys.__stderr__)
    if private_counters:
        found = result.metrics().query(MetricsFilter().with_namespace(_NAMESPACE))["counters"]
        for counter in found:
            say_private(counter.key.metric.name, counter.result)


def say_private(rows: str, count: int) -> None:
    """One exact count on stderr, labelled as private."""
    say(f"PRIVATE, do not publish: {count:,} {rows}")


_rows: collections.Counter[str] = collections.Counter()
"""The number of rows that this process has seen at each stage."""
_begun: dict[str, float] = {}


class _Tell(beam.DoFn):
    def __init__(self, stage: str, total: int):
        self._stage = stage
        self._total = total

    def setup(self) -> None:
        self._told = 0.0

    def process(self, element: Any) -> Iterator[Any]:
        now = time.monotonic()
        if self._stage not in _begun:
            _begun[self._stage] = now
            self._tell("", "\n" if len(_begun) > 1 else "")
            self._told = now
        elif now - self._told > _SECONDS_BETWEEN_LINES:
            seconds = now - _begun[self._stage]
            self._tell(f": {_pace(_rows[self._stage], seconds, self._total)}", "\r\033[K")
            self._told = now
        _rows[self._stage] += _size(element)
        yield element

    def _tell(self, pace: str, begin: str) -> None:
        terminal = _on_terminal()
        say(self._stage + pace, begin if terminal else "", "" if terminal else "\n")


def _on_terminal() -> bool:
    return sys.__stderr__ is not None and sys.__stderr__.isatty()


def _counted(element: Any, rows: str) -> Any:
    Metrics.counter(_NAMESPACE, rows).inc(_size(element))
    return element


def _size(element: Any) -> int:
    return element.num_rows if isinstance(element, pa.Table) else 1


def _pace(rows: int, seconds: float, total: int) -> str:
    """
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
    whole = f"{left / 60:,.0f} minutes" if left > 90 else f"{left:.0f} seconds"
    return f"{percent}%, {rate}, {whole} left"


def _rate(per_second: float) -> str:
    """
    >>> _rate(1_234_567), _rate(786_543), _rate(999_999), _rate(421)
    ('1.2 million', '790 thousand', '1 million', '420')
    """
    rounded = float(f"{per_second:.2g}")
    for unit, name in ((1e6, " million"), (1e3, " thousand")):
        if rounded >= unit:
            return f"{rounded / unit:g}{name}"
    return f"{rounded:g}"
