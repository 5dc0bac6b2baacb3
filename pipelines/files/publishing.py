"""The last step of a pipeline: a release into its directory."""

from __future__ import annotations

import copy
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from pipelines.files.output import ReleaseDirectory
from pipelines.files.partition_file import in_order

_BLOCK_BYTES = 1 << 20


class PublishRelease(beam.PTransform):
    """Writes a release's lines, which are elements of bytes, and its statement into a directory.

    The lines are sorted: their order must not tell how the data were laid out. One worker writes.

    Args:
      directory: where to.
      header: the first line.
      statement: the privacy.json.
      by_count: the last three fields of lines are a noisy count and the ends of its interval; they
        are sorted by it, the largest first.
    """

    def __init__(
        self,
        directory: ReleaseDirectory,
        header: bytes,
        statement: dict[str, Any],
        by_count: bool = False,
    ):
        super().__init__()
        self._publish = functools.partial(_published, directory, header, statement, by_count)
        self._figure = ""
        self._beside: tuple[beam.pvalue.AsSingleton, ...] = ()

    def with_figure(self, name: str, figure: beam.PCollection) -> PublishRelease:
        """The same, with a number in the statement that is released too, one element."""
        told = copy.copy(self)
        told._figure, told._beside = name, (beam.pvalue.AsSingleton(figure),)
        return told

    def expand(self, lines: beam.PCollection[bytes]) -> beam.PCollection[None]:
        publish = functools.partial(self._publish, self._figure)
        # An Any is opaque to runners: they see blocks, not lists of lines.
        blocks = lines | "Blocks" >> beam.ParDo(_Blocks()).with_output_types(Any)
        return (
            lines.pipeline
            | "Once" >> beam.Create([None])
            | "Publish" >> beam.Map(publish, beam.pvalue.AsIter(blocks), *self._beside)
        )


def _published(
    directory: ReleaseDirectory,
    header: bytes,
    statement: dict[str, Any],
    by_count: bool,
    name: str,
    _: None,
    blocks: Iterable[list[bytes]],
    figure: int | None = None,
) -> None:
    lines = in_order(itertools.chain.from_iterable(blocks), by_count)
    told = {} if figure is None else {name: figure}
    directory.publish({directory.file_name: [header, *lines]}, statement | told)


class PublishLists(beam.PTransform):
    """Writes released lists and their statement into a directory. One worker writes.

    Args:
      directory: where to.
      statement: the privacy.json.
      tables: makes the content of files of all elements, see ``frequency_files.list_tables``.
    """

    def __init__(
        self,
        directory: ReleaseDirectory,
        statement: dict[str, Any],
        tables: Callable[[list[Any]], Mapping[str, Iterable[bytes]]],
    ):
        super().__init__()
        self._directory, self._statement, self._tables = directory, statement, tables

    def expand(self, lists: beam.PCollection) -> beam.PCollection[None]:
        return lists | "Gather" >> beam.combiners.ToList() | "Publish" >> beam.Map(self._publish)

    def _publish(self, lists: list[Any]) -> None:
        self._directory.publish(self._tables(lists), self._statement)


class _Blocks(beam.DoFn):
    """Gathers a bundle's lines into lists of about a megabyte.

    A runner in Java takes some five microseconds for an element of a side input, however small. And
    it fails where an element ends with one of the pieces of 1,000,000 bytes in which it hands them
    on, unless Beam is mended as in runner_configs/beam: often with lines, hardly ever with blocks.
    """

    def start_bundle(self) -> None:
        self._lines: list[bytes] = []
        self._bytes = 0

    def process(self, line: bytes) -> Iterator[list[bytes]]:
        self._lines.append(line)
        self._bytes += len(line)
        if self._bytes >= _BLOCK_BYTES:
            yield self._lines
            self.start_bundle()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        if self._lines:
            yield GlobalWindows.windowed_value(self._lines)
        self.start_bundle()
