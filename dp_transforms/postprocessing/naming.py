"""Fits which partitions were named, by noisy counts that were made of them afterwards.

If the selection does not use the noisy counts, they are unbiased, and they tell which partitions it
named. A partition with the mean number of users m is named with a probability of about

    p(m) = Phi((sqrt(m) - sqrt(theta)) / (s sqrt(theta) / 2)),

which rises with m and is a half at theta. The roots are there because the number of users that
count, a random part of m, has about the same deviation on the scale of roots whatever m is. At
theta, s is the relative deviation of m that results from noise and weights.

By a list, there are w(m) partitions of each mean. So the noisy counts of names are about a Poisson
process with the density lambda(y) = sum over m of w(m) p(m) f(y | m), where f is the density of a
noisy count. Theta and s are chosen for the largest likelihood of this process: the sum of log
lambda(y) over the counts, less the expected number of names. The expected number is in it because
the list tells how many partitions could have been named. The density f is normal here, as is the
noise of counts after a selection.

Everything here is a function of released numbers.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import ndtr

from dp_transforms.mechanisms.arrays import FloatArray, IntArray
from dp_transforms.postprocessing.name_counts import CountModel, CountNoise, noise_deviation

_DEVIATIONS = np.geomspace(0.02, 2, 14)
"""Values of s that are tried: from a sharp threshold to one that hardly tells partitions apart."""
_THRESHOLDS = 60  # The number of values of theta that are tried.
_FINENESS = 8
"""Noisy counts are rounded to steps of the noise's standard deviation divided by this."""


def of_named(model: CountModel, noisy: IntArray, noise: CountNoise) -> CountModel:
    """Returns the model of the partitions that were named.

    Args:
      model: the model of all partitions, fitted to a list: its weights are numbers of partitions.
      noisy: the noisy counts of all names, made after the selection, shape (n,).
      noise: how these counts were made.

    >>> from dp_transforms.mechanisms.discrete_noise import DiscreteLaplace
    >>> from dp_transforms.postprocessing.name_counts import CountsAfterSelection
    >>> rates = np.ones(3)
    >>> model = CountModel(np.array([1.0, 10.0, 100.0]), np.array([9_000.0, 900.0, 9.0]), rates)
    >>> noise = CountsAfterSelection(DiscreteLaplace(5))
    >>> named = of_named(model, np.array([95, 104, 99, 110, 93, 101, 97, 108, 102]), noise)
    >>> named.weights.round().tolist()
    [0.0, 0.0, 9.0]
    """
    if not len(noisy):
        return model
    deviation = noise_deviation(noise.noise)
    counts, names = _together(noisy, deviation / _FINENESS)
    variance = model.counted + model.blur**2 + deviation**2
    density = np.exp(-((counts[:, None] - model.counted) ** 2) / (2 * variance))
    density /= np.sqrt(2 * np.pi * variance)
    thresholds = np.geomspace(min(1.0, model.means[-1]), model.means[-1], _THRESHOLDS)
    best, weights = -np.inf, model.weights
    for relative_deviation in _DEVIATIONS:
        # A row for each mean, a column for each threshold.
        named = _named_probabilities(model.means[:, None], thresholds, relative_deviation)
        expected = model.weights[:, None] * named
        log_density = np.log(np.maximum(density @ expected, 1e-300))
        likelihoods = names @ log_density - expected.sum(0)
        place = int(np.argmax(likelihoods))
        if likelihoods[place] > best:
            best, weights = likelihoods[place], expected[:, place]
    return replace(model, weights=weights)


def _named_probabilities(
    means: FloatArray, thresholds: FloatArray, relative_deviation: float
) -> FloatArray:
    """Returns p(m) of the module; the arrays of means and thresholds are broadcast."""
    roots = np.sqrt(thresholds)
    named: FloatArray = ndtr((np.sqrt(means) - roots) / (relative_deviation * roots / 2))
    return named


def _together(noisy: IntArray, step: float) -> tuple[FloatArray, IntArray]:
    """Returns the distinct values of noisy counts, rounded to multiples of a step, and how many
    counts have each value."""
    step = max(step, 1.0)
    places, names = np.unique(np.rint(noisy / step), return_counts=True)
    return places * step, names
