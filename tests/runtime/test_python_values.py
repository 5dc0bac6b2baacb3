"""One user's record must not change how another's is read, whatever Python values it holds."""

import collections

import apache_beam as beam
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dp_transforms import BoundContributions, SelectPartitions, ToRecords
from dp_transforms.runtime.python_values import column_of, has_null
from tests.beam_runs import rows_of, run

Visit = collections.namedtuple("Visit", ["country", "device"])
Other = collections.namedtuple("Other", ["device", "country"])
Secret = collections.namedtuple("Secret", ["country", "zanzibar"])

MANY = [(user, "jazz") for user in range(400)]
ALONE = [
    [("ann", "rock"), ("bob", b"rock")],
    [("ann", {"country": "no", "device": "tv"}), ("bob", {"country": "no", "zanzibar": "tv"})],
    [("ann", Visit("no", "tv")), ("bob", Secret("no", "tv"))],
    [("ann", Visit("no", "tv")), ("bob", Other("tv", "no"))],
    [("ann", Visit("no", "tv")), ("bob", ("no", "tv"))],
    [("ann", beam.Row(country="no")), ("bob", beam.Row(zanzibar="no"))],
    [("ann", beam.Row(a="no", b="tv")), ("bob", beam.Row(b="tv", a="no"))],
    [("ann", {"a": {"b": 1}}), ("bob", {"a": {"zanzibar": 1}})],
    [("ann", {"a": 1}), ("bob", {"a": 1, "zanzibar": 2})],
    [("ann", ("no", 1)), ("bob", ("no", True))],
    [("ann", 1), ("bob", np.bool_(True))],
    [("ann", 1), ("bob", 1.0)],
]


@pytest.mark.parametrize("records", ALONE)
def test_records_that_differ_are_refused_whatever_the_batches(records):
    def in_two(pipeline):
        parts = (pipeline | f"part {i}" >> beam.Create([one]) for i, one in enumerate(records))
        return tuple(parts) | beam.Flatten()

    def in_one():
        column_of([partition for _, partition in records], "partition")

    for read in (lambda: run(in_two, BoundContributions(9)), in_one):
        with pytest.raises((TypeError, ValueError)) as error:
            read()
        assert not any(word in str(error.value) for word in ("zanzibar", "country", "jazz", "rock"))


def test_a_user_of_bytes_does_not_change_the_names_of_others():
    select = SelectPartitions(1, 1e-9, 1, strategy="laplace")
    assert run(MANY, select) == ["jazz"]
    with pytest.raises(TypeError, match="the values of 'partition' must be of one type"):
        run([*MANY, (999, b"rock")], select)


def test_fields_of_a_dictionary_go_by_their_names():
    records = [("ann", {"a": "x", "b": "y"}), ("bob", {"b": "y", "a": "x"})]
    select = SelectPartitions(99, 1e-3, 1, strategy="laplace")
    assert run(records, select) == [("x", "y")]


@pytest.mark.parametrize(
    "partitions",
    [["rock", b"rock"], [{"a": 1}, {"zanzibar": 1}], [1, True], pd.Categorical(["rock", b"rock"])],
    ids=repr,
)
def test_data_frames_are_read_as_tuples_are(partitions):
    frame = pd.DataFrame({"user": ["ann", "bob"], "partition": partitions})
    with pytest.raises(TypeError, match="'partition' must be of one type") as error:
        run([frame], ToRecords(drop_nulls=True), BoundContributions(9))
    assert "zanzibar" not in str(error.value)


@pytest.mark.parametrize(
    ("partitions", "kept"),
    [
        (pd.Categorical(["rock", "jazz", None, "jazz"]), ["rock", "jazz"]),
        (["rock", float("nan"), pd.NA, "jazz"], ["rock", "jazz"]),
        ([("no", 1), ("it", 1), None, ("no", 2)], [{"0": "no", "1": 1}, {"0": "no", "1": 2}]),
    ],
    ids=["codes", "strings", "composites"],
)
def test_data_frames_with_nulls(partitions, kept):
    frame = pd.DataFrame({"user": ["ann", None, "cyd", "dan"], "partition": partitions})
    found = rows_of(run([frame], ToRecords(drop_nulls=True), BoundContributions(9)))
    assert sorted(found, key=str) == list(zip(["ann", "dan"], kept, strict=True))


def test_nulls_inside_of_dictionaries_and_composites_are_left_out():
    codes = pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.int8()), ["rock", None])
    table = pa.table({"user": ["ann", "bob", "cyd"], "partition": codes})
    nested = pa.table({"user": table["user"], "partition": pa.StructArray.from_arrays(
        [codes], names=["name"])})  # fmt: skip
    for one in (table, nested):
        found = rows_of(run([one], ToRecords(drop_nulls=True), BoundContributions(9)))
        assert [user for user, _ in found] == ["ann"]
        with pytest.raises(ValueError, match="has nulls"):
            run([one], ToRecords(), BoundContributions(9))
    records = [("ann", ("no", 1)), ("bob", ("no", None)), ("cyd", None)]
    found = run(
        records, ToRecords(0, 1, drop_nulls=True), BoundContributions(9), element_type=tuple
    )
    assert found == [("ann", ("no", 1))]


@pytest.mark.parametrize(
    ("value", "null"),
    [(None, True), ("", False), ((1, (None,)), True), ({"a": {"b": None}}, True),
     (beam.Row(a=beam.Row(b=None)), True), (Visit("no", 0), False), (float("nan"), False)],
)  # fmt: skip
def test_nulls(value, null):
    assert has_null(value) is null


@pytest.mark.parametrize(
    ("values", "column"),
    [
        (["a", np.str_("b"), None], pa.array(["a", "b", None])),
        ([b"a", bytearray(b"b")], pa.array([b"a", b"b"])),
        ([1, np.int8(2), None], pa.array([1, 2, None])),
        ([{"b": 1, "a": "x"}, {"a": "y", "b": 2}],
         pa.array([{"a": "x", "b": 1}, {"a": "y", "b": 2}])),
        ([Visit("no", 1), beam.Row(country="it", device=2)],
         pa.array([{"country": "no", "device": 1}, {"country": "it", "device": 2}])),
        ([(1, ["a"])], pa.array([{"0": 1, "1": {"0": "a"}}])),
        ([("a", 1), None], pa.array([{"0": "a", "1": 1}, None])),
    ],
)  # fmt: skip
def test_columns(values, column):
    assert column_of(values, "user").equals(column)
