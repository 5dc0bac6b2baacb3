"""The plan of a hierarchy: what each level gets, and how near released lists are."""

import numpy as np
import pytest

from dp_transforms.mechanisms.partition.frobenius import FrobeniusMechanism
from dp_transforms.postprocessing.hierarchy_plan import plan_hierarchy
from dp_transforms.postprocessing.planning import zipf_list
from dp_transforms.releases import HierarchySpec
from tests.tapes import InsecureSeededTape


def test_levels_get_what_a_release_gives_them():
    groups = [("a", "x"), ("a", "y"), ("b", "x"), ("c", "x")]
    spec = HierarchySpec(
        levels=["state", "county"],
        groups=groups,
        epsilon="0.7",
        max_partitions_per_user=2,
        shares=[1, 2, 4],
    )
    plans = plan_hierarchy(9_000, [3, 4], "0.7", 2, [1, 2, 4])
    assert [plan.epsilon_of_level for plan in plans] == [*map(float, spec.level_epsilons)]
    assert [plan.groups for plan in plans] == [len(level) for level in spec.paths] == [1, 3, 4]
    assert [plan.contributions for plan in plans] == [9_000, 3_000, 2_250]
    assert all(plan.epsilon == 0.7 for plan in plans)


def test_the_prediction_is_the_error_of_a_list_alone():
    """Of 12 releases at the epsilon of a level, from fixed seeds: their mean is within a quarter of
    the prediction, whose own draws are few."""
    _, plan = plan_hierarchy(60_000, [10], 2)
    reference, mechanism = zipf_list(6_000), FrobeniusMechanism(1)
    dists = [
        reference.l1_distance(mechanism.release(reference, InsecureSeededTape(seed))) / 2
        for seed in range(12)
    ]
    assert plan.expected_dist == pytest.approx(np.mean(dists), rel=0.25)
    assert plan.relative_error == plan.expected_dist / 6_000
    assert plan.other_dists.keys() == {"log-normal", "two steps"}


def test_more_groups_than_contributions_are_planned():
    _, plan = plan_hierarchy(50, [1_000], 1)
    assert plan.contributions == 1


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
    ],
)
def test_numbers_out_of_range(arguments, message):
    with pytest.raises(ValueError, match=message):
        plan_hierarchy(*arguments)
