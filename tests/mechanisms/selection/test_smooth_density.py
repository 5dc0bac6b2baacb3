"""Densities from noisy numbers: draws follow the posterior distribution, the mode is its top."""

import itertools

import numpy as np
import pytest

from dp_transforms.mechanisms.selection.population import (
    Look,
    degree_edges,
    populations_behind,
    surely_users,
    tail_cells,
)
from dp_transforms.mechanisms.selection.smooth_density import SmoothDensity

# The last number is one of the noise alone, or a spike.
PLACES = np.array([0.0, 0.5, 1.2])
CELLS = np.array([[1.0, 0.2, 0.0], [0.0, 1.0, 0.3], [0.0, 0.0, 1.0]])
SEEN = np.array([120.0, 60.0, 45.0])
LEAST = 170.0


def _model():
    return SmoothDensity(CELLS, SEEN, np.full(3, 20.0), PLACES, -2.0, np.full(3, 4.0), LEAST)


def _posterior():
    """The posterior distribution on a grid, from its definition: points, probabilities."""
    points = np.array([*itertools.product(np.linspace(-9, 7, 81), repeat=3)])
    numbers = np.exp(points) @ CELLS.T
    variance = 2 * 20.0**2 + SEEN + (0.03 * SEEN) ** 2
    far = variance / 20.0
    noise = variance / 20.0**2 * (np.sqrt(1 + ((SEEN - numbers) / far) ** 2) - 1)
    slopes = np.diff(points) / np.diff(PLACES)
    apart = 0.6
    kinks = np.diff(slopes)[:, 0] / np.sqrt(apart) / 0.7
    off_slopes = (slopes + 2) * np.sqrt(np.diff(PLACES)) / 2
    student = 2 * np.log1p(np.column_stack([kinks, off_slopes]) ** 2 / 3)  # (3 + 1) / 2
    log = -noise.sum(1) - student.sum(1)
    log[numbers.sum(1) < LEAST] = -np.inf
    probabilities = np.exp(log - log.max())
    return points, probabilities / probabilities.sum()


@pytest.mark.thorough
def test_draws_follow_the_posterior_distribution():
    points, probabilities = _posterior()
    draws = np.log(_model().draws(np.tile(SEEN, (600, 1))))
    mean = probabilities @ points
    variance = probabilities @ (points - mean) ** 2
    # Five standard errors of independent draws.
    assert np.all(np.abs(draws.mean(0) - mean) < 5 * np.sqrt(variance / len(draws)))
    assert draws.var(0) == pytest.approx(variance, rel=0.35)
    for place, level in itertools.product(range(3), (0.1, 0.5, 0.9)):
        order = np.argsort(points[:, place], kind="stable")
        value = points[order, place][np.searchsorted(np.cumsum(probabilities[order]), level)]
        below = probabilities[points[:, place] < value + 0.1].sum()
        part = (draws[:, place] < value + 0.1).mean()
        assert abs(part - below) < 5 * np.sqrt(0.25 / len(draws))


def test_the_mode_is_the_most_likely_density():
    points, probabilities = _posterior()
    best = points[np.argmax(probabilities)]
    assert _model().mode == pytest.approx(best, abs=0.15)


def test_draws_are_always_the_same():
    first, second = (_model().draws(np.tile(SEEN, (3, 1))) for _ in range(2))
    assert np.array_equal(first, second)
    assert len(np.unique(first[:, 0])) == 3


def test_users_who_stand_out_only_together_are_in_all_readings():
    # 25 cells have as many users as the scale of their noise. Their sum has a standard deviation
    # of 100 * sqrt(50).
    edges = degree_edges(256)
    degrees = (100,) * (len(edges) + 1)
    tails = tail_cells(np.maximum(1, 300 // np.arange(1, 200)))
    look = Look(degrees, tuple(tails.tolist()), edges, (100.0, 300.0))
    least = 100 * len(degrees) - 2 * 100 * np.sqrt(2 * len(degrees))
    assert least == pytest.approx(surely_users(look))
    for population in itertools.chain(*populations_behind(look)):
        assert population.users.sum() >= 0.98 * least
