"""Records of files and of queries in a pipeline."""

from __future__ import annotations

import operator

import apache_beam as beam
import pyarrow as pa
from apache_beam.io import fileio

from dp_transforms.files.record_files import RecordFiles
from dp_transforms.files.record_source import RecordSource


class ReadRecords(beam.PTransform):
    """The records of a source: pa.Table elements with the columns user and partition.

    ``RecordFiles`` are read through Beam's filesystems, in ranges that are shared between the
    workers. One worker gets the result of a ``files.database.RecordQuery``, and hands it on.
    """

    def __init__(self, source: RecordSource):
        super().__init__()
        self._source = source

    def expand(self, start: beam.pvalue.PBegin) -> beam.PCollection[pa.Table]:
        source = self._source
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
