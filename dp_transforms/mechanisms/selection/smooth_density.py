"""Estimates a density from noisy numbers; privacy does not depend on it.

The density is e**t at each of several places, and is assumed to be smooth except for a few steps
and spikes. In the prior distribution, changes of slope of t, and deviations of slopes from an
expected one, have Student distributions. The noisy numbers are sums of the density, plus Laplace
noise. Damped steps of iteratively reweighted least squares lead to a mode of the posterior
distribution. A Markov chain draws densities from the posterior distribution: noise may look like a
spike, and the mode takes one of the two for granted.
"""

from __future__ import annotations

import functools
import hashlib
import math
from dataclasses import dataclass

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray

_KINK = 0.7
"""The standard deviation of a change of a density's slope, per square root of the distance in
logarithm. Slopes of real lists and degrees differ by about one from their heads to their tails."""
_AROUND = 2.0
"""The standard deviation of a slope from the expected one, per square root of the distance in
logarithm."""
_FREEDOM = 3.0
"""The degrees of freedom of Student distributions. Their tails allow steps of a density: for
example, all users may have three partitions."""
_MODEL_ERROR = 0.03
"""The relative deviation of numbers from a smooth density. Without it, numbers of little noise
would force the density through each of them."""
_MOST_STEPS = 80
_CHAIN_STEPS = 800
"""The length of a chain. From 200 steps to 4,000, what is drawn hardly changes."""
_LARGEST = 60.0
"""The largest t that is computed with."""


@dataclass(frozen=True, eq=False)
class SmoothDensity:
    """Holds noisy numbers that depend on a density, and what is assumed about the density.

    Attributes:
      cells: the expected numbers for a density of one at each place, of shape (numbers, places).
      seen: the noisy numbers.
      scales: the scale of the noise of each number.
      places: the logarithms at which the density is estimated.
      slope: the expected slope of t.
      start: the t at which the search for the mode begins.
      least: the smallest sum of expected numbers that is possible. Without a positive one, nothing
        would keep a density that noise hides from falling without end.
    """

    cells: FloatArray
    seen: FloatArray
    scales: FloatArray
    places: FloatArray
    slope: float
    start: FloatArray
    least: float

    @functools.cached_property
    def _prior(self) -> tuple[FloatArray, FloatArray]:
        """Returns a matrix and a vector: the rows of the matrix times t, less the vector, have
        standard Student distributions."""
        between = np.diff(self.places)
        slopes = np.diff(np.eye(len(self.places)), axis=0) / between[:, None]
        apart = (between[1:] + between[:-1]) / 2
        kinks = np.diff(slopes, axis=0) / np.sqrt(apart)[:, None] / _KINK
        reach = np.sqrt(between) / _AROUND
        expected = np.append(np.zeros(len(kinks)), self.slope * reach)
        return np.vstack([kinks, slopes * reach[:, None]]), expected

    def _sums(self, t: FloatArray) -> FloatArray:
        """Returns the sum of the expected numbers for each row of t."""
        sums: FloatArray = np.exp(np.minimum(t, _LARGEST)) @ self.cells.sum(0)
        return sums

    def _variance(self, seen: FloatArray) -> FloatArray:
        """Returns the variance of each number around the expected one."""
        likely = np.maximum(seen, 0)
        variance: FloatArray = 2 * self.scales**2 + likely + (_MODEL_ERROR * likely) ** 2
        return variance

    def loss(self, t: FloatArray, seen: FloatArray) -> FloatArray:
        """Returns twice the negative logarithm of the posterior density, up to a constant, for each
        row of t.

        The loss of noise is quadratic near zero. Far from zero it is as steep as the logarithm of
        the density of Laplace noise.

        Args:
          t: of shape (rows, places).
          seen: the noisy numbers of each row, of shape (rows, numbers), or of all rows.
        """
        prior, expected = self._prior
        variance = self._variance(seen)
        far = variance / self.scales
        off = seen - np.exp(np.minimum(t, _LARGEST)) @ self.cells.T
        from_noise = 2 * variance / self.scales**2 * (np.sqrt(1 + (off / far) ** 2) - 1)
        bent = t @ prior.T - expected
        from_prior = (_FREEDOM + 1) * np.log1p(bent**2 / _FREEDOM)
        loss: FloatArray = from_noise.sum(-1) + from_prior.sum(-1)
        return loss

    def _slope_and_curvature(self, t: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Returns about half of the gradient of the negative loss, and of the loss's Hessian."""
        prior, expected = self._prior
        variance = self._variance(self.seen)
        density = np.exp(np.minimum(t, _LARGEST))
        change = self.cells * density
        off = self.seen - self.cells @ density
        precision = 1 / (variance * np.sqrt(1 + (off * self.scales / variance) ** 2))
        bent = prior @ t - expected
        weighted = prior.T * ((1 + 1 / _FREEDOM) / (1 + bent**2 / _FREEDOM))
        gradient = change.T @ (off * precision) - weighted @ bent
        return gradient, change.T @ (change * precision[:, None]) + weighted @ prior

    @functools.cached_property
    def mode(self) -> FloatArray:
        """Returns a t that is likely given the noisy numbers. It is moved up if the sum of expected
        numbers is too small."""
        t, damping = self.start, 1e-2
        least = float(self.loss(t, self.seen))
        for _ in range(_MOST_STEPS):
            gradient, hessian = self._slope_and_curvature(t)
            step = np.linalg.solve(hessian + damping * np.eye(len(t)), gradient)
            there = t + np.clip(step, -2, 2)
            loss_there = float(self.loss(there, self.seen))
            if loss_there > least:
                damping *= 4
                if damping > 1e9:
                    break
                continue
            gain, t, least = least - loss_there, there, loss_there
            damping = max(damping / 3, 1e-6)
            if gain < 1e-6:
                break
        return t + max(0.0, math.log(self.least / float(self._sums(t))))

    def draws(self, seen: FloatArray) -> FloatArray:
        """Returns densities that are drawn from the posterior distribution, one for each row of
        noisy numbers.

        Each is the end of a random walk from the mode (Metropolis, Rosenbluth, Rosenbluth, Teller,
        Teller 1953) whose steps have about the shape of the posterior distribution there. The
        numbers that decide the walk are public and always the same.

        Args:
          seen: of shape (draws, numbers).
        """
        _, hessian = self._slope_and_curvature(self.mode)
        places = len(self.places)
        shape = np.linalg.cholesky(np.linalg.inv(hessian + 1e-2 * np.eye(places)))
        # The length of steps that suits a normal distribution (Roberts, Gelman, Gilks 1997).
        shape *= 2.38 / math.sqrt(places)
        steps, chances = _public_walk(len(seen), places)
        t = np.repeat(self.mode[None], len(seen), axis=0)
        loss = self.loss(t, seen)
        for step, chance in zip(steps, chances, strict=True):
            there = t + step @ shape.T
            loss_there = self.loss(there, seen)
            possible = self._sums(there) >= self.least
            taken = (chance < (loss - loss_there) / 2) & possible
            t[taken], loss[taken] = there[taken], loss_there[taken]
        densities: FloatArray = np.exp(np.minimum(t, _LARGEST))
        return densities


@functools.lru_cache(maxsize=16)
def _public_walk(draws: int, places: int) -> tuple[FloatArray, FloatArray]:
    """Returns the numbers that decide a walk: steps of shape (steps, draws, places), uniform with
    mean 0 and variance 1, and logarithms of uniform numbers of shape (steps, draws)."""
    shape = _CHAIN_STEPS, draws, places + 1
    words = hashlib.shake_256(b"random walk").digest(4 * math.prod(shape))
    uniform = ((np.frombuffer(words, "<u4") + 0.5) / 2.0**32).reshape(shape)
    return math.sqrt(12) * (uniform[..., :-1] - 0.5), np.log(uniform[..., -1])
