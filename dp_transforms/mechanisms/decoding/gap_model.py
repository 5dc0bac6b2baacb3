"""Models frequency lists by a prior: a Poisson process of smooth rate, and departures from it.

The number of partitions with frequency j is about Poisson(rate_j), independently, and the logarithm
of the rate is smooth in log j. In Frobenius coordinates of a list with a Durfee square of side D,

* columns: the gap b_j - b_(j+1) - 1 is the number of partitions with frequency j;
* rows: the gap a_i - a_(i+1) - 1 is the spacing of the i-th and (i+1)-th largest frequency.

So both arms are chains, with gaps of mean rate_j and about 1 / rate. One curve has both logarithms
of means, up to sign: a linear spline of log(D / i) on the rows and of -log(D / j) on the columns,
with a penalty on its kinks. Heaped frequencies and a few giants, which are not smooth, are left to
a geometric distribution of the same mean and to a heavy tail, whose weights are learned.
"""

from __future__ import annotations

import math

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray

SHAPE = 64.0  # Of negative binomial counts: Poisson, with an eighth of the mean as extra deviation.
KNOT, KINK, RIDGE = 0.4, 0.3, 0.01
"""Distance of knots in log index; standard deviation of a kink; precision around the start."""
END = 1e-3  # The probability that an arm ends anywhere, whatever its gaps.
PRIOR_WEIGHTS = np.array([0.9, 0.05, 0.05])
"""Weights of the Poisson process, the geometric distribution and the heavy tail."""
DISTRIBUTIONS = len(PRIOR_WEIGHTS)
PRIOR_GAPS = 20  # The number of gaps that the prior weights count as when learning.


class SmoothGaps:
    """Fits the mean gaps of both arms of a list, as one spline, to expected gaps. ``lengths`` are
    the numbers of rows and of columns, and ``side`` is a guess of D."""

    def __init__(self, lengths: list[int], side: int):
        places = [math.log(side) - np.log(np.arange(1, n + 1) + 0.5) for n in lengths]
        self._sign = np.repeat([1.0, -1.0], lengths)
        self._split = lengths[0]
        outward = np.maximum(np.concatenate(places), -KNOT)  # Flat behind the corner.
        self._place = self._sign * outward
        reach = math.ceil((math.log(side) + 1) / KNOT)
        scaled = np.clip(self._place / KNOT + reach, 0, 2 * reach - 1e-9)
        self._left = scaled.astype(np.int64)
        self._part = scaled - self._left
        kinks = np.diff(np.eye(2 * reach + 1), 2, axis=0)
        self._penalty = kinks.T @ kinks / KINK**2 + RIDGE * np.eye(2 * reach + 1)
        self._coefficients = np.zeros(2 * reach + 1)
        self.parameters = 0.0
        """The effective number of fitted parameters: as many as the penalty leaves free."""

    def means(self) -> list[FloatArray]:
        """Returns the mean gap behind each coordinate, of rows and of columns."""
        c = self._coefficients
        curve = 2 * self._place + c[self._left] * (1 - self._part) + c[self._left + 1] * self._part
        return np.split(np.exp(np.clip(self._sign * curve, -7, 25)), [self._split])

    def fit(self, gaps: FloatArray, weights: FloatArray, steps: int) -> None:
        """Takes scoring steps of penalised likelihood, given the expected gap behind each
        coordinate, rows first, and the probability that there is one."""
        left, part = self._left, self._part
        size = len(self._penalty)
        for _ in range(steps):
            mean = np.concatenate(self.means())
            variance = np.where(self._sign > 0, 1 + 0.5 / mean, 1 / mean + 1 / SHAPE)
            weight = weights / (variance + 0.02 / mean**2)
            c = self._coefficients
            at_place = c[left] * (1 - part) + c[left + 1] * part
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
    used: FloatArray, shares: FloatArray, gaps: float, prior: FloatArray = PRIOR_WEIGHTS
) -> FloatArray:
    """Returns the weights of the distributions after a pass of EM with the weights ``used``.
    ``shares`` are sums over ``gaps`` gaps of each distribution's probability over the mixture's."""
    wide = PRIOR_GAPS * prior[1:] + (1 - END) * used[1:] * shares[1:]
    wide /= PRIOR_GAPS + gaps
    wide *= min(1.0, 0.99 / wide.sum())
    return np.append(1 - wide.sum(), wide)


def cell_masses(gaps: FloatArray, means: FloatArray, cell: int, columns: bool) -> FloatArray:
    """Returns probabilities of gaps in cells of so many integers: distributions x places x points.
    ``gaps`` are the middles of the cells, places x points, ``cell`` apart."""
    mean = means[:, None]
    masses = np.empty((DISTRIBUTIONS, *gaps.shape))
    masses[0] = (_coarse if cell > 1 else _smooth)(gaps, mean, cell, columns)
    edges = np.append(gaps, gaps[:, -1:] + cell, axis=1) - (cell - 1) / 2
    for mass, at_least in zip(masses[1:], (_geometric, _heavy), strict=True):
        beyond = at_least(mean, edges)
        np.subtract(beyond[:, :-1], beyond[:, 1:], out=mass)
    return masses


def end_probabilities(
    states: FloatArray, means: FloatArray, weights: FloatArray, columns: bool, end: float = END
) -> FloatArray:
    """Returns the probability that the gap behind a state x is x - 1 or more, and ends the arm,
    which it does with the probability ``end`` anyway."""
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
    """Returns Pr[gap >= least] of the distribution with the median ``mean`` and infinite mean."""
    return mean / (mean + np.maximum(least, 0))


def _smooth_at_least(mean: FloatArray, least: FloatArray, columns: bool) -> FloatArray:
    """Returns Pr[gap >= least] of the Poisson process; for columns, by a logistic of its
    moments."""
    if columns:
        scale = np.sqrt(3 * (mean + mean**2 / SHAPE)) / math.pi
        above = np.minimum((least - 0.5 - mean) / scale, 700)
        return np.where(least < 0.5, 1.0, 1 / (1 + np.exp(above)))
    later = -mean * np.expm1(-1 / mean) * np.exp(-np.maximum(least - 1, 0) / mean)
    return np.where(least < 0.5, 1.0, later)


def _smooth(gaps: FloatArray, mean: FloatArray, cell: int, columns: bool) -> FloatArray:
    """Returns masses of the Poisson process at single integers."""
    if columns:
        # Beyond so many standard deviations there is less than 1e-20.
        farthest = mean + 16 * np.sqrt(mean + mean**2 / SHAPE) + 40
        mass, some = np.zeros_like(gaps), (gaps > -0.5) & (gaps < farthest)
        gap = np.maximum(gaps[some], 0.0)
        scale, start = np.log(mean / (mean + SHAPE)), -SHAPE * np.log1p(mean / SHAPE)
        times = some.sum(1)
        log = log_gamma(gap + SHAPE) - log_gamma(gap + 1) - math.lgamma(SHAPE)
        log += gap * np.repeat(scale, times) + np.repeat(start, times)
        mass[some] = np.exp(log)
        return mass
    leave = -np.expm1(-1 / mean)
    later = mean * leave**2 * np.exp(-np.maximum(gaps - 1, 0) / mean)
    mass = np.where(gaps < 0.5, 1 - mean * leave, later)
    return np.where(gaps > -0.5, mass, 0.0)


def _coarse(gaps: FloatArray, mean: FloatArray, cell: int, columns: bool) -> FloatArray:
    """Returns the Poisson process in cells, with its mean: in three cells if it is narrow."""
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
    """Returns a distribution on the cell of the mean and the two next to it."""
    off = np.abs(np.rint((gaps - mean) / cell))
    aside = variance / cell**2
    return np.where(off == 0, 1 - aside, np.where(off == 1, aside / 2, 0.0))


def _in_many_cells(gaps: FloatArray, mean: FloatArray, cell: int, columns: bool) -> FloatArray:
    """Returns the Poisson process of columns at the middles of cells; or, for rows, an exponential
    distribution, whose mass between two middles is shared between them."""
    if columns:
        masses = _smooth(gaps, mean, cell, columns)
        masses /= np.maximum(masses.sum(1, keepdims=True), 1e-200)
        return masses
    points = np.concatenate([gaps[:, :1] - cell, gaps, gaps[:, -1:] + cell], axis=1)
    beyond = np.where(points < 0, mean - points, mean * np.exp(-np.maximum(points, 0) / mean))
    shared: FloatArray = np.maximum(beyond[:, :-2] - 2 * beyond[:, 1:-1] + beyond[:, 2:], 0) / cell
    return shared


def log_gamma(x: FloatArray) -> FloatArray:
    """Returns ln Gamma(x) for x >= 1 by Stirling's series at x + 4, to 1e-8."""
    y = x + 4
    series = (1 - (1 / 30 - 2 / (210 * y**2)) / y**2) / (12 * y)
    shifted = (y - 0.5) * np.log(y) - y + 0.5 * math.log(2 * math.pi) + series
    return shifted - np.log(x * (x + 1) * (x + 2) * (x + 3))
