"""Models the list of a group as a share of the list of its parent, bent smoothly.

The expected number of partitions with j users in a group is that of the parent times
p exp(d(log j)). Here p is the group's share, and the bend d is linear from knot to knot. In
Frobenius coordinates,

* columns: the mean gap behind b_j is p exp(d) times the parent's number of partitions with j users;
* rows: the mean gap behind a_i is exp(-d) times the distance of the parent's quantiles at ranks
  (i - 1/2) / p and (i + 1/2) / p.

The steps of d from knot to knot are normal with mean 0. Their standard deviation is learned from
all groups that are decoded side by side. So groups that look alike borrow more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray, IntArray
from dp_transforms.mechanisms.decoding.gap_model import SHAPE, log_gamma
from dp_transforms.mechanisms.decoding.shapes import LEAST_VARIANCE, Shape, nearest_of_sum
from dp_transforms.mechanisms.noisy_coordinates import NoisyCoordinates

SIZES = 65  # How many numbers of partitions are tried for a group, evenly spaced in logarithm.
PRIOR_GROUPS = 5  # The number of groups that an even distribution of sizes counts as.
ROUNDS = 20  # Of EM, for the distribution of sizes.
KNOT = math.log(2)
STEP = 0.3
"""The standard deviation of a step between knots, before there is anything to learn it from."""
PRIOR_STEPS = 20  # The number of steps that STEP counts as when learning.
LEVEL = 0.2  # The standard deviation of d at j = 1.
LEAST_PROBABILITY = 1e-12  # Keeps logarithms finite.
UNKNOWN = 0.01  # The weight of a heavy tail in the distribution of the first entries of arms.
SPREAD = 0.02  # The relative variance of a number of partitions, in addition to Poisson's.
TOGETHER = 0.4  # The probability that rows and columns of independent chains make a list.
LOWEST, HIGHEST = -7, 25  # Limits of logarithms of mean gaps.


def shares_of_parents(
    shapes: Sequence[Shape], parents: IntArray, coordinates: Sequence[NoisyCoordinates]
) -> FloatArray:
    """Returns an estimate of each group's share of its parent's partitions.

    Args:
      shapes: those of the groups of the level above.
      parents: for each group the place of its parent in the level above.
      coordinates: the noisy coordinates of each group of the level.

    Several sizes (numbers of partitions) of each group are tried. Each has a likelihood, by the
    distance of the noisy coordinates from those that it leads to. EM learns the distribution of
    sizes from all groups, and gives the posterior mean and variance of each share. The mean is
    combined with the first noisy column, which alone estimates the size as well. Finally, shares
    of one parent are moved to the sum 1, in proportion to their variances.
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
    # Any size between two that are tried counts as one of them, which adds to the variance.
    distances = means * math.log(sizes[1] / sizes[0])
    variances = np.maximum(posterior @ sizes**2 / wholes**2 - means**2, 0) + distances**2 / 12
    numbers = [noisy.columns[0] + 1.0 if len(noisy.columns) else 0.0 for noisy in coordinates]
    noisy_shares = np.array(numbers) / wholes
    variances_of_noise = 2 / (np.array([noisy.rate for noisy in coordinates]) * wholes) ** 2
    weight = variances_of_noise / (variances_of_noise + variances)
    means = weight * means + (1 - weight) * noisy_shares
    variances = np.maximum(weight * variances, 1e-12)
    shares = np.empty(len(means))
    for parent in range(len(shapes)):
        children = np.flatnonzero(parents == parent)
        if len(children):
            nearest = nearest_of_sum(means[children], variances[children], 1.0)
            shares[children] = np.maximum(nearest, 0.1 / max(wholes[children[0]], 1.0))
    return shares


def _log_likelihood(shape: Shape, coordinates: NoisyCoordinates, shares: FloatArray) -> FloatArray:
    """Returns approximately the logarithm of the likelihood of each share.

    The difference of a noisy coordinate from that which a share leads to has exponential tails. Its
    scale combines those of the noise, of the fluctuation of a random choice and of bends.
    """
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
    """Returns two logarithms for each of the first coordinates of an arm.

    They are those of the mean gap behind the coordinate if d = 0, and of the number of users of the
    partitions there, at which d is evaluated.
    """
    index = np.arange(1.0, length + 1)
    if is_row:
        values = shape.quantiles((np.append(index, length + 1.0) - 0.5) / share)
        gaps, users = values[:-1] - values[1:], values[:-1]
    else:
        sizes = share * shape.sizes(np.append(index, length + 1.0))
        gaps, users = sizes[:-1] - sizes[1:], index
    return np.log(np.maximum(gaps, 1e-9)), np.log(np.maximum(users, 1.0))


class Entries:
    """The prior of the first entries of arms: the largest frequency of each group and its number of
    partitions, given the shape of its parent and its share of it.

    The largest frequency of a random choice is at least x with the probability 1 - exp(-s), where s
    is the expected number of partitions with at least x users. The number of partitions is negative
    binomial. Both are mixed with a heavy tail of weight UNKNOWN, as groups without a parent have.

    A public bound on the number of partitions counts partitions that may have no user. If the mean
    is near the bound, hardly any partition is missing. So the variance is that of the number of
    partitions or of the number of missing ones, whichever is smaller; the distribution is logistic,
    and what it has beyond the bound counts at the bound.

    Args:
      shapes: for each group, the shape of its parent.
      shares: for each group, its share of its parent.
      rate: c, of the noise.
      most_partitions: public upper bounds on the groups' numbers of partitions.
    """

    def __init__(
        self,
        shapes: Sequence[Shape],
        shares: FloatArray,
        rate: float,
        most_partitions: Sequence[int] | None = None,
    ):
        self._shapes, self._shares, self._rate = shapes, shares, rate
        self._means: FloatArray = shares * [shape.partitions for shape in shapes]
        self._most: FloatArray | None = None
        if most_partitions is not None:
            self._most = np.array(most_partitions, np.float64)

    @property
    def few(self) -> FloatArray:
        """Returns logarithms of prior odds, 2 x groups: that a group has no partition, and that it
        has one. They are relative to more than one."""
        mean = self._means
        if self._most is None:
            none = -np.log1p(mean * SPREAD) / SPREAD
            single = none + np.log(mean) - np.log1p(mean * SPREAD)
        else:
            below_one, below_two = self._bounded_below(np.array([[0.5, 1.5]])).T
            none = np.log(np.maximum(below_one, LEAST_PROBABILITY))
            single = np.log(np.maximum(below_two - below_one, LEAST_PROBABILITY))
        more = np.log(-np.expm1(np.minimum(np.logaddexp(none, single), -1e-9)))
        odds: FloatArray = np.array([none, single]) - more + math.log(TOGETHER)
        return odds

    def __call__(self, positions: FloatArray) -> FloatArray:
        """Returns the masses of the first rows of all groups, then of their first columns.

        Args:
          positions: the middles of the states, arms x states.
        """
        cell = positions[:, 1] - positions[:, 0]
        groups = len(self._shapes)
        heavy = cell[:, None] / self._rate / (positions + 1 / self._rate) ** 2
        masses = np.empty_like(positions)
        for group, (shape, share) in enumerate(zip(self._shapes, self._shares, strict=True)):
            ends = np.append(positions[group], positions[group, -1] + cell[group]) - cell[group] / 2
            below = np.exp(-share * shape.sizes(np.maximum(ends, 0.5)))
            masses[group] = np.diff(below)
        number = positions[groups:] + 1
        if self._most is None:
            masses[groups:] = self._unbounded(number, cell[groups:, None])
        else:
            half = cell[groups:, None] / 2
            below = self._bounded_below(np.append(number - half, number[:, -1:] + half, axis=1))
            masses[groups:] = np.diff(below, axis=1)
        return (1 - UNKNOWN) * masses + UNKNOWN * heavy

    def _unbounded(self, number: FloatArray, cell: FloatArray) -> FloatArray:
        """Returns the masses of cells of numbers of partitions, without bounds."""
        mean = self._means[:, None]
        # A gamma distribution of the same mean and variance.
        size = mean / (1 + mean * SPREAD)
        scale = mean / size
        logarithm = (size - 1) * np.log(number / scale) - number / scale - log_gamma(size)
        masses: FloatArray = cell * np.exp(logarithm) / scale
        return masses

    def _bounded_below(self, ends: FloatArray) -> FloatArray:
        """Returns the probabilities that numbers of partitions are below ends, groups x ends, given
        public bounds. Nothing is beyond a bound."""
        assert self._most is not None
        most = self._most[:, None]
        mean = np.minimum(self._means[:, None], most)
        few = np.maximum(np.minimum(mean, most - mean), LEAST_VARIANCE)
        scale = np.sqrt(3 * (few + SPREAD * few**2)) / math.pi
        below = 1 / (1 + np.exp(np.clip((mean - ends) / scale, -500, 500)))
        return np.where(ends >= most, 1.0, below)


class BentShapes:
    """Fits the bends d of several groups, and so the mean gaps of both arms of each.

    Args:
      logarithms, users: both results of ``expected_gaps`` for each arm: the rows of each group,
        then the columns of each group.
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
        """Returns d at each coordinate of all arms."""
        flat = self._coefficients.ravel()
        bend: FloatArray = flat[self._left] * (1 - self._part) + flat[self._left + 1] * self._part
        return bend

    def deviations(self, group: int, users: IntArray) -> FloatArray:
        """Returns the standard deviation of the fitted d of a group at each number of users."""
        place = np.minimum(np.log(users) / KNOT, self._knots - 1.001)
        left = place.astype(np.int64)
        part = place - left
        covariances = self._covariances[group]
        variances = (1 - part) ** 2 * covariances[left, left]
        variances += part**2 * covariances[left + 1, left + 1]
        variances += 2 * part * (1 - part) * covariances[left, left + 1]
        deviations: FloatArray = np.sqrt(np.maximum(variances, 0))
        return deviations

    def fit(self, gaps: FloatArray, weights: FloatArray) -> None:
        """Takes a scoring step of penalised likelihood, and learns the standard deviation of steps.

        Args:
          gaps: the expected gap behind each coordinate of all arms.
          weights: the probability that there is a gap behind each coordinate.
        """
        left, part = self._left, self._part
        groups, knots = self._coefficients.shape
        mean = np.concatenate(self.means())
        variance = np.where(self._sign < 0, 1 + 0.5 / mean, 1 / mean + 1 / SHAPE)
        weight = weights / (variance + 0.02 / mean**2)
        target = self._bend() + self._sign * np.clip(gaps / mean - 1, -1, 3)

        def sums(places: IntArray, values: FloatArray) -> FloatArray:
            """Returns the sums of values by their places: groups x knots."""
            gathered = np.bincount(places, values, groups * knots).astype(np.float64)
            return gathered.reshape(groups, knots)

        right = sums(left, weight * (1 - part) * target) + sums(left + 1, weight * part * target)
        # The normal equations of each group: a tridiagonal matrix and the penalty.
        matrix = np.zeros((groups, knots, knots))
        at = np.arange(knots)
        matrix[:, at, at] = sums(left, weight * (1 - part) ** 2) + sums(left + 1, weight * part**2)
        crossed = sums(left, weight * part * (1 - part))[:, :-1]
        matrix[:, at[:-1], at[1:]] += crossed
        matrix[:, at[1:], at[:-1]] += crossed
        steps = np.diff(np.eye(knots), axis=0)
        penalty = steps.T @ steps / self._step**2
        penalty[0, 0] += 1 / LEVEL**2
        self._covariances = inverse = np.linalg.inv(matrix + penalty)
        self._coefficients = (inverse @ right[..., None])[..., 0]
        self.parameters = np.einsum("gkl,glk->g", inverse, matrix)
        # EM: the expected square of each step is that of its mean, and its variance.
        squares = np.diff(self._coefficients, axis=1) ** 2
        squares += np.einsum("kl,glm,km->gk", steps, inverse, steps)
        total = PRIOR_STEPS * STEP**2 + squares.sum()
        self._step = math.sqrt(total / (PRIOR_STEPS + squares.size))
