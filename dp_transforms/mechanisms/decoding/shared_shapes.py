"""Models the lists of groups by the list of their parent: each is a share of it, bent smoothly.

The expected number of partitions with j users in a group is that of the parent times p exp(d(log
j)), where p is the group's share and d is a line from knot to knot. In Frobenius coordinates,

* columns: the mean gap behind b_j is p exp(d) times the parent's number of partitions with j users;
* rows: that behind a_i is the distance of the parent's quantiles at ranks (i - 1/2) / p and
  (i + 1/2) / p, times exp(-d).

The steps of d from knot to knot are normal with mean 0, and all groups of a level have one standard
deviation, which is learned: so siblings that look alike borrow more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray, IntArray
from dp_transforms.mechanisms.decoding.gap_model import SHAPE, log_gamma
from dp_transforms.mechanisms.decoding.shapes import Shape, nearest_of_sum
from dp_transforms.mechanisms.noisy_coordinates import NoisyCoordinates

SIZES = 65  # The number of sizes of groups that are tried, evenly spaced in their logarithm.
PRIOR_GROUPS = 5  # The number of groups that an even distribution of sizes counts as.
ROUNDS = 20  # Of EM, for the distribution of sizes.
KNOT = math.log(2)
STEP = 0.3
"""The standard deviation of a step between knots, before there is anything to learn it from."""
PRIOR_STEPS = 20  # The number of steps that it counts as when learning.
LEVEL = 0.2  # The standard deviation of d at 1.
UNKNOWN = 0.01  # The part of what the shape of the parent does not tell.
SPREAD = 0.02  # The relative variance of a number of partitions, beside Poisson's.
TOGETHER = 0.4  # The probability that rows and columns of independent chains go together.
LOWEST, HIGHEST = -7, 25  # Of logarithms of mean gaps.


def shares_of_parents(
    shapes: Sequence[Shape], parents: IntArray, coordinates: Sequence[NoisyCoordinates]
) -> FloatArray:
    """Estimates each group's share of its parent, from the noisy coordinates of all groups of a
    level and the shapes of the level above.

    Coordinates are compared with those that a share leads to. Their scale is that of the noise, of
    the fluctuation of a random choice and of bends together, and their tails are exponential. The
    distribution of the groups' sizes is learned from all of them, and shares of one parent sum to
    1: what they miss or exceed it by is distributed in proportion to their variances.
    """
    largest = max(shape.partitions for shape in shapes)
    sizes = np.exp(np.linspace(math.log(0.25), math.log(max(largest, 1.0)), SIZES))
    wholes = np.array([shapes[parent].partitions for parent in parents])
    likelihood = np.zeros((len(coordinates), SIZES))
    for group, noisy in enumerate(coordinates):
        likelihood[group] = _log_likelihood(shapes[parents[group]], noisy, sizes / wholes[group])
    likelihood[sizes > 1.1 * wholes[:, None]] = -np.inf
    likelihood = np.exp(likelihood - likelihood.max(1, keepdims=True))
    prior = np.full(SIZES, 1 / SIZES)
    for _ in range(ROUNDS):
        posterior = likelihood * prior
        posterior /= posterior.sum(1, keepdims=True)
        prior = (posterior.sum(0) + PRIOR_GROUPS / SIZES) / (len(posterior) + PRIOR_GROUPS)
    means = posterior @ sizes / wholes
    # What is tried is some way apart. The first column alone says how many partitions there are.
    apart = means * math.log(sizes[1] / sizes[0])
    variances = np.maximum(posterior @ sizes**2 / wholes**2 - means**2, 0) + apart**2 / 12
    noisy = np.array([c.columns[0] + 1.0 if len(c.columns) else 0.0 for c in coordinates]) / wholes
    of_noise = 2 / (np.array([c.rate for c in coordinates]) * wholes) ** 2
    weight = of_noise / (of_noise + variances)
    means = weight * means + (1 - weight) * noisy
    variances = np.maximum(weight * variances, 1e-12)
    shares = np.empty(len(means))
    for parent in range(len(shapes)):
        which = np.flatnonzero(parents == parent)
        if len(which):
            nearest = nearest_of_sum(means[which], variances[which], 1.0)
            shares[which] = np.maximum(nearest, 0.1 / max(wholes[which[0]], 1.0))
    return shares


def _log_likelihood(shape: Shape, coordinates: NoisyCoordinates, shares: FloatArray) -> FloatArray:
    """Returns about the logarithm of the likelihood of each share."""
    score = np.zeros(len(shares))
    rate = coordinates.rate
    for noisy, is_row in ((coordinates.rows, True), (coordinates.columns, False)):
        index = np.arange(1.0, len(noisy) + 1)
        if is_row:
            values = shape.quantiles((index - 0.5) / shares[:, None])
            expected = values - index + 1
            bends = STEP**2 * np.log(np.maximum(values, 1)) / KNOT
            spread = values * np.sqrt(0.5 / index + bends)
        else:
            sizes = shape.sizes(index) * shares[:, None]
            expected = sizes - index
            bends = STEP**2 * np.log(index) / KNOT
            spread = np.sqrt(sizes / 2 + sizes**2 * bends)
        scale = np.where(expected > 0, np.hypot(1 / rate, spread), 1 / rate)
        score -= (np.abs(noisy - np.maximum(expected, 0)) / scale + np.log(scale)).sum(1)
    return score


def expected_gaps(
    shape: Shape, share: float, length: int, is_row: bool
) -> tuple[FloatArray, FloatArray]:
    """Returns logarithms of the mean gaps behind the first coordinates of an arm, for d = 0, and of
    the numbers of users at which they are."""
    index = np.arange(1.0, length + 1)
    if is_row:
        values = shape.quantiles((np.append(index, length + 1.0) - 0.5) / share)
        gaps, users = values[:-1] - values[1:], values[:-1]
    else:
        sizes = share * shape.sizes(np.append(index, length + 1.0))
        gaps, users = sizes[:-1] - sizes[1:], index
    return np.log(np.maximum(gaps, 1e-9)), np.log(np.maximum(users, 1.0))


class Entries:
    """Gives the masses of the largest frequency and of the number of partitions of each group.

    The largest of a random choice is at least x with the probability 1 - exp(-s) if s partitions of
    at least x are expected. The number of partitions is negative binomial. Both have a part UNKNOWN
    of a heavy tail, as without a parent.
    """

    def __init__(self, shapes: Sequence[Shape], shares: FloatArray, rate: float):
        self._shapes, self._shares, self._rate = shapes, shares, rate

    @property
    def few(self) -> FloatArray:
        """Returns logarithms of the prior odds that groups have no partition, or one: 2 x
        groups."""
        mean = self._shares * [shape.partitions for shape in self._shapes]
        none = -np.log1p(mean * SPREAD) / SPREAD
        single = none + np.log(mean) - np.log1p(mean * SPREAD)
        more = np.log(-np.expm1(np.minimum(np.logaddexp(none, single), -1e-9)))
        odds: FloatArray = np.array([none, single]) - more + math.log(TOGETHER)
        return odds

    def __call__(self, positions: FloatArray) -> FloatArray:
        """Returns the masses of the first rows of all groups, then of their first columns, at
        positions: arms x states."""
        cell = positions[:, 1] - positions[:, 0]
        groups = len(self._shapes)
        heavy = cell[:, None] / self._rate / (positions + 1 / self._rate) ** 2
        masses = np.empty_like(positions)
        for group, (shape, share) in enumerate(zip(self._shapes, self._shares, strict=True)):
            ends = np.append(positions[group], positions[group, -1] + cell[group]) - cell[group] / 2
            below = np.exp(-share * shape.sizes(np.maximum(ends, 0.5)))
            masses[group] = np.diff(below)
        mean = (self._shares * [shape.partitions for shape in self._shapes])[:, None]
        number = positions[groups:] + 1
        # A gamma distribution of the same mean and variance.
        size = mean / (1 + mean * SPREAD)
        scale = mean / size
        logarithm = (size - 1) * np.log(number / scale) - number / scale - log_gamma(size)
        masses[groups:] = cell[groups:, None] * np.exp(logarithm) / scale
        return (1 - UNKNOWN) * masses + UNKNOWN * heavy


class BentShapes:
    """Fits the mean gaps of both arms of several groups, see the module.

    Args:
      logarithms, users: of each arm, from ``expected_gaps``; the rows of each group, then the
        columns of each group.
    """

    def __init__(self, logarithms: list[FloatArray], users: list[FloatArray]):
        groups = len(logarithms) // 2
        lengths = [len(arm) for arm in logarithms]
        self._ends = np.cumsum(lengths)[:-1]
        self._base = np.concatenate(logarithms)
        self._sign = np.repeat([-1.0] * groups + [1.0] * groups, lengths)
        group = np.repeat([*range(groups)] * 2, lengths)
        place = np.concatenate(users) / KNOT
        self._knots = int(place.max()) + 2
        left = place.astype(np.int64)
        self._part = place - left
        self._left = group * self._knots + left
        self._coefficients = np.zeros((groups, self._knots))
        self._step = STEP
        self.parameters = np.zeros(groups)
        """The effective number of fitted parameters of each group."""

    def means(self) -> list[FloatArray]:
        """Returns the mean gap behind each coordinate of each arm."""
        logarithms = np.clip(self._base + self._sign * self._bend(), LOWEST, HIGHEST)
        return np.split(np.exp(logarithms), self._ends)

    def _bend(self) -> FloatArray:
        flat = self._coefficients.ravel()
        bend: FloatArray = flat[self._left] * (1 - self._part) + flat[self._left + 1] * self._part
        return bend

    def fit(self, gaps: FloatArray, weights: FloatArray) -> None:
        """Takes a scoring step of penalised likelihood, given the expected gap behind each
        coordinate and the probability that there is one, and learns the size of steps."""
        left, part = self._left, self._part
        groups, knots = self._coefficients.shape
        mean = np.concatenate(self.means())
        variance = np.where(self._sign < 0, 1 + 0.5 / mean, 1 / mean + 1 / SHAPE)
        weight = weights / (variance + 0.02 / mean**2)
        target = self._bend() + self._sign * np.clip(gaps / mean - 1, -1, 3)

        def sums(places: IntArray, values: FloatArray) -> FloatArray:
            gathered = np.bincount(places, values, groups * knots).astype(np.float64)
            return gathered.reshape(groups, knots)

        right = sums(left, weight * (1 - part) * target) + sums(left + 1, weight * part * target)
        matrix = np.zeros((groups, knots, knots))
        at = np.arange(knots)
        matrix[:, at, at] = sums(left, weight * (1 - part) ** 2) + sums(left + 1, weight * part**2)
        crossed = sums(left, weight * part * (1 - part))[:, :-1]
        matrix[:, at[:-1], at[1:]] += crossed
        matrix[:, at[1:], at[:-1]] += crossed
        steps = np.diff(np.eye(knots), axis=0)
        penalty = steps.T @ steps / self._step**2
        penalty[0, 0] += 1 / LEVEL**2
        inverse = np.linalg.inv(matrix + penalty)
        self._coefficients = (inverse @ right[..., None])[..., 0]
        self.parameters = np.einsum("gkl,glk->g", inverse, matrix)
        taken = np.diff(self._coefficients, axis=1) ** 2
        taken += np.einsum("kl,glm,km->gk", steps, inverse, steps)
        total = PRIOR_STEPS * STEP**2 + taken.sum()
        self._step = math.sqrt(total / (PRIOR_STEPS + taken.size))
