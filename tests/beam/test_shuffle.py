import random
import threading

import pyarrow as pa
import pytest

from dp_transforms import threads
from dp_transforms.beam import shuffle
from dp_transforms.beam.shuffle import OnThreads, ReduceByHash
from dp_transforms.columnar.bounding import distinct_pairs
from dp_transforms.columnar.scattering import Route, pack
from tests.beam_runs import rows_of, run, table_of

KEY = bytes(range(32))


def test_no_more_kernels_run_than_there_are_threads_and_one_waits(monkeypatch):
    monkeypatch.setattr(threads, "THREADS", 2)
    release = threading.Event()
    started = []

    def kernel(element):
        started.append(element)
        release.wait(10)
        yield element

    step = OnThreads(kernel)
    step.start_bundle()
    assert list(step.process(1)) == []
    assert list(step.process(2)) == []
    assert set(started) <= {1, 2}
    release.set()
    assert list(step.process(3)) == [1]
    assert [value.value for value in step.finish_bundle()] == [2, 3]
    assert sorted(started) == [1, 2, 3]


def test_a_bundle_that_starts_again_forgets_the_failed_one():
    step = OnThreads(lambda number: [(number, i) for i in range(number)])
    step.start_bundle()
    assert list(step.process(1)) == []
    step.start_bundle()
    assert list(step.process(1)) == []
    assert [value.value for value in step.finish_bundle()] == [(1, 0)]


@pytest.mark.parametrize("held", [1 << 30, 20_000, 2_000])
def test_a_bucket_that_is_too_large_is_gone_through_in_parts(monkeypatch, held):
    # In the last case, a single piece is too large.
    monkeypatch.setattr(shuffle, "MAX_HELD_BYTES", held)
    rng = random.Random(1)
    records = [(rng.randrange(800), rng.randrange(3)) for _ in range(20_000)]
    tables = [table_of(records[i::4]) for i in range(4)]
    reduced = run(tables, ReduceByHash(distinct_pairs, ("user",), KEY, num_buckets=2))
    assert sorted(rows_of(reduced)) == sorted(set(records))


def test_a_large_bucket_is_fetched_in_the_bundle_s_own_thread(monkeypatch):
    # A runner's lazy iterable may not be used by other threads.
    monkeypatch.setattr(shuffle, "MAX_HELD_BYTES", 100)
    threads = set()

    class Lazy:
        def __iter__(self):
            threads.add(threading.get_ident())
            return iter([pack(table_of([(i, 1) for i in range(100)]))] * 3)

    step = shuffle._Gather(Route(("user",), KEY, distinct_pairs))
    step.start_bundle()
    tables = [*step.process((0, Lazy())), *(value.value for value in step.finish_bundle())]
    assert sorted(rows_of(tables)) == [(i, 1) for i in range(100)]
    assert all(isinstance(table, pa.Table) for table in tables)
    assert threads == {threading.get_ident()}


@pytest.mark.parametrize("users", [["1"], [b"1"]])
def test_types_differ_that_never_meet_in_a_bucket(users):
    tables = [pa.table({"user": kind, "partition": ["a"]}) for kind in ([1], users)]
    route = Route(("user",), KEY, distinct_pairs)
    first, second = (dict(shuffle._cut(table, route, 99)) for table in tables)
    assert first.keys() & second.keys() == {-1}
    step = shuffle._Gather(route)
    step.start_bundle()
    with pytest.raises(TypeError, match="give all users one type"):
        list(step.process((-1, [first[-1], second[-1]])))
