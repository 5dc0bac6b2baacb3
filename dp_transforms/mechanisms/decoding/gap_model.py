"""Defines a prior of frequency lists: a Poisson process of smooth rate, and departures from it.

The number of partitions with frequency j is about Poisson(rate_j), independently, and the logarithm
of the rate is smooth in log j. In Frobenius coordinates of a list with a Durfee square of side D,

* columns: the gap b_j - b_(j+1) - 1 is the number of partitions with frequency j;
* rows: the gap a_i - a_(i+1) - 1 is the spacing of the i-th and (i+1)-th largest frequency.

So both arms are chains. The gaps of columns have the mean rate_j, and those of rows a mean of about
1 / rate. One linear spline gives the logarithms of both means, up to sign. Its argument is
log(D / i) on the rows and -log(D / j) on the columns, and its kinks are penalised.

Heaped frequencies and a few giants are not smooth. For them the gaps are a mixture: the Poisson
process, a geometric distribution of the same mean, and a heavy tail. The weights are learned. They
change along an arm, since a list may be smooth in one range of frequencies and not in another.
"""

from __future__ import annotations

import math

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray

SHAPE = 64.0  # Of negative binomial counts: Poisson, with an eighth of the mean as extra deviation.
KNOT, KINK, RIDGE = 0.4, 0.3, 0.01
"""Of the spline: the distance of knots in the logarithm of the index, the standard deviation of a
kink, and the precision of the prior that holds coefficients near 0."""
END = 1e-3  # The probability that an arm ends anywhere, whatever its gaps.
PRIOR_WEIGHTS = np.array([0.9, 0.05, 0.05])
"""Weights of the Poisson process, the geometric distribution and the heavy tail."""
DISTRIBUTIONS = len(PRIOR_WEIGHTS)
PRIOR_GAPS = 20  # The number of gaps that the prior weights count as when learning.
WEIGHT_KNOT = math.log(2)  # The distance of knots of the weights in the logarithm of the index.
REPEATS = 10  # Of EM for the weights, in one pass.
TINY = 1e-200  # The least divisor. It changes nothing, since other terms are of the order of 1.


class SmoothGaps:
    """Fits the mean gaps of both arms of a list, as one spline, to expected gaps.

    Args:
      lengths: the number of rows and the number of columns.
      side: a guess of D.
    """

    def __init__(self, lengths: list[int], side: int):
        places = [math.log(side) - np.log(np.arange(1, n + 1) + 0.5) for n in lengths]
        self._sign = np.repeat([1.0, -1.0], lengths)
        self._split = lengths[0]
        # Places beyond D, by more than a knot, have the mean gap of the last knot.
        outward = np.maximum(np.concatenate(places), -KNOT)
        self._place = self._sign * outward
        reach = math.ceil((math.log(side) + 1) / KNOT)
        scaled = np.clip(self._place / KNOT + reach, 0, 2 * reach - 1e-9)
        self._left = scaled.astype(np.int64)
        self._part = scaled - self._left
        kinks = np.diff(np.eye(2 * reach + 1), 2, axis=0)
        self._penalty = kinks.T @ kinks / KINK**2 + RIDGE * np.eye(2 * reach + 1)
        self._coefficients = np.zeros(2 * reach + 1)
        self.parameters = 0.0
        """The effective number of fitted parameters: the trace of the matrix that maps targets to
        fitted values, which is smaller where the penalty is stronger."""

    def means(self) -> list[FloatArray]:
        """Returns the mean gap behind each coordinate, of rows and of columns."""
        at_left, at_right = self._coefficients[self._left], self._coefficients[self._left + 1]
        curve = 2 * self._place + at_left * (1 - self._part) + at_right * self._part
        return np.split(np.exp(np.clip(self._sign * curve, -7, 25)), [self._split])

    def fit(self, gaps: FloatArray, weights: FloatArray, steps: int) -> None:
        """Takes scoring steps of penalised likelihood.

        Args:
          gaps: the expected gap behind each coordinate, rows first.
          weights: the probability that there is a gap behind each coordinate.
          steps: how many.
        """
        left, part = self._left, self._part
        size = len(self._penalty)
        for _ in range(steps):
            mean = np.concatenate(self.means())
            variance = np.where(self._sign > 0, 1 + 0.5 / mean, 1 / mean + 1 / SHAPE)
            weight = weights / (variance + 0.02 / mean**2)
            coefficients = self._coefficients
            at_place = coefficients[left] * (1 - part) + coefficients[left + 1] * part
            # One far gap moves the curve no further than a gap of four times the mean.
            target = at_place + self._sign * np.clip(gaps / mean - 1, -1, 3)
            # The normal equations: a tridiagonal matrix and the penalty.
            matrix, right = self._penalty.copy(), np.zeros(size)
            for shift, share in ((0, 1 - part), (1, part)):
                right += np.bincount(left + shift, weight * share * target, size)
                matrix += np.diag(np.bincount(left + shift, weight * share**2, size))
            crossed = np.bincount(left, weight * part * (1 - part), size)[:-1]
            matrix += np.diag(crossed, 1) + np.diag(crossed, -1)
            self._coefficients = np.linalg.solve(matrix, right)
        free = np.linalg.solve(matrix, matrix - self._penalty)
        self.parameters = float(np.trace(free))


def learned_weights(
    counts: FloatArray, gaps: FloatArray | float, prior: FloatArray = PRIOR_WEIGHTS
) -> FloatArray:
    """Returns the weights of the distributions of gaps, for each of several sets of gaps or for
    one.

    Args:
      counts: the expected number of gaps of each distribution: sets x distributions.
      gaps: the expected number of gaps in each set.
      prior: the weights that count as PRIOR_GAPS gaps.
    """
    wide = PRIOR_GAPS * prior[1:] + (1 - END) * counts[..., 1:]
    wide /= PRIOR_GAPS + np.asarray(gaps)[..., None]
    wide *= np.minimum(1.0, 0.99 / wide.sum(-1, keepdims=True))
    return np.concatenate([1 - wide.sum(-1, keepdims=True), wide], axis=-1)


def weights_along_arm(used: FloatArray, shares: FloatArray, there: FloatArray) -> FloatArray:
    """Returns the weights of the distributions of the gap behind each place of an arm after a pass
    of EM: places x distributions.

    The weights are linear in the logarithm of the index between knots. At each knot the weights of
    the whole arm are the prior, so that few gaps change them little.

    A pass says how likely each gap is in each distribution, and that does not depend on the weights
    much. So the weights are fitted to it repeatedly: in one step they would go a small part of the
    way, since noise hides which distribution a gap has.

    Args:
      used: the weights in that pass, of all places or of each place.
      shares: for each place, the probability of its gap in each distribution, divided by that in
        the mixture and times ``there``.
      there: the probability that there is a gap behind each place.
    """
    at = np.log(np.arange(1, len(there) + 1)) / WEIGHT_KNOT
    # Each place is between two knots, and has a part of each.
    knots = np.maximum(1 - np.abs(at[:, None] - np.arange(math.ceil(at[-1]) + 1)), 0)
    weights = used
    for _ in range(REPEATS):
        mixed = weights * shares
        counts = mixed * (there / np.maximum(mixed.sum(1), TINY))[:, None]
        of_arm = learned_weights(counts.sum(0), there.sum())
        weights = knots @ learned_weights(knots.T @ counts, knots.T @ there, of_arm)
    return weights


def cell_masses(gaps: FloatArray, means: FloatArray, cell: int, columns: bool) -> FloatArray:
    """Returns the probability that a gap is in each cell: distributions x places x cells.

    Args:
      gaps: the middles of the cells, places x cells, ``cell`` apart.
      means: the mean gap of each place.
      cell: the number of integers in a cell.
      columns: whether the places are columns; otherwise they are rows.
    """
    mean = means[:, None]
    masses = np.empty((DISTRIBUTIONS, *gaps.shape))
    if cell > 1:
        masses[0] = _coarse(gaps, mean, cell, columns)
    else:
        masses[0] = _smooth(gaps, mean, columns)
    edges = np.append(gaps, gaps[:, -1:] + cell, axis=1) - (cell - 1) / 2
    for mass, at_least in zip(masses[1:], (_geometric, _heavy), strict=True):
        beyond = at_least(mean, edges)
        np.subtract(beyond[:, :-1], beyond[:, 1:], out=mass)
    return masses


def end_probabilities(
    states: FloatArray, means: FloatArray, weights: FloatArray, columns: bool, end: float = END
) -> FloatArray:
    """Returns for each state x the probability that the arm ends behind it.

    It ends there with the probability ``end``, whatever the gap; otherwise if the gap is at least
    x - 1.
    """
    mean, least = means[:, None], np.maximum(states - 1, 0)
    ends = weights[0] * _smooth_at_least(mean, least, columns)
    ends += weights[1] * _geometric(mean, least)
    ends += weights[2] * _heavy(mean, least)
    probabilities: FloatArray = end + (1 - end) * ends
    return probabilities


def _geometric(mean: FloatArray, least: FloatArray) -> FloatArray:
    """Returns Pr[gap >= least] of the geometric distribution."""
    probabilities: FloatArray = np.exp(-np.maximum(least, 0) * np.log1p(1 / mean))
    return probabilities


def _heavy(mean: FloatArray, least: FloatArray) -> FloatArray:
    """Returns Pr[gap >= least] of the heavy tail, whose median is ``mean`` and mean infinite."""
    return mean / (mean + np.maximum(least, 0))


def _smooth_at_least(mean: FloatArray, least: FloatArray, columns: bool) -> FloatArray:
    """Returns Pr[gap >= least] of the Poisson process.

    For columns it is that of the logistic distribution with the same mean and variance. For rows
    see ``_smooth``.
    """
    if columns:
        scale = np.sqrt(3 * (mean + mean**2 / SHAPE)) / math.pi
        above = np.minimum((least - 0.5 - mean) / scale, 700)
        return np.where(least < 0.5, 1.0, 1 / (1 + np.exp(above)))
    later = -mean * np.expm1(-1 / mean) * np.exp(-np.maximum(least - 1, 0) / mean)
    return np.where(least < 0.5, 1.0, later)


def _smooth(gaps: FloatArray, mean: FloatArray, columns: bool) -> FloatArray:
    """Returns masses of the Poisson process at single integers.

    The gaps of columns are negative binomial. The gaps of rows are differences of two numbers
    rounded down, whose distance is exponential and one of which has a uniform fractional part.
    """
    if columns:
        mass = np.zeros_like(gaps)
        # Beyond so many standard deviations there is less than 1e-20.
        farthest = mean + 16 * np.sqrt(mean + mean**2 / SHAPE) + 40
        matters = (gaps > -0.5) & (gaps < farthest)
        gap = np.maximum(gaps[matters], 0.0)
        scale, start = np.log(mean / (mean + SHAPE)), -SHAPE * np.log1p(mean / SHAPE)
        times = matters.sum(1)
        log = log_gamma(gap + SHAPE) - log_gamma(gap + 1) - math.lgamma(SHAPE)
        log += gap * np.repeat(scale, times) + np.repeat(start, times)
        mass[matters] = np.exp(log)
        return mass
    leave = -np.expm1(-1 / mean)
    later = mean * leave**2 * np.exp(-np.maximum(gaps - 1, 0) / mean)
    mass = np.where(gaps < 0.5, 1 - mean * leave, later)
    return np.where(gaps > -0.5, mass, 0.0)


def _coarse(gaps: FloatArray, mean: FloatArray, cell: int, columns: bool) -> FloatArray:
    """Returns masses of the Poisson process in cells of several integers, with its mean.

    Only three cells have a mass if its standard deviation is less than a cell.
    """
    if columns:
        variance = mean + mean**2 / SHAPE
    else:
        leave = -np.expm1(-1 / mean)
        variance = np.maximum(mean * (2 - leave) / leave - mean**2, mean**2)
    masses = np.empty_like(gaps)
    is_narrow = variance[:, 0] < cell**2
    masses[is_narrow] = _in_three_cells(gaps[is_narrow], mean[is_narrow], variance[is_narrow], cell)
    masses[~is_narrow] = _in_many_cells(gaps[~is_narrow], mean[~is_narrow], cell, columns)
    return masses


def _in_three_cells(
    gaps: FloatArray, mean: FloatArray, variance: FloatArray, cell: int
) -> FloatArray:
    """Returns a distribution of this variance on the cell of the mean and the two next to it."""
    cells_away = np.abs(np.rint((gaps - mean) / cell))
    outside = variance / cell**2
    masses = np.zeros_like(gaps)
    masses = np.where(cells_away == 1, outside / 2, masses)
    return np.where(cells_away == 0, 1 - outside, masses)


def _in_many_cells(gaps: FloatArray, mean: FloatArray, cell: int, columns: bool) -> FloatArray:
    """Returns masses of the Poisson process in cells, several of which are likely.

    For columns they are in proportion to the masses at the middles of the cells. For rows the gap
    is exponential, and the mass at a point between two middles is shared between these two cells in
    proportion to nearness, so that the mean is kept.
    """
    if columns:
        masses = _smooth(gaps, mean, columns)
        masses /= np.maximum(masses.sum(1, keepdims=True), 1e-200)
        return masses
    points = np.concatenate([gaps[:, :1] - cell, gaps, gaps[:, -1:] + cell], axis=1)
    # The mean of max(gap - point, 0). Its second differences are the shares, times the cell.
    excess = np.where(points < 0, mean - points, mean * np.exp(-np.maximum(points, 0) / mean))
    shared: FloatArray = np.maximum(excess[:, :-2] - 2 * excess[:, 1:-1] + excess[:, 2:], 0) / cell
    return shared


def log_gamma(x: FloatArray) -> FloatArray:
    """Returns ln Gamma(x) for x >= 1 by Stirling's series at x + 4, to 1e-8."""
    y = x + 4
    series = (1 - (1 / 30 - 2 / (210 * y**2)) / y**2) / (12 * y)
    shifted = (y - 0.5) * np.log(y) - y + 0.5 * math.log(2 * math.pi) + series
    return shifted - np.log(x * (x + 1) * (x + 2) * (x + 3))
