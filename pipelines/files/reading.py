"""Reading records in a pipeline."""

from __future__ import annotations

import apache_beam as beam
import pyarrow as pa
from apache_beam.io import fileio

from pipelines.files.record_files import RecordFiles


class ReadRecords(beam.PTransform):
    """The records of files: pa.Table elements with the columns user and partition.

    Files are read through Beam's filesystems, in ranges that are shared between the workers.

    Args:
      files: which ones.
    """

    def __init__(self, files: RecordFiles):
        super().__init__()
        self._files = files

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection[pa.Table]:
        return (
            pipeline
            | "Match" >> fileio.MatchFiles(self._files.pattern)
            | "Split" >> beam.FlatMap(self._files.split)
            | "Share" >> beam.Reshuffle()
            | "Read" >> beam.FlatMap(self._files.read).with_output_types(pa.Table)
        )
