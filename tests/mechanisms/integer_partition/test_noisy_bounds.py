"""Bounds that look at the data: what they are made of, and how often they hold."""

import math

import numpy as np
import pytest

from dp_transforms.mechanisms import (
    FrequencyList,
    PartitionBounds,
    checkpoint_bounds,
    discrete_laplace,
    truncated_bounds,
)
from dp_transforms.mechanisms.randomness import InsecureSeededTape
from tests.statistical import laws

PRIVATE = FrequencyList([900, 400, 50, 7, 1], [3, 10, 40, 100, 500])


def test_checkpoints_bound_the_ranks_around_them():
    """By the definition, rank by rank, from the same noise."""
    for seed in range(30):
        tape = InsecureSeededTape(seed)
        bounds = checkpoint_bounds(
            PRIVATE, every=20, count=5, width=4, epsilon=0.5, sensitivity=2, tape=tape
        )
        values = np.repeat(PRIVATE.frequencies, PRIVATE.multiplicities)
        noisy = values[19:100:20] + discrete_laplace(4, tape, "checkpoints", 5)
        after = list(enumerate(noisy.tolist(), 1))
        upper, lower = [], []
        for rank in range(1, 141):
            behind = -(-rank // 20)
            upper.append(max(0, min([10**9, *(n + 4 for j, n in after if 20 * j <= rank)])))
            crossing = max(0, min([10**9, *(n + 4 for j, n in after if j <= behind)]))
            lower.append(min(crossing, max([0, *(n - 4 for j, n in after if j >= behind)])))
        expected = PartitionBounds.of_runs(lower, upper, [1] * 140)
        for values in (PRIVATE, FrequencyList([50, 40], [30, 90]), FrequencyList()):
            shifted = FrequencyList.from_runs(
                np.repeat(values.frequencies, values.multiplicities)[:140],
                np.ones(min(values.distinct, 140), int),
            )
            nearest = bounds.nearest(shifted)
            first = np.repeat(nearest.frequencies, nearest.multiplicities)[:140]
            wanted = expected.nearest(shifted)
            assert first.tolist() == np.repeat(wanted.frequencies, wanted.multiplicities).tolist()


def test_checkpoint_bounds_hold_as_often_as_said():
    width, epsilon, count = 12, 0.5, 6
    held = sum(
        checkpoint_bounds(
            PRIVATE,
            every=25,
            count=count,
            width=width,
            epsilon=epsilon,
            tape=InsecureSeededTape(seed),
        ).contain(PRIVATE)
        for seed in range(400)
    )
    # 6 e**-6 = 1.5 %: of 400 draws, 22 or more would miss once in 10**6.
    assert held > 400 - 22
    assert count * math.exp(-epsilon * width) < 0.015


def test_the_truncation_point_is_the_number_of_items_plus_noise():
    points = [
        truncated_bounds(
            PRIVATE, margin=9, epsilon=1, tape=InsecureSeededTape(seed)
        ).unbounded_ranks
        for seed in range(3000)
    ]
    q = math.exp(-1)
    law = {653 + 9 + k: (1 - q) / (1 + q) * q ** abs(k) for k in range(-40, 41)}
    laws.assert_follows(points, law)


def test_an_empty_list_is_truncated_at_zero_or_later():
    for seed in range(50):
        bounds = truncated_bounds(
            FrequencyList(), margin=0, epsilon=0.1, tape=InsecureSeededTape(seed)
        )
        assert bounds.unbounded_ranks >= 0
        assert bounds.contain(FrequencyList())


@pytest.mark.parametrize(
    ("name", "value"),
    [("every", 0), ("count", 1.5), ("width", -1), ("sensitivity", 0), ("epsilon", 0)],
)
def test_bad_parameters_are_refused_by_name(name, value):
    arguments = {"every": 2, "count": 3, "width": 1, "epsilon": 1, "sensitivity": 1} | {name: value}
    with pytest.raises(ValueError, match=name):
        checkpoint_bounds(PRIVATE, **arguments)
    if name in ("sensitivity", "epsilon"):
        arguments = {"margin": 3, "epsilon": 1, "sensitivity": 1} | {name: value}
        with pytest.raises(ValueError, match=name):
            truncated_bounds(PRIVATE, **arguments)


def test_a_negative_margin_is_refused():
    with pytest.raises(ValueError, match="margin"):
        truncated_bounds(PRIVATE, margin=-1, epsilon=1)
