import functools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_transforms.columnar import scattering
from dp_transforms.columnar.bounding import distinct_pairs
from dp_transforms.columnar.scattering import Route, Routed, buckets_of, gather, pack, unpack
from tests import reference
from tests.beam_runs import rows_of, table_of

KEY = bytes(range(32))
BOUND = functools.partial(distinct_pairs, at_most=2, key=KEY)
BY_USER = Route(("user",), KEY, BOUND)

RECORDS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), min_size=1)
TYPES = {"text": pa.string(), "binary": pa.binary(), "number": pa.int64()}
ROWS = st.tuples(st.text(max_size=300), st.binary(max_size=9), st.integers(-(2**63), 2**63 - 1))


def scatter(table, num_buckets, reduce=BOUND):
    return Routed(table, Route(("user",), KEY, reduce)).cut(num_buckets)


def gathered(pieces, max_bytes=1 << 30, reduce=BOUND):
    return list(gather(pieces, Route(("user",), KEY, reduce), max_bytes))


@given(RECORDS, st.integers(1, 9))
def test_every_row_goes_to_the_bucket_of_its_hash(records, num_buckets):
    rows = []
    for bucket, piece in scatter(table_of(records), num_buckets):
        table = unpack(piece)
        assert set(buckets_of(BY_USER(table), num_buckets)) == {bucket}
        rows += rows_of([table])
    assert sorted(rows) == sorted(records)


def encoded(table, names):
    columns = {name: table[name] for name in table.column_names}
    return pa.table(columns | {name: columns[name].dictionary_encode() for name in names})


@pytest.mark.parametrize("coded", [(), ("user",), ("partition",), ("user", "partition")])
def test_rows_that_are_sorted_in_parts_stay_whole(monkeypatch, coded):
    monkeypatch.setattr(scattering, "_SORTED_ROWS", 64)
    records = [(f"user{i % 700}", f"item{i % 90}") for i in range(1_000)]
    pieces = scatter(encoded(table_of(records), coded).combine_chunks(), 5)
    assert sorted(rows_of(unpack(piece) for _, piece in pieces)) == sorted(records)


def test_rows_that_reducing_leaves_none_of_give_nothing():
    table = table_of([("user", f"item{i % 9}") for i in range(10_000)])
    table = encoded(table, ["user", "partition"])
    assert not list(scatter(table, 5, lambda reduced: reduced.slice(0, 0)))


# The small limit makes gather go through a bucket several times, which takes its time.
@settings(max_examples=50)
@given(
    st.lists(RECORDS, min_size=1, max_size=5), st.integers(1, 4), st.sampled_from([300, 1 << 30])
)
def test_bounding_through_buckets_agrees_with_the_reference(batches, num_buckets, max_bytes):
    buckets = {}
    for batch in batches:
        for bucket, piece in scatter(table_of(batch), num_buckets):
            buckets.setdefault(bucket, []).append(piece)
    tables = [t for pieces in buckets.values() for t in gathered(pieces, max_bytes)]
    records = [record for batch in batches for record in batch]
    assert sorted(rows_of(tables)) == sorted(reference.bound(records, 2, KEY))


@pytest.mark.parametrize(
    ("records", "most"),
    [
        ([("hot", i) for i in range(50_000)], 2_000),
        ([(i % 1_000, i % 2) for i in range(50_000)] + [(i, i) for i in range(2_000)], 4_000),
    ],
)
def test_pieces_are_reduced_where_it_pays(records, most):
    pieces = scatter(table_of(records), 16)
    assert sum(unpack(piece).num_rows for _, piece in pieces) <= most


def noting(held):
    return lambda table: held.append(table) or BOUND(table)


def test_no_more_than_the_limit_is_held():
    held, limit = [], 100_000
    pieces = [pack(table_of([(1000 * i + j, j) for j in range(1000)])) for i in range(30)]
    tables = gathered(pieces, limit, noting(held))
    assert sum(table.num_rows for table in tables) == 30_000
    # What was held, and the piece that came last, of 16 bytes a row.
    assert max(table.nbytes for table in held) <= limit + 16_000
    users = [set(table["user"].to_pylist()) for table in tables]
    assert len(users) > 4
    assert sum(map(len, users)) == len(set.union(*users))


def test_one_hot_user_is_bounded_while_it_is_gathered():
    held = []
    pieces = [pack(table_of([(7, 1000 * i + j) for j in range(1000)])) for i in range(20)]
    pairs = rows_of(gathered(pieces, 64_000, noting(held)))
    assert set(pairs) == reference.bound([(7, i) for i in range(20_000)], 2, KEY)
    assert max(table.num_rows for table in held) <= 5_000


def test_an_empty_bucket_gives_nothing():
    assert gathered([]) == []
    assert gathered([pack(table_of([(1, 1)]).slice(0, 0))]) == []


@pytest.mark.parametrize("num_buckets", [1, 3, 2**16])
def test_buckets_are_in_range(num_buckets):
    hashes = np.array([0, 2**32 - 1, 2**63, 2**64 - 1], np.uint64)
    assert buckets_of(hashes, num_buckets)[[0, -1]].tolist() == [0, num_buckets - 1]


@pytest.mark.parametrize("rows", [1, 20_000])
def test_many_small_chunks_are_joined_and_a_hot_user_s_are_reduced_one_by_one(monkeypatch, rows):
    monkeypatch.setattr(scattering, "_SORTED_ROWS", 1 << 12)
    chunks = [table_of([("hot", 10 * i + j) for j in range(10)]) for i in range(300)]
    table = pa.concat_tables([*chunks, table_of([("hot", i) for i in range(rows)])])
    ((_, piece),) = scatter(table, 4)
    records = [("hot", i) for i in range(max(rows, 3_000))]
    assert set(rows_of([unpack(piece)])) == reference.bound(records, 2, KEY)


@given(st.lists(ROWS), st.integers(0, 5), st.integers(0, 20), st.booleans())
def test_unpacking_gives_the_table_back(rows, start, length, compress):
    composite = pa.array([dict(zip(TYPES, row, strict=True)) for row in rows], pa.struct(TYPES))
    table = pa.table([*composite.flatten(), composite], names=["a", "b", "c", "d"])
    table = table.slice(start, length)
    again = unpack(pack(table, compress))
    assert again.equals(table)
    again.validate(full=True)
