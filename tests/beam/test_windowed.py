import collections
import datetime
import functools
import itertools
import math

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.transforms import trigger, window
from hypothesis import given, settings
from hypothesis import strategies as st

import dp_transforms as dp
from dp_transforms.beam.bounds import Bound, bound_of
from dp_transforms.engines.list_kernels import bound_periods
from dp_transforms.evaluation import exact_partition_epsilon
from dp_transforms.mechanisms import FrequencyList
from tests.beam_runs import rows_of, run, same, table_of, with_and_without
from tests.cases import refused

SECRET = dp.JobSecret.insecure_for_testing(9)
KEYS = [SECRET.key("a"), SECRET.key("b")]
DAY = 24 * 60 * 60
NO_NOISE = 400
ALL = {"epsilon": NO_NOISE, "start": 0, "stop": 5 * DAY, "secret": SECRET, "num_buckets": 1}
CELLS = list(itertools.product((0, 1), "ab"))
ROWS = st.lists(
    st.tuples(st.sampled_from(["ann", "ann", "bob"]), st.integers(0, 4), st.sampled_from("abcd"))
)
OTHERS = [(user, item, day * DAY + user) for user in range(4) for item in range(3 + user % 2)
          for day in range(user % 3, 5)]  # fmt: skip
PLANTED = [(100, item, day * DAY + 7) for item in range(9) for day in range(-1, 6)] * 2


def bounded(rows, w, max_partitions):
    """The rows that are kept. If ``max_partitions`` is None, these are all of the kept periods."""
    tables = [table_of(rows, ("user", "partition", "list"))] if rows else []
    return rows_of(bound_periods(table, w, max_partitions, *KEYS) for table in tables)


@given(ROWS, ROWS, st.integers(1, 3), st.sampled_from([1, 2, 3, None]))
@settings(max_examples=60)
def test_users_are_bounded_and_parts_merge(some, more, w, max_partitions):
    keep = functools.partial(bounded, w=w, max_partitions=max_partitions)
    whole = keep(some + more)
    assert len(set(whole)) == len(whole) and set(whole) <= set(some + more)
    assert set(keep(whole)) == set(keep(keep(some) + keep(more))) == set(whole)
    # As many as there may be.
    has, kept = (
        collections.Counter((user, period) for user, _, period in rows)
        for rows in (set(some + more), whole)
    )
    assert kept == {pair: min(has[pair], max_partitions or 9) for pair in kept}
    periods, kept_periods = (collections.Counter(user for user, _ in rows) for rows in (has, kept))
    assert kept_periods == {user: min(number, w) for user, number in periods.items()}


@functools.cache
def tiny_neighbours(w, max_partitions):
    """The numbers of users in each cell, bounded, of all inputs of two users, two windows and two
    partitions, each without the second user and with."""
    subsets = [rows for size in range(5) for rows in itertools.combinations(CELLS, size)]

    def users_of(*users):
        rows = [(user, *cell) for user, cells in enumerate(users) for cell in cells]
        counts = collections.Counter((p, name) for _, p, name in bounded(rows, w, max_partitions))
        return tuple(counts[cell] for cell in CELLS)

    return {(users_of(other), users_of(other, own)) for other in subsets for own in subsets}


@pytest.mark.parametrize(("w", "max_partitions"), [(1, 1), (1, 2), (2, 1)])
def test_every_pair_of_tiny_neighbours_costs_at_most_epsilon(w, max_partitions):
    bounds = {"max_periods_per_user": w, "max_partitions_per_user": max_partitions}
    release = dp.ReleaseListsByPeriod(["a", "b"], epsilon=1, **bounds)

    @functools.cache
    def price(before, after):
        lists = [FrequencyList.from_counts(filter(None, counts)) for counts in (before, after)]
        return exact_partition_epsilon(release.spec.of_each, *lists)

    dearest = max(
        sum(price(without[period::2], with_all[period::2]) for period in (0, 1))
        for without, with_all in tiny_neighbours(w, max_partitions)
    )
    # And nothing is given away: some pair takes most of it.
    assert 0.7 < dearest <= 1 + 1e-9


def timed(records):
    return beam.Create([window.TimestampedValue(record[:2], record[2]) for record in records])


@beam.ptransform_fn
def InWindows(begin, kind, size, records):
    """Records of a kind, put together from two parts, in windows of a size."""
    into = beam.WindowInto(window.FixedWindows(size))
    tables = beam.Map(lambda record: table_of([record])).with_output_types(pa.Table)

    def part(number):
        pcoll = begin | f"Create {number}" >> timed(records[number::2])
        pcoll = pcoll | f"Tables {number}" >> tables if kind == "tables" else pcoll
        return pcoll | f"Windows {number}" >> into

    return (part(0), part(1)) | beam.Flatten() | beam.Reshuffle()


@pytest.mark.thorough
def test_one_user_moves_so_many_lists_and_each_by_so_much():
    cases = [("tables", DAY // 2, 2, 2), ("tuples", DAY, 1, 3)]

    def released(kind, size, w, max_partitions, records):
        bounds = {"max_windows_per_user": w, "max_partitions_per_user": max_partitions}
        return InWindows(kind, size, records) | dp.ReleaseWindowedLists(**ALL, **bounds)

    releases = [functools.partial(released, *case) for case in cases]
    outputs = with_and_without(PLANTED, OTHERS, releases)
    for i, (_, size, w, max_partitions) in enumerate(cases):
        before, after = dict(outputs[i, False]), dict(outputs[i, True])
        assert before.keys() == after.keys() and len(before) == 5 * DAY // size
        moved = [before[begin].l1_distance(after[begin]) for begin in before]
        assert max(moved) <= max_partitions
        assert sum(move > 0 for move in moved) <= w


def test_each_list_is_that_of_its_window():
    (first, *later) = run(
        lambda p: p | timed([(1, "a", 5), (2, "a", DAY - 1), (2, "b", DAY), (2, "b", 9 * DAY)])
        | beam.WindowInto(window.FixedWindows(DAY)),
        dp.ReleaseWindowedLists(**ALL, max_windows_per_user=9, max_partitions_per_user=2),
    )  # fmt: skip
    assert first[0] == "1970-01-01T00:00:00Z" and list(first[1]) == [(2, 1)]
    assert [list(released) for _, released in later] == [[(1, 1)], [], [], []]
    # No user is in more than the five windows there are, whatever was said.
    assert math.isclose(first[1].cost["epsilon"], NO_NOISE / 5)


ONCE = {"max_windows_per_user": 1, "max_partitions_per_user": 1}
BOTH = pytest.mark.parametrize(
    "transform",
    [dp.ReleaseWindowedLists, functools.partial(dp.SelectWindowedPartitions, delta=1e-6)],
    ids=["lists", "names"],
)
EARLY = trigger.Repeatedly(trigger.AfterCount(1)), trigger.AccumulationMode.DISCARDING
WINDOWED = beam.WindowInto(window.FixedWindows(60))
REFUSED = {
    "global": (beam.Map(same), "must be in beam.window.FixedWindows"),
    "sliding": (beam.WindowInto(window.SlidingWindows(60, 30)), "release a record several times"),
    "sessions": (beam.WindowInto(window.Sessions(60)), "sessions show by where they begin"),
    "triggered": (beam.WindowInto(window.FixedWindows(60), *EARLY), "a trigger that fires again"),
    "late": (
        beam.WindowInto(
            window.FixedWindows(60),
            trigger.AfterWatermark(late=trigger.AfterCount(1)),
            trigger.AccumulationMode.DISCARDING,
        ),
        "a trigger that fires again",
    ),
}


@BOTH
@pytest.mark.parametrize("name", REFUSED)
def test_other_windows_are_refused_with_the_reason(transform, name):
    steps, message = REFUSED[name]
    records = beam.Pipeline() | beam.Create([("a", 1)]) | "Into" >> steps
    release = transform(**ALL | ONCE)
    with pytest.raises(ValueError, match=message):
        _ = records | release
    # A Flatten has the windows of its first input.
    fixed = records.pipeline | "More" >> beam.Create([("a", 1)]) | WINDOWED
    with pytest.raises(ValueError, match="put different windows together"):
        _ = (fixed, records) | beam.Flatten() | "Again" >> release
    with pytest.raises(ValueError, match="no window begins from start on and before stop"):
        _ = fixed | "None" >> transform(**ALL | ONCE | {"start": 1, "stop": 2})
    records.is_bounded = False
    with pytest.raises(ValueError, match="unbounded input has no last window"):
        _ = records | "Unbounded" >> release


@BOTH
def test_fields_that_are_not_there_are_refused_when_the_pipeline_is_built(transform):
    into = beam.WindowInto(window.FixedWindows(60))
    records = beam.Pipeline() | beam.Create([beam.Row(user=1, item=2)]) | into
    with pytest.raises(ValueError, match="rows have no field 'partition', only user, item"):
        _ = records | transform(**ALL | ONCE)


def test_a_trigger_at_the_end_of_a_window_fires_once():
    at_end = trigger.AfterWatermark(), trigger.AccumulationMode.DISCARDING
    (released,) = run(
        lambda p: p | timed([(1, "a", 5), (2, "a", 6)])
        | beam.WindowInto(window.FixedWindows(60), *at_end),
        dp.ReleaseWindowedLists(**ALL | ONCE | {"stop": 60}),
    )  # fmt: skip
    assert list(released[1]) == [(2, 1)]


def test_records_that_a_step_has_grouped_have_no_event_times():
    # All lists were empty, at the whole price.
    with pytest.raises(ValueError, match="after steps that group or bound them"):
        run(
            lambda p: p | timed([(1, "a", 5), (2, "a", 6)])
            | dp.BoundContributions(1) | beam.WindowInto(window.FixedWindows(60)),
            dp.ReleaseWindowedLists(**ALL | ONCE | {"stop": 60}),
        )  # fmt: skip


def test_records_without_event_times_are_refused():
    release = dp.ReleaseWindowedLists(**ALL | ONCE | {"stop": 60})
    with pytest.raises(ValueError, match="a record has no event time: give records their times"):
        run([("ann", "secret")], beam.WindowInto(window.FixedWindows(60)), release)


@pytest.mark.parametrize("grouping", ["distinct", "by key"])
def test_records_that_lost_their_event_times_are_refused(grouping):
    """Steps that group records give them the end of time, to the millisecond."""
    steps = {
        "distinct": [beam.Distinct()],
        "by key": [
            beam.GroupByKey(),
            beam.FlatMap(lambda of_user: [(of_user[0], page) for page in of_user[1]]),
        ],
    }
    release = dp.ReleaseWindowedLists(**ALL | ONCE | {"stop": 60})
    timed = beam.Map(lambda record: window.TimestampedValue(record, 5))
    into = beam.WindowInto(window.FixedWindows(60))
    with pytest.raises(ValueError, match="a record has no event time"):
        run([("ann", "page"), ("bob", "page")], timed, *steps[grouping], into, release)


@pytest.mark.parametrize("start", ["2026-01-01", None, float("nan"), datetime.datetime(2026, 1, 1)])
def test_what_is_no_time_is_refused_by_the_name_of_its_argument(start):
    with pytest.raises(ValueError, match="start and stop must be seconds since 1970, times with"):
        dp.ReleaseWindowedLists(**ALL | ONCE | {"start": start})


@pytest.mark.thorough
def test_lists_by_period_are_of_tables_in_the_global_window():
    bounds = {"max_periods_per_user": 2, "max_partitions_per_user": 1}
    release = dp.ReleaseListsByPeriod(["a", "b"], epsilon=NO_NOISE, **bounds, secret=SECRET)
    table = table_of([(1, 7, "b"), (2, 7, "b"), (2, 7, "c")], ("user", "partition", "list"))
    first, second = run([table], release)
    assert (*first, *second) == ("a", FrequencyList(), "b", FrequencyList([2], [1]))
    views = table.set_column(2, "list", pa.array(["b", "b", "c"], pa.string_view()))
    assert run([views], release) == [first, second]
    for names in ([1, 2, 3], [b"b", b"b", b"c"]):
        with pytest.raises(TypeError, match="names of periods, as text"):
            run([table.set_column(2, "list", [names])], release)
    with pytest.raises(ValueError, match="takes Arrow tables: declare them"):
        run([(1, 2)], release)
    fixed = window.FixedWindows(60)
    with pytest.raises(ValueError, match="in the global window"):
        run([table], beam.WindowInto(fixed), release)
    into = beam.Map(lambda record: window.TimestampedValue(record, 1)) | beam.WindowInto(fixed)
    with pytest.raises(TypeError, match="records must be tuples"):
        run(["secret"], into, dp.ReleaseWindowedLists(**ALL | ONCE | {"stop": 60}))


def test_a_release_is_no_longer_any_users():
    records = beam.Pipeline() | beam.Create([("a", 1)]) | WINDOWED
    release = dp.ReleaseWindowedLists(**ALL | ONCE | {"stop": 60 * 9})
    assert bound_of(records | release) == Bound()


@BOTH
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_windows_per_user": 0}, "max_windows_per_user must be a positive integer"),
        ({"max_partitions_per_user": 0}, "max_partitions_per_user must be a positive integer"),
        ({"epsilon": -1}, "epsilon"),
        ({"stop": 0}, "start must be before stop"),
        # Milliseconds.
        ({"stop": 1_700_000_000_000}, "must be seconds since 1970"),
        ({"start": float("-inf")}, "must be seconds since 1970"),
    ],
)
def test_arguments_are_checked_at_once(transform, options, message):
    with pytest.raises(ValueError, match=message):
        transform(**ALL | ONCE | options)


PERIODS = {"epsilon": 1, "max_periods_per_user": 1, "max_partitions_per_user": 1}
test_arguments_of_periods_and_names_are_checked_at_once = refused(
    lambda make, options: make(**options),
    (dp.ReleaseListsByPeriod, PERIODS | {"periods": ["a"] * 2}, "1 to 10,000 different periods"),
    (dp.ReleaseListsByPeriod, PERIODS | {"periods": "abc"}, "periods must be a list, got 'abc'"),
    (dp.SelectPartitionsByPeriod, PERIODS | {"periods": [2025], "delta": 0.1}, "periods, as text"),
    (dp.SelectWindowedPartitions, ALL | ONCE | {"delta": 2}, "delta must be in"),
    error=(TypeError, ValueError),
)


@pytest.mark.parametrize(("w", "max_partitions"), [(1, 1), (1, 2), (2, 1)])
def test_every_pair_of_tiny_neighbours_keeps_epsilon_and_delta_of_names(w, max_partitions):
    bounds = {"max_periods_per_user": w, "max_partitions_per_user": max_partitions}
    budget = {"epsilon": 0.5, "delta": 0.05}
    select = dp.SelectPartitionsByPeriod(["a", "b"], strategy="optimal", **budget, **bounds)
    kept = [select.spec.names.strategy.keep_probability(users) for users in range(3)]

    @functools.cache
    def distribution(users):
        """The probabilities of all sets of named pairs, each of which is decided by itself."""
        return functools.reduce(np.kron, [[1 - kept[number], kept[number]] for number in users])

    pairs = tiny_neighbours(w, max_partitions)
    dearest = max(
        np.maximum(0, distribution(here) - math.exp(0.5) * distribution(there)).sum()
        for here, there in pairs | {pair[::-1] for pair in pairs}
    )
    # And nothing is given away: some pair takes most of it.
    assert 0.9 * 0.05 < dearest <= 0.05 * (1 + 1e-9)


def selected(transform=dp.SelectWindowedPartitions, **options):
    """Names of 30 users a day: "all" on each of three days, and one page of each day."""
    records = [
        (user, page, day * DAY + user)
        for user in range(30)
        for day in range(3)
        for page in (("all", 0), ("day", day))
    ] + [(99, ("alone", 1), 5), (7, ("all", 0), -5), (7, ("all", 0), 9 * DAY)]
    bounds = {"max_windows_per_user": 3, "max_partitions_per_user": 2}
    options = ALL | {"epsilon": 20, "delta": 1e-6, "stop": 4 * DAY} | bounds | options
    select = transform(**options)
    return run(lambda begin: begin | InWindows("tuples", DAY, records) | select)


@pytest.mark.thorough
def test_names_are_those_of_their_windows():
    days = [f"1970-01-0{day}T00:00:00Z" for day in (1, 2, 3)]
    wanted = [(day, ("all", 0)) for day in days] + [(d, ("day", i)) for i, d in enumerate(days)]
    assert sorted(selected()) == sorted(wanted)
    noisy = selected(noisy_counts=True)
    assert sorted(row[:2] for row in noisy) == sorted(wanted)
    assert all(abs(count - 30) < 10 for *_, count in noisy)


@pytest.mark.thorough
def test_names_need_no_bound():
    days = [f"1970-01-0{day}T00:00:00Z" for day in (1, 2, 3)]
    wanted = [(day, ("all", 0)) for day in days] + [(d, ("day", i)) for i, d in enumerate(days)]

    @beam.ptransform_fn
    def with_entries(records, **options):
        collections = records | dp.SelectWindowedPartitions(**options, with_entries=True)
        tagged = [
            pcoll | name >> beam.Map(lambda element, name: (name, element), name)
            for name, pcoll in collections.items()
        ]
        return tagged | beam.Flatten()

    unbounded = {"max_partitions_per_user": None, "max_windows_per_user": None}
    released = selected(with_entries, **unbounded, epsilon=100)
    names = [name for collection, name in released if collection == "partitions"]
    (entries,) = (entries for collection, entries in released if collection == "entries")
    assert sorted(names) == sorted(wanted)
    assert entries["max_partitions_per_user"] == entries["plan"]["partitions"]
    select = dp.SelectPartitionsByPeriod(["a", "b"], epsilon=1, delta=0.1)
    assert "partitions_per_user_and_period" not in select.display_data()


def test_what_is_left_out_is_called_as_the_transform_calls_it():
    for windowed in (dp.ReleaseWindowedLists, dp.SelectWindowedPartitions):
        delta = {"delta": 1e-6} if windowed is dp.SelectWindowedPartitions else {}
        with pytest.raises(ValueError, match=r"^max_windows_per_user is needed"):
            windowed(**ALL, **delta, max_windows_per_user=None, max_partitions_per_user=1)


WINDOWS = {"epsilon": 1, "start": 0, "stop": 9, "max_windows_per_user": 1}
test_arguments_are_called_as_the_transform_calls_them = refused(
    lambda make, options: make(**options),
    *(
        (windowed, WINDOWS | more, rf"^{windowed.__name__}.*unexpected keyword argument '{other}'")
        for windowed in (
            dp.ReleaseWindowedLists,
            dp.ReleaseWindowedAllRecords,
            dp.SelectWindowedPartitions,
        )
        for other, more in (
            ("misspelt", {"misspelt": 1}),
            ("max_periods_per_user", {"max_periods_per_user": 1}),
            ("kind", {"kind": "week"}),
        )
    ),
    (dp.SelectWindowedPartitions, WINDOWS, "SelectWindowedPartitions.*argument: 'delta'"),
    (
        dp.SelectWindowedPartitions,
        WINDOWS | {"delta": 0.1, "noisy_counts": "yes"},
        "^noisy_counts must be True or False, got 'yes'",
    ),
    (dp.ReleaseWindowedAllRecords, WINDOWS | {"survey_share": 0}, "^survey_share must be a pos"),
    (dp.ReleaseAllRecords, {"epsilon": 1, "survey_share": 1}, "^survey_share must be below 1"),
    (
        dp.ReleaseAllRecords,
        {"epsilon": None},
        "^epsilon must be a positive finite number, got None",
    ),
    (dp.ReleaseAllRecords, {"epsilon": 1, "mechanism": "best"}, "^mechanism must be one of"),
    (
        dp.ReleaseGroupedAllRecords,
        {"attributes": [], "epsilon_all": 1, "epsilon_groups": 1, "misspelt": 1},
        "^ReleaseGroupedAllRecords.*unexpected keyword argument 'misspelt'",
    ),
    error=(TypeError, ValueError),
)


def test_names_count_a_user_in_so_many_windows():
    # Each of 30 users is in one window of three, with one pair: too few for most to be named.
    assert len(selected(max_windows_per_user=1, max_partitions_per_user=1, epsilon=0.2)) < 3
