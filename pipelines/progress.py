"""Progress of a local run on standard error, and exact counts for those who may see the data."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any, TypeVar

import apache_beam as beam
import pyarrow as pa
from apache_beam.metrics import Metrics, MetricsFilter
from apache_beam.runners.runner import PipelineResult

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
        of two digits: the exact number of rows is private.
      counters: count the rows exactly in a Beam counter, which the runner's UI shows as well.
    """

    def __init__(self, stage: str, rows: str, progress: bool, counters: bool):
        super().__init__()
        self._stage = stage
        self._rows = rows
        self._progress = progress
        self._counters = counters

    def expand(self, elements: beam.PCollection[T]) -> beam.PCollection[T]:
        kind = elements.element_type
        if self._progress:
            elements |= "Progress" >> beam.ParDo(_Tell(self._stage)).with_output_types(kind)
        if self._counters:
            elements |= "Count" >> beam.ParDo(_Count(self._rows)).with_output_types(kind)
        return elements


def say(line: str) -> None:
    """One line on stderr, with the time of day."""
    # Not sys.stderr, which is closed to Beam's log in the worker processes of a local run.
    print(time.strftime("%H:%M:%S"), line, file=sys.__stderr__, flush=True)


def run_to_end(pipeline: beam.Pipeline, private_counters: bool) -> None:
    """Runs a pipeline, and then prints the counters of `Watch` if they are wanted."""
    result = pipeline.run()
    result.wait_until_finish()
    if private_counters:
        _print_private_counters(result)


def _print_private_counters(result: PipelineResult) -> None:
    """Prints the counters of `Watch` on stderr, labelled as private."""
    found = result.metrics().query(MetricsFilter().with_namespace(_NAMESPACE))["counters"]
    for counter in found:
        say_private(counter.key.metric.name, counter.result)


def say_private(rows: str, count: int) -> None:
    """One exact count on stderr, labelled as private."""
    say(f"PRIVATE, do not publish: {count:,} {rows}")


class _Tell(beam.DoFn):
    def __init__(self, stage: str):
        self._stage = stage

    def setup(self) -> None:
        self._rows = 0
        self._since = 0.0

    def process(self, element: Any) -> Iterator[Any]:
        now = time.monotonic()
        if not self._since:
            say(self._stage)
            self._since = now
        elif now - self._since > _SECONDS_BETWEEN_LINES:
            say(f"{self._stage}: {_rate(self._rows / (now - self._since))} a second")
            self._rows, self._since = 0, now
        self._rows += _size(element)
        yield element


class _Count(beam.DoFn):
    def __init__(self, rows: str):
        self._counter = Metrics.counter(_NAMESPACE, rows)

    def process(self, element: Any) -> Iterator[Any]:
        self._counter.inc(_size(element))
        yield element


def _size(element: Any) -> int:
    return element.num_rows if isinstance(element, pa.Table) else 1


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
