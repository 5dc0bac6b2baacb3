"""One user's record must not change how another's is read, whatever Python values it holds."""

import collections

import apache_beam as beam
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dp_transforms import BoundContributions, ToRecords
from dp_transforms.runtime.python_values import column_of, has_null
from tests.beam_runs import rows_of, run

Visit = collections.namedtuple("Visit", ["country", "device"])
Other = collections.namedtuple("Other", ["device", "country"])
Secret = collections.namedtuple("Secret", ["country", "zanzibar"])

ALONE = [
    ["rock", b"rock"],
    [{"country": "no", "device": "tv"}, {"country": "no", "zanzibar": "tv"}],
    [Visit("no", "tv"), Secret("no", "tv")],
    [Visit("no", "tv"), Other("tv", "no")],
    [Visit("no", "tv"), ("no", "tv")],
    [beam.Row(country="no"), beam.Row(zanzibar="no")],
    [beam.Row(a="no", b="tv"), beam.Row(b="tv", a="no")],
    [{"a": {"b": 1}}, {"a": {"zanzibar": 1}}],
    [{"a": 1}, {"a": 1, "zanzibar": 2}],
    [("no", 1), ("no", True)],
    [1, np.bool_(True)],
    [1, 1.0],
]


@pytest.mark.parametrize("partitions", ALONE)
def test_records_that_differ_are_refused_whatever_the_batches(partitions):
    def in_two(pipeline):
        parts = (
            pipeline | f"#{i}" >> beam.Create([(i, value)]) for i, value in enumerate(partitions)
        )
        return tuple(parts) | beam.Flatten()

    for read in (lambda: run(in_two, BoundContributions(9)), lambda: column_of(partitions, "page")):
        with pytest.raises((TypeError, ValueError)) as error:
            read()
        assert not any(word in str(error.value) for word in ("zanzibar", "country", "rock"))


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
    rows = rows_of(run([frame], ToRecords(drop_nulls=True), BoundContributions(9)))
    assert sorted(rows, key=str) == list(zip(["ann", "dan"], kept, strict=True))


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
