"""The specification and the value of a hierarchy: what is refused, and what adds up."""

import collections
import pickle
import random

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dp_transforms as dp
from dp_transforms import JobSecret
from dp_transforms.engines import hierarchy_kernels
from dp_transforms.releases import HierarchySpec
from dp_transforms.releases.hierarchy import PartitionGroups
from tests.jobs import without_digests

GROUPS = [("a", "x"), ("a", "y"), ("b", "x"), ("b", "none")]
ARGUMENTS = {
    "levels": ["state", "county"],
    "groups": GROUPS,
    "epsilon": 2,
    "max_partitions_per_user": 2,
}


def records(users=400):
    rng = random.Random(9)
    columns = collections.defaultdict(list)
    for user in range(users):
        for _ in range(rng.randint(1, 3)):
            state, county = rng.choice([*GROUPS[:3], ("c", "x"), ("a", None)])
            columns["user"].append(user)
            columns["home"].append(f"{state}{county}{int(rng.paretovariate(1))}")
            columns["state"].append(state)
            columns["county"].append(county)
    return dict(columns)


def release(data=None, **arguments):
    return dp.release_hierarchy(
        data or records(),
        user="user",
        partition="home",
        secret=JobSecret.insecure_for_testing(3),
        **{**ARGUMENTS, **arguments},
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"levels": "state"}, "levels must be several names"),
        ({"levels": []}, "levels must be different names"),
        ({"levels": ["state", "state"]}, "levels must be different names"),
        *(
            ({"levels": ["state", name]}, f"levels cannot have the name '{name}': rename")
            for name in (
                *("user", "partition", "list"),
                *("frequency", "multiplicity", "arm", "index", "value", "all"),
                *("partitions", "total"),
            )
        ),
        ({"groups": []}, "groups must be 1 to"),
        ({"groups": [1, None]}, "each of groups must have a name, as text that is not empty"),
        ({"groups": [("a",)]}, "at each of the 2 levels"),
        ({"groups": [("a", "")]}, "at each of the 2 levels"),
        ({"groups": [("a", "x"), ("a", "x")]}, "given twice"),
        ({"epsilon": 0}, "epsilon"),
        ({"max_partitions_per_user": 0}, "max_partitions_per_user"),
        ({"shares": [1, 1]}, "shares must be 3 positive numbers"),
        ({"shares": [1, 0, 1]}, "shares must be 3 positive numbers"),
        ({"partition_groups": PartitionGroups(("p", "p"), (0, 1))}, "a partition is given twice"),
        ({"partition_groups": PartitionGroups(("p",), (4,))}, "the place of a group"),
    ],
)
def test_arguments_that_make_no_hierarchy(arguments, message):
    with pytest.raises(ValueError, match=message):
        HierarchySpec(**{**ARGUMENTS, **arguments})


def test_epsilon_is_divided_exactly_by_the_shares():
    spec = HierarchySpec(**{**ARGUMENTS, "epsilon": "0.7", "shares": ["0.1", 1, 2]})
    assert sum(spec.level_epsilons) == spec.cost.epsilon
    assert float(spec.cost.epsilon) == 0.7
    assert [float(31 * part) for part in spec.level_epsilons] == pytest.approx([0.7, 7, 14])
    assert [m.sensitivity for m in spec.mechanisms] == [2, 2, 2]
    assert pickle.loads(pickle.dumps(spec)) == spec


def test_every_record_is_in_the_group_of_its_path_or_dropped():
    # By Python: a name of a county says nothing without its state.
    spec = HierarchySpec(**ARGUMENTS)
    rows = [
        (1, 7, "a", "x"),
        (2, 7, "b", "x"),
        (3, 8, "a", "none"),
        (4, 8, None, "x"),
        (5, 9, "b", "none"),
    ]
    columns = dict(
        zip(("user", "partition", "state", "county"), zip(*rows, strict=True), strict=True)
    )
    table = pa.table({name: list(values) for name, values in columns.items()})
    in_groups = hierarchy_kernels.LeafGroups(spec)(table)
    pairs = [(row["list"], row["partition"]) for row in in_groups["partition"].to_pylist()]
    assert in_groups["user"].to_pylist() == [1, 2, 5]
    assert pairs == [("0", 7), ("2", 7), ("3", 9)]


def test_a_partition_in_two_groups_is_two_partitions():
    data = {
        "user": [1, 2, 1],
        "home": [5, 5, 5],
        "state": ["a", "a", "b"],
        "county": ["x", "x", "x"],
    }
    lists = release(data, epsilon=300)
    assert list(lists[()].released) == [(2, 1), (1, 1)]
    assert list(lists["b", "x"].released) == [(1, 1)]
    assert list(lists["b", "none"].released) == []


def test_answers_add_up_as_lists_do():
    lists = release()
    assert set(lists) == {(), ("a",), ("b",), *GROUPS}
    for path in [(), ("a",), ("b",)]:
        children = lists.children(path)
        assert {child[:-1] for child in children} == {path}
        for j in (1, 2, 5, 20):
            whole = lists[path].partitions_with_at_least(j)
            parts = [lists[child].partitions_with_at_least(j).value for child in children]
            assert whole.value == sum(parts)
            assert whole.low <= whole.value <= whole.high
    assert lists.level("county").keys() == set(GROUPS)
    with pytest.raises(ValueError, match="level must be one of all, state, county"):
        lists.level("town")


def test_a_table_of_partitions_takes_the_place_of_columns():
    data = {"user": [1, 2, 3, 4], "home": [10, 10, 11, 12]}
    table = {"home": [10, 11], "state": ["a", "b"], "county": ["x", "y"]}
    lists = release(data, groups=table, epsilon=300)
    assert list(lists["a", "x"].released) == [(2, 1)]
    assert list(lists["b", "y"].released) == [(1, 1)]
    assert list(lists[()].released) == [(2, 1), (1, 1)]
    twice = {"home": [10, 10], "state": ["a", "b"], "county": ["x", "y"]}
    with pytest.raises(ValueError, match="a partition in two groups"):
        release(data, groups=twice)
    with pytest.raises(ValueError, match="no column 'county'"):
        release(data, groups={"state": ["a"]})
    with pytest.raises(TypeError, match="groups must be a list of tuples"):
        release(data, groups=7)


def test_a_release_is_read_as_it_was_saved(tmp_path):
    lists = release()
    lists.save(tmp_path / "out")
    again = dp.load(tmp_path / "out")
    assert {path: again[path].released for path in again} == {
        path: lists[path].released for path in lists
    }
    assert all(
        again[path].released.coordinates == lists[path].released.coordinates for path in lists
    )
    assert repr(again) == repr(lists)
    assert "0.666667 for the lists by county" in again.privacy
    table = again.to_arrow()
    assert table.column_names[:2] == ["state", "county"]
    lists.report(tmp_path / "page.html")
    assert "b / none" in (tmp_path / "page.html").read_text()


def test_noisy_numbers_that_are_not_those_released_are_refused(tmp_path):
    release().save(tmp_path / "out")
    without_digests(tmp_path / "out")
    path = tmp_path / "out" / "noisy_coordinates.csv"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-1]))
    with pytest.raises(ValueError, match="is not as it was released"):
        dp.load(tmp_path / "out")


def test_a_session_pays_for_all_levels_together():
    session = dp.Session(epsilon=2)
    session.release_hierarchy(records(), user="user", partition="home", **ARGUMENTS)
    assert session.remaining.epsilon == 0


def test_equal_lists_of_a_hierarchy_have_independent_noise(monkeypatch):
    # Everything, a state with one county, and another state with two equal counties: of equal
    # lists, coordinates and tapes must differ. Two lists of 30 partitions have more than 30
    # coordinates, each of them equal by chance with probability below 1/8.
    contexts = []
    tape = JobSecret.tape

    def recorded(secret, context):
        contexts.append(context)
        return tape(secret, context)

    monkeypatch.setattr(JobSecret, "tape", recorded)
    spec = HierarchySpec(
        levels=["state", "county"],
        groups=[("a", "x"), ("b", "x"), ("b", "y")],
        epsilon="0.3",
        max_partitions_per_user=1,
    )
    histogram = {500 + 7 * place: 1 for place in range(30)}
    histograms = {place: histogram for place in "012"}
    secret = JobSecret.insecure_for_testing(4)
    lists = dict(hierarchy_kernels.release_histograms(histograms, spec, secret))
    equal = [("a",), ("a", "x"), ("b", "x"), ("b", "y")]
    drawn = {tuple(lists[path].coordinates) for path in equal}
    assert len(drawn) == 4
    assert len(set(contexts)) == len(contexts) == len(lists) == 6


def test_a_table_is_no_partition_groups():
    with pytest.raises(TypeError, match=r"must be a releases\.hierarchy\.PartitionGroups, got"):
        dp.ReleaseHierarchy(
            levels=["topic"],
            groups=[("music",)],
            epsilon=1,
            max_partitions_per_user=1,
            partition_groups={"home": ["jazz"], "topic": ["music"]},
        )


@pytest.mark.parametrize("make", [tuple, np.array, pd.Series, pa.array])
def test_most_partitions_may_be_a_column_of_a_table(make):
    most = [4, 4, 4, 0]
    lists = [release(most_partitions=given) for given in (most, make(most))]
    assert lists[0] == lists[1]
    taken = "so are upper bounds on their numbers of partitions, which were given"
    assert taken in lists[0].privacy and taken not in release().privacy
