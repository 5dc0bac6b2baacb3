"""Runs the verbs of ``runtime.in_process`` on Apache Beam, as steps of a pipeline."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import apache_beam as beam
import pyarrow as pa
from apache_beam.metrics import Metrics, MetricsFilter
from apache_beam.options.pipeline_options import DirectOptions, FlinkRunnerOptions
from apache_beam.runners.portability.portable_runner import PortableRunner
from apache_beam.runners.runner import PipelineRunner

from dp_transforms import specs
from dp_transforms.columnar.columns import PARTITION, USER
from dp_transforms.columnar.counting import SOURCE, TARGET
from dp_transforms.errors import before_any_record
from dp_transforms.files.record_files import RecordSource
from dp_transforms.mechanisms.partition.mechanism import PartitionMechanism
from dp_transforms.runtime.bounds import TellsBound
from dp_transforms.runtime.job_secret import JobSecret
from dp_transforms.transforms.contributions import BoundContributions, CountDistinctUsers
from dp_transforms.transforms.degrees import CountDegrees, CountProjectedDegrees
from dp_transforms.transforms.grouped import ReleaseGroupedLists
from dp_transforms.transforms.reading import ReadRecords
from dp_transforms.transforms.release import ReleaseFrequencyList, ReleaseUserDegrees
from dp_transforms.transforms.selection import SelectPartitions
from dp_transforms.transforms.windowed import ReleaseListsByPeriod, SelectPartitionsByPeriod
from pipelines import progress

FEW_RECORDS = 500_000
"""One worker finishes so many records before Flink has started the parts of a stage."""
_NAMESPACE = "private"

T = TypeVar("T")


class OnBeam:
    """Adds releases of records to a pipeline. Its verbs and arguments are those of ``InProcess``,
    with PCollections for lists, and of ``progress.Watch``. Few records are one part, where Flink
    would divide the pipeline's work into parts."""

    def __init__(
        self,
        pipeline: beam.Pipeline,
        source: RecordSource,
        secret: JobSecret,
        num_buckets: int | None = None,
        shows_progress: bool = False,
        shows_counters: bool = False,
    ):
        self._pipeline, self._source, self._secret = pipeline, source, secret
        buckets = num_buckets or source.num_buckets
        self._shared: dict[str, Any] = {"secret": secret, "num_buckets": buckets}
        self._shows_progress, self._shows_counters = shows_progress, shows_counters
        parts = pipeline.options.view_as(FlinkRunnerOptions)
        if 0 < source.estimated_rows < FEW_RECORDS:
            parts.parallelism = min(parts.parallelism, 1)

    def frequency_list(self, spec: specs.ListSpec) -> beam.PCollection:
        """Returns a PCollection in place of a list of ``InProcess``, as all verbs do."""
        return self._list(self._bounded(spec.mechanism.sensitivity), spec.mechanism)

    def names(self, spec: specs.NamesSpec) -> tuple[beam.PCollection, ...]:
        return self._selected(self._records(), spec)

    def list_and_names(
        self, one: specs.ListSpec, names: specs.NamesSpec
    ) -> tuple[beam.PCollection, ...]:
        bounded = self._bounded(one.mechanism.sensitivity)
        return self._list(bounded, one.mechanism), *self._selected(bounded, names)

    def degree_list(self, spec: specs.DegreesSpec) -> beam.PCollection:
        count: beam.PTransform = CountDegrees(spec.degree, **self._shared)
        if spec.degree_bound is not None:
            count = CountProjectedDegrees(spec.degree_bound, spec.degree, **self._shared)
        return (
            self._records("edges")
            | "Edges" >> beam.Map(_edges).with_output_types(pa.Table)
            | "Degrees" >> count
            | "WatchDegrees" >> self._watch("counting degrees", "nodes")
            | "Release" >> ReleaseFrequencyList(mechanism=spec.mechanism, secret=self._secret)
        )

    def _released(self, transform: Callable[..., Any], spec: specs.Spec) -> beam.PCollection:
        return self._records() | "Release" >> transform(**specs.arguments(spec), **self._shared)

    lists_by_period = functools.partialmethod(_released, ReleaseListsByPeriod)
    names_by_period = functools.partialmethod(_released, SelectPartitionsByPeriod)
    grouped_lists = functools.partialmethod(_released, ReleaseGroupedLists)
    user_degrees = functools.partialmethod(_released, ReleaseUserDegrees)

    def run(self, write: Callable[..., None], collections: Sequence[beam.PCollection]) -> None:
        """Runs the pipeline, in which one worker calls ``write`` with the elements of all
        collections; prints the counters of rows if they are wanted."""
        # Beam may call it again: see ``ReleaseDirectory.publish``.
        elements = map(beam.pvalue.AsIter, collections)
        once = self._pipeline | "Once" >> beam.Create([None], reshuffle=False)
        _ = once | "Publish" >> beam.Map(_called, write, *elements)
        # Runners of other processes only submit the job here.
        with before_any_record() if _submits(self._pipeline.runner) else contextlib.nullcontext():
            result = self._pipeline.run()
        result.wait_until_finish()
        progress.end_lines()
        if self._shows_counters:
            found = result.metrics().query(MetricsFilter().with_namespace(_NAMESPACE))["counters"]
            for counter in found:
                progress.say_private(counter.key.metric.name, counter.result)

    def _records(self, rows: str = "records") -> beam.PCollection:
        """Returns the records, called ``rows`` while they are read."""
        watch = self._watch(f"reading {rows}", "records", total=self._source.estimated_rows)
        return self._pipeline | "ReadRecords" >> ReadRecords(self._source) | "Records" >> watch

    def _bounded(self, max_partitions: int) -> beam.PCollection:
        return self._records() | "Bound" >> BoundContributions(max_partitions, **self._shared)

    def _list(self, bounded: beam.PCollection, mechanism: PartitionMechanism) -> beam.PCollection:
        def released(bounded: beam.PCollection) -> beam.PCollection:
            return (
                bounded
                | "WatchBounded" >> self._watch("bounding contributions", "contributions kept")
                | "Count" >> CountDistinctUsers(**self._shared)
                | "WatchCounts" >> self._watch("counting users per partition", "partitions")
                | "Release" >> ReleaseFrequencyList(mechanism=mechanism, secret=self._secret)
            )

        return bounded | "FrequencyList" >> beam.ptransform_fn(released)()

    def _selected(
        self, records: beam.PCollection, spec: specs.NamesSpec
    ) -> tuple[beam.PCollection, ...]:
        selected = records | "Partitions" >> SelectPartitions(
            **specs.arguments(spec), **self._shared
        )
        others: tuple[beam.PCollection, ...] = ()
        if isinstance(selected, dict):
            selected, others = selected["partitions"], (selected["other_users"],)
        watch = self._watch("selecting partitions", "selected", private=False)
        return selected | "WatchSelected" >> watch, *others

    def _watch(self, name: str, rows: str, total: int = 0, private: bool = True) -> _Watch:
        # Only a process that sees all of the rows can tell the time left.
        workers = self._pipeline.options.view_as(DirectOptions).direct_num_workers
        stage = progress.Stage(name, total if workers == 1 else 0)
        counted = rows if private and self._shows_counters else ""
        return _Watch(stage if self._shows_progress else None, counted)


class _Watch(TellsBound, beam.PTransform):
    """Passes elements on unchanged and reports them: as progress, if there is a stage, and by a
    Beam counter of rows, if it has a name. The runner's UI shows the counter as well."""

    def __init__(self, stage: progress.Stage | None, counted: str):
        super().__init__()
        self._told = stage, counted

    def expand(self, elements: beam.PCollection[T]) -> beam.PCollection[T]:
        if not any(self._told):
            return elements
        tell = beam.ParDo(_Tell(*self._told))
        return elements | "Tell" >> tell.with_output_types(elements.element_type)


class _Tell(beam.DoFn):
    def __init__(self, stage: progress.Stage | None, counted: str):
        self._stage, self._counted = stage, counted

    def process(self, element: Any) -> Iterator[Any]:
        rows = element.num_rows if isinstance(element, pa.Table) else 1
        if self._stage is not None:
            self._stage.seen(rows)
        if self._counted:
            Metrics.counter(_NAMESPACE, self._counted).inc(rows)
        yield element


def _submits(runner: PipelineRunner) -> bool:
    """Tells whether a runner only hands over the job when it is told to run it. Others read records
    meanwhile."""
    # Asked for by name, since importing the class needs an extra.
    return isinstance(runner, PortableRunner) or type(runner).__name__ == "DataflowRunner"


def _called(_: None, write: Callable[..., None], *collections: Any) -> None:
    write(*collections)


def _edges(records: pa.Table) -> pa.Table:
    return records.select([USER, PARTITION]).rename_columns([SOURCE, TARGET])
