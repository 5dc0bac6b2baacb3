"""Releases from an Apache Iceberg table, in this process or on the workers of a pipeline.

    pip install 'pyiceberg[pyarrow,sql-sqlite]'
    python -m examples.iceberg_table

The table is of a made-up shop, in a new folder, with SQLite as its catalog. For your own tables
give the properties of your catalog, such as {"type": "rest", "uri": ...}.
"""

import tempfile
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.table import DataScan

import dp_transforms as dp

NAME, COLUMNS = "shop.visits", ("visitor", "page")


def release_here(catalog: Catalog) -> dp.ListRelease:
    """Reads the table a batch at a time: it may be larger than memory."""
    batches = catalog.load_table(NAME).scan(selected_fields=COLUMNS).to_arrow_batch_reader()
    return dp.release(batches, "visitor", "page", epsilon=1, max_partitions_per_user=2)


class ReadIceberg(beam.PTransform):
    """Reads two columns of an Iceberg table as Arrow tables, each data file on one worker.

    Rows that were deleted are left out. All workers read the snapshot that is the newest when the
    pipeline is made: a step that a runner repeats must see the same records.
    """

    def __init__(self, properties: dict[str, str]):
        super().__init__()
        self.properties = properties

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[pa.Table]:
        snapshot = load_catalog(**self.properties).load_table(NAME).current_snapshot()
        number = None if snapshot is None else snapshot.snapshot_id
        scan = scan_of(self.properties, number)
        paths = [task.file.file_path for task in scan.plan_files()]
        read = beam.FlatMap(read_file, self.properties, number).with_output_types(pa.Table)
        return begin | beam.Create(paths) | beam.Reshuffle() | read


def scan_of(properties: dict[str, str], snapshot: int | None) -> DataScan:
    """Returns the scan of a snapshot of the table."""
    table = load_catalog(**properties).load_table(NAME)
    return table.scan(selected_fields=COLUMNS, snapshot_id=snapshot)


def read_file(path: str, properties: dict[str, str], snapshot: int | None) -> Iterator[pa.Table]:
    """Yields the rows of one data file."""
    scan = scan_of(properties, snapshot)
    of_path = [task for task in scan.plan_files() if task.file.file_path == path]
    reader = ArrowScan(scan.table_metadata, scan.io, scan.projection(), scan.row_filter)
    for batch in reader.to_record_batches(of_path):
        yield pa.Table.from_batches([batch])


def release_in_pipeline(properties: dict[str, str], output: str, **options: Any) -> None:
    """Writes how many visitors pages have, and which may be named: epsilon 1, delta 1e-6 in all."""
    with beam.Pipeline(**options) as pipeline:
        bounded = (
            pipeline
            | ReadIceberg(properties)
            | dp.ToRecords("visitor", ["page"])
            | dp.BoundContributions(max_partitions_per_user=2)
        )
        frequencies = (
            bounded
            | dp.CountDistinctUsers()
            | dp.ReleaseFrequencyList(epsilon=0.5)
            | beam.FlatMap(lambda released: [f"{n},{times}" for n, times in released])
        )
        pages = (
            bounded
            | dp.SelectPartitions(0.5, 1e-6)
            | beam.FlatMap(lambda names: names["partition"].to_pylist())
        )
        _ = frequencies | "Frequencies" >> beam.io.WriteToText(f"{output}/frequencies", ".csv")
        _ = pages | "Pages" >> beam.io.WriteToText(f"{output}/pages", ".txt")


def made_up_shop(folder: str) -> dict[str, str]:
    """Makes a table of visits in several data files; returns the properties of its catalog."""
    properties = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": folder}
    catalog = load_catalog(**properties)
    catalog.create_namespace("shop")
    first = pa.table({"visitor": range(3_000), "page": [f"/{n % 3}" for n in range(3_000)]})
    table = catalog.create_table(NAME, first.schema)
    table.append(first)
    table.append(first.filter(pc.less(first["visitor"], 1_000)))
    table.append(pa.table({"visitor": [5_000], "page": ["/hermit"]}))
    # Deleting rewrites a file, or notes the rows to leave out.
    table.delete("page == '/2'")
    return properties


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        shop = made_up_shop(temporary)
        print(release_here(load_catalog(**shop)))
        release_in_pipeline(shop, "out/iceberg")
