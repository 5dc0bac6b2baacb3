"""Bounds that travel with the data, and what is refused when a pipeline is built."""

import operator

import apache_beam as beam
import pyarrow as pa
import pytest

import dp_transforms as dp
from dp_transforms.beam.bounds import Bound, bound_of
from dp_transforms.budget.budget import PrivacyUnit
from dp_transforms.mechanisms.partition.exponential import IntegerPartitionMechanism
from dp_transforms.mechanisms.selection import LaplaceSelection, OptimalSelection
from tests.beam_runs import same, steps_of, table_of

RECORDS = {
    "tuples": [("ann", "jazz"), ("ann", "rock"), ("bob", "jazz")],
    "rows": [beam.Row(user="ann", partition="jazz")],
    "tables": [table_of([("ann", "jazz"), ("bob", "jazz")])],
}
COUNT = dp.CountDistinctUsers()


def release(max_partitions=None):
    return dp.ReleaseFrequencyList(epsilon=1, max_partitions_per_user=max_partitions)


def select(max_partitions=None, **options):
    return dp.SelectPartitions(1, 1e-3, max_partitions, **options)


def from_counts(max_partitions):
    return dp.SelectFromCounts(OptimalSelection(1, 1e-3, max_partitions_per_user=max_partitions))


def through(*steps, kind="tuples"):
    pcoll = beam.Pipeline() | beam.Create(RECORDS[kind])
    for i, step in enumerate(steps):
        pcoll |= f"step {i}" >> step
    return pcoll


def both(left, right):
    @beam.ptransform_fn
    def Both(pcoll):
        return (pcoll | "left" >> left, pcoll | "right" >> right) | beam.Flatten()

    return Both()


BOUND = dp.BoundContributions(2)
COUNTED = BOUND | COUNT
CAPPED = dp.CountDistinctUsers(cap=2)
GROUPED = dp.ReleaseGroupedAllRecords(
    [dp.Attribute("os", ("linux",))], epsilon_all=1, epsilon_groups=1
)
ONE_PERIOD = {"epsilon": 1, "max_periods_per_user": 1}
WINDOWS = {"epsilon": 1, "start": 0, "stop": 1, "max_windows_per_user": 1}
FILTER = beam.Filter(operator.itemgetter(1))
REFUSED = {
    "not bounded": ((COUNT, release(1)), "not known how many partitions"),
    "bounded to more": ((dp.BoundContributions(1000), COUNT, release(1)), "1000 of each user"),
    "bounded after counting": ((COUNT, BOUND, release(2)), "BoundContributions takes records"),
    "counted twice": ((COUNTED, COUNT), "CountDistinctUsers takes records"),
    "counts as edges": ((COUNTED, dp.CountProjectedDegrees(2)), "Degrees takes records"),
    "bounded edges": ((BOUND, dp.CountDegrees("in")), "CountDegrees takes all edges"),
    "bounded edges of nodes": ((BOUND, FILTER, dp.CountProjectedDegrees(2)), "takes all edges"),
    "counts as users": ((COUNTED, dp.ReleaseUserDegrees(1)), "but these are counts"),
    "counts of groups": ((COUNTED, GROUPED), "GroupedAllRecords takes records of users"),
    "counts of attributes": (
        (COUNTED, dp.ReleaseAttributes(["os"], epsilon=1)),
        "ReleaseAttributes takes records of users",
    ),
    "records of groups that were bounded": ((BOUND, GROUPED), "takes all records of each user"),
    "records of windows that were bounded": (
        (dp.DeclareBounded(2), dp.ReleaseWindowedAllRecords(**WINDOWS)),
        "takes all records of each user",
    ),
    "records of periods that were bounded": (
        (dp.DeclareBounded(2), dp.ReleaseAllRecordsByPeriod(["a"], **ONE_PERIOD)),
        "takes all records of each user",
    ),
    "bounded users": ((BOUND, dp.ReleaseUserDegrees(1)), "takes all records of each user"),
    "bounded before a survey": ((BOUND, dp.ReleaseAllRecords(1)), "takes all records of each"),
    "not counted": ((BOUND, release(2)), "takes counts, but these are records"),
    "numbers": ((beam.Map(lambda r: (r[0], 5)), BOUND, release(2)), "takes counts, but these"),
    "declared less than it is": ((BOUND, dp.DeclareBounded(1)), "contradicts"),
    "declared less in a selection": ((BOUND, select(1, already_bounded=True)), "contradicts"),
    "declared less after counting": ((COUNTED, dp.DeclareBounded(1)), "contradicts"),
    "records declared as counts": (
        (BOUND, dp.DeclareBounded(2, counted=True)),
        "contradicts its input, which is records of users",
    ),
    "counts declared as records": (
        (COUNTED, dp.DeclareBounded(2, counted=False)),
        "contradicts its input, which is counts",
    ),
    "declared without a kind": (
        (dp.DeclareBounded(2), release(2)),
        "give DeclareBounded counted=True",
    ),
    "declared without a kind for a selection": (
        (dp.DeclareBounded(2), from_counts(2)),
        "give DeclareBounded counted=True",
    ),
    "declared records that are not counted": (
        (dp.DeclareBounded(2, counted=False), release(2)),
        "takes counts, but these are records",
    ),
    "declared counts that are counted": (
        (dp.DeclareBounded(2, counted=True), COUNT),
        "records of users, but these are counts",
    ),
    "a selection from counts": ((COUNTED, select(2)), "SelectPartitions takes records"),
    "counts capped too low": ((BOUND, CAPPED, from_counts(2)), "needs counts up to"),
    "capped counts that are released": (
        (BOUND, CAPPED, dp.SelectFromCounts(LaplaceSelection(1, 1e-3, 2), noisy_counts=True)),
        "needs counts in full",
    ),
    "counts not bounded": ((COUNT, from_counts(1)), "not known how many partitions"),
    "counts bounded to more": ((COUNTED, from_counts(1)), "up to 2 of each user"),
    "another user after bounding": ((BOUND, dp.ToRecords(1, 0), COUNT, release(2)), "not known"),
    "a step that may do anything": ((BOUND, beam.Map(same), COUNT, release(2)), "not known"),
    "a filter of counts": ((COUNTED, FILTER, release(2)), "not known"),
    "a filter of declared counts": ((dp.DeclareBounded(2), FILTER, release(2)), "not known"),
    "a filter of records beside declared counts": (
        (both(BOUND, dp.DeclareBounded(2)), FILTER, COUNT, release(4)),
        "not known",
    ),
    "two branches": ((both(BOUND, BOUND), COUNT, release(3)), "up to 4 of each user"),
    "a branch that is not bounded": ((both(BOUND, beam.Map(same)), COUNT, release(9)), "not known"),
    "branches that are counted": ((both(COUNTED, COUNTED), release(3)), "up to 4 of each user"),
    "counts beside records": ((both(BOUND, COUNTED), COUNT), "records of users, but these"),
    "a partition counted twice": ((both(COUNTED, COUNTED), from_counts(4)), "one count of each"),
    "distinct after Flatten": (
        (both(BOUND, BOUND), dp.CountDistinctUsers(already_distinct=True)),
        "already_distinct does not hold",
    ),
    "a degree that moves by more": ((dp.CountProjectedDegrees(2), from_counts(9)), "one count of"),
    "less than an edge": ((dp.CountDegrees(), release(1)), "up to 2 of each edge"),
    "counts of edges": (
        (dp.ToRecords(0, 1), dp.CountDegrees(), from_counts(9)),
        "protects users, but .* for each edge",
    ),
    "declared": ((dp.CountDegrees(), dp.DeclareBounded(9), from_counts(9)), "protects users"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_bounded_is_refused_when_the_pipeline_is_built(name):
    steps, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        through(*steps)


def test_a_filter_that_sees_the_data_keeps_no_bound():
    records = through()
    names = beam.pvalue.AsList(records | beam.Values())
    bounded = records | BOUND
    filtered = bounded | beam.Filter(lambda record, names: record[1] in names, names)
    assert bound_of(filtered).partitions is None
    assert bound_of(bounded | "alone" >> beam.Filter(bool)).partitions == 2


class _Changing(beam.Reshuffle):
    def expand(self, pcoll):
        return super().expand(pcoll) | "change" >> beam.Map(same)


class _ChangingFlatten(beam.Flatten):
    def expand(self, pcolls):
        return pcolls | "flat" >> beam.Flatten() | "change" >> beam.Map(same)


def test_subclasses_of_steps_that_keep_a_bound_may_change_elements():
    bounded = through() | BOUND
    assert bound_of(bounded | "kept" >> beam.Reshuffle()).partitions == 2
    assert bound_of(bounded | "changed" >> _Changing()).partitions is None
    flattened = (bounded, bounded) | "flattened" >> _ChangingFlatten()
    assert bound_of(flattened).partitions is None


KEPT = {
    "as it is": (BOUND, COUNT),
    "capped": (BOUND, dp.CountDistinctUsers(cap=5)),
    "a filter of records": (BOUND, FILTER, COUNT),
    "a lambda": (BOUND, beam.Filter(lambda record: record[1] != "rock"), COUNT),
    "reshuffled": (BOUND, beam.Reshuffle(), COUNT, "again" >> beam.Reshuffle()),
    "in two composites": (BOUND | beam.Reshuffle(), COUNT | beam.Reshuffle()),
    "two branches": (both(dp.BoundContributions(1), dp.BoundContributions(1)), COUNT),
    "declared": (dp.DeclareBounded(2), COUNT),
    "declared counts": (COUNT, dp.DeclareBounded(2)),
    "declared as records": (dp.DeclareBounded(2, counted=False), FILTER, COUNT),
    "declared after another step": (BOUND, beam.Map(same), dp.DeclareBounded(2), COUNT),
    "edges": (dp.CountDegrees(),),
}


@pytest.mark.parametrize("name", KEPT)
def test_a_release_needs_no_second_kappa(name):
    counts = through(*KEPT[name])
    assert bound_of(counts).partitions == 2 and bound_of(counts).counted
    _ = counts | "by itself" >> release() | beam.Map(repr)
    _ = counts | "equal" >> release(2)
    _ = counts | "larger" >> release(3)
    own = IntegerPartitionMechanism(epsilon=1, sensitivity=1)
    with pytest.raises(ValueError, match="sensitivity must be at least"):
        _ = counts | "own" >> dp.ReleaseFrequencyList(mechanism=own)


@pytest.mark.parametrize("kind", RECORDS)
def test_all_kinds_of_records_know_their_bound(kind):
    bounded = through(BOUND, kind=kind)
    assert bound_of(bounded) == Bound(2, counted=False, distinct=True)
    counts = bounded | COUNT
    assert bound_of(counts) == Bound(2, counted=True, distinct=True)
    _ = counts | release()
    _ = counts | from_counts(2)
    _ = bounded | select()
    assert bound_of(through(kind=kind)) == Bound()


def test_graphs_say_whose_records_are_protected():
    assert bound_of(through(dp.CountDegrees("in"))).unit is PrivacyUnit.EDGE
    nodes = bound_of(through(dp.CountProjectedDegrees(3)))
    # Of a node, and of each of its neighbours: 2 D.
    assert (nodes.partitions, nodes.unit) == (6, PrivacyUnit.NODE)


LARGEST_COUNTS = {
    "not capped": (COUNTED, None),
    "capped": (BOUND | CAPPED, 2),
    "a projection": (dp.CountProjectedDegrees(3), 3),
    "declared again": (BOUND | CAPPED | dp.DeclareBounded(4), 2),
    "two caps": (both(BOUND | CAPPED, BOUND | dp.CountDistinctUsers(cap=7)), 7),
    "one cap of two": (both(BOUND | CAPPED, COUNTED), None),
    "changed": (BOUND | CAPPED | beam.Map(same) | dp.DeclareBounded(2, counted=True), None),
}


@pytest.mark.parametrize("name", LARGEST_COUNTS)
def test_the_largest_count_that_is_possible_travels_with_the_counts(name):
    counted, largest = LARGEST_COUNTS[name]
    assert bound_of(through(counted)).largest_count == largest


def has_step(name, *steps):
    parts = steps_of(through(*steps).pipeline.transforms_stack[0])
    return any(name in part.full_label.split("/") for part in parts)


def test_a_selection_bounds_what_is_not_bounded_enough_and_nothing_else():
    two, five, known = (select(most, strategy="optimal") for most in (2, 5, None))
    for steps in ([two], [dp.BoundContributions(3), two]):
        assert has_step("Bound", *steps)
    declared = select(2, strategy="optimal", already_bounded=True)
    for steps in ([BOUND, two], [BOUND, five], [BOUND, known], [declared]):
        assert not has_step("Bound", *steps)


def test_the_default_strategy_is_that_of_the_known_bound():
    with pytest.raises(ValueError, match="give max_partitions_per_user"):
        _ = select().strategy
    with pytest.raises(ValueError, match="delta"):
        dp.SelectPartitions(1, 2)
    # One partition each: optimal, from counts. Ten: a weighted strategy.
    assert not has_step("Weigh0", dp.BoundContributions(1), dp.SelectPartitions(1, 1e-5))
    assert has_step("Weigh0", dp.BoundContributions(10), dp.SelectPartitions(1, 1e-5))


def test_the_element_type_has_no_say():
    declared = beam.Map(same).with_output_types(pa.Table)
    with pytest.raises(ValueError, match="not known"):
        through(BOUND, declared, COUNT, release(2), kind="tables")
