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

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray, IntArray
from dp_transforms.mechanisms.decoding.gap_model import SHAPE
from dp_transforms.mechanisms.decoding.shapes import Shape

SHARES = 65  # The number of shares that are tried, evenly spaced in their logarithm.
KNOT = math.log(2)
STEP = 0.3
"""The standard deviation of a step between knots, before there is anything to learn it from."""
PRIOR_STEPS = 20  # The number of steps that it counts as when learning.
LEVEL = 1.0  # The standard deviation of d at 1.
LOWEST, HIGHEST = -7, 25  # Of logarithms of mean gaps.


def share_of(shape: Shape, rows: IntArray, columns: IntArray, rate: float) -> float:
    """Estimates a group's share of its parent, from the group's noisy coordinates.

    Coordinates are compared with those that a share leads to. Their scale is that of the noise and
    of the fluctuation of a random choice together, and their tails are exponential.
    """
    shares = np.exp(np.linspace(math.log(0.25 / shape.partitions), 0, SHARES))
    score = np.zeros(SHARES)
    for noisy, is_row in ((rows, True), (columns, False)):
        index = np.arange(1.0, len(noisy) + 1)
        if is_row:
            values = shape.quantiles((index - 0.5) / shares[:, None])
            expected, spread = values - index + 1, values / np.sqrt(2 * index)
        else:
            sizes = shape.sizes(index) * shares[:, None]
            expected, spread = sizes - index, np.sqrt(sizes / 2)
        scale = np.where(expected > 0, np.hypot(1 / rate, spread), 1 / rate)
        score -= (np.abs(noisy - np.maximum(expected, 0)) / scale + np.log(scale)).sum(1)
    weight = np.exp(score - score.max())
    return float(np.exp((weight * np.log(shares)).sum() / weight.sum()))


def expected_gaps(shape: Shape, share: float, length: int, is_row: bool) -> tuple[FloatArray, FloatArray]:
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
            return np.bincount(places, values, groups * knots).reshape(groups, knots)

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
        taken = np.diff(self._coefficients, axis=1) ** 2
        taken += np.einsum("kl,glm,km->gk", steps, inverse, steps)
        total = PRIOR_STEPS * STEP**2 + taken.sum()
        self._step = math.sqrt(total / (PRIOR_STEPS + taken.size))
