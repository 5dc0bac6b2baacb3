"""Records as Beam's own sources give them, read by the real connectors."""

import datetime
import typing

import apache_beam as beam
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dp_transforms as dp
from dp_transforms.runtime.records import RecordKind
from tests.beam_runs import rows_of, run, same

SECRET = dp.JobSecret.insecure_for_testing(8)
NAMED = dp.ToRecords(user="visitor", partition=["country", "device"])
VISITS = [
    {"visitor": visitor, "country": country, "device": device, "note": 0.5}
    for visitor, country, device in [(1, "no", "tv")] * 2 + [(2, "no", "tv"), (2, "it", "pc")]
]
COUNTED = [("no", "tv", 2), ("it", "pc", 1)]


class FakeBigQuery(beam.io.ReadFromBigQuery):
    """Gives rows as BigQuery does, without declaring what they are."""

    def expand(self, begin):
        return begin | beam.Create(VISITS) | beam.Map(same).with_output_types(typing.Any)


@pytest.fixture
def files(tmp_path):
    parquet, avro = str(tmp_path / "visits.parquet"), str(tmp_path / "visits.avro")
    pq.write_table(pa.Table.from_pylist(VISITS), parquet, row_group_size=2)
    kinds = {"visitor": "long", "country": "string", "device": "string", "note": "double"}
    fields = [{"name": name, "type": kind} for name, kind in kinds.items()]
    with open(avro, "wb") as file:
        fastavro.writer(file, {"type": "record", "name": "visit", "fields": fields}, VISITS)
    return {"parquet": parquet, "avro": avro}


SOURCES = {
    "parquet": lambda files: beam.io.ReadFromParquet(files["parquet"]),
    "parquet batches": lambda files: beam.io.ReadFromParquetBatched(files["parquet"]),
    "parquet rows": lambda files: beam.io.ReadFromParquet(files["parquet"], as_rows=True),
    "avro": lambda files: beam.io.ReadFromAvro(files["avro"]),
    "avro rows": lambda files: beam.io.ReadFromAvro(files["avro"], as_rows=True),
    "bigquery": lambda files: FakeBigQuery(table="project:visits.today"),
}
KINDS = dict.fromkeys(SOURCES, RecordKind.DICTS) | {
    "parquet batches": RecordKind.TABLES,
    "parquet rows": RecordKind.ROWS,
    "avro rows": RecordKind.ROWS,
}


def plain(count):
    """A count of any kind as a tuple."""
    if isinstance(count, dict):
        return (*count["partition"].values(), count["count"])
    return (*tuple(count.partition), count.count)


@pytest.mark.parametrize("name", SOURCES)
def test_records_of_every_source_are_counted_and_come_back_alike(name, files):
    read = SOURCES[name](files)
    kinds = []

    def counts(pipeline):
        counted = (
            pipeline
            | read
            | beam.Reshuffle()
            | NAMED
            | dp.BoundContributions(9)
            | dp.CountDistinctUsers()
        )
        kinds.append(RecordKind.of(counted))
        return counted

    found = run(counts)
    if name == "parquet batches":
        found = [(*partition.values(), count) for partition, count in rows_of(found)]
    else:
        found = [plain(count) for count in found]
    assert kinds == [KINDS[name]]
    assert sorted(found) == sorted(COUNTED)


@pytest.mark.parametrize("name", [name for name in SOURCES if name != "bigquery"])
def test_a_misspelt_field_is_an_error_when_the_pipeline_is_built(name, files):
    pipeline = beam.Pipeline()
    records = pipeline | SOURCES[name](files)
    there = "visitor, country, device, note"
    with pytest.raises(ValueError, match=f"no (field|column) 'visiter', only {there}"):
        _ = records | dp.ToRecords("visiter", "device")
    with pytest.raises(ValueError, match=f"'user', only {there}: name yours with ToRecords"):
        _ = records | dp.BoundContributions(max_partitions_per_user=1)


def test_a_misspelt_key_shows_no_others():
    with pytest.raises(ValueError, match="a record has no key 'visiter'") as error:
        run(
            lambda p: p | FakeBigQuery("t"),
            dp.ToRecords("visiter", "device"),
            dp.CountDistinctUsers(),
        )
    assert "country" not in str(error.value)


UNDECLARED = {
    "dictionaries": VISITS,
    "rows": [beam.Row(**visit) for visit in VISITS],
    "tables": [pa.Table.from_pylist(VISITS[:3]), pa.Table.from_pylist(VISITS[3:])],
    "record batches": pa.Table.from_pylist(VISITS).to_batches(2),
}


@pytest.mark.parametrize("kind", UNDECLARED)
def test_what_is_not_declared_comes_back_as_tuples(kind):
    counts = run(UNDECLARED[kind], NAMED, dp.CountDistinctUsers(), element_type=typing.Any)
    assert sorted((*partition, count) for partition, count in counts) == sorted(COUNTED)


def test_batches_are_declared_by_their_type():
    counts = rows_of(run(UNDECLARED["record batches"], NAMED, dp.CountDistinctUsers()))
    assert sorted((*partition.values(), count) for partition, count in counts) == sorted(COUNTED)


def test_dictionaries_are_named_and_dropped_with_nulls():
    visits = [*VISITS, {"visitor": None, "country": "no", "device": "tv"}]
    names = dp.ToRecords("visitor", "device", drop_nulls=True)
    selected = run(
        visits,
        names,
        dp.SelectPartitions(30, 0.9, max_partitions_per_user=1, noisy_counts=True, secret=SECRET),
    )
    assert all(row.keys() == {"partition", "noisy_count"} for row in selected)
    assert {"tv"} <= {row["partition"] for row in selected}
    with pytest.raises(ValueError, match="has nulls"):
        run(visits, dp.ToRecords("visitor", "device"), dp.CountDistinctUsers())


def test_a_release_from_dictionaries():
    release = dp.ReleaseFrequencyList(epsilon=90, secret=SECRET)
    records = [{"user": user, "partition": "p"} for user in range(7)]
    (released,) = run(records, dp.BoundContributions(1), dp.CountDistinctUsers(), release)
    assert released.to_dict() == {"frequency": [7], "multiplicity": [1]}
    groups = dp.ReleaseGroupedLists(
        [dp.Attribute("of", ("a",))],
        epsilon_all=90,
        epsilon_groups=90,
        max_partitions_per_user=1,
        secret=SECRET,
    )
    lists = run([{"of": "a", **record} for record in records], groups)
    assert [(name, one.total) for *name, one in sorted(lists)] == [(["", ""], 7), (["of", "a"], 7)]


def test_values_that_are_no_names_are_refused():
    days = [{"user": 1, "partition": datetime.date(2024, 1, 3)}]
    with pytest.raises(TypeError, match="column 'partition' has type date32"):
        run(days, dp.CountDistinctUsers())


def test_data_frames():
    pandas = pytest.importorskip("pandas")
    from apache_beam.dataframe.convert import to_pcollection

    frame = pandas.DataFrame(VISITS)
    rows = run(lambda p: to_pcollection(frame, pipeline=p), NAMED, dp.CountDistinctUsers())
    assert sorted(map(plain, rows)) == sorted(COUNTED)
    frames = run(
        lambda p: to_pcollection(frame, pipeline=p, yield_elements="pandas"),
        NAMED,
        dp.CountDistinctUsers(),
    )
    assert sorted((*partition.values(), n) for partition, n in rows_of(frames)) == sorted(COUNTED)
    mixed = pandas.DataFrame({"user": ["secret", 1], "partition": [1, 1]})
    with pytest.raises(TypeError, match="must be of one type") as error:
        run([mixed], dp.CountDistinctUsers())
    assert "secret" not in str(error.value)
