"""The rule by which choose-kappa of version 0.2 recommended a kappa: each cell of degrees counts by
itself, without a model of degrees. The page on all records compares with it."""

from __future__ import annotations

import functools
import math
from fractions import Fraction

import numpy as np

from dp_transforms.mechanisms import partition_mechanism
from dp_transforms.mechanisms.arrays import FloatArray
from dp_transforms.mechanisms.user_degrees import ReleasedDegrees
from dp_transforms.postprocessing.planning import made_up_dists
from dp_transforms.postprocessing.survey_plan import LEAST_RATE

_NEARLY_ALL = 0.999  # If a kappa keeps this part of all pairs, larger ones are not looked at.
_STEP = 4  # Noise is simulated at powers of this number; between them it follows a power law.


def kappa_by_cells(released: ReleasedDegrees, epsilon: Fraction) -> int:
    """Returns the kappa with the least predicted error of a list: noise, and half of what is
    dropped. It is 1 if the degrees show no user.

    Args:
      released: released degrees.
      epsilon: of the list.
    """
    first = np.array(released.lowest)
    last = np.append(first[1:] - 1, first[-1])
    # Within a cell, the number of users of degree d is assumed proportional to 1 / d**2.
    cells = (np.arange(a, b + 1) for a, b in zip(first, last, strict=True))
    means = np.array([(1 / d).sum() / (1 / d**2).sum() for d in cells])
    users = _without_noise(np.array(released.users, float), released.epsilon)
    total = float(users @ means)
    errors: dict[int, float] = {}
    for kappa in first.tolist():
        if kappa > 1 and epsilon / kappa < LEAST_RATE:
            break
        kept = float(users @ np.minimum(means, kappa))
        # Noise is proportional to the root of the number of pairs.
        part = math.sqrt(kept / total) if total else 0.0
        noise = _noise(epsilon, max(1, round(total)), kappa) * part
        if errors and noise > min(errors.values()):
            break
        errors[kappa] = (total - kept) / 2 + noise
        if kept >= _NEARLY_ALL * total:
            break
    return min(errors, key=errors.__getitem__)


def _without_noise(noisy: FloatArray, epsilon: float) -> FloatArray:
    """Returns a histogram without negative entries, from noisy numbers of users: cells at the end
    with no more users together than two standard deviations of their noise are set to 0, and the
    others are the nearest histogram in L2 with the same sum."""
    cells = len(noisy)
    from_cell_on = noisy[::-1].cumsum()[::-1]
    seen = from_cell_on > 2 * np.sqrt(2 * np.arange(cells, 0, -1)) / epsilon
    if seen.any():
        noisy = noisy[: seen.nonzero()[0][-1] + 1]
    total = noisy.sum()
    if total <= 0:
        return np.zeros(cells)
    falling = np.sort(noisy)[::-1]
    excess = (falling.cumsum() - total) / np.arange(1, len(noisy) + 1)
    denoised = np.maximum(noisy - excess[falling > excess][-1], 0)
    return np.append(denoised, np.zeros(cells - len(noisy)))


def _noise(epsilon: Fraction, pairs: int, kappa: int) -> float:
    """Returns half the expected L1 distance by which noise moves a made-up Zipf list."""
    if kappa == 1:
        return math.exp(_simulated(epsilon, pairs, 0))
    power = max(1, int(math.log(kappa + 0.5, _STEP)))
    part = math.log(kappa, _STEP) - power
    at_power, before = (_simulated(epsilon, pairs, p) for p in (power, power - 1))
    return math.exp(at_power * (1 + part) - before * part)


@functools.lru_cache
def _simulated(epsilon: Fraction, pairs: int, power: int) -> float:
    """Returns the logarithm of the distance of ``_noise`` if kappa is this power of ``_STEP``."""
    dists = made_up_dists(partition_mechanism(epsilon, _STEP**power), pairs)
    return math.log(max(next(iter(dists.values())), 1e-9))
