"""Transforms that read records of files, queries and data frames into a pipeline."""

from __future__ import annotations

import operator
import uuid
import weakref
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.io import fileio

from dp_transforms.files.frame_records import Names, RecordArguments
from dp_transforms.files.record_files import RecordFiles, RecordSource


class ReadRecords(beam.PTransform):
    """Reads the records of a source into Arrow tables with the columns user and partition.

    ``RecordFiles`` are read through Beam's filesystems, in ranges that the workers share. The
    result of a ``files.database.RecordQuery`` is fetched by one worker. At run time, records that
    cannot be read raise an InputError.

    Raises:
      TypeError: the source has no tables, as a path has none.
    """

    def __init__(self, source: RecordSource):
        super().__init__()
        # Not by its type: whatever gives tables of records is a source.
        if not hasattr(source, "tables"):
            raise TypeError(
                f"source must be a RecordFiles or a RecordQuery, got {type(source).__name__}"
            )
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
            | "Patterns" >> beam.Create(source.patterns, reshuffle=False)
            | "Match" >> fileio.MatchAll()
            | "Split" >> beam.FlatMap(source.split)
            | "Share" >> beam.Reshuffle()
            | "Read" >> beam.FlatMap(source.read).with_output_types(pa.Table)
        )


class FromFrame(beam.PTransform):
    """Reads the records of a data frame into Arrow tables with the columns user and partition.

    The pipeline must run in this process, as on Beam's direct runner, since workers take the frame
    from its memory. For a cluster, write the frame to files. ``beam.Create`` would pickle the frame
    into the description of the job, which takes minutes if it is large. Here the description holds
    a token instead.

    Args:
      data, user, partition, drop_nulls: see ``release``.

    Raises:
      ValueError: a column is missing, of an unfit type, or has nulls; or a worker runs in another
        process.
      TypeError: the data are of no known kind.

    >>> import apache_beam as beam
    >>> import dp_transforms as dp
    >>> visits = {"who": [1, 1, 2], "page": ["home", "home", "news"]}
    >>> with beam.Pipeline() as pipeline:
    ...     _ = (
    ...         pipeline
    ...         | dp.FromFrame(visits, user="who", partition="page")
    ...         | dp.BoundContributions(max_partitions_per_user=1)
    ...         | dp.CountDistinctUsers()
    ...     )
    """

    def __init__(self, data: Any, *, user: str | int, partition: Names, drop_nulls: bool = False):
        super().__init__()
        records = RecordArguments(data, user, partition, drop_nulls).open()
        self._held = _Held(list(records.tables()))

    def expand(self, start: beam.pvalue.PBegin) -> beam.PCollection[pa.Table]:
        held = self._held
        return (
            start
            | "Once" >> beam.Impulse()
            | "Tables" >> beam.FlatMap(lambda _: held.tables).with_output_types(pa.Table)
        )


class _Held:
    """Holds tables, and is pickled as a token. Unpickling finds it by the token, and succeeds only
    in the process that made it."""

    def __init__(self, tables: list[pa.Table]):
        self.tables = tables
        self._token = uuid.uuid4().hex
        _HELD[self._token] = self

    def __reduce__(self) -> Any:
        return _held, (self._token,)


_HELD: weakref.WeakValueDictionary[str, _Held] = weakref.WeakValueDictionary()


def _held(token: str) -> _Held:
    held = _HELD.get(token)
    if held is None:
        raise ValueError(
            "the frame of FromFrame is in the memory of the process that made the pipeline, and "
            "this worker is another: write the frame to files that workers can read"
        )
    return held
