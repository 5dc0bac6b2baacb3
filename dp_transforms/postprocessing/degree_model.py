"""Models how many users have how many partitions, and how a noisy histogram shows it.

The number of users with degree d is about exp(t(log d)), where t is smooth: from cell to cell its
slope changes by a Student distribution. The heavy tails of this distribution allow cliffs (all
users have one partition, or all have at least ten) and spikes. So a tail is a Pareto law, and its
exponent is unknown and may drift. The prior prefers falling slopes, above all where degrees are
large. The number of users in a cell is Poisson around that of the model, with a tenth of it as
additional standard deviation, and is seen with discrete Laplace noise of a known scale.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from dp_transforms.mechanisms.arrays import BoolArray, FloatArray, IntArray
from dp_transforms.mechanisms.user_degrees import ReleasedDegrees
from dp_transforms.postprocessing.normal_and_laplace import (
    log_density_of_sum,
    quantiles_given_sum,
)

FREEDOM, KINK, PERSISTENCE = 3.0, 0.3, 0.8
"""The change of slope (kink) between neighbouring cells has a Student distribution of ``FREEDOM``
degrees of freedom and of the scale ``KINK``, around the part ``PERSISTENCE`` of the kink before."""
STEP = math.log(2) / 3
"""The distance of log degrees for which ``KINK``, ``PERSISTENCE``, ``CONVEX`` and ``HAZARD``
hold."""
CONVEX = 0.2
"""The scale of the Student distribution of upward kinks where degrees are large: it is rare that a
tail becomes heavier at larger degrees."""
SLOPE, SLOPE_SCALE = -2.0, 2.0
"""The centre and the scale of the Student distribution of slopes: log users by log degree."""
FALLING_FROM, LEAST_FALL, RISE = 20.0, -1.5, 0.5
"""From the degree ``FALLING_FROM`` on, the excess of slopes above ``LEAST_FALL`` has a Student
distribution of the scale ``RISE``."""
SPREAD = 0.1  # Relative deviation of the users in a cell from a smooth density.
STEEPEST, FLATTEST = 6.0, 2.5
"""Limits of the exponent of the Pareto law beyond the largest degree."""
FEW = 64  # Numbers of users below this are summed over one by one.
FEW_EXPECTED = 12.0  # They are, if a cell has fewer expected users than this.
EXACT_FROM = 12.0  # From this epsilon on, the noise is nearly always 0.
SPIKE = 0.003
"""The probability that a cell has a spike: users of its own, apart from any density, who all have
the same degree."""
LEAST_SPIKE, SPIKE_RANGE = 0.01, 100.0
"""The pairs of a spike, divided by those of all other users: the least ratio, and the largest one
divided by the least. The logarithm of the ratio is uniform. If spikes could have most of all pairs,
noise in a cell of large degrees would be taken for such users."""
SPIKE_SIZES = 400  # Quantiles of the number of users of a spike, over which is averaged.
FAR = 40.0
"""In scales of noise. From there on, a number of users shows its own density, which is smooth."""
SURELY = 5.0  # Noisy users beyond so many scales of the noise are taken for real ones.
HAZARD = 0.05
"""The probability that a cell is the first beyond the largest degree that anybody has. A smooth
density ends by itself where it expects nobody. A larger hazard would make heavy tails end where
noise hides them, and a smaller one would expect tails that are not there. In between, intervals
hold about equally often for a Pareto law and for a lognormal one."""
PARTS = 8  # The parts of a wide cell in the grid of degrees.

_LOWEST, _HIGHEST, _STEP = -16.0, 46.0, 0.1
"""The range and the distance of the logarithms of a cell's expected users at which its likelihood
is tabulated."""


class UsersOfCells(NamedTuple):
    """Draws of the numbers of users in cells; arrays of shape (draws, cells).

    Attributes:
      users: the numbers.
      is_spike: whether they are the users of a spike, who all have the same degree.
    """

    users: FloatArray
    is_spike: BoolArray


class DegreeGrid(NamedTuple):
    """Representative degrees of cells; arrays of shape (degrees,).

    Attributes:
      degrees: the degrees, ascending.
      cell: the cell that each is in.
      share: the expected part of the cell's users who have it.
    """

    degrees: FloatArray
    cell: IntArray
    share: FloatArray

    def users_by_degree(self, drawn: UsersOfCells) -> FloatArray:
        """Returns numbers of users of shape (draws, degrees). The users of a cell have its degrees
        independently, by ``share``. The users of a spike all have one of them, and each is as
        likely as another. The random numbers have a fixed seed."""
        random = np.random.default_rng(2)
        draws = np.empty((len(drawn.users), len(self.degrees)))
        for cell, (users, is_spike) in enumerate(zip(*map(np.transpose, drawn), strict=True)):
            of_cell = np.flatnonzero(self.cell == cell)
            split = random.multinomial(np.rint(users).astype(np.int64), self.share[of_cell])
            of_spike = np.eye(len(of_cell))[random.integers(len(of_cell), size=len(users))]
            draws[:, of_cell] = np.where(is_spike[:, None], of_spike * users[:, None], split)
        return draws


class DegreeModel:
    """The cells of a release, with the likelihood and the prior of the log densities in them.

    Attributes:
      low, high: the smallest and the largest degree of each cell.
      log_width: the logarithm of the number of degrees in each cell.
      place: the log degree in the middle of each cell.
      noisy: the released number of users of each cell.
      slopes, kinks: matrices that give the slopes of log densities, and their changes, from cell to
        cell.
      changes: the matrix that gives each kink less the expected part of the kink before.
    """

    def __init__(self, released: ReleasedDegrees):
        self.low = np.array(released.lowest, float)
        # The last cell has no end; the density in it is that of degrees up to twice its start.
        self.high = np.append(self.low[1:] - 1, 2 * self.low[-1])
        self.log_width = np.log(self.high - self.low + 1)
        self.place = np.log(self.low + self.high) - math.log(2)
        self.noisy = np.array(released.users, float)
        self.epsilon = released.epsilon
        count = len(self.low)
        step = np.diff(self.place)
        self.slopes = (np.eye(count)[1:] - np.eye(count)[:-1]) / step[:, None]
        self.kinks = np.diff(self.slopes, axis=0)
        between = (step[1:] + step[:-1]) / 2
        self.kink_scale = KINK * np.sqrt(np.maximum(between / STEP, 1.0))
        self.convex_scale = CONVEX * np.sqrt(np.maximum(between / STEP, 1.0))
        self.hazard = 1 - (1 - HAZARD) ** (step / STEP)
        self.is_tail = self.place[1:] > math.log(FALLING_FROM)
        self.changes = self.kinks.copy()
        self.changes[1:] -= PERSISTENCE ** (between[1:, None] / STEP) * self.kinks[:-1]
        self._tabulate()

    def _tabulate(self) -> None:
        """Tabulates the log likelihood of each cell over the log of its expected users."""
        grid = np.arange(_LOWEST, _HIGHEST, _STEP)
        mean = np.exp(grid)
        wide = log_density_of_sum(self.noisy[:, None], mean, _variance(mean), self.epsilon)
        few = mean < FEW_EXPECTED
        number = np.arange(FEW)
        poisson = number[:, None] * grid[few] - mean[few] - gammaln(number + 1.0)[:, None]
        noise = np.exp(-np.minimum(self.epsilon * np.abs(self.noisy[:, None] - number), 600))
        scale = math.tanh(self.epsilon / 2)
        exact = np.log(scale * (noise @ np.exp(poisson)) + 1e-290)
        # The sums over few users are only for small noisy numbers. For larger ones, few users are
        # hopelessly unlikely by both formulas.
        reached = self.noisy < FEW / 2
        wide[np.ix_(reached, few)] = exact[reached]
        nobody = np.exp(-np.minimum(self.epsilon * np.abs(self.noisy), 600))
        spike = self._log_spikes()
        self._nobody = np.logaddexp(np.log(scale * nobody + 1e-290), spike)
        # The probabilities that a cell has a spike: if nobody else is in it, and at each point of
        # the table.
        self._spike_share = np.exp(spike - self._nobody)
        wide = np.logaddexp(wide, spike[:, None])
        self._spike_shares = np.exp(spike[:, None] - wide)
        # Cubics through the values and derivatives at the points of the table, by powers.
        slope = np.gradient(wide, axis=1)
        rise, left, right = np.diff(wide, axis=1), slope[:, :-1], slope[:, 1:]
        bend, turn = 3 * rise - 2 * left - right, left + right - 2 * rise
        self._cubics = np.stack([wide[:, :-1], left, bend, turn], axis=-1)

    def _log_spikes(self) -> FloatArray:
        """Returns the log probability, for each cell, that it has a spike and that its noisy number
        is what was released."""
        # Users of each cell that are taken for real ones.
        surely = np.maximum(self.noisy - SURELY / self.epsilon, 0.0)
        degrees = np.exp(self.place)
        pairs = surely * degrees
        # Noise in one cell may make most pairs. So of the other cells, the largest does not count.
        second, largest = np.sort(np.append(pairs, [0.0, 0.0]))[-2:]
        largest_other = np.where(pairs == largest, second, largest)
        # Each user has a pair at least. So there are other pairs even if all users are in one cell.
        others = pairs.sum() - pairs - largest_other + surely.sum()
        least = np.maximum(LEAST_SPIKE * others / degrees, 1e-3)
        part = (np.arange(SPIKE_SIZES) + 0.5) / SPIKE_SIZES
        number = least[:, None] * SPIKE_RANGE**part
        off = np.minimum(self.epsilon * np.abs(self.noisy[:, None] - number), 600)
        density = (math.tanh(self.epsilon / 2) * np.exp(-off)).mean(1)
        # Where the noise is finer than the distance of the quantiles, the released number is nearly
        # the true one.
        seen = np.maximum(self.noisy, least)
        own_density = 1 / (seen * math.log(SPIKE_RANGE))
        is_far = (seen * self.epsilon > FAR) & (seen < SPIKE_RANGE * least)
        log_spikes: FloatArray = np.log(SPIKE * np.where(is_far, own_density, density) + 1e-280)
        return log_spikes

    def log_likelihood(self, density: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Returns the log likelihood of each cell and its derivative, by cubics between the points
        of the table."""
        pieces = self._cubics.shape[1]
        scaled = np.clip((density + self.log_width - _LOWEST) / _STEP, 0, pieces - 0.01)
        piece = scaled.astype(np.int64)
        u = scaled - piece
        cubics = self._cubics[np.arange(len(self.low)), piece]
        value, first, second, third = (cubics[..., power] for power in range(4))
        derivative = (first + u * (2 * second + 3 * u * third)) / _STEP
        return value + u * (first + u * (second + u * third)), derivative

    def log_posterior(
        self, density: FloatArray, ends: IntArray | int
    ) -> tuple[FloatArray, FloatArray]:
        """Returns the log posterior of log densities and its gradient, if there is nobody in the
        cells from ``ends`` on. Densities have the shape (cells,) or (chains, cells)."""
        value, gradient = self.log_likelihood(density)
        populated = np.arange(len(self.low)) < np.asarray(ends)[..., None]
        value = np.where(populated, value, self._nobody).sum(-1)
        gradient = np.where(populated, gradient, 0.0)
        slope = density @ self.slopes.T
        kink = density @ self.kinks.T
        off = (slope - SLOPE) / SLOPE_SCALE
        bent = (density @ self.changes.T) / self.kink_scale
        convex = np.maximum(kink, 0) * self.is_tail[1:] / self.convex_scale
        rising = np.maximum(slope - LEAST_FALL, 0) * self.is_tail / RISE
        weight = FREEDOM + 1
        by_slope, by_kink, by_convex, by_rise = (
            x**2 + FREEDOM for x in (off, bent, convex, rising)
        )
        # The logarithm of a product is faster than two logarithms. Each factor is below 1e60.
        value -= weight / 2 * np.log(by_slope * by_rise / FREEDOM**2).sum(-1)
        value -= weight / 2 * np.log(by_kink * by_convex / FREEDOM**2).sum(-1)
        by_slope = -weight * (off / by_slope / SLOPE_SCALE + rising / by_rise / RISE)
        by_kink = -weight * bent / by_kink / self.kink_scale
        by_convex = -weight * convex / by_convex / self.convex_scale
        gradient = gradient + by_slope @ self.slopes + by_kink @ self.changes
        return value, gradient + by_convex @ self.kinks

    def draw_ends(self, density: FloatArray, random: np.random.Generator) -> IntArray:
        """Draws the first cell from which on there is nobody, for each of several densities."""
        value, _ = self.log_likelihood(density)
        # For an end after each cell: the evidence for users in all cells before it, and the prior.
        log = np.cumsum(value - self._nobody, axis=1)
        log[:, 1:] += np.cumsum(np.log1p(-self.hazard))
        log[:, :-1] += np.log(self.hazard)
        weights = np.exp(log - log.max(1, keepdims=True)).cumsum(1)
        rank = random.random((len(density), 1)) * weights[:, -1:]
        ends: IntArray = np.minimum((weights < rank).sum(1), len(self.low) - 1) + 1
        return ends

    def metric(self, density: FloatArray) -> FloatArray:
        """Returns a positive definite approximation of the Hessian at the mode."""
        mean = np.exp(np.clip(density + self.log_width, _LOWEST, _HIGHEST))
        fisher = mean**2 / (_variance(mean) + 2 / self.epsilon**2)
        off = (self.slopes @ density - SLOPE) / SLOPE_SCALE
        bent = self.changes @ density / self.kink_scale
        by_slope = (FREEDOM + 1) / (FREEDOM + off**2) / SLOPE_SCALE**2
        rising = np.maximum(self.slopes @ density - LEAST_FALL, 0) * self.is_tail / RISE
        # Only slopes that rise too much, and kinks upwards in a tail, have these terms.
        by_slope += (rising > 0) * (FREEDOM + 1) / (FREEDOM + rising**2) / RISE**2
        by_kink = (FREEDOM + 1) / (FREEDOM + bent**2) / self.kink_scale**2
        convex = np.maximum(self.kinks @ density, 0) * self.is_tail[1:] / self.convex_scale
        by_convex = (convex > 0) * (FREEDOM + 1) / (FREEDOM + convex**2) / self.convex_scale**2
        hessian: FloatArray = (
            np.diag(fisher + 1e-3)
            + self.slopes.T @ (by_slope[:, None] * self.slopes)
            + self.changes.T @ (by_kink[:, None] * self.changes)
            + self.kinks.T @ (by_convex[:, None] * self.kinks)
        )
        return hessian

    def start(self) -> FloatArray:
        """Returns a first guess of the log densities. Cells without positive noisy numbers get half
        the scale of the noise, or a tenth of a user if there is little noise."""
        least = 0.5 / self.epsilon if self.epsilon < 1 else 0.1
        log_densities: FloatArray = np.log(np.maximum(self.noisy, least)) - self.log_width
        return log_densities

    def users_given(self, density: FloatArray, ends: IntArray) -> UsersOfCells:
        """Draws the number of users in each cell, given log densities, the first cell of each from
        which on there is nobody, and the released numbers."""
        random = np.random.default_rng(1)
        mean = np.exp(np.clip(density + self.log_width, _LOWEST, _HIGHEST))
        rank = random.random(mean.shape)
        number = np.arange(FEW)
        users = quantiles_given_sum(self.noisy, mean, _variance(mean), self.epsilon, rank)
        # In cells of few users, their number is drawn from a table of its probabilities instead.
        few = (mean < FEW_EXPECTED) & (self.noisy < FEW / 2)
        expected, seen = mean[few], np.broadcast_to(self.noisy, mean.shape)[few]
        log = number * np.log(expected)[:, None] - gammaln(number + 1.0)
        log -= self.epsilon * np.abs(seen[:, None] - number)
        weights = np.exp(log - log.max(1, keepdims=True))
        sums = weights.cumsum(1)
        users[few] = (sums < rank[few][:, None] * sums[:, -1:]).sum(1)
        cell = np.arange(len(self.low))
        beyond = cell >= ends[:, None]
        users[beyond] = 0
        # A spike has about as many users as the released number, less its noise.
        scaled = np.rint((np.log(mean) - _LOWEST) / _STEP).astype(np.int64)
        spike_share = self._spike_shares[cell, scaled.clip(0, self._spike_shares.shape[1] - 1)]
        spike_share = np.where(beyond, self._spike_share, spike_share)
        is_spike = random.random(mean.shape) < spike_share
        noise = random.laplace(0, 1 / self.epsilon, mean.shape)
        if self.epsilon >= EXACT_FROM:
            noise = np.zeros(mean.shape)
        users = np.where(is_spike, np.maximum(self.noisy + noise, 0), users)
        return UsersOfCells(users, is_spike)

    def last_degrees(self, density: FloatArray) -> FloatArray:
        """Returns the mean degree of users in the last cell, by the slope of the density there."""
        if len(self.low) < 4:
            exponent = np.full(len(density), -SLOPE + 1)
        else:
            exponent = -(density[:, -1] - density[:, -4]) / (self.place[-1] - self.place[-4])
        exponent = np.clip(exponent, FLATTEST, STEEPEST)
        means: FloatArray = self.low[-1] * (exponent - 1) / (exponent - 2)
        return means

    def grid(self, density: FloatArray) -> DegreeGrid:
        """Returns representative degrees. Within a cell, the density is a power law with the slope
        that the log densities have there."""
        degrees, owner, shares = [], [], []
        slope = np.gradient(density, self.place) if len(density) > 1 else np.zeros(1)
        slope = np.clip(slope, -8, 4)
        last = len(self.low) - 1
        for cell, (low, high) in enumerate(zip(self.low, self.high, strict=True)):
            if cell == last:
                points, weights = np.array([low]), np.ones(1)
            elif high - low < 2 * PARTS:  # All degrees of a narrow cell.
                points = np.arange(low, high + 1)
                weights = (points / low) ** slope[cell]
            else:  # One degree for each part of a wide cell.
                cuts = np.geomspace(low - 0.5, high + 0.5, PARTS + 1)
                points = np.sqrt(cuts[1:] * cuts[:-1])
                weights = np.diff(cuts) * (points / low) ** slope[cell]
            degrees.append(points)
            owner.append(np.full(len(points), cell))
            shares.append(weights / weights.sum())
        return DegreeGrid(*map(np.concatenate, (degrees, owner, shares)))


def _variance(mean: FloatArray) -> FloatArray:
    """Returns the variance of the number of users in cells of this mean."""
    return mean + (SPREAD * mean) ** 2 + 0.1
