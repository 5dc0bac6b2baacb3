import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import norm

from dp_transforms.mechanisms import DiscreteLaplace, FrequencyList
from dp_transforms.mechanisms.selection.gaussian import RoundedGaussian
from dp_transforms.postprocessing.name_counts import (
    CountModel,
    CountsAfterSelection,
    NameCounts,
    noise_deviation,
)
from dp_transforms.postprocessing.naming import of_named

MEANS = np.geomspace(1, 3_000, 400)
SHARES = MEANS**-1.2 / (MEANS**-1.2).sum()
MODEL = CountModel(MEANS, 40_000 * SHARES, np.full(400, 0.8))


def named_counts(random, noise, deviation):
    """Users of partitions that a selection with normal noise of its own named, and noisy counts."""
    users = random.poisson(random.choice(MEANS, 40_000, p=SHARES))
    named = users[users + deviation * random.standard_normal(len(users)) > 120]
    counted = random.binomial(named, 0.8)
    noisy = counted + noise_deviation(noise) * random.standard_normal(len(named))
    return named, np.rint(noisy).astype(np.int64)


@pytest.mark.parametrize(("sigma", "part"), [(10, 1), (40, 0.9)])
@pytest.mark.parametrize("deviation", [2, 25])
def test_estimates_err_less_than_noisy_counts_and_than_those_for_all_partitions(
    sigma, part, deviation
):
    """Over four seeded simulations that share nothing with the model but its weights. Where noise
    is small there is little to gain."""
    noise = RoundedGaussian(sigma**2)
    how = CountsAfterSelection(noise)
    errors = []
    for seed in range(4):
        named, noisy = named_counts(np.random.default_rng(seed), noise, deviation)
        of_all, fitted = (
            NameCounts(noisy, how, model).means() for model in (MODEL, of_named(MODEL, noisy, how))
        )
        errors.append(
            [np.abs(users - named).mean() for users in (fitted, noisy, noisy / 0.8, of_all)]
        )
    fitted, *rest = np.mean(errors, axis=0)
    assert fitted < part * min(rest)


def test_the_likelihood_is_about_the_largest_there_is():
    """Beside a search over continuous parameters, from the density as the module states it."""
    noise = RoundedGaussian(30**2)
    _, noisy = named_counts(np.random.default_rng(5), noise, 10)
    deviation = np.sqrt(0.8 * MEANS + 30**2)
    density = norm.pdf(noisy[:, None], 0.8 * MEANS, deviation)

    def log_likelihood(weights):
        return np.log(density @ weights).sum() - weights.sum()

    def negated(logs):
        root, relative = np.exp(logs[0] / 2), np.exp(logs[1])
        named = norm.cdf((np.sqrt(MEANS) - root) / (relative * root / 2))
        return -log_likelihood(MODEL.weights * named)

    searched = minimize(negated, [np.log(100), np.log(0.3)], method="Nelder-Mead")
    fitted = of_named(MODEL, noisy, CountsAfterSelection(noise))
    # Steps of the grid change the logarithm of theta by 0.14, and that of s by 0.35.
    assert log_likelihood(fitted.weights) > -searched.fun - 3
    # About as many are expected to be named as were.
    assert fitted.weights.sum() == pytest.approx(len(noisy), rel=0.2)


def test_nobody_is_named():
    how = CountsAfterSelection(DiscreteLaplace(2))
    assert of_named(MODEL, np.empty(0, np.int64), how) is MODEL


def test_a_single_name_of_a_single_partition():
    model = CountModel.of_list(FrequencyList([7], [1]), kappa=1)
    fitted = of_named(model, np.array([-3]), CountsAfterSelection(DiscreteLaplace(2)))
    assert np.isfinite(fitted.weights).all() and fitted.weights.sum() <= model.weights.sum()
