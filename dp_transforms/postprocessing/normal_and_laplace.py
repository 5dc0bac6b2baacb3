"""Numbers about the sum of a normal number and Laplace noise."""

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
    """Returns quantiles of a normal number that was seen through Laplace noise: below the released
    number it is a normal one of a larger mean, cut off; above it, one of a smaller mean."""
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
    # Far in a tail the cut-off normal is an exponential distribution.
    near = edge > -6
    z = ndtri(np.clip(part * ndtr(np.maximum(edge, -7.0)), 1e-300, 1 - 1e-16))
    z = np.where(near, z, edge + np.log(part) / np.maximum(-edge, 1))
    users: FloatArray = np.where(low, up + deviation * z, down - deviation * z)
    return np.maximum(users, 0)
