"""Jobs of hundreds of millions of records: beyond memory, and at shapes drawn at random.

    python -m benchmarks.large [--seed=101] [--data=DIR] [--output=benchmarks/results]

It takes half an hour on two quiet cores, and some 15 GB of disk. Its parts are those of
``throughput`` and ``throughput_shapes``, which the book has for smaller data.
"""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import resource
from collections.abc import Iterator

from benchmarks import throughput, throughput_shapes
from benchmarks.harness import page_parser, write_page
from benchmarks.throughput_data import MILLION, visits, write

SMALL, LARGE = 20 * MILLION, 500 * MILLION
LIMIT_GIBIBYTES = 4


@contextlib.contextmanager
def limited_data(gibibytes: int) -> Iterator[None]:
    """Limits the memory of processes that are started within the block, as ``ulimit -d`` does."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (gibibytes << 30, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def beyond_memory(data: pathlib.Path) -> Iterator[str]:
    """Yields rows of a job that spills to disk, between two runs of one that does not."""
    yield "| visits, parquet | limit | transforms | CPU | memory | time of a record | of its CPU |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    files = {rows: write(data / f"visits{rows}.parquet", visits(rows)) for rows in (SMALL, LARGE)}

    def small() -> throughput.Measurement:
        return throughput.measure("files", files[SMALL], repeats=3)

    def row(rows: int, limit: str, measurement: throughput.Measurement, *ratios: str) -> str:
        return f"| {rows:,} | {limit} | {throughput.cells(measurement)} | {' | '.join(ratios)} |"

    before = small()
    yield row(SMALL, "", before, "", "")
    with limited_data(LIMIT_GIBIBYTES):
        measurement = throughput.measure("files", files[LARGE], repeats=1)
    after = small()
    wall = 2 * measurement.wall / (before.wall + after.wall) * SMALL / LARGE
    cpu = 2 * measurement.cpu / (before.cpu + after.cpu) * SMALL / LARGE
    yield row(LARGE, f"{LIMIT_GIBIBYTES} GiB", measurement, f"{wall:.2f}", f"{cpu:.2f}")
    yield row(SMALL, "", after, "", "")
    for path in files.values():
        pathlib.Path(path).unlink()


def report(flags: argparse.Namespace) -> Iterator[str]:
    yield "# Large jobs\n"
    yield f"{throughput.about(1)}\n"
    yield "## Beyond memory\n"
    yield "The time of a record is beside the mean of the small job's, before and after.\n"
    yield from beyond_memory(flags.data)
    yield "\n## Shapes drawn at random\n"
    yield f"As in [those of 20 million](throughput_shapes.md), from seed {flags.seed} on.\n"
    yield from throughput_shapes.rows(flags.data, ["3x100"], flags.seed, 1, ["parquet"])


def main() -> None:
    parser = page_parser("large", __doc__, "data")
    parser.add_argument("--seed", type=int, default=101, help="of the first shape")
    flags = parser.parse_args()
    write_page(flags.output / "large.md", report(flags))


if __name__ == "__main__":
    main()
