import math

import numpy as np
import pytest

from dp_transforms import evaluation
from dp_transforms.mechanisms import FrequencyList, FrobeniusMechanism, IntegerPartitionMechanism
from dp_transforms.mechanisms.partition.registry import REGISTRY
from dp_transforms.postprocessing.planning import (
    expected_dist,
    made_up_lists,
    plan_releases,
    zipf_list,
)
from dp_transforms.sample_data import rockyou
from tests.cases import refused


@pytest.mark.thorough
@pytest.mark.parametrize("exponent", [0.5, 0.8, 1.0, 1.7, 3.0])
@pytest.mark.parametrize("contributions", [1, 2, 17, 700])
def test_a_zipf_list_is_the_largest_that_fits(contributions, exponent):
    ranks = np.arange(1, contributions + 1, dtype=np.float64)

    def counts(scale):
        return np.floor(scale / ranks**exponent).astype(int)

    largest = zipf_list(contributions, exponent)
    scales = np.linspace(1, contributions + 1, 20_001)
    fitting = [s for s in scales if counts(s).sum() <= contributions]
    by_hand = FrequencyList.from_counts(c for c in counts(fitting[-1]) if c)
    # The grid of scales may stop below the last one that fits, by less than one step.
    assert by_hand.total <= largest.total <= contributions
    assert largest.l1_distance(by_hand) == largest.total - by_hand.total
    assert by_hand.total >= 0.99 * contributions - 3


test_a_zipf_list_out_of_range = refused(
    zipf_list,
    *((number, "contributions must") for number in (0, 10**14 + 1)),
    *((10, exponent, "exponent must") for exponent in (0.4, 3.5)),
)


@pytest.mark.thorough
def test_rockyou_gets_the_errors_that_were_measured():
    # Means of a prototype of the decoder with deviations of one release; exact at epsilon 2.
    for plan, measured, deviation in zip(
        plan_releases(rockyou(), [2, 1, 0.5]), [277.743, 822, 1488], [0, 20, 60], strict=True
    ):
        assert abs(plan.expected_dist - measured) <= 4 * deviation + 0.01
        assert plan.relative_error == pytest.approx(2 * plan.expected_dist / 32_603_388)
        assert plan.selections == () and plan.other_dists == {}


@pytest.mark.thorough
def test_large_lists_are_planned_on_a_smaller_scale():
    mechanism = FrobeniusMechanism(epsilon=1)
    whole, scaled = (expected_dist(mechanism, zipf_list(10**7), n).dist for n in (1500, 300))
    assert scaled == pytest.approx(whole, rel=0.1)
    # Not a second for a list with a square of 67,000.
    assert expected_dist(mechanism, zipf_list(10**11), 300).dist == pytest.approx(48_000, rel=0.2)


def test_a_mechanism_without_a_formula_is_predicted_by_draws(monkeypatch):
    class NoFormula(IntegerPartitionMechanism):
        distribution_type = None

    reference = zipf_list(3_000)
    drawn = expected_dist(NoFormula(epsilon=1), reference).dist
    exact = expected_dist(IntegerPartitionMechanism(epsilon=1), reference).dist
    assert drawn != exact and drawn == pytest.approx(exact, rel=0.2)
    # Seeds are fixed, so that a plan is the same each time.
    assert drawn == expected_dist(NoFormula(epsilon=1), reference).dist
    monkeypatch.setitem(REGISTRY, "exponential", NoFormula)
    (plan,) = plan_releases(reference, [1])
    assert plan.mechanisms[2].expected_dist is not None


def test_lists_of_other_kinds_stand_beside_a_made_up_one():
    (plan,) = plan_releases(zipf_list(40_000), [1], made_up=True)
    # Two steps tell nearly all of their noise, and log-normal counts less of it than Zipf's.
    two_steps, log_normal = plan.other_dists["two steps"], plan.other_dists["log-normal"]
    assert two_steps < plan.expected_dist / 2 < plan.expected_dist < log_normal
    for made_up_list in made_up_lists(40_000).values():
        assert made_up_list.total == pytest.approx(40_000, rel=0.1)


@pytest.mark.thorough
def test_more_partitions_per_user_cost_error_and_users():
    reference = zipf_list(5_000)
    of_one, of_four = (plan_releases(reference, [1], 1e-6, kappa)[0] for kappa in (1, 4))
    assert of_one.expected_dist < of_four.expected_dist
    (papers,) = (m.expected_dist for m in of_four.mechanisms if m.mechanism == "exponential")
    mechanism = IntegerPartitionMechanism(epsilon=1, sensitivity=4)
    assert papers == pytest.approx(evaluation.expected_l1(mechanism, reference) / 2)
    for few, many in zip(of_one.selections, of_four.selections, strict=True):
        assert few.strategy == many.strategy
        assert few.half_from < many.half_from and few.named > many.named
    # ln(1/delta) / epsilon users, about, under one partition per user.
    assert {s.half_from for s in of_one.selections if s.chosen} == {14}


@pytest.mark.parametrize("epsilon", [8, 3, 1.5, 1.0987, 1.0986, 0.5, 0.1])
def test_the_default_has_about_the_least_error_of_what_works(epsilon):
    (plan,) = plan_releases(zipf_list(10_000), [epsilon])
    works = {m.mechanism: m.expected_dist for m in plan.mechanisms if m.expected_dist is not None}
    (chosen,) = [m.mechanism for m in plan.mechanisms if m.chosen]
    assert works[chosen] == plan.expected_dist < 1.15 * min(works.values())
    assert works[chosen] <= works["exponential"]
    too_small = {"geometric"} if epsilon < math.log(3) else set()
    assert set(works) == set(REGISTRY) - too_small


test_an_empty_reference_is_refused = refused(
    plan_releases, (FrequencyList(), [1], "reference is empty")
)
