"""Laws of integers, and their recovery from characteristic functions."""

import cmath
import math

import numpy as np
import pytest
from scipy import stats

from dp_transforms.mechanisms.laws.integer_law import IntegerLaw, law_from_characteristic


@pytest.mark.parametrize("mean", [0.01, 3.0, 1e4, 1e6])
def test_poisson_laws_come_back(mean):
    centre = round(mean)
    law = law_from_characteristic(
        lambda t: cmath.exp(mean * (cmath.exp(1j * t) - 1) - 1j * t * centre), centre
    )
    values = law.least + np.arange(len(law.probabilities))
    np.testing.assert_allclose(law.probabilities, stats.poisson.pmf(values, mean), atol=1e-9)
    assert law.probabilities.sum() == pytest.approx(1, abs=1e-9)
    assert law.mean_above(centre) == pytest.approx(mean - centre, abs=1e-6 * (1 + mean**0.5))
    assert law.variance == pytest.approx(mean, rel=1e-6)


@pytest.mark.parametrize("rate", [1 / 256, 0.5])
def test_heavy_tails_come_back(rate):
    """Two-sided geometric: a characteristic function that is nowhere small."""
    q = math.exp(-rate)
    law = law_from_characteristic(
        lambda t: (1 - q) ** 2 / (1 - 2 * q * math.cos(t) + q * q) + 0j, 10**15
    )
    for value in (0, 1, 10, 50):
        exact = (1 - q) / (1 + q) * q**value
        assert law.probability(10**15 + value) == pytest.approx(exact, abs=1e-9)
        assert law.probability(10**15 - value) == pytest.approx(exact, abs=1e-9)


def test_quantiles():
    law = IntegerLaw(-1, np.array([0.25, 0.5, 0.25]))
    assert [law.quantile(level) for level in (0.1, 0.25, 0.26, 0.75, 0.76)] == [-1, -1, 0, 0, 1]
    assert (law.mean, law.variance, law.probability(2)) == (0, 0.5, 0)
    for level in (0, 1):
        with pytest.raises(ValueError, match="level"):
            law.quantile(level)
