"""Reading records in a pipeline."""

from __future__ import annotations

import operator

import apache_beam as beam
import pyarrow as pa
from apache_beam.io import fileio
from apache_beam.options.pipeline_options import FlinkRunnerOptions

from pipelines.files.record_files import RecordFiles
from pipelines.files.record_source import RecordSource

# One worker is done with so many in less time than Flink takes to start the parts of each stage.
FEW_RECORDS = 500_000


class ReadRecords(beam.PTransform):
    """The records of a source: pa.Table elements with the columns user and partition.

    Files are read through Beam's filesystems, in ranges that are shared between the workers. One
    worker gets the result of a query, and hands it on. Where Flink would divide the job's work into
    parts, few records are one part.

    Args:
      source: a ``RecordFiles``, or a ``files.database.RecordQuery``.
    """

    def __init__(self, source: RecordSource):
        super().__init__()
        self._source = source

    def expand(self, start: beam.pvalue.PBegin) -> beam.PCollection[pa.Table]:
        source = self._source
        parts = start.pipeline.options.view_as(FlinkRunnerOptions)
        if 0 < source.estimated_rows < FEW_RECORDS:
            parts.parallelism = min(parts.parallelism, 1)
        if not isinstance(source, RecordFiles):
            return (
                start
                | "Once" >> beam.Create([source], reshuffle=False)
                | "Query"
                >> beam.FlatMap(operator.methodcaller("tables")).with_output_types(pa.Table)
                | "Share" >> beam.Reshuffle()
            )
        return (
            start
            | "Match" >> fileio.MatchFiles(source.pattern)
            | "Split" >> beam.FlatMap(source.split)
            | "Share" >> beam.Reshuffle()
            | "Read" >> beam.FlatMap(source.read).with_output_types(pa.Table)
        )
