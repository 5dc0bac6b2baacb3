import typing

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.coders import registry
from apache_beam.transforms import trigger, window

from dp_transforms import (
    BoundContributions,
    CountDistinctUsers,
    DeclareBounded,
    ReleaseFrequencyList,
    ToRecords,
)
from tests.beam_runs import rows_of, run, same, table_of


class Visit(typing.NamedTuple):
    account: str | None
    country: str | None
    device: int | None
    note: str


class Plain(typing.NamedTuple):
    user: str
    partition: int


VISITS = [
    Visit("ann", "no", 1, "x"),
    Visit("ann", "no", 1, "y"),
    Visit("bob", "no", 1, "z"),
    Visit("bob", "it", 2, "z"),
]
ALL = BoundContributions(9)


def as_pairs(rows):
    return sorted((row.user, tuple(row.partition)) for row in rows)


PAIRS = [("ann", ("no", 1)), ("bob", ("it", 2)), ("bob", ("no", 1))]


def test_named_tuples_with_a_composite_partition():
    rows = run(VISITS, ToRecords("account", ["country", "device"]), ALL)
    assert as_pairs(rows) == PAIRS
    assert {row.partition.device for row in rows if row.partition.country == "it"} == {2}


def test_a_composite_may_be_of_named_tuples():
    records = [(user, Plain(country, device)) for user, (country, device) in PAIRS]
    assert sorted(run(records, ALL)) == PAIRS


WITH_NULLS = [
    Visit("ann", None, 1, "x"),
    Visit(None, "no", 1, "y"),
    Visit("bob", "no", None, "z"),
    Visit("bob", "it", 2, None),
]


@pytest.mark.parametrize("kind", ["tuples", "rows", "tables"])
def test_nulls_are_dropped_or_refused(kind):
    records = {
        "tuples": list(map(tuple, WITH_NULLS)),
        "rows": [beam.Row(**visit._asdict()) for visit in WITH_NULLS],
        "tables": [table_of(WITH_NULLS, Visit._fields)],
    }[kind]
    columns = (0, [1, 2]) if kind == "tuples" else ("account", ["country", "device"])
    types = {"tuples": tuple, "rows": Visit, "tables": pa.Table}

    def count(**options):
        chosen = ToRecords(*columns, **options)
        return run(lambda p: p | beam.Create(records, reshuffle=False) | beam.Map(same)
                   .with_output_types(types[kind]), chosen, CountDistinctUsers())  # fmt: skip

    (counts,) = count(drop_nulls=True)
    assert {"tuples": lambda: counts[1], "rows": lambda: counts.count,
            "tables": lambda: counts["count"].to_pylist()[0]}[kind]() == 1  # fmt: skip
    with pytest.raises(ValueError, match=r"has nulls: drop these records") as error:
        count()
    assert "ann" not in str(error.value)


@pytest.mark.parametrize(
    ("records", "transform", "message"),
    [
        (VISITS, ToRecords(0, 1), "given by name for rows, got 0"),
        ([("a", "b")], ToRecords("user", "partition"), "given by position for tuples, got 'user'"),
        (
            VISITS,
            ToRecords("acount", "device"),
            "rows have no field 'acount', only account, country",
        ),
        (
            [table_of(VISITS, Visit._fields)],
            ToRecords("acount"),
            "the table has no column 'acount'",
        ),
        ([("a", "b")], ToRecords(0, 2), "a record has no position 2"),
        (["ab"], ToRecords(0, 1), "must be tuples, got str"),
    ],
)
def test_columns_that_are_not_there(records, transform, message):
    with pytest.raises((TypeError, ValueError), match=message):
        run(records, transform)


def test_a_partition_is_needed():
    with pytest.raises(ValueError, match="partition must name at least one column"):
        ToRecords("user", [])


def test_every_kind_comes_back():
    # Other tests run on the in-process runner by its own name.
    runner = "DirectRunner"
    pairs = [("ann", 3), ("bob", 3), ("ann", 3)]
    expected = [("ann", 3), ("bob", 3)]
    assert sorted(run(pairs, ALL, runner=runner)) == expected
    for make in (Plain, lambda u, p: beam.Row(user=u, partition=p)):
        rows = run([make(*pair) for pair in pairs], ALL, runner=runner)
        assert sorted((row.user, row.partition) for row in rows) == expected
        (count,) = run([make(*pair) for pair in pairs], CountDistinctUsers(), runner=runner)
        assert (count.partition, count.count) == (3, 2)
    tables = run([table_of(pairs)], ALL, runner=runner)
    assert {type(table) for table in tables} == {pa.Table}
    assert sorted(rows_of(tables)) == expected
    assert rows_of(run([table_of(pairs)], CountDistinctUsers(), runner=runner)) == [(3, 2)]
    assert run(pairs, CountDistinctUsers(), runner=runner) == [(3, 2)]


def test_element_types_are_declared():
    class Missing:
        pass

    pipeline = beam.Pipeline()

    def types(elements):
        records = pipeline | f"{elements}" >> beam.Create(elements)
        bounded = records | f"bound {elements}" >> ALL
        counts = bounded | f"count {elements}" >> CountDistinctUsers()
        return bounded.element_type, counts.element_type

    pair, count = types([("a", 1)])
    assert pair == beam.typehints.Tuple[str, int]
    assert count == beam.typehints.Tuple[int, int]
    row, count = types([Plain("a", 1)])
    assert dict(row._fields) == {"user": str, "partition": int}
    assert dict(count._fields) == {"partition": int, "count": int}
    assert types([table_of([("a", 1)])]) == (pa.Table, pa.Table)


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([("secret", 1), (2, 1)], "the values of 'user' must be of one type"),
        ([("secret", 1.5)], "column 'partition' has type double"),
        ([("secret", ("a", 1)), ("secret", ("a",))], "the values of 'partition' must be"),
        ([("secret", ("a", 1)), ("secret", "b")], "the values of 'partition' must be"),
        ([{"user": "secret", "item": 1}], "a record has no field 'user' or 'partition'"),
        (["secret"], "records must be tuples"),
        ([("secret", "b", "c")], r"records must have 2 parts \(user, partition\)"),
    ],
)
def test_records_of_other_types_are_refused_without_showing_them(records, message):
    with pytest.raises((TypeError, ValueError), match=message) as error:
        run(records, ALL)
    assert "secret" not in str(error.value)


def test_an_integer_of_more_than_64_bits_is_refused():
    made = beam.Map(lambda user: (user, 2**64)).with_output_types(typing.Any)
    with pytest.raises(
        (TypeError, ValueError), match=r"'partition' (must be of one type|.*not fit)"
    ):
        run(["secret"], made, ALL)


def test_bounded_tables_must_be_declared():
    # A filter of these would have kept or dropped several users' records together.
    with pytest.raises(TypeError, match=r"declare the element type: .with_output_types"):
        run([table_of([("a", "b")])], DeclareBounded(1), ALL, element_type=typing.Any)


def test_declared_tables_must_be_tables():
    with pytest.raises(TypeError, match="expected Arrow tables, as declared, got tuple"):
        run([("a", "b")], ALL, element_type=pa.Table)


TRANSFORMS = [ALL, CountDistinctUsers(), ReleaseFrequencyList(epsilon=1, max_partitions_per_user=1)]


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize(
    "windowing",
    [
        beam.WindowInto(window.FixedWindows(60)),
        beam.WindowInto(
            window.GlobalWindows(),
            trigger=trigger.Repeatedly(trigger.AfterCount(1)),
            accumulation_mode=trigger.AccumulationMode.DISCARDING,
        ),
    ],
)
def test_windows_are_refused(windowing, transform):
    pipeline = beam.Pipeline()
    with pytest.raises(ValueError, match="must be bounded and in the global window"):
        _ = pipeline | beam.Create([("a", 1)]) | windowing | transform


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("steps", [(), (beam.Map(same), beam.Reshuffle())])
def test_windows_beside_the_global_one_are_refused(transform, steps):
    pipeline = beam.Pipeline()
    plain = pipeline | beam.Create([("a", 1)])
    windowed = plain | beam.WindowInto(window.FixedWindows(60))
    mixed = (plain, windowed) | beam.Flatten()
    for i, step in enumerate(steps):
        mixed |= f"{i}" >> step
    assert mixed.windowing.is_default()
    with pytest.raises(ValueError, match="in the global window"):
        _ = mixed | transform
    again = windowed | "Global" >> beam.WindowInto(window.GlobalWindows())
    _ = (plain, again) | "Flatten again" >> beam.Flatten() | "Bound" >> ALL


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_classic_templates_are_refused(transform):
    options = beam.options.pipeline_options.PipelineOptions(template_location="gs://bucket/t")
    pipeline = beam.Pipeline(options=options)
    with pytest.raises(ValueError, match="classic template"):
        _ = pipeline | beam.Create([("a", 1)]) | transform


def test_tables_travel_without_their_parents():
    coder = registry.get_coder(pa.Table)
    table = table_of([(f"user{i}", i) for i in range(10_000)])
    part = table.slice(17, 5)
    assert coder.decode(coder.encode(part)).equals(part)
    assert len(coder.encode(part)) < 2_000
    assert coder.estimate_size(part) < 500
