"""Facts known of a PCollection from the steps of its pipeline, when the pipeline is built."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import apache_beam as beam
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems
from apache_beam.pvalue import PValue
from apache_beam.transforms.display import DisplayData

PARQUET_TABLES = (beam.io.ReadFromParquetBatched,)
AVRO = (beam.io.ReadFromAvro,)
DICTS = (beam.io.ReadFromParquet, beam.io.ReadFromBigQuery, *AVRO)


def connectors_of(pcoll: PValue) -> list[beam.PTransform | None]:
    """Finds the sources that gave the elements of a PCollection, if no step has changed them since.

    Beam does not declare the elements of these sources. None stands for all others.
    """
    step = pcoll.producer
    while step is not None and (step is pcoll.producer or pcoll in step.outputs.values()):
        if isinstance(step.transform, (*PARQUET_TABLES, *DICTS)):
            return [step.transform]
        if isinstance(step.transform, (beam.Flatten, beam.Reshuffle)) or is_filter(step.transform):
            inputs = step.main_inputs.values()
            return [found for one in inputs for found in connectors_of(one)] or [None]
        step = step.parent
    return [None]


def columns_of(pcoll: PValue) -> Iterator[Sequence[str]]:
    """The columns of files that elements were read from, as far as they are known."""
    for connector in connectors_of(pcoll):
        if connector is not None:
            for item in DisplayData.create_from(connector).items:
                if item.key == "file_pattern":
                    yield from _columns(str(item.value), isinstance(connector, AVRO))


def is_filter(transform: beam.PTransform | None) -> bool:
    """Tells whether a transform is a ``beam.Filter`` without side inputs; if in doubt it is not.

    Beam makes a ParDo of it, around a function of its own.
    """
    if not isinstance(transform, beam.ParDo) or transform.side_inputs:
        return False
    decide = getattr(transform.fn, "_fn", None)
    module, name = getattr(decide, "__module__", ""), getattr(decide, "__qualname__", "")
    return (module, name) == (beam.Filter.__module__, "Filter.<locals>.<lambda>")


def _columns(pattern: str, avro: bool) -> Iterator[Sequence[str]]:
    """Yields the columns of the first file.

    A file that cannot be read now is an error when the pipeline runs.
    """
    try:
        for file in FileSystems.match([pattern], [1])[0].metadata_list[:1]:
            with FileSystems.open(file.path) as opened:
                if avro:
                    schema: Any = fastavro.reader(opened).writer_schema
                    yield [field["name"] for field in schema["fields"]]
                else:
                    yield pq.read_schema(opened).names
    except (BeamIOError, OSError, ValueError, KeyError, TypeError, pa.ArrowException):
        return
