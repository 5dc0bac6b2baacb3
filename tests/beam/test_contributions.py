import collections

import pyarrow as pa
import pytest
from apache_beam.transforms.display import DisplayData
from hypothesis import example, given
from hypothesis import strategies as st

from dp_transforms import BoundContributions, CountDistinctUsers, JobSecret, ToRecords
from dp_transforms.columnar.scattering import MAX_BUCKETS
from tests import reference
from tests.beam_runs import few_pipelines, of_kind, rows_of, run, table_of

SECRET = JobSecret.insecure_for_testing(5)
KEY = SECRET.key("bound contributions")

# Few users with many duplicates, and one user, and one partition, more often than all others.
USERS = st.sampled_from(["", "ann", "ann", "ann", "bob", "cy", "dee", "Zoë"])
PARTITIONS = st.sampled_from([0, 0, 0, 1, 2, 3, 4, 5, 6])
RECORDS = st.lists(st.tuples(USERS, PARTITIONS))
KAPPAS = st.integers(1, 4)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["tuples", "tables"])
@few_pipelines
@given(RECORDS, KAPPAS, st.none() | KAPPAS, st.booleans(), st.sampled_from([1, 2, 64]))
# The second table is empty.
@example([("ann", 1)], 1, None, True, 1)
def test_records_and_counts_agree_with_the_reference(kind, records, kappa, cap, first, num_buckets):
    bound = BoundContributions(kappa, secret=SECRET, num_buckets=num_buckets)
    bounded = reference.bound(records, kappa, KEY)
    assert sorted(rows_of(run(of_kind(kind, records), bound))) == sorted(bounded)
    count = CountDistinctUsers(cap, num_buckets=num_buckets)
    counts = rows_of(run(of_kind(kind, records), *([bound, count] if first else [count])))
    assert len(counts) == len(dict(counts))
    expected = reference.count(bounded if first else records)
    assert dict(counts) == {p: min(n, cap or n) for p, n in expected.items()}


def test_no_user_is_in_more_than_kappa_partitions():
    # Planted: users of 1 to 60 partitions, each record three times, spread over many tables.
    records = [(f"user{n}", p) for n in range(1, 61) for p in range(n)]
    tables = [table_of(records[i::7] * 3) for i in range(7)]
    for max_partitions in (1, 10, 59):
        bounded = rows_of(run(tables, BoundContributions(max_partitions)))
        sizes = collections.Counter(user for user, _ in bounded)
        assert sizes == {f"user{n}": min(n, max_partitions) for n in range(1, 61)}
    counted = rows_of(run(tables, BoundContributions(59), CountDistinctUsers()))
    assert sum(count for _, count in counted) == sum(sizes.values())


def test_every_application_draws_a_secret_of_its_own():
    records = [(u, p) for u in range(20) for p in range(30)]
    transform = BoundContributions(4)
    assert sorted(run(records, transform)) != sorted(run(records, transform))


@pytest.mark.parametrize("value", [0, -1, 1.5, "3", True])
def test_kappa_and_the_cap_must_be_positive(value):
    for kappa in (value, None):
        with pytest.raises(ValueError, match="max_partitions_per_user must be a positive integer"):
            BoundContributions(kappa)
    with pytest.raises(ValueError, match="cap must be a positive integer"):
        CountDistinctUsers(value)


@pytest.mark.parametrize("num_buckets", [0, MAX_BUCKETS + 1])
def test_the_number_of_buckets_is_limited(num_buckets):
    with pytest.raises(ValueError, match=r"num_buckets must be (between 1 and 65536|a positive)"):
        run([("a", "b")], BoundContributions(1, num_buckets=num_buckets))


def test_display_data_tells_kappa():
    transform = BoundContributions(3)
    items = {item.key: item.value for item in DisplayData.create_from(transform).items}
    assert items == {"max_partitions_per_user": 3}


def test_nulls_in_distinct_tables_are_refused():
    for user, partition in ((["x", None], ["a", "b"]), (["x", "y"], ["a", None])):
        columns = [pa.array(c).dictionary_encode() for c in (user, partition)]
        table = pa.table(columns, names=["user", "partition"])
        with pytest.raises(ValueError, match="has nulls"):
            run([table], CountDistinctUsers(already_distinct=True))


def test_texts_are_not_taken_for_true():
    with pytest.raises(ValueError, match="already_distinct must be True or False"):
        CountDistinctUsers(already_distinct="False")
    with pytest.raises(ValueError, match="drop_nulls must be True or False"):
        ToRecords(drop_nulls="False")
