"""The plan of a hierarchy: what each level gets, and how near released lists are."""

import re

import numpy as np
import pytest

from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.partition.frobenius import FrobeniusMechanism
from dp_transforms.mechanisms.partition.hierarchy import release_lists_of_tree
from dp_transforms.postprocessing.hierarchy_plan import EVERYTHING, GroupPlan, plan_hierarchy
from dp_transforms.postprocessing.planning import zipf_list
from dp_transforms.releases import HierarchySpec
from tests.tapes import InsecureSeededTape


@pytest.mark.thorough
def test_levels_get_what_a_release_gives_them():
    groups = [("a", "x"), ("a", "y"), ("b", "x"), ("c", "x")]
    spec = HierarchySpec(
        levels=["state", "county"],
        groups=groups,
        epsilon="0.7",
        max_partitions_per_user=2,
        shares=[1, 2, 4],
    )
    plan = plan_hierarchy(9_000, {"state": 3, "county": 4}, "0.7", 2, [1, 2, 4])
    assert [level.epsilon_of_level for level in plan.levels] == [*map(float, spec.level_epsilons)]
    assert [level.groups for level in plan.levels] == [len(level) for level in spec.paths]
    assert [level.level for level in plan.levels] == [EVERYTHING, *spec.levels]
    assert [level.contributions for level in plan.levels] == [9_000, 3_000, 2_250]
    assert plan.epsilon == 0.7 and all(level.epsilon == 0.7 for level in plan.levels)


def test_the_prediction_is_the_error_of_a_list_alone():
    """Of 12 releases at the epsilon of a level, from fixed seeds: their mean is within a quarter of
    the prediction, whose own draws are few."""
    plan = plan_hierarchy(60_000, [10], 2)["level 1"]
    reference, mechanism = zipf_list(6_000), FrobeniusMechanism(1)
    dists = [
        reference.l1_distance(mechanism.release(reference, InsecureSeededTape(seed))) / 2
        for seed in range(12)
    ]
    assert plan.expected_dist == pytest.approx(np.mean(dists), rel=0.25)
    assert plan.relative_error == plan.expected_dist / 6_000
    assert plan.other_dists.keys() == {"log-normal", "two steps"}


def test_releases_err_as_the_census_before_predicts():
    """The plan from last time's list beside the errors of six releases of other homes, from fixed
    seeds: on each level they are at most 1.35 times the prediction, and at least half of it, since
    lists that add up err less than lists alone."""
    rng = np.random.default_rng(49)
    homes, group = rng.choice(5, 6_000, p=[0.4, 0.3, 0.15, 0.1, 0.05]) + 1, np.arange(6_000) % 20
    of_group = [FrequencyList.from_counts(homes[group == place]) for place in range(20)]
    whole = FrequencyList.from_counts(homes)
    last = FrequencyList([5, 4, 3, 2, 1], [280, 600, 900, 1_820, 2_400])
    plan = plan_hierarchy(last.total, {"county": 20}, 1, reference=last)
    mechanisms = FrobeniusMechanism("0.5"), FrobeniusMechanism("0.5")
    errors = []
    for seed in range(6):
        (top,), counties = release_lists_of_tree(
            [[whole], of_group],
            [[0] * 20],
            mechanisms,
            [[InsecureSeededTape(100 * seed + place) for place in range(n)] for n in (1, 20)],
        )
        of_counties = [
            county.l1_distance(true) / 2 for county, true in zip(counties, of_group, strict=True)
        ]
        errors.append([top.l1_distance(whole) / 2, np.mean(of_counties)])
    for error, level in zip(np.mean(errors, axis=0), plan.levels, strict=True):
        assert 0.5 < error / level.expected_dist < 1.35


@pytest.mark.thorough
def test_groups_of_other_sizes():
    """By default there are larger and smaller ones; none is larger than everything."""
    plan = plan_hierarchy(10_000, {"state": 5, "county": 100}, 1)
    sizes = [[group.contributions for group in level.of_sizes] for level in plan.levels]
    assert sizes == [[], [200], [1_000, 10]]
    larger, smaller = plan["county"].of_sizes
    assert smaller.expected_dist < plan["county"].expected_dist < larger.expected_dist
    given = plan_hierarchy(10_000, [5], 1, group_sizes=[10, 2_000, 300, 20_000])
    assert [group.contributions for group in given.levels[1].of_sizes] == [300, 10]
    # A group of the average size of another level errs as that level's does, at equal epsilon.
    assert plan_hierarchy(10_000, [5, 100], 1, group_sizes=[100]).levels[1].of_sizes[0] == (
        GroupPlan(100, plan["county"].expected_dist, plan["county"].other_dists)
    )


def test_as_text():
    lines = str(plan_hierarchy(10_000, {"county": 100}, 1, group_sizes=[40])).splitlines()
    heads, top, county, small = (re.split(r"\s{2,}", line.strip()) for line in lines[1:5])
    assert heads[:4] == ["level", "groups", "epsilon", "contributions"]
    assert top[:4] == ["all", "1", "0.5", "10,000"] and small[0] == "40"
    assert county[:4] == ["county", "100", "0.5", "100"]
    dists = sorted(int(dist) for dist in county[4:7])
    assert lines[5].startswith(
        f"county of average size, 100 contributions: off by {dists[0]} to {dists[-1]}, "
    )


def test_more_groups_than_contributions_are_planned():
    plan = plan_hierarchy(50, [1_000], 1)
    assert plan.levels[1].contributions == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, [2], 1), "contributions"),
        ((10, [], 1), "groups must be the numbers"),
        ((10, [5, 2], 1), "groups must be the numbers"),
        ((10, [0], 1), "groups"),
        ((10, [2], 0), "epsilon"),
        ((10, [2], 1, 0), "sensitivity|max_partitions"),
        ((10, [2], 1, 1, [1]), "shares must be 2 positive numbers"),
        ((10, [2], 1, 1, []), "shares must be 2 positive numbers"),
        ((10, [2], 1, 1, [1, 0]), "shares must be 2 positive numbers"),
        ((10, {"all": 2}, 1), "names of levels"),
        ((10, [2], 1, 1, None, [0]), "group_sizes"),
        ((10, [2], 1, 1, None, None, FrequencyList()), "reference is empty"),
    ],
)
def test_numbers_out_of_range(arguments, message):
    with pytest.raises(ValueError, match=message):
        plan_hierarchy(*arguments)
