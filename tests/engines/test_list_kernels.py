import datetime
import re

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_transforms.columnar.columns import concat, decoded
from dp_transforms.engines.list_kernels import attribute_text, bound_users
from dp_transforms.runtime.job_secret import JobSecret
from tests import reference

SECRET = JobSecret.insecure_for_testing(21)
KEY, GENDER, AGE = (SECRET.key(purpose) for purpose in ("pairs", "gender", "age"))
NAMES = ("user", "partition", "gender", "age")
RECORDS = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.sampled_from(["jazz", "rock", "folk"]),
        st.sampled_from(["", "f", "m", "x"]),
        st.sampled_from(["", "old", "young"]),
    ),
    max_size=25,
)


def table_of(records):
    columns = zip(*records, strict=True) if records else ((),) * 4
    types = (pa.int64(), pa.string(), pa.string(), pa.string())
    return pa.table([pa.array(c, t) for c, t in zip(columns, types, strict=True)], names=NAMES)


def bounded(table, max_partitions):
    return decoded(bound_users(table, max_partitions, KEY, {"gender": GENDER, "age": AGE}))


def rows(table):
    return sorted(zip(*(table[name].to_pylist() for name in NAMES), strict=True))


def expected(records, max_partitions):
    pairs = reference.bound([record[:2] for record in records], max_partitions, KEY)
    values = [
        dict(reference.bound([(r[0], r[i]) for r in records if r[i]], 1, key))
        for i, key in ((2, GENDER), (3, AGE))
    ]
    return sorted((user, p, *(of_user.get(user, "") for of_user in values)) for user, p in pairs)


@settings(max_examples=50)
@given(RECORDS, RECORDS, st.integers(1, 3))
def test_one_value_for_each_user_and_attribute_also_in_parts(first, second, max_partitions):
    parts = [bounded(table_of(part), max_partitions) for part in (first, second)]
    assert rows(parts[0]) == expected(first, max_partitions)
    assert rows(bounded(concat(parts), max_partitions)) == expected(first + second, max_partitions)
    assert rows(bounded(parts[0], max_partitions)) == rows(parts[0])


def test_text_of_every_kind():
    for values, texts in (
        (pa.array(["a", None, ""]), ["a", "", ""]),
        (pa.array(["a", None, "a"]).dictionary_encode(), ["a", "", "a"]),
        (pa.array([b"a", None]), ["a", ""]),
        (pa.array([30, None], pa.int8()), ["30", ""]),
        (pa.array([True, False, None]), ["true", "false", ""]),
        (pa.array([datetime.date(2010, 5, 1)]), ["2010-05-01"]),
        (pa.nulls(2), ["", ""]),
        (pa.chunked_array([["a"], [None]], pa.string()), ["a", ""]),
    ):
        assert attribute_text(values, "age").to_pylist() == texts


@pytest.mark.parametrize(
    "kind",
    [pa.float64(), pa.timestamp("s"), pa.decimal128(5, 2), pa.time32("s"), pa.duration("s")],
    ids=str,
)
def test_values_without_a_clear_text_are_refused(kind):
    message = f"attribute 'age' has type {kind}, in which it is not clear which values are equal"
    with pytest.raises(TypeError, match=re.escape(message)):
        attribute_text(pa.nulls(1, kind), "age")


def test_values_without_a_text_are_not_shown():
    far = pa.array([2**31 - 1], pa.int32()).cast(pa.date32())
    for values, shown in ((pa.array([b"zanzibar\xff"]), "zanzibar"), (far, str(2**31 - 1))):
        with pytest.raises(ValueError, match="not UTF-8, or dates that have no text") as error:
            attribute_text(values, "age")
        assert shown not in str(error.value)
