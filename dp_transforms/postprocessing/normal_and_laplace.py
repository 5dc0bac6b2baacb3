"""Computes densities and quantiles for the sum of a normal number and Laplace noise."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import erfcx, ndtr, ndtri

from dp_transforms.mechanisms.arrays import FloatArray


def log_density_of_sum(
    seen: FloatArray, mean: FloatArray, variance: FloatArray, epsilon: float
) -> FloatArray:
    """Returns the log density of a normal number plus Laplace noise of scale 1 / epsilon."""
    deviation = np.sqrt(variance)
    off = (seen - mean) / deviation
    reach = epsilon * deviation

    def log_mills(x: FloatArray) -> FloatArray:
        # log of the normal tail above x over the normal density at x.
        large = np.maximum(x, -30.0)
        return np.where(
            x > -30,
            np.log(erfcx(large / math.sqrt(2))) + 0.5 * math.log(math.pi / 2),
            x**2 / 2 + 0.5 * math.log(2 * math.pi),
        )

    both = np.logaddexp(log_mills(reach - off), log_mills(reach + off))
    log_density: FloatArray = (
        both - off**2 / 2 - 0.5 * math.log(2 * math.pi) + math.log(epsilon / 2)
    )
    return log_density


def quantiles_given_sum(
    seen: FloatArray, mean: FloatArray, variance: FloatArray, epsilon: float, rank: FloatArray
) -> FloatArray:
    """Returns quantiles of a normal number, given its sum with Laplace noise; at least 0.

    Given the sum, the number has a density of two pieces. Below the sum it is that of a normal
    number with a larger mean, and above the sum that of a normal number with a smaller mean.

    Args:
      seen: the sums.
      mean, variance: of the normal numbers.
      epsilon: the rate of the noise: its scale is 1 / epsilon.
      rank: which quantiles, from 0 to 1.
    """
    deviation = np.sqrt(variance)
    seen = np.broadcast_to(seen, mean.shape)
    up, down = mean + epsilon * variance, mean - epsilon * variance
    below, above = (seen - up) / deviation, (down - seen) / deviation

    def log_tail(x: FloatArray) -> FloatArray:
        # log of the normal mass below x.
        small = np.minimum(x, 0)
        far = np.log(erfcx(-small / math.sqrt(2)) / 2) - small**2 / 2
        log_mass: FloatArray = np.where(x < 0, far, np.log(np.maximum(ndtr(x), 0.5)))
        return log_mass

    log_below = log_tail(below) + epsilon * (mean - seen)
    log_above = log_tail(above) - epsilon * (mean - seen)
    share = 1 / (1 + np.exp(np.clip(log_above - log_below, -700, 700)))
    low = rank < share
    part = np.where(
        low, rank / np.maximum(share, 1e-300), (1 - rank) / np.maximum(1 - share, 1e-300)
    )
    edge = np.where(low, below, above)
    part = np.clip(part, 1e-12, 1)
    # Far in a tail, a normal distribution that is cut off is nearly an exponential one.
    near = edge > -6
    z = ndtri(np.clip(part * ndtr(np.maximum(edge, -7.0)), 1e-300, 1 - 1e-16))
    z = np.where(near, z, edge + np.log(part) / np.maximum(-edge, 1))
    users: FloatArray = np.where(low, up + deviation * z, down - deviation * z)
    return np.maximum(users, 0)
