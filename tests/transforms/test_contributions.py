import collections

import apache_beam as beam
import pytest
from apache_beam.transforms.display import DisplayData
from hypothesis import given
from hypothesis import strategies as st

from dp_transforms import BoundContributions, CountDistinctUsers, JobSecret
from dp_transforms.columnar.scattering import MAX_BUCKETS
from tests import reference
from tests.beam_runs import few_pipelines, rows_of, run, table_of

SECRET = JobSecret.insecure_for_testing(5)
KEY = SECRET.key("bound contributions")

# Few users with many duplicates, and one user more often than all others.
RECORDS = st.lists(
    st.tuples(st.sampled_from(["", "ann", "ann", "ann", "bob", "Zoë"]), st.integers(0, 6))
)


@few_pipelines
@given(RECORDS, st.integers(1, 4), st.sampled_from([1, 2, 64]))
def test_tuples_agree_with_the_reference(records, max_partitions, num_buckets):
    bounded = run(
        records, BoundContributions(max_partitions, secret=SECRET, num_buckets=num_buckets)
    )
    assert sorted(bounded) == sorted(reference.bound(records, max_partitions, KEY))


@few_pipelines
@given(st.lists(RECORDS), st.integers(1, 4))
def test_tables_agree_with_the_reference(batches, max_partitions):
    # Some tables may be empty, and there may be none.
    empty = table_of([("", 0)]).slice(0, 0)
    tables = [table_of(batch) if batch else empty for batch in batches]
    bounded = rows_of(run(tables, BoundContributions(max_partitions, secret=SECRET)))
    records = [record for batch in batches for record in batch]
    assert sorted(bounded) == sorted(reference.bound(records, max_partitions, KEY))


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


@pytest.mark.parametrize("max_partitions", [0, -1, 1.5, "3", None, True])
def test_kappa_must_be_positive(max_partitions):
    with pytest.raises(ValueError, match="max_partitions_per_user must be a positive integer"):
        BoundContributions(max_partitions)


@pytest.mark.parametrize("num_buckets", [0, MAX_BUCKETS + 1])
def test_the_number_of_buckets_is_limited(num_buckets):
    with pytest.raises(ValueError, match="num_buckets must be between 1 and 65536"):
        run([("a", "b")], BoundContributions(1, num_buckets=num_buckets))


def test_display_data_tells_kappa_and_no_secret():
    transform = BoundContributions(3, secret=SECRET)
    items = {item.key: item.value for item in DisplayData.create_from(transform).items}
    assert items == {"max_partitions_per_user": 3}
    pipeline = beam.Pipeline()
    _ = pipeline | beam.Create([("a", "b")]) | transform
    shown = [
        DisplayData.create_from(part.transform).items
        for applied in pipeline.transforms_stack[0].parts
        for part in _all_parts(applied)
        if part.transform
    ]
    assert SECRET.secret.hex() not in repr(shown)
    assert repr(SECRET.secret) not in repr(shown)


def _all_parts(applied):
    yield applied
    for part in applied.parts:
        yield from _all_parts(part)
