"""The engine that makes releases on Apache Beam, as steps of a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import apache_beam as beam
import pyarrow as pa
from apache_beam.metrics import Metrics, MetricsFilter
from apache_beam.options.pipeline_options import DirectOptions, FlinkRunnerOptions

from dp_transforms.beam.all_records import ReleaseAllRecords
from dp_transforms.beam.attributes import ReleaseAttributes
from dp_transforms.beam.bounds import BoundAware
from dp_transforms.beam.contributions import BoundContributions, CountDistinctUsers
from dp_transforms.beam.degrees import (
    CountDegrees,
    CountProjectedDegrees,
    ReleaseNodeDegrees,
)
from dp_transforms.beam.grouped import ReleaseGroupedAllRecords, ReleaseGroupedLists
from dp_transforms.beam.hierarchy import ReleaseHierarchy
from dp_transforms.beam.periods import (
    ReleaseAllRecordsByPeriod,
    ReleaseListsByPeriod,
    SelectPartitionsByPeriod,
)
from dp_transforms.beam.pipeline_secret import secret_for
from dp_transforms.beam.reading import ReadRecords
from dp_transforms.beam.release import ReleaseFrequencyList, ReleaseUserDegrees
from dp_transforms.beam.selection import SelectPartitions
from dp_transforms.beam.submission import run_on_engine, submits
from dp_transforms.columnar.columns import PARTITION, USER
from dp_transforms.columnar.counting import SOURCE, TARGET
from dp_transforms.engines import progress
from dp_transforms.engines.base import Engine
from dp_transforms.files.record_files import RecordSource
from dp_transforms.mechanisms.partition.mechanism import PartitionMechanism
from dp_transforms.releases import (
    AllRecordsSpec,
    AttributesSpec,
    DegreesSpec,
    GroupAllRecordsSpec,
    GroupsSpec,
    HierarchySpec,
    ListAndNamesSpec,
    ListSpec,
    NamesSpec,
    NodeDegreesSpec,
    PeriodAllRecordsSpec,
    PeriodListsSpec,
    PeriodNamesSpec,
    ReleaseSpec,
    UserDegreesSpec,
)
from dp_transforms.releases.base import arguments
from dp_transforms.runtime.job_secret import JobSecret

FEW_RECORDS = 500_000
"""One worker finishes this many records before Flink has started the tasks of a stage."""
_NAMESPACE = "private"

T = TypeVar("T")


class OnBeam(Engine):
    """An engine that adds releases of records to a pipeline: its collections are PCollections.

    On Flink, fewer than ``FEW_RECORDS`` records are processed with a parallelism of 1, since one
    task starts sooner than several.

    Args:
      pipeline: receives the steps.
      source, secret, num_buckets: see ``InProcess``.
      shows_progress, shows_counters: see ``progress.Watch``.
    """

    def __init__(
        self,
        pipeline: beam.Pipeline,
        source: RecordSource,
        secret: JobSecret,
        num_buckets: int | None = None,
        shows_progress: bool = False,
        shows_counters: bool = False,
    ):
        # From here on the secret is sealed, and the pipeline runs once. So steps that a method adds
        # itself are as safe as transforms.
        self._secret = secret_for(pipeline, secret)
        self._pipeline, self._source = pipeline, source
        self._shared: dict[str, Any] = {
            "secret": self._secret,
            "num_buckets": num_buckets or source.num_buckets,
        }
        self._shows_progress, self._shows_counters = shows_progress, shows_counters
        parts = pipeline.options.view_as(FlinkRunnerOptions)
        if 0 < source.estimated_rows < FEW_RECORDS:
            parts.parallelism = min(parts.parallelism, 1)

    def frequency_list(self, spec: ListSpec) -> tuple[beam.PCollection]:
        return (self._list(self._bounded(spec.mechanism.sensitivity), spec.mechanism),)

    def all_records(self, spec: AllRecordsSpec) -> tuple[beam.PCollection]:
        return self._released(ReleaseAllRecords, spec)

    def names(self, spec: NamesSpec) -> tuple[beam.PCollection, ...]:
        return self._selected(self._records(), spec)

    def list_and_names(self, spec: ListAndNamesSpec) -> tuple[beam.PCollection, ...]:
        if isinstance(spec.frequency_list, AllRecordsSpec):
            records = self._records()
            survey = ReleaseAllRecords(**arguments(spec.frequency_list), **self._shared)
            return records | "Release" >> survey, *self._selected(records, spec.names)
        mechanism = spec.frequency_list.mechanism
        bounded = self._bounded(mechanism.sensitivity)
        return self._list(bounded, mechanism), *self._selected(bounded, spec.names)

    def lists_by_period(self, spec: PeriodListsSpec) -> tuple[beam.PCollection]:
        return self._released(ReleaseListsByPeriod, spec)

    def all_records_by_period(self, spec: PeriodAllRecordsSpec) -> tuple[beam.PCollection]:
        return self._released(ReleaseAllRecordsByPeriod, spec)

    def names_by_period(self, spec: PeriodNamesSpec) -> tuple[beam.PCollection, ...]:
        select = SelectPartitionsByPeriod(**arguments(spec), with_entries=True, **self._shared)
        return _names_and_entries(self._records() | "Release" >> select)

    def grouped_lists(self, spec: GroupsSpec) -> tuple[beam.PCollection]:
        return self._released(ReleaseGroupedLists, spec)

    def all_records_by_group(self, spec: GroupAllRecordsSpec) -> tuple[beam.PCollection]:
        return self._released(ReleaseGroupedAllRecords, spec)

    def hierarchy(self, spec: HierarchySpec) -> tuple[beam.PCollection]:
        return self._released(ReleaseHierarchy, spec)

    def attribute_lists(self, spec: AttributesSpec) -> tuple[beam.PCollection]:
        return self._released(ReleaseAttributes, spec)

    def degree_list(self, spec: DegreesSpec) -> tuple[beam.PCollection]:
        if spec.degree_bound is None:
            count: beam.PTransform = CountDegrees(spec.degree, **self._shared)
        else:
            count = CountProjectedDegrees(spec.degree_bound, spec.degree, **self._shared)
        released = (
            self._edges()
            | "Degrees" >> count
            | "WatchDegrees" >> self._watch("counting degrees", "nodes")
            | "Release" >> ReleaseFrequencyList(mechanism=spec.mechanism, secret=self._secret)
        )
        return (released,)

    def node_degrees(self, spec: NodeDegreesSpec) -> tuple[beam.PCollection]:
        return (self._edges() | "Release" >> ReleaseNodeDegrees(**arguments(spec), **self._shared),)

    def user_degrees(self, spec: UserDegreesSpec) -> tuple[beam.PCollection]:
        return self._released(ReleaseUserDegrees, spec)

    def _edges(self) -> beam.PCollection:
        return self._records("edges") | "Edges" >> beam.Map(_edges).with_output_types(pa.Table)

    def _released(
        self, transform: Callable[..., beam.PTransform], spec: ReleaseSpec
    ) -> tuple[beam.PCollection]:
        return (self._records() | "Release" >> transform(**arguments(spec), **self._shared),)

    def run(
        self,
        write: Callable[..., None],
        collections: Sequence[beam.PCollection],
        before_it_runs: Callable[[], None] = lambda: None,
    ) -> None:
        """Runs the pipeline, in which one worker calls ``write`` with the elements of all
        collections.

        Prints the counters of rows if they are wanted. If the runner hands the pipeline to an
        engine elsewhere, see ``run_on_engine`` for ``before_it_runs``, interrupts and errors.
        """
        # Beam may call ``write`` several times, which ``ReleaseDirectory.publish`` allows for.
        elements = map(beam.pvalue.AsIter, collections)
        once = self._pipeline | "Once" >> beam.Create([None], reshuffle=False)
        _ = once | "Publish" >> beam.Map(_called, write, *elements)
        if submits(self._pipeline.runner):
            result = run_on_engine(self._pipeline, before_it_runs)
        else:
            before_it_runs()
            result = self._pipeline.run()
            result.wait_until_finish()
        progress.end_lines()
        if self._shows_counters:
            metrics = result.metrics().query(MetricsFilter().with_namespace(_NAMESPACE))
            for counter in metrics["counters"]:
                progress.say_private(counter.key.metric.name, counter.result)

    def _records(self, rows: str = "records") -> beam.PCollection:
        """Returns the records; messages of progress call them ``rows``."""
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

    def _selected(self, records: beam.PCollection, spec: NamesSpec) -> tuple[beam.PCollection, ...]:
        select = SelectPartitions(**arguments(spec), with_entries=True, **self._shared)
        selected, *others = _names_and_entries(records | "Partitions" >> select)
        watch = self._watch("selecting partitions", "selected", private=False)
        return selected | "WatchSelected" >> watch, *others

    def _watch(self, name: str, rows: str, total: int = 0, private: bool = True) -> _Watch:
        """Returns a step that reports the elements of the stage ``name``.

        Args:
          name: of the stage, for messages of progress.
          rows: what the elements are called, which is also the name of their counter.
          total: the estimated number of rows; 0 if it is unknown.
          private: whether their number is private: only then they need a counter, since a public
            number can be read from the release.
        """
        # The time left can be estimated only by a process that sees all of the rows.
        workers = self._pipeline.options.view_as(DirectOptions).direct_num_workers
        stage = progress.Stage(name, total if workers == 1 else 0)
        counted = rows if private and self._shows_counters else ""
        return _Watch(stage if self._shows_progress else None, counted)


class _Watch(BoundAware, beam.PTransform):
    """Passes elements on unchanged and reports them: as progress, if there is a stage, and by a
    Beam counter of rows, if it has a name. The runner's user interface shows the counter too."""

    def __init__(self, stage: progress.Stage | None, counted: str):
        super().__init__()
        self._stage, self._counted = stage, counted

    def expand(self, elements: beam.PCollection[T]) -> beam.PCollection[T]:
        if self._stage is None and not self._counted:
            return elements
        report = beam.ParDo(_Report(self._stage, self._counted))
        return elements | "Tell" >> report.with_output_types(elements.element_type)


class _Report(beam.DoFn):
    """Yields elements unchanged, and reports their rows as ``_Watch`` says."""

    def __init__(self, stage: progress.Stage | None, counted: str):
        self._stage, self._counted = stage, counted

    def process(self, element: Any) -> Iterator[Any]:
        rows = element.num_rows if isinstance(element, pa.Table) else 1
        if self._stage is not None:
            self._stage.seen(rows)
        if self._counted:
            Metrics.counter(_NAMESPACE, self._counted).inc(rows)
        yield element


def _names_and_entries(selected: Any) -> tuple[beam.PCollection, ...]:
    """Returns the names of a selection, and the entries if it has them."""
    return tuple(selected[name] for name in ("partitions", "entries") if name in selected)


def _called(_: None, write: Callable[..., None], *collections: Any) -> None:
    write(*collections)


def _edges(records: pa.Table) -> pa.Table:
    return records.select([USER, PARTITION]).rename_columns([SOURCE, TARGET])
