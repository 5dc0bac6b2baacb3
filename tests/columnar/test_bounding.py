import collections
import itertools
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_transforms.columnar import bounding
from dp_transforms.columnar.bounding import Limits, bounded_again, distinct_pairs
from dp_transforms.columnar.columns import concat, decoded
from dp_transforms.columnar.grouping import group
from dp_transforms.runtime.job_secret import JobSecret
from tests import reference
from tests.beam_runs import rows_of, table_of
from tests.statistical import distributions

KEY = bytes(range(32))
RECORDS = st.lists(
    st.tuples(st.sampled_from(["", "ann", "bob", "Zoë"]), st.integers(0, 12)), min_size=1
)


def bounded(records, *options, **keywords):
    return rows_of([distinct_pairs(table_of(records), *options, **keywords)])


def assert_agrees(records, max_partitions, shared_order=False, key=KEY):
    pairs = bounded(records, max_partitions, key, shared_order=shared_order)
    assert sorted(pairs) == sorted(reference.bound(records, max_partitions, key, shared_order))


def test_codes_of_a_dictionary_with_values_that_no_row_has():
    users = pa.DictionaryArray.from_arrays(pa.array([0, 0, 2], pa.int32()), ["ann", "bob", "cy"])
    table = pa.table({"user": users, "partition": ["x", "x", "x"]})
    assert sorted(rows_of([distinct_pairs(table)])) == [("ann", "x"), ("cy", "x")]


@given(RECORDS, st.integers(1, 5), st.booleans())
def test_bounding_agrees_with_the_reference(records, max_partitions, shared_order):
    assert sorted(bounded(records)) == sorted(set(records))
    assert_agrees(records, max_partitions, shared_order)


@pytest.mark.parametrize("dense", [0, 32], ids=["sorted", "looked up"])
@pytest.mark.parametrize("spare", [-1, 4], ids=["users below the limit", "few to sort"])
@pytest.mark.parametrize("max_partitions", [1, 4])
def test_users_with_many_partitions_keep_the_smallest(monkeypatch, dense, spare, max_partitions):
    monkeypatch.setattr(bounding, "_DENSE", dense)
    monkeypatch.setattr(bounding, "_SPARE", spare)
    records = [(user, i * i % 89) for user in range(40) for i in range(user * 4)] * 2
    assert_agrees(records, max_partitions)


@pytest.mark.parametrize("shared_order", [False, True])
@pytest.mark.parametrize("max_partitions", [1, 3])
def test_users_with_very_many_records_keep_the_smallest(monkeypatch, max_partitions, shared_order):
    # Few different partitions of some are below the limit on priorities: 3, 40, or 2,000 of each.
    records = [(u, f"p{i * i % (3, 40, 4001)[u % 3]}") for u in range(6) for i in range(4_000)]
    records += [(6, "p1"), (6, "p2"), (7, "p3")]
    looked_at = []
    monkeypatch.setattr(bounding, "group", lambda a: looked_at.append(len(a)) or group(a))
    assert_agrees(records, max_partitions, shared_order)
    assert looked_at[0] == len(records) > looked_at[1]


@given(
    st.lists(st.tuples(st.integers(1, 5), st.sampled_from([1, 50, 900])), min_size=1, max_size=4),
    st.integers(1, 4),
    st.booleans(),
    st.integers(0, 255).map(lambda byte: bytes([byte]) * 32),
)
@settings(max_examples=60)
def test_users_with_few_partitions_in_many_records(shapes, max_partitions, shared_order, key):
    # Of some users every partition, and of some none, is below the limit on priorities.
    records = [
        (f"u{user}", f"p{i % partitions}")
        for user, (partitions, repeats) in enumerate(shapes)
        for i in range(partitions * repeats)
    ]
    assert_agrees(records, max_partitions, shared_order, key)


@given(RECORDS, RECORDS, st.integers(1, 5))
def test_bounding_can_be_done_in_parts(first, second, max_partitions):
    def joined(*tables):
        return distinct_pairs(decoded(concat(tables)), max_partitions, KEY)

    first_pairs, second_pairs, whole = (
        joined(table_of(r)) for r in (first, second, first + second)
    )
    assert set(rows_of([joined(first_pairs, second_pairs)])) == set(rows_of([whole]))
    assert sorted(rows_of([joined(whole)])) == sorted(rows_of([whole]))


@given(RECORDS, st.sampled_from([None, 5]), st.integers(1, 5))
def test_what_is_bounded_can_be_bounded_again(records, first, then):
    once = distinct_pairs(table_of(records), first, KEY)
    again = rows_of([bounded_again(once, then, KEY)])
    assert sorted(again) == sorted(reference.bound(records, then, KEY))
    with pytest.raises(ValueError, match="grouped by user"):
        bounded_again(table_of([(1, 2), (2, 2), (1, 3)]), then, KEY)


@pytest.mark.parametrize("coded", [False, True])
@pytest.mark.parametrize("shared_order", [False, True])
def test_limits_of_other_tables_change_no_result(monkeypatch, coded, shared_order):
    monkeypatch.setattr(bounding, "_DENSE", 0)
    rng = np.random.default_rng(2)
    limits, parts, records = Limits(), [], []
    for rows in (2_000, 1, 3_000, 500, 1_000):
        users = rng.zipf(1.5, rows).clip(max=12) - 1
        some = [(f"u{u}", f"p{rng.integers(0, 2 + 50 * u)}") for u in users]
        table = table_of(some)
        if coded:
            table = table.set_column(1, "partition", table["partition"].dictionary_encode())
        parts.append(distinct_pairs(table, 3, KEY, shared_order=shared_order, limits=limits))
        records += some
    pairs = rows_of([distinct_pairs(concat(parts), 3, KEY, shared_order=shared_order)])
    assert set(pairs) == reference.bound(records, 3, KEY, shared_order)
    # Of the last table most was seen not to be kept.
    fewer = distinct_pairs(table, 3, KEY, shared_order=shared_order)
    assert 2 * parts[-1].num_rows < fewer.num_rows


def test_a_limit_is_the_largest_of_priorities_with_equal_leading_bits(monkeypatch):
    small = {0: 5, 1: 3, 2: 4}

    def priorities(array, key):
        return np.array([small.get(value, 2**63 + value) for value in array.to_pylist()], np.uint64)

    monkeypatch.setattr(bounding, "hash_rows", priorities)
    limits, rest = Limits(), [("ann", partition) for partition in range(10, 60)]
    tables = [table_of([*some, *rest]) for some in ([("ann", 0), ("ann", 1)], [("ann", 2)])]
    parts = [distinct_pairs(table, 2, KEY, shared_order=True, limits=limits) for table in tables]
    kept = rows_of([distinct_pairs(concat(parts), 2, KEY, shared_order=True)])
    assert set(kept) == {("ann", 1), ("ann", 2)}


def test_limits_of_users_of_other_types_and_of_too_many(monkeypatch):
    monkeypatch.setattr(bounding, "_MOST_LIMITS", 3)
    limits = Limits()
    limits.add(pa.array(["a", "b"]), np.array([5, 6], np.uint64))
    limits.add(pa.array([1]), np.array([1], np.uint64))
    limits.add(pa.array(["c", "d"]), np.array([1, 1], np.uint64))
    limits.add(pa.array(["b"]), np.array([4], np.uint64))
    assert limits.of(pa.array(["b", "c", "a"])).tolist() == [4, 2**64 - 1, 5]
    assert limits.of(pa.array([1])).tolist() == [2**64 - 1]


@given(RECORDS, st.integers(1, 3))
def test_limiting_users_per_partition(records, at_most):
    pairs = bounded(records, at_most, KEY, per="partition")
    assert len(pairs) == len(set(pairs))
    assert set(pairs) <= set(records)
    counts = collections.Counter(partition for _, partition in pairs)
    assert counts == {p: min(n, at_most) for p, n in reference.count(records).items()}


@pytest.mark.parametrize(("constant", "place"), [("hash_rows", 0), ("prf", 1)])
def test_ties_are_broken_by_true_values(monkeypatch, constant, place):
    monkeypatch.setattr(bounding, constant, lambda *args: np.zeros(len(args[place]), np.uint64))
    records = [(user, partition) for user in "ba" for partition in (5, 3, 9, 1, 7)]
    for rows in (records, records[::-1]):
        assert set(bounded(rows, 2, KEY)) == {(user, p) for user in "ab" for p in (1, 3)}


@pytest.mark.slow
def test_the_sample_is_uniform_over_secrets():
    # All 20 sets of 3 of 6 partitions, over 4,000 secrets, which are fixed.
    table = table_of([("ann", p) for p in range(6)] + [("bob", p) for p in range(6)])
    tallies = {"ann": collections.Counter(), "bob": collections.Counter()}
    same = 0
    for seed in range(4_000):
        key = JobSecret.insecure_for_testing(seed).key("bound contributions")
        kept = collections.defaultdict(list)
        for user, partition in rows_of([distinct_pairs(table, 3, key)]):
            kept[user].append(partition)
        for user, partitions in kept.items():
            tallies[user][tuple(sorted(partitions))] += 1
        same += sorted(kept["ann"]) == sorted(kept["bob"])
    for tally in tallies.values():
        uniform = dict.fromkeys(itertools.combinations(range(6), 3), Fraction(1, 20))
        distributions.assert_follows(tally, uniform)
    # Users are independent: the same set by chance, 200 of 4,000, within 4.5 standard deviations.
    assert abs(same - 200) < 62
