"""A job that writes the bounded records themselves, to look at what each user kept on an engine.

For data that are made up: nothing here is private.
"""

import argparse
from collections.abc import Iterable, Iterator, Sequence

import apache_beam as beam
import pyarrow as pa
from apache_beam.options.pipeline_options import PipelineOptions

from dp_transforms.files.output import ReleaseDirectory
from dp_transforms.runtime.job_secret import JobSecret
from dp_transforms.transforms.contributions import BoundContributions
from dp_transforms.transforms.reading import ReadRecords
from pipelines.command_line import Job, run
from pipelines.job_flags import records
from pipelines.release_frequency_list import make_parser
from pipelines.worker_pool import make_runner

PAIRS_FILE = "bounded_pairs.csv"


def prepare(flags: argparse.Namespace, options: PipelineOptions) -> Job:
    reader = records(flags)
    directory = ReleaseDirectory(flags.output, PAIRS_FILE)
    pipeline = beam.Pipeline(make_runner(flags, options()), options=options())
    bound = BoundContributions(
        flags.max_partitions_per_user, secret=JobSecret.from_os(), num_buckets=reader.num_buckets
    )
    lines = (
        pipeline
        | ReadRecords(reader)
        | "Bound" >> bound
        | beam.FlatMap(_lines).with_output_types(bytes)
    )
    once = pipeline | "Once" >> beam.Create([None])
    _ = once | "Publish" >> beam.Map(_publish, beam.pvalue.AsIter(lines), directory)
    return lambda: pipeline.run().wait_until_finish()


def _publish(_: None, lines: Iterable[bytes], directory: ReleaseDirectory) -> None:
    content = b"".join([b"user,partition\n", *sorted(lines)])
    directory.publish(lambda: {PAIRS_FILE: content}, {"mechanism": "none: a test"})


def _lines(table: pa.Table) -> Iterator[bytes]:
    columns = [table[name].to_pylist() for name in ("user", "partition")]
    for user, partition in zip(*columns, strict=True):
        yield f"{user},{partition}\n".encode()


def main(argv: Sequence[str] | None = None) -> int:
    return run(prepare, make_parser(), argv)
