"""Predicts how many names rounds would find in a population; privacy does not depend on it.

All predictions follow from public numbers and are computed with floats. They decide which plan is
taken. Every plan satisfies the same (epsilon, delta) guarantee. Users and partitions come in groups
(``Population``). The sums of weights of partitions are approximated by normal distributions, with a
correction for their skewness. After each round, the share of each group that is expected to be
named is removed from the population.

The keep-probabilities of ``renyi_distribution`` are approximated by a differential equation. If the
step s_d of a user of d partitions may raise the log-odds by at most T_d, then the slope of the
log-odds is the least T_d / s_d over all d.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray
from dp_transforms.mechanisms.selection.keep_distribution import KeepDistribution
from dp_transforms.mechanisms.selection.population import Population
from dp_transforms.mechanisms.selection.renyi_calibration import RenyiBudget
from dp_transforms.mechanisms.taylor import normal_tail

_ODDS = np.concatenate(
    [np.arange(-70.0, -6.0, 1.0), np.arange(-6.0, 6.0, 0.25), np.arange(6.0, 46.0, 1.0)]
)
_RATES = np.geomspace(1e-8, 1e3, 34)
_STEPS = 5
"""The number of different d whose steps are considered, in a geometric sequence from one to
kappa."""

# Nodes and weights of Gauss-Hermite quadrature over a normal distribution, with three and with five
# nodes, and of Gauss-Legendre quadrature over the unit interval.
_FEW, _FEW_WEIGHTS = np.array([-math.sqrt(3), 0.0, math.sqrt(3)]), np.array([1, 4, 1]) / 6
_SOME, _SOME_WEIGHTS = np.polynomial.hermite_e.hermegauss(5)
_SOME_WEIGHTS = _SOME_WEIGHTS / _SOME_WEIGHTS.sum()
_ORDER, _ORDER_WEIGHTS = np.polynomial.legendre.leggauss(8)
_ORDER, _ORDER_WEIGHTS = (_ORDER + 1) / 2, _ORDER_WEIGHTS / 2


@dataclass(frozen=True, eq=False)
class Round:
    """Describes a round as far as a prediction needs it.

    Attributes:
      partitions: the most partitions of a user that count.
      step: returns the weight that a user adds to each partition, given the number of them.
      keep: returns the probability that a partition is kept, given its sum of weights.
      shared_order: whether users of more partitions choose by the same order of all partitions.
    """

    partitions: int
    step: Callable[[FloatArray], FloatArray]
    keep: Callable[[FloatArray], FloatArray]
    shared_order: bool = False

    def beyond(self, hidden: int) -> Round:
        """Returns the round in which only the sum beyond the weights of so many users counts, as
        with a pre-threshold of one user more."""
        if not hidden:
            return self
        weights = hidden * float(self.step(np.ones(1))[0])
        return replace(self, keep=lambda sums: self.keep(sums - weights))


@dataclass(frozen=True, eq=False)
class Prediction:
    """Holds the predictions for rounds.

    Attributes:
      names: the expected number of named partitions.
      records: the expected share of all pairs (user, partition) whose partition is named.
      named: the probability that a partition is named, for each group of partitions.
    """

    names: float
    records: float
    named: FloatArray


def predict(population: Population, rounds: Sequence[Round]) -> Prediction:
    """Returns the predictions for rounds in a population."""
    shares, degrees = population.shares, population.degrees
    # The shares of a user need not sum to exactly the user's degree.
    scale = degrees / np.maximum(shares @ population.partitions, 1e-9)
    unnamed = np.ones(len(population.sizes))
    for of_round in rounds:
        remaining = (shares @ (population.partitions * unnamed)) * scale
        has = _numbers_left(degrees, np.clip(remaining / degrees, 0, 1))
        weights = of_round.step(np.minimum(has, of_round.partitions))
        counts, place_weights = _counting(has, of_round)
        # The sum of weights of a partition of each group, at each place in the order.
        moments = [(counts * weights**power) @ _FEW_WEIGHTS for power in (1, 2, 3)]
        sums = _likely_sums(population, *moments)
        unnamed = unnamed * (1 - place_weights @ (of_round.keep(sums) @ _SOME_WEIGHTS))
    named = population.partitions * (1 - unnamed)
    all_records = max(float(population.partitions @ population.sizes), 1e-300)
    return Prediction(
        float(named.sum()), float(named @ population.sizes) / all_records, 1 - unnamed
    )


def _likely_sums(
    population: Population, means: FloatArray, squares: FloatArray, cubes: FloatArray
) -> FloatArray:
    """Returns sums of weights of a partition of each group, at the nodes ``_SOME`` of their
    approximation.

    Unless sizes are known, each user has a partition by chance, with the probability in
    ``Population.shares``. So a partition may have more users than expected. This matters where the
    threshold is above the sums of most partitions. The sums are skewed, as Poisson numbers are, and
    the nodes are corrected for this (Cornish and Fisher 1938).

    Args:
      means, squares, cubes: the mean of each power of the weight that a user of each group, who has
        the partition, adds to it. The weight is 0 if the partition does not count. The last axis is
        that of groups of users.
    """
    pairs = population.users[:, None] * population.shares
    all_squares = squares @ pairs
    if population.sizes_are_known:
        variance = all_squares - means**2 @ pairs
        skew = np.zeros_like(variance)
    else:
        variance = all_squares - means**2 @ (pairs * population.shares)
        skew = cubes @ pairs / np.maximum(all_squares, 1e-12)
    deviations = np.sqrt(np.maximum(variance, 0))
    sums: FloatArray = (means @ pairs)[..., None] + deviations[..., None] * _SOME
    return sums + skew[..., None] * (_SOME**2 - 1) / 6


def _numbers_left(degrees: FloatArray, rates: FloatArray) -> FloatArray:
    """Returns likely numbers of partitions of which a user still has one, for each group of users.

    Each of the user's other partitions is left with the probability in ``rates``. The number is
    given at the nodes ``_FEW`` of its normal approximation, so the shape is (groups, nodes).
    """
    others = np.maximum(degrees - 1, 0)
    deviations = np.sqrt(others * rates * (1 - rates))
    numbers: FloatArray = (others * rates)[:, None] + deviations[:, None] * _FEW
    return 1 + np.maximum(numbers, 0)


def _counting(has: FloatArray, of_round: Round) -> tuple[FloatArray, FloatArray]:
    """Returns the probability that a partition of a user counts, given the user's number of
    partitions.

    Returns:
      An array of the shape of ``has`` for each of several places of the partition in the order of
      all partitions, and the weights of these places.
    """
    most = of_round.partitions
    if not of_round.shared_order:
        return np.minimum(1.0, most / has)[None], np.ones(1)
    before = (has - 1)[None] * _ORDER[:, None, None]
    deviation = np.sqrt(before * (1 - _ORDER[:, None, None])) + 1e-6
    kept = _tail((before - most + 0.5) / deviation)
    return np.where(has <= most, 1.0, kept), _ORDER_WEIGHTS


def kept_shares(population: Population, named: FloatArray, most: int) -> FloatArray:
    """Returns the expected part of a partition's users who count in it, for each group of
    partitions, if each user counts in at most ``most`` named partitions.

    Args:
      named: the probability that a partition of each group is named.
    """
    shares, degrees = population.shares, population.degrees
    has_named = shares @ (population.partitions * named)
    rates = np.clip(has_named / np.maximum(shares @ population.partitions, 1e-9), 0, 1)
    has = _numbers_left(degrees, rates)
    of_users = np.minimum(1.0, most / has) @ _FEW_WEIGHTS
    kept: FloatArray = (population.users * of_users @ shares) / np.maximum(population.sizes, 1e-9)
    return kept


def count_error(
    population: Population, shown: FloatArray, kept: FloatArray, kept_of_all: float, variance: float
) -> float:
    """Returns the mean error of noisy counts that are scaled up to all records by one factor.

    There are three sources of error: the noise, the random choice of the partitions in which a user
    counts, and partitions for which another factor would be right.

    Args:
      shown: the number of partitions of each group that are released with counts.
      kept: the part of their users who count, for each group.
      kept_of_all: the same part for all partitions together, by which counts are divided.
      variance: the variance of the noise.
    """
    kept_of_all = max(kept_of_all, 1e-9)
    sizes = population.sizes
    by_chance = (variance + sizes * kept * (1 - kept)) / kept_of_all**2
    squares = by_chance + (sizes * (kept / kept_of_all - 1)) ** 2
    return float(shown @ np.sqrt(squares) / max(float(shown.sum()), 1e-9))


def _tail(z: FloatArray) -> FloatArray:
    """Returns the probability that a standard normal number exceeds z."""
    tails = normal_tail(np.abs(z))
    both: FloatArray = np.where(z >= 0, tails, 1 - tails)
    return both


def of_distribution(distribution: KeepDistribution, partitions: int) -> Round:
    """Returns the round of a keep distribution whose steps are all one."""
    reach = distribution.reach
    if reach is None:
        return Round(partitions, np.ones_like, np.zeros_like)
    sums = np.unique(np.linspace(0, reach, min(reach + 1, 64)).astype(np.int64))
    kept = np.array([distribution.keep_probability(int(x)) if x else 0.0 for x in sums])
    return Round(partitions, np.ones_like, lambda s: np.interp(s, sums, kept))


def of_normal(partitions: int, sigma: float, threshold: float) -> Round:
    """Returns the round that compares counts plus normal noise with a threshold."""
    return Round(
        partitions,
        np.ones_like,
        lambda sums: np.where(sums < 0.5, 0.0, _tail((threshold - sums) / sigma)),
    )


def of_budget(budget: RenyiBudget, partitions: int, root: int, shared_order: bool) -> Round:
    """Returns about the round of ``RenyiDistribution(budget, partitions, root=root)``; the root 0
    stands for steps of one."""
    curve = _curve(budget.order, float(budget.divergence), float(budget.exposure), partitions, root)
    return Round(partitions, curve.step, curve.keep, shared_order)


def kept_by(budget: RenyiBudget, partitions: int, root: int) -> float:
    """Returns about ``RenyiDistribution.kept``, if the step of a user of kappa partitions is
    one."""
    curve = _curve(budget.order, float(budget.divergence), float(budget.exposure), partitions, root)
    return float(-np.diff(1 / np.maximum(curve.sums, 1)) @ _probability(_ODDS[1:]))


@dataclass(frozen=True, eq=False)
class _Curve:
    """Holds an approximation of a ``RenyiDistribution``.

    Attributes:
      partitions: kappa.
      root: see ``of_budget``.
      first: the log-odds of a partition with a single user.
      sums: the sums of weights at which log-odds have the values ``_ODDS``.
    """

    partitions: int
    root: int
    first: float
    sums: FloatArray

    def step(self, partitions: FloatArray) -> FloatArray:
        if not self.root:
            return np.ones_like(partitions)
        steps: FloatArray = (self.partitions / partitions) ** (1 / self.root)
        return steps

    def keep(self, sums: FloatArray) -> FloatArray:
        odds = np.maximum(np.interp(sums, self.sums, _ODDS), self.first)
        return np.where(sums < 0.5, 0.0, _probability(odds))


@functools.lru_cache(maxsize=1024)
def _curve(order: int, divergence: float, exposure: float, partitions: int, root: int) -> _Curve:
    # Users of d partitions, for some d from one to kappa.
    of_users = np.unique(np.rint(np.geomspace(1, partitions, _STEPS)))
    steps = (partitions / of_users) ** (1 / root) if root else np.ones(len(of_users))
    rates = divergence / of_users
    # The largest rises T_d, interpolated between the rates of the table.
    table = _log_rises(order)
    logs = np.log(np.clip(rates, _RATES[0], _RATES[-1]))
    places = (logs - math.log(_RATES[0])) / math.log(_RATES[1] / _RATES[0])
    left = np.minimum(places.astype(np.int64), len(_RATES) - 2)
    part = places - left
    rises = np.exp(table[left] * (1 - part)[:, None] + table[left + 1] * part[:, None])
    # The sum of weights as a function of the log-odds: its derivative is the largest s_d / T_d.
    derivatives = (steps[:, None] / rises).max(0)
    sums = np.append(0.0, np.cumsum(np.diff(_ODDS) * (derivatives[1:] + derivatives[:-1]) / 2))
    first = np.minimum(exposure / of_users, -np.expm1(-rates))
    first_odds = float(np.log(first / (1 - first)).min())
    sums_from_first = 1 + sums - float(np.interp(first_odds, _ODDS, sums))
    return _Curve(partitions, root, first_odds, sums_from_first)


@functools.lru_cache(maxsize=64)
def _log_rises(order: int) -> FloatArray:
    """Returns logarithms of the largest rises of log-odds at which the Renyi divergences in both
    directions are at most a rate. The shape is (rates, log-odds)."""
    low, high = np.zeros((len(_RATES), len(_ODDS))), np.full((len(_RATES), len(_ODDS)), 100.0)
    most = (order - 1) * _RATES[:, None]
    p, q = -np.logaddexp(0, -_ODDS), -np.logaddexp(0, _ODDS)
    # Bisection, for all rates and log-odds at once.
    for _ in range(26):
        rise = (low + high) / 2
        there = _ODDS + rise
        p2, q2 = -np.logaddexp(0, -there), -np.logaddexp(0, there)
        there_to_here = np.logaddexp(order * p2 + (1 - order) * p, order * q2 + (1 - order) * q)
        here_to_there = np.logaddexp(order * p + (1 - order) * p2, order * q + (1 - order) * q2)
        holds = np.maximum(there_to_here, here_to_there) <= most
        low, high = np.where(holds, rise, low), np.where(holds, high, rise)
    rises: FloatArray = np.log(np.maximum(low, 1e-12))
    return rises


def _probability(odds: FloatArray) -> FloatArray:
    probability: FloatArray = 1 / (1 + np.exp(-odds))
    return probability
