"""A normal number that is seen through Laplace noise, beside sums over a fine grid."""

import numpy as np
import pytest

from dp_transforms.postprocessing.normal_and_laplace import (
    log_density_of_sum,
    quantiles_given_sum,
)

CASES = [(3.0, 5.0, 4.0, 0.5), (40.0, 12.0, 9.0, 0.2), (-6.0, 8.0, 2.0, 1.0), (50.0, 50.0, 1.0, 30)]


def posterior(seen, mean, variance, epsilon):
    """Numbers, and their joint density with the seen sum."""
    width = 30 * np.sqrt(variance) + 40 / epsilon
    number, step = np.linspace(mean - width, mean + width, 400_001, retstep=True)
    normal = np.exp(-((number - mean) ** 2) / variance / 2) / np.sqrt(2 * np.pi * variance)
    return number, normal * epsilon / 2 * np.exp(-epsilon * np.abs(seen - number)) * step


@pytest.mark.parametrize(("seen", "mean", "variance", "epsilon"), CASES)
def test_the_density_of_the_sum_is_the_integral(seen, mean, variance, epsilon):
    _, joint = posterior(seen, mean, variance, epsilon)
    density = log_density_of_sum(np.array(seen), np.array(mean), np.array(variance), epsilon)
    assert density == pytest.approx(np.log(joint.sum()), abs=1e-4)


@pytest.mark.parametrize(("seen", "mean", "variance", "epsilon"), CASES)
def test_quantiles_have_their_rank_given_the_sum(seen, mean, variance, epsilon):
    number, joint = posterior(seen, mean, variance, epsilon)
    rank = np.array([0.02, 0.3, 0.5, 0.8, 0.99])
    quantiles = quantiles_given_sum(
        np.array(seen), np.full(5, mean), np.full(5, variance), epsilon, rank
    )
    # Of numbers of users: a quantile below zero is zero.
    positive = quantiles > 0
    reached = np.interp(quantiles, number, joint.cumsum() / joint.sum())
    assert positive.any()
    # Far in its tail a normal distribution is taken for an exponential one.
    assert reached[positive] == pytest.approx(rank[positive], abs=2e-3)
    assert (reached[~positive] >= rank[~positive] - 2e-3).all()
