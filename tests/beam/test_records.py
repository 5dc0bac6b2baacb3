import itertools
import typing

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.coders import registry
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import trigger, window

import dp_transforms as dp
from tests.beam_runs import of_kind, rows_of, run, same, table_of
from tests.cases import refused


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
WITH_NULLS = [
    Visit("ann", None, 1, "x"),
    Visit(None, "no", 1, "y"),
    Visit("bob", "no", None, "z"),
    Visit("bob", "it", 2, None),
]
ALL = dp.BoundContributions(9)
PAIRS = [("ann", ("no", 1)), ("bob", ("it", 2)), ("bob", ("no", 1))]


def test_named_tuples_with_a_composite_partition():
    rows = run(VISITS, dp.ToRecords("account", ["country", "device"]), ALL)
    assert sorted((row.user, tuple(row.partition)) for row in rows) == PAIRS
    assert {row.partition.device for row in rows if row.partition.country == "it"} == {2}


def test_a_composite_may_be_of_named_tuples():
    records = [(user, Plain(country, device)) for user, (country, device) in PAIRS]
    assert sorted(run(records, ALL)) == PAIRS


@pytest.mark.parametrize("kind", ["tuples", "rows", "tables"])
def test_nulls_are_dropped_or_refused(kind):
    names = Visit._fields
    tuples = list(map(tuple, WITH_NULLS))
    records = [table_of(tuples, names)] if kind == "tables" else of_kind(kind, tuples, names)
    columns = (0, [1, 2]) if kind == "tuples" else ("account", ["country", "device"])
    declared = {"tuples": tuple, "rows": Visit, "tables": pa.Table}[kind]

    def count(**options):
        steps = dp.ToRecords(*columns, **options), dp.CountDistinctUsers()
        create = beam.Create(records, reshuffle=False)
        return run(lambda begin: begin | create, *steps, element_type=declared)

    ((_, number),) = rows_of(count(drop_nulls=True))
    assert number == 1
    with pytest.raises(ValueError, match=r"has nulls: drop these records") as error:
        count()
    assert "ann" not in str(error.value)


test_columns_that_are_not_there = refused(
    lambda records, columns: run(records, dp.ToRecords(*columns)),
    (VISITS, (0, 1), "given by name for rows, got 0"),
    ([("a", "b")], ("user", "partition"), "given by position for tuples, got 'user'"),
    (VISITS, ("acount", "device"), "rows have no field 'acount', only account, country"),
    ([table_of(VISITS, Visit._fields)], ("acount",), "the table has no column 'acount'"),
    ([("a", "b")], (0, 2), "a record has no position 2"),
    (["ab"], (0, 1), "must be tuples, got str"),
    (VISITS, ("user", []), "partition must name at least one column"),
    (VISITS, ("user", None), "partition must name a column, .* got None"),
    error=(TypeError, ValueError),
)


@pytest.mark.parametrize("second", [["x", "secret"], ["secret"]], ids=["as many", "fewer"])
@pytest.mark.parametrize("as_it_is", [True, False])
def test_groups_of_records_are_not_taken_for_composites(second, as_it_is):
    records = [("ann", "x"), ("ann", "y"), *(("bob", partition) for partition in second)]
    # An engine may give lists, or iterables of its own.
    steps = [beam.GroupByKey()] if as_it_is else [beam.GroupByKey(), beam.MapTuple(listed)]
    for transform in (ALL, dp.ReleaseAttributes(["os"], epsilon=1)):
        with pytest.raises(TypeError, match="GroupByKey: make a record of each") as error:
            run(records, *steps, transform)
        assert "secret" not in str(error.value)


def listed(user, group):
    return user, list(group)


@pytest.mark.parametrize(
    "transform",
    [
        dp.ToRecords(0, 1),
        dp.BoundContributions(1),
        dp.ReleaseAllRecords(1),
        dp.ReleaseAttributes(["os"], epsilon=1),
        dp.CountDegrees(),
    ],
    ids=lambda transform: type(transform).__name__,
)
def test_pipelines_without_element_types_are_refused(transform):
    # Beam drops even declared types, so that tables would be taken for tuples.
    options = PipelineOptions(["--no_pipeline_type_check"])
    records = beam.Pipeline(options=options) | beam.Create([("ann", "jazz")])
    with pytest.raises(ValueError, match="leave this option out"):
        _ = records | transform


@pytest.mark.thorough
def test_every_kind_comes_back():
    def kind(element):
        return hasattr(element, "partition"), hasattr(element, "num_rows")

    pairs = [("ann", 3), ("bob", 3), ("ann", 3)]
    named = [Plain(*pair) for pair in pairs]
    for records in (pairs, named, of_kind("rows", pairs), [table_of(pairs)]):
        # Other tests run on the in-process runner by its own name.
        bounded = run(records, ALL, runner="DirectRunner")
        counts = run(records, dp.CountDistinctUsers(), runner="DirectRunner")
        assert {kind(element) for element in bounded + counts} == {kind(records[0])}
        assert sorted(rows_of(bounded)) == [("ann", 3), ("bob", 3)]
        assert rows_of(counts) == [(3, 2)]


def test_element_types_are_declared():
    def types(elements):
        bounded = beam.Pipeline() | beam.Create(elements) | ALL
        return bounded.element_type, (bounded | dp.CountDistinctUsers()).element_type

    pair, count = types([("a", 1)])
    assert pair == beam.typehints.Tuple[str, int]
    assert count == beam.typehints.Tuple[int, int]
    row, count = types([Plain("a", 1)])
    assert dict(row._fields) == {"user": str, "partition": int}
    assert dict(count._fields) == {"partition": int, "count": int}
    assert types([table_of([("a", 1)])]) == (pa.Table, pa.Table)


test_records_of_other_types_are_refused_without_showing_them = refused(
    lambda records: run(records, ALL),
    ([("secret", 1), (2, 1)], "the values of 'user' must be of one type"),
    ([("secret", 1.5)], "column 'partition' has type double"),
    ([("secret", ("a", 1)), ("secret", ("a",))], "the values of 'partition' must be"),
    ([("secret", ("a", 1)), ("secret", "b")], "the values of 'partition' must be"),
    ([{"user": "secret", "item": 1}], "a record has no field 'user' or 'partition'"),
    (["secret"], "records must be tuples"),
    ([("secret", "b", "c")], r"records must have 2 parts \(user, partition\)"),
    error=(TypeError, ValueError),
    hides=["secret"],
)


def test_an_integer_of_more_than_64_bits_is_refused():
    made = beam.Map(lambda user: (user, 2**64)).with_output_types(typing.Any)
    with pytest.raises(
        (TypeError, ValueError), match=r"'partition' (must be of one type|.*not fit)"
    ):
        run(["secret"], made, ALL)


def test_tables_are_declared_as_what_they_are():
    # A filter of these would have kept or dropped several users' records together.
    with pytest.raises(TypeError, match=r"declare the element type: .with_output_types"):
        run([table_of([("a", "b")])], dp.DeclareBounded(1), ALL, element_type=typing.Any)
    with pytest.raises(TypeError, match="expected Arrow tables, as declared, got tuple"):
        run([("a", "b")], ALL, element_type=pa.Table)


TRANSFORMS = [ALL, dp.CountDistinctUsers(), dp.ReleaseFrequencyList(1, 1), dp.ReleaseUserDegrees(1)]
EARLY = trigger.Repeatedly(trigger.AfterCount(1)), trigger.AccumulationMode.DISCARDING


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("steps", [(), (beam.Map(same), beam.Reshuffle())])
@pytest.mark.parametrize("windows", [[window.FixedWindows(60)], [window.GlobalWindows(), *EARLY]])
def test_windows_are_refused_also_beside_the_global_one(windows, steps, transform):
    plain = beam.Pipeline() | beam.Create([("a", 1)])
    windowed = plain | beam.WindowInto(*windows)
    with pytest.raises(ValueError, match="must be bounded and in the global window"):
        _ = windowed | "Windowed" >> transform
    mixed = (plain, windowed) | beam.Flatten()
    for i, step in enumerate(steps):
        mixed |= f"{i}" >> step
    assert mixed.windowing.is_default()
    with pytest.raises(ValueError, match="in the global window"):
        _ = mixed | transform
    again = windowed | "Global" >> beam.WindowInto(window.GlobalWindows())
    _ = (plain, again) | "Flatten again" >> beam.Flatten() | "Bound" >> ALL


def test_tables_travel_without_their_parents():
    coder = registry.get_coder(pa.Table)
    table = table_of([(f"user{i}", i) for i in range(10_000)])
    part = table.slice(17, 5)
    assert coder.decode(coder.encode(part)).equals(part)
    assert len(coder.encode(part)) < 2_000
    assert coder.estimate_size(part) < 500


@pytest.mark.parametrize("names", [("a", "a"), (0, 0), ("a", ["b", "a"])])
def test_users_and_partitions_are_different_columns(names):
    with pytest.raises(ValueError, match="user and partition must be different columns"):
        dp.ToRecords(*names)


def test_what_is_no_collection_or_source_is_refused():
    pipeline = beam.Pipeline()
    records = pipeline | beam.Create([("a", "b")])
    transforms = (
        dp.BoundContributions(1),
        dp.DeclareBounded(1),
        dp.ToRecords(0, 1),
        dp.ReleaseUserDegrees(1),
        dp.ReleaseGroupedLists(
            [dp.Attribute("os", ("linux",))],
            epsilon_all=1,
            epsilon_groups=1,
            max_partitions_per_user=1,
        ),
        dp.ReleaseWindowedAllRecords(epsilon=1, start=0, stop=1, max_windows_per_user=1),
    )
    cases = itertools.product(transforms, (pipeline, {"first": records}, (records, records)))
    for place, (transform, given) in enumerate(cases):
        with pytest.raises(TypeError, match="takes one PCollection, got"):
            given | f"Apply {place}" >> transform
    for source in ("records.csv", None):
        with pytest.raises(TypeError, match="source must be a RecordFiles or a RecordQuery"):
            dp.ReadRecords(source)
