"""Chooses kappa, from a release of how many partitions users have: at no further cost.

A small kappa drops partitions of users, a large one adds noise. How much is dropped follows from
the released degrees; the noise is that of the release which is planned, of a public list.

For a frequency list: half the L1 distance between the list of all records and the release from
bounded ones. Both are simulated by Zipf's law, with as many contributions as the degrees tell.
Noise makes partitions up where others were dropped; on other lists that helps less, and not at all
at worst, where the two errors add up. Halfway between is what is minimized.

For names: a count strategy sees the part of a partition's users whose records are kept, and a
weighted one sees users of fewer partitions weigh more; so a partition needs ``median_users`` over
the mean weight of a record to be named half of the time. Whatever the list is, most names come out
where that is least.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray, IntArray
from dp_transforms.mechanisms.decimals import Number, positive_rational
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.integer_partition.choice import partition_mechanism
from dp_transforms.mechanisms.integer_partition.mechanism import PartitionMechanism
from dp_transforms.mechanisms.noise.user_degrees import ReleasedDegrees
from dp_transforms.mechanisms.partition_selection import choose_strategy
from dp_transforms.mechanisms.partition_selection.rounds import WeightedStrategy
from dp_transforms.mechanisms.randomness import RandomTape
from dp_transforms.postprocessing.planning import zipf_list

_HOPELESS = 1.5
_NEARLY_ALL = 0.999
_LEAST_RATE = Fraction(1, 512)
"""Of epsilon / kappa, but for a kappa of 1: lists are mostly noise there, and take seconds each."""

_SIMULATIONS = 3
_ENOUGH = 2_000  # An L1 distance of so much, over some simulations, varies by a few percent.


@dataclass(frozen=True)
class KappaPlan:
    """The effect that one kappa would have.

    Attributes:
      kappa: max_partitions_per_user.
      kept: about what part of all contributions is kept.
      dropped: about how many contributions are not.
      uncertainty: the standard error of ``dropped``, from the noise of the released degrees.
      noise: of a list: half the expected L1 distance that the mechanism adds. None for names.
      error: what is to be small: about half the expected L1 distance to the list of all records, or
        how many users a partition needs, of all records, to be named half of the time.
    """

    kappa: int
    kept: float
    dropped: float
    uncertainty: float
    noise: float | None
    error: float


@dataclass(frozen=True)
class KappaChoice:
    """Several values of kappa beside each other.

    Attributes:
      recommended: the one of the least error.
      plans: ascending by kappa, until more would not help.
      users, contributions: about how many there are.
    """

    recommended: int
    plans: tuple[KappaPlan, ...]
    users: float
    contributions: float


def choose_kappa(
    released: ReleasedDegrees, epsilon: Number, delta: Number | None = None
) -> KappaChoice:
    """Compares values of kappa for a release that follows.

    Args:
      released: what ``UserDegreeMechanism`` released.
      epsilon: of the release that follows: a frequency list or, with delta, a selection of names.
      delta: of the selection.

    Raises:
      ValueError: a parameter is out of range, or the released degrees show no user.

    >>> released = ReleasedDegrees((1, 2, 3, 4), (50_000, 20_000, 10_000, 40), 0.1)
    >>> choose_kappa(released, epsilon=1).recommended
    3
    """
    users = _without_noise(np.array(released.users, np.float64))
    if not users.any():
        raise ValueError(
            "the released degrees show no user: spend more on them, or choose kappa without them"
        )
    degrees = _Degrees(np.array(released.lowest), users, released.epsilon)
    plan = _lists(degrees, epsilon) if delta is None else _selections(degrees, epsilon, delta)
    plans = tuple(plan)
    best = min(plans, key=lambda one: one.error)
    return KappaChoice(best.kappa, plans, float(users.sum()), degrees.total)


def _without_noise(noisy: FloatArray) -> FloatArray:
    """The nearest histogram in L2 without negative entries that has the same sum.

    To set negative entries to zero alone would add users, most of them to cells that have none.
    """
    total = noisy.sum()
    if total <= 0:
        return np.zeros_like(noisy)
    falling = np.sort(noisy)[::-1]
    excess = (falling.cumsum() - total) / np.arange(1, len(noisy) + 1)
    return np.maximum(noisy - excess[falling > excess][-1], 0)


class _Degrees:
    """The contributions of users in cells that bounding would keep."""

    def __init__(self, lowest: IntArray, users: FloatArray, epsilon: float):
        self.kappas = lowest
        self.users = users
        self.means = np.array([*map(_mean, lowest, [*(lowest[1:] - 1), lowest[-1]])])
        self.total = float(users @ self.means)
        # Of discrete Laplace noise: 2 q / (1 - q)**2.
        self._deviation = float(np.sqrt(0.5) / np.sinh(epsilon / 2)) if epsilon < 1e3 else 0.0

    def at_most(self, kappa: int) -> FloatArray:
        """Returns the number of partitions that users of each cell keep."""
        return np.minimum(self.means, kappa)

    def kept(self, kappa: int) -> float:
        """Returns the number of contributions that are kept."""
        return float(self.users @ self.at_most(kappa))

    def candidates(self) -> Iterator[int]:
        """The bounds of cells, up to the first that keeps nearly everything."""
        for kappa in self.kappas.tolist():
            yield kappa
            if self.kept(kappa) >= _NEARLY_ALL * self.total:
                return

    def plan(self, kappa: int, noise: float | None, error: float) -> KappaPlan:
        kept = self.kept(kappa)
        uncertainty = self._deviation * np.linalg.norm(self.means - self.at_most(kappa))
        return KappaPlan(
            kappa, kept / self.total, self.total - kept, float(uncertainty), noise, error
        )


def _mean(first: int, last: int) -> float:
    """The mean degree of a cell in which users of degree d are taken to be as many as 1 / d**2."""
    degrees = np.arange(first, last + 1)
    return float((1 / degrees).sum() / (1 / degrees**2).sum())


def _lists(degrees: _Degrees, epsilon: Number) -> Iterator[KappaPlan]:
    whole = zipf_list(max(1, round(degrees.total)))
    least = np.inf
    for kappa in degrees.candidates():
        if kappa > 1 and positive_rational("epsilon", epsilon) / kappa < _LEAST_RATE:
            return
        mechanism = partition_mechanism(epsilon, kappa)
        kept = degrees.kept(kappa)
        bounded = zipf_list(max(1, round(kept)))
        noise, error = _simulated(mechanism, bounded, whole)
        if noise > least:
            return
        error = (error + (degrees.total - kept) / 2 + noise) / 2
        least = min(least, error)
        yield degrees.plan(kappa, noise, error)


def _simulated(
    mechanism: PartitionMechanism, bounded: FrequencyList, whole: FrequencyList
) -> tuple[float, float]:
    """Half the mean L1 distances of releases of a bounded list from it, and from the whole list."""
    noise = error = times = 0
    while times < _SIMULATIONS and noise < _ENOUGH:
        tape = RandomTape.from_secret(bytes(32), f"simulation {times} of a public list")
        released = mechanism.release(bounded, tape)
        noise += released.l1_distance(bounded)
        error += released.l1_distance(whole)
        times += 1
    return noise / (2 * times), error / (2 * times)


def _selections(degrees: _Degrees, epsilon: Number, delta: Number) -> Iterator[KappaPlan]:
    least = np.inf
    for kappa in degrees.candidates():
        if kappa % 5 == 0:  # Two to a doubling are enough: laws take a second each.
            continue
        strategy = choose_strategy(epsilon, delta, max_partitions_per_user=kappa)
        needed = strategy.median_users
        if needed is None:
            continue
        counted = degrees.at_most(kappa)
        weights = np.ones(len(counted))
        if isinstance(strategy, WeightedStrategy):
            last = len(strategy.rounds) - 1
            steps = strategy.weights(last, [*np.maximum(1, np.rint(counted)).astype(int), kappa])
            weights = steps[:-1] / steps[-1]
        weight = float(degrees.users @ (counted * weights)) / degrees.total
        error = needed / weight
        if error > _HOPELESS * least:
            return
        least = min(least, error)
        yield degrees.plan(kappa, None, error)
