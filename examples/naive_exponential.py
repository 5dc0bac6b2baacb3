"""The exponential mechanism as it is often written: with floats. For the attacks beside it only."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating]


def cumulative_probabilities(
    utilities: npt.ArrayLike, eta: float, dtype: type = np.float64
) -> Floats:
    """Cumulative sums of 2**(-eta * u), divided by the last."""
    sums = np.cumsum(np.exp2(-eta * np.asarray(utilities, dtype=dtype)), dtype=dtype)
    return sums.astype(np.float64) / np.float64(sums[-1])


def probabilities(utilities: npt.ArrayLike, eta: float, dtype: type = np.float64) -> Floats:
    """The distribution that ``sample`` has."""
    return np.diff(cumulative_probabilities(utilities, eta, dtype), prepend=0.0)


def sample(
    utilities: npt.ArrayLike, eta: float, count: int, seed: int, dtype: type = np.float64
) -> npt.NDArray[np.int64]:
    """``count`` choices, as indices."""
    drawn = np.random.default_rng(seed).random(count)
    cumulative = cumulative_probabilities(utilities, eta, dtype)
    return np.searchsorted(cumulative, drawn, side="right")
