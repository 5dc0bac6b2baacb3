"""Columns of every type that records may have, through all transforms."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_transforms import BoundContributions, CountDistinctUsers, JobSecret
from dp_transforms.mechanisms.selection import make_strategy
from dp_transforms.releases import NamesSpec
from tests import reference
from tests.beam_runs import rows_of, run, table_of
from tests.in_process_engine import in_process
from tests.selection_reference import selected

SECRET = JobSecret.insecure_for_testing(17)
KAPPA = 2

TEXTS = ["", " ", "a", "a\0", "\0", "naïve", "😀", "e\u0301", "é", "x" * 1_000, "x" * 1_001]
INTEGERS = [0, -1, 1, 2**31 - 1, -(2**31), 7, 8, 9, 10, 11, 12]
BYTES = [text.encode() for text in TEXTS[:-2]] + [b"\xff", b"\xff\xfe"]
CODES = [i * i % 11 for i in range(200)]
USERS = [f"user{i % 40}" for i in range(200)]
SHAPES = st.one_of(
    st.just([]),
    st.lists(st.tuples(st.just("ann"), st.integers(0, 30)), min_size=1),
    st.lists(st.tuples(st.integers(0, 200), st.just("hot")).map(lambda r: (f"u{r[0]}", "hot"))),
    st.lists(st.tuples(st.sampled_from(["ann", "bob"]), st.integers(0, 3)), max_size=60),
).map(lambda records: [(user, str(partition)) for user, partition in records])


def taken(values, kind):
    return pa.array([values[code] for code in CODES], kind)


CODED = pa.DictionaryArray.from_arrays(pa.array(CODES, pa.int8()), pa.array(TEXTS, "large_string"))
FIELDS = [CODED, taken(INTEGERS[::-1], "int32")]
COLUMNS = [taken(TEXTS, kind) for kind in (pa.string(), pa.large_string(), pa.string_view())]
COLUMNS += [taken(INTEGERS, kind) for kind in (pa.int32(), pa.int64())]
COLUMNS += [taken(BYTES, kind) for kind in (pa.binary(), pa.large_binary())]
COLUMNS += [CODED, pa.StructArray.from_arrays(FIELDS, names=["country", "device"])]


def hashable(value):
    return tuple(value.values()) if isinstance(value, dict) else value


@pytest.mark.parametrize("array", COLUMNS, ids=lambda array: str(array.type))
def test_partitions_of_every_type(array):
    table = pa.table({"user": USERS, "partition": array})
    tables = [table.slice(i, 70) for i in range(0, 200, 70)]
    records = list(zip(USERS, map(hashable, array.to_pylist()), strict=True))
    expected = reference.bound(records, KAPPA, SECRET.key("bound contributions"))
    if pa.types.is_dictionary(array.type) or pa.types.is_struct(array.type):
        bound = BoundContributions(KAPPA, secret=SECRET, num_buckets=2)
        counts = rows_of(run(tables, bound, CountDistinctUsers(num_buckets=2)))
        assert {hashable(p): n for p, n in counts} == reference.count(expected)
    certain = make_strategy("laplace", 50, 1e-3, max_partitions_per_user=KAPPA)
    (everything,) = in_process(tables, SECRET, 2).names(NamesSpec(certain))
    assert {hashable(p) for (p,) in rows_of(everything)} == set(reference.count(expected))


@settings(max_examples=20)
@given(SHAPES, st.sampled_from(["optimal", "renyi_rounds"]), st.sampled_from([1, 5]))
def test_selections_of_odd_shapes_agree_with_the_reference(records, name, num_buckets):
    strategy = make_strategy(name, 3.0, 0.2, max_partitions_per_user=KAPPA)
    tables = [table_of(records)] if records else []
    (names,) = in_process(tables, SECRET, num_buckets).names(NamesSpec(strategy))
    named = [name for (name,) in rows_of(names)]
    assert sorted(named) == sorted(selected(records, strategy, SECRET))
