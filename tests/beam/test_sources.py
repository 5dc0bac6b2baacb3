"""Records as Beam's own sources give them, read by the real connectors."""

import functools
import typing

import apache_beam as beam
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dp_transforms as dp
from dp_transforms.beam.records import RecordKind
from tests.beam_runs import rows_of, run, same

SECRET = dp.JobSecret.insecure_for_testing(8)
NAMED = dp.ToRecords(user="visitor", partition=["country", "device"])
VISITS = [
    {"visitor": visitor, "country": country, "device": device, "note": 0.5}
    for visitor, country, device in [(1, "no", "tv")] * 2 + [(2, "no", "tv"), (2, "it", "pc")]
]
COUNT = (dp.CountDistinctUsers(),)
COUNTED = [("it", "pc", 1), ("no", "tv", 2)]
UNDECLARED = {
    "dictionaries": VISITS,
    "rows": [beam.Row(**visit) for visit in VISITS],
    "tables": [pa.Table.from_pylist(VISITS[:3]), pa.Table.from_pylist(VISITS[3:])],
    "record batches": pa.Table.from_pylist(VISITS).to_batches(2),
}


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
KINDS = {"batches": RecordKind.TABLES, "rows": RecordKind.ROWS}


def values(element):
    return element.values() if isinstance(element, dict) else element


def counted(elements):
    pairs = rows_of(map(values, elements))
    return sorted((*values(partition), count) for partition, count in pairs)


@pytest.mark.parametrize("name", SOURCES)
def test_records_of_every_source_are_counted_and_come_back_alike(name, files):
    read = SOURCES[name](files)
    kinds = []

    def counts(pipeline):
        records = pipeline | read | beam.Reshuffle() | NAMED
        counts = records | dp.BoundContributions(9) | dp.CountDistinctUsers()
        kinds.append(RecordKind.of(counts))
        return counts

    assert counted(run(counts)) == COUNTED
    assert kinds == [KINDS.get(name.split()[-1], RecordKind.DICTS)]


@pytest.mark.parametrize("name", [name for name in SOURCES if name != "bigquery"])
def test_a_misspelt_field_is_an_error_when_the_pipeline_is_built(name, files):
    records = beam.Pipeline() | SOURCES[name](files)
    there = "visitor, country, device, note"
    with pytest.raises(ValueError, match=f"(field|column) 'visiter', only {there}: check"):
        _ = records | dp.ToRecords("visiter", "device")
    with pytest.raises(ValueError, match=f"'user', only {there}: name yours with ToRecords"):
        _ = records | dp.BoundContributions(max_partitions_per_user=1)


def test_a_misspelt_key_shows_no_others():
    with pytest.raises(ValueError, match="a record has no key 'visiter'") as error:
        run(lambda p: p | FakeBigQuery("t"), dp.ToRecords("visiter", "device"))
    assert "country" not in str(error.value)


@pytest.mark.parametrize("kind", UNDECLARED)
def test_what_is_not_declared_comes_back_as_tuples(kind):
    counts = run(UNDECLARED[kind], NAMED, dp.CountDistinctUsers(), element_type=typing.Any)
    assert sorted((*partition, count) for partition, count in counts) == COUNTED


def test_keys_with_dots_lead_into_nested_dictionaries():
    visits = [
        {"user": {"id": 1, "secret": 2}, "at": {"page": "x"}},
        {"user": {"id": 2}, "at.page": "x", "at": {"page": "y"}},
        {"user": {"id": 3}, "at": {"page": "y"}},
        {"user": None, "at": {"page": "y"}},
    ]
    counts = run(visits, dp.ToRecords("user.id", "at.page", drop_nulls=True), *COUNT)
    assert sorted(map(tuple, map(dict.values, counts))) == [("x", 2), ("y", 1)]
    for broken in ({"user": {"secret": 1}, "at": {"page": "x"}}, {"user": "ann", "at.page": "x"}):
        with pytest.raises(ValueError, match=r"a record has no key 'user\.id'") as error:
            run([broken], dp.ToRecords("user.id", "at.page"), *COUNT)
        assert "secret" not in str(error.value) and "ann" not in str(error.value)


def test_batches_are_declared_by_their_type():
    elements = run(UNDECLARED["record batches"], NAMED, dp.CountDistinctUsers())
    assert counted(elements) == COUNTED
    assert all(isinstance(element, pa.Table) for element in elements)


@pytest.mark.thorough
def test_dictionaries_are_named_and_dropped_with_nulls():
    visits = [*VISITS, {"visitor": None, "country": "no", "device": "tv"}]
    # So many that it is as good as certain that there is a name.
    visits += [{"visitor": visitor, "country": "no", "device": "tv"} for visitor in range(3, 30)]
    names = dp.ToRecords("visitor", "device", drop_nulls=True)
    selected = run(visits, names, dp.SelectPartitions(30, 0.9, 1, noisy_counts=True, secret=SECRET))
    assert all(row.keys() == {"partition", "noisy_count"} for row in selected)
    assert "tv" in {row["partition"] for row in selected}
    with pytest.raises(ValueError, match="has nulls"):
        run(visits, dp.ToRecords("visitor", "device"), dp.CountDistinctUsers())


def test_a_release_from_dictionaries():
    release = dp.ReleaseFrequencyList(epsilon=90, secret=SECRET)
    records = [{"user": user, "partition": "p", "of": "a"} for user in range(7)]
    (released,) = run(records, dp.BoundContributions(1), dp.CountDistinctUsers(), release)
    assert released.to_dict() == {"frequency": [7], "multiplicity": [1]}
    budget = {"epsilon_all": 90, "epsilon_groups": 90, "max_partitions_per_user": 1}
    groups = dp.ReleaseGroupedLists([dp.Attribute("of", ("a",))], **budget, secret=SECRET)
    lists = sorted(run(records, groups))
    totals = [(name, frequencies.total) for *name, frequencies in lists]
    assert totals == [(["", ""], 7), (["of", "a"], 7)]


def test_data_frames():
    pandas = pytest.importorskip("pandas")
    from apache_beam.dataframe.convert import to_pcollection

    for options in ({}, {"yield_elements": "pandas"}):
        convert = functools.partial(to_pcollection, pandas.DataFrame(VISITS), **options)
        elements = run(
            lambda p, convert=convert: convert(pipeline=p), NAMED, dp.CountDistinctUsers()
        )
        assert counted(elements) == COUNTED
