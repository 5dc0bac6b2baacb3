import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_transforms import BoundContributions, CountDistinctUsers, JobSecret
from tests import reference
from tests.beam_runs import few_pipelines, rows_of, run, table_of

SECRET = JobSecret.insecure_for_testing(5)
RECORDS = st.lists(
    st.tuples(st.integers(0, 9), st.sampled_from(["", "jazz", "jazz", "jazz", "rock", "übung"]))
)
CAPS = st.none() | st.integers(1, 4)


def capped(counts, cap):
    return {p: min(n, cap or n) for p, n in counts.items()}


@few_pipelines
@given(RECORDS, CAPS, st.sampled_from([1, 64]))
def test_tuples_agree_with_the_reference(records, cap, num_buckets):
    counts = run(records, CountDistinctUsers(cap, num_buckets=num_buckets))
    assert len(counts) == len(dict(counts))
    assert dict(counts) == capped(reference.count(records), cap)


@few_pipelines
@given(st.lists(RECORDS), st.integers(1, 3), CAPS)
def test_bounded_tables_agree_with_the_reference(batches, max_partitions, cap):
    tables = [table_of(batch) for batch in batches if batch]
    bounding = BoundContributions(max_partitions, secret=SECRET)
    counts = rows_of(run(tables, bounding, CountDistinctUsers(cap)))
    assert len(counts) == len(dict(counts))
    records = [record for batch in batches for record in batch]
    bounded = reference.bound(records, max_partitions, SECRET.key("bound contributions"))
    assert dict(counts) == capped(reference.count(bounded), cap)


def test_nulls_in_distinct_tables_are_refused():
    for user, partition in ((["x", None], ["a", "b"]), (["x", "y"], ["a", None])):
        columns = [pa.array(c).dictionary_encode() for c in (user, partition)]
        table = pa.table(columns, names=["user", "partition"])
        with pytest.raises(ValueError, match="has nulls"):
            run([table], CountDistinctUsers(already_distinct=True))


def test_a_cap_holds_few_users_of_a_hot_partition():
    records = [(user, "hot") for user in range(30_000)] + [(1, "cold"), (1, "cold")]
    tables = [table_of(records[i::3]) for i in range(3)]
    assert sorted(rows_of(run(tables, CountDistinctUsers(cap=100)))) == [("cold", 1), ("hot", 100)]


@pytest.mark.parametrize("cap", [0, -3, 2.5, "many"])
def test_the_cap_must_be_positive(cap):
    with pytest.raises(ValueError, match="cap must be a positive integer"):
        CountDistinctUsers(cap)
