"""A smooth list from which a released list is likely: the starting point of bias estimates.

The noise of ``IntegerPartitionMechanism`` is biased where many frequencies are close to each other,
as around the bend of a rank-frequency curve, and how much depends on the private list. A released
list cannot take its place, since the noise has moved it already. A smooth list can: the maximum of
the likelihood of the release, times a prior that says what lists of frequencies look like. That is
post-processing and costs no privacy.

**Curve.** A list is a curve of ln frequency over ln rank. With u = ln rank - ln frequency and
w = ln rank + ln frequency it is the graph of w(u), of a slope between -1 and 1, and conjugation of
the list turns it into w(-u). Zipf's law is slope 0. The curve is linear between knots: ranks and,
beyond the diagonal, frequencies, each 1.35 times the one before.

**Prior.** Popularities are like a Poisson process with a smooth intensity. Smooth: the slope of
w(u) changes at random by 0.05 in each unit of u. Poisson: the number of items above a level varies,
so that ln rank moves by an independent Gaussian number of variance 1/r - 1/r' from rank r to r'.
Nothing else is assumed: on RockYou's list, a novel's words and Zipf's law the changes have the size
that this says (chi-squared of 0.2 to 0.8 by degree of freedom). With a reference, a list of a
similar shape, it is the difference of the two slopes that changes in this way.

**Likelihood.** Pr_f[x] = q**||x - f||_1 / Z_f, c = -ln q, so its derivative along a change df is

    c sum_i sign(x_i - f_i) df_i  -  the expectation of the same under Pr_f,

and Fisher's information is the variance of this sum. Both come from releases of f that are drawn
here. Where the noise moves all of x to one side of f, the sum does not vary, and the release tells
nothing: only the prior does.

The maximum is approached by Fisher scoring in damped steps, and the last ones are averaged.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray, IntArray
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.integer_partition.mechanism import PartitionMechanism
from dp_transforms.mechanisms.randomness import InsecureSeededTape

ROUGHNESS = 0.05
"""How much the slope changes in one unit of u: the standard deviation."""

_KNOTS: IntArray = np.unique(np.rint(1.35 ** np.arange(130)).astype(np.int64))
_TO_DIAGONAL = 0.75  # Knots go so far, by the side of the largest square below the curve.
_FEW = 30
_ROUNDS = 8
_DRAWS = 24
_MOST_STEP = 0.5
_DAMPING = 0.5
_DIFFERENCE = 1e-4


@dataclass(frozen=True)
class Curve:
    """A curve of ln frequency over ln rank, linear between knots.

    Attributes:
      knots: ranks, and frequencies.
      values: ln frequency at these ranks, w on the diagonal, ln rank at these frequencies in
        descending order.
      reference: u, ascending, and w of another curve, from which this one departs smoothly.
    """

    knots: IntArray
    values: FloatArray
    reference: tuple[FloatArray, FloatArray] = (np.zeros(1), np.zeros(1))

    @classmethod
    def of(cls, frequency_list: FrequencyList, reference: FrequencyList | None = None) -> Curve:
        """The curve through a list that is not empty."""
        if reference is not None and len(reference):
            return dataclasses.replace(cls.of(frequency_list), reference=_points_of(reference))
        side = _side(frequency_list)
        knots = _knots_within(side)
        at_ranks, at_frequencies = _both_ways(frequency_list, side)
        values = np.concatenate(
            [at_ranks[knots - 1], np.full(1, side * side), at_frequencies[knots - 1][::-1]]
        )
        return cls(knots, np.log(values))

    @property
    def points(self) -> tuple[FloatArray, FloatArray]:
        """ln rank, ascending, and ln frequency, descending."""
        count = len(self.knots)
        # Item i is the step from rank i - 1 to rank i.
        fixed, middle = np.log(self.knots - 0.5), self.values[count : count + 1] / 2
        ranks = np.concatenate([fixed, middle, self.values[count + 1 :]])
        frequencies = np.concatenate([self.values[:count], middle, fixed[::-1]])
        return np.maximum.accumulate(ranks), np.minimum.accumulate(frequencies)

    @property
    def side(self) -> int:
        """That of the largest square below the curve."""
        return max(1, int(np.exp(self.values[len(self.knots)] / 2) + 0.5))

    def logarithms(self, side: int) -> FloatArray:
        """ln frequency at ranks up to ``side``, and then ln rank at frequencies up to it."""
        ranks, frequencies = self.points
        wanted = np.log(np.arange(1, side + 1) - 0.5)
        return np.concatenate(
            [np.interp(wanted, ranks, frequencies), np.interp(-wanted, -frequencies, ranks)]
        )

    def to_list(self) -> FrequencyList:
        """The list along the curve."""
        side = self.side
        numbers = np.maximum(np.rint(np.exp(self.logarithms(side))).astype(np.int64), side)
        above, at_least = numbers[:side], numbers[side:]
        repeats = -np.diff(at_least, append=side)
        return FrequencyList.from_runs(
            np.append(above, np.arange(side, 0, -1)),
            np.append(np.ones(side, np.int64), repeats[::-1]),
        )

    def with_knots_of(self, side: int) -> Curve:
        """The same curve with the knots of a list that has this square."""
        knots = _knots_within(side)
        ranks, frequencies = self.points
        middle = np.interp(0.0, ranks - frequencies, ranks + frequencies)
        at = np.log(knots - 0.5)
        values = [
            np.interp(at, ranks, frequencies),
            [middle],
            np.interp(-at, -frequencies, ranks)[::-1],
        ]
        return Curve(knots, np.concatenate(values), self.reference)

    def moved(self, step: FloatArray) -> Curve:
        """The curve with other values at the knots."""
        return dataclasses.replace(self, values=self.values + step)

    def derivative(
        self, function: Callable[[Curve], Any], difference: float = _DIFFERENCE
    ) -> FloatArray:
        """That of a function of the curve by the values at its knots: one column each."""
        columns = []
        for step in np.eye(len(self.values)) * difference:
            ends = function(self.moved(step)), function(self.moved(-step))
            columns.append((ends[0] - ends[1]) / (2 * difference))
        return np.stack(columns, axis=-1)

    def metric_derivative(self, metric: Callable[[FrequencyList], float]) -> FloatArray:
        """That of a number of the list along the curve."""
        # Lists have integers: a smaller difference may show nothing.
        return self.derivative(lambda curve: metric(curve.to_list()), 0.05)

    def turns(self) -> FloatArray:
        """By how much the slope of w(u), less that of the reference, changes at inner knots."""
        ranks, frequencies = self.points
        expected = np.interp(ranks - frequencies, *self.reference)
        return np.diff(np.diff(ranks + frequencies - expected) / self._widths())

    def prior_factor(self, roughness: float) -> FloatArray:
        """A matrix that makes independent standard normal numbers of the turns, as the prior has
        them."""
        ranks, _ = self.points
        widths = self._widths()
        poisson = -np.diff(np.exp(-ranks)) / widths**2
        smooth = roughness**2 * (widths[:-1] + widths[1:]) / 2
        covariance = np.diag(smooth + poisson[:-1] + poisson[1:])
        inner = poisson[1:-1]
        covariance -= np.diag(inner, 1) + np.diag(inner, -1)
        return np.asarray(np.linalg.inv(np.linalg.cholesky(covariance)))

    def _widths(self) -> FloatArray:
        ranks, frequencies = self.points
        return np.maximum(np.diff(ranks - frequencies), 0.01)


@dataclass(frozen=True)
class SmoothFit:
    """What a release tells of the list that it was made from: a curve, and Fisher's information
    about the values at its knots."""

    curve: Curve
    information: FloatArray

    def deviation(self, slopes: FloatArray, roughness: float = ROUGHNESS) -> float:
        """The posterior standard deviation of a number with these derivatives at the knots."""
        return float(np.sqrt(slopes @ self.covariance_with(slopes, roughness)))

    def covariance_with(self, slopes: FloatArray, roughness: float = ROUGHNESS) -> FloatArray:
        """The posterior covariances of the values at the knots with a number of these slopes."""
        precision = self.information + _prior_information(self.curve, roughness)[0]
        return np.asarray(np.linalg.solve(precision, slopes))


def fit_smooth_list(
    released: FrequencyList, mechanism: PartitionMechanism, reference: FrequencyList | None = None
) -> SmoothFit:
    """The smooth list from which a release is likely, see the module.

    Args:
      released: what the mechanism returned; not further processed, not empty.
      mechanism: an unrestricted one.
      reference: a list of a similar shape and about the same total, which is public or released.
    """
    draws = simulated_releases(mechanism)
    curve = Curve.of(released, reference)
    recent: list[FloatArray] = []
    found: list[FloatArray] = []
    for turn in range(_ROUNDS):
        settled = turn >= _ROUNDS // 2
        if turn and not settled:
            curve, recent = curve.with_knots_of(curve.side), []
        smooth = curve.to_list()
        side = curve.side
        now = np.concatenate(_both_ways(smooth, side))
        moves = curve.derivative(functools.partial(Curve.logarithms, side=side))
        weights = mechanism.rate * now[:, None] * moves
        score = functools.partial(_score, now=now, weights=weights)
        scores = np.array([score(one) for one in draws(smooth, _DRAWS)])
        recent.append(np.cov(scores.T))
        information = np.mean(recent, axis=0)
        prior, pull = _prior_information(curve, ROUGHNESS)
        gradient = score(released) - scores.mean(axis=0) - pull
        step = np.linalg.solve(information + prior, gradient)
        step *= min(_DAMPING if turn else 1.0, _MOST_STEP / max(np.abs(step).max(), _DIFFERENCE))
        curve = curve.moved(step)
        if settled:
            found.append(curve.values)
    curve = dataclasses.replace(curve, values=np.mean(found, axis=0))
    return SmoothFit(curve, information)


def simulated_releases(
    mechanism: PartitionMechanism, seed: int = 0
) -> Callable[[FrequencyList, int], Sequence[FrequencyList]]:
    """A function that gives N releases of a list, new ones at each call.

    The lists are not private, so a predictable tape does no harm, and makes estimates
    reproducible.
    """
    tapes: Iterator[InsecureSeededTape] = map(InsecureSeededTape, itertools.count(seed))
    return lambda smooth, count: mechanism.release_many(smooth, count, tapes)


def thinned(frequency_list: FrequencyList, total: int) -> FrequencyList:
    """The list of a random sample of the users, about ``total`` of them; always the same one.

    For lists that are not private. One with fewer users is returned as it is.
    """
    if total >= frequency_list.total:
        return frequency_list
    kept, rng = total / frequency_list.total, np.random.default_rng(0)
    tally = np.zeros(_FEW + 1, np.int64)
    others = []
    for frequency, items in frequency_list:
        if frequency > _FEW:
            others.append(rng.binomial(frequency, kept, items))
            continue
        chances = [
            math.comb(frequency, k) * kept**k * (1 - kept) ** (frequency - k)
            for k in range(frequency + 1)
        ]
        tally[: frequency + 1] += rng.multinomial(items, chances)
    counts = np.concatenate([np.repeat(np.arange(_FEW + 1), tally), *others])
    return FrequencyList.from_counts(counts[counts > 0])


def _points_of(frequency_list: FrequencyList) -> tuple[FloatArray, FloatArray]:
    """u, ascending, and w of a list, at all ranks and frequencies up to the diagonal."""
    side = _side(frequency_list)
    fixed = np.log(np.arange(1, side + 1) - 0.5)
    at_ranks, at_frequencies = np.log(_both_ways(frequency_list, side))
    rank = np.concatenate([fixed, at_frequencies[::-1]])
    frequency = np.concatenate([at_ranks, fixed[::-1]])
    return rank - frequency, rank + frequency


def _score(x: FrequencyList, now: FloatArray, weights: FloatArray) -> FloatArray:
    """c sum_i sign(x_i - f_i) df_i, for each value at the knots."""
    there = np.concatenate(_both_ways(x, len(now) // 2))
    return np.asarray(np.sign(there - now) @ weights)


def _prior_information(curve: Curve, roughness: float) -> tuple[FloatArray, FloatArray]:
    """The prior's information about the values at the knots, and its pull on them."""
    factor = curve.prior_factor(roughness)
    slopes = factor @ curve.derivative(Curve.turns)
    ridge = 1e-6 * np.eye(len(curve.values))
    return slopes.T @ slopes + ridge, slopes.T @ (factor @ curve.turns())


def _knots_within(side: int) -> IntArray:
    return _KNOTS[_KNOTS <= max(1.0, _TO_DIAGONAL * side)]


def _side(frequency_list: FrequencyList) -> int:
    """The side of the largest square in the list's diagram."""
    ends = np.cumsum(frequency_list.multiplicities)
    return int(np.minimum(ends, frequency_list.frequencies).max())


def _both_ways(frequency_list: FrequencyList, side: int) -> tuple[FloatArray, FloatArray]:
    """The frequencies at ranks 1 to ``side``, and how many items have frequencies of at least
    these."""
    ends = np.cumsum(frequency_list.multiplicities)
    numbers = np.arange(1, side + 1)
    runs = np.searchsorted(-frequency_list.frequencies, -numbers, side="right")
    at_ranks = frequency_list.at_ranks(numbers).astype(np.float64)
    return at_ranks, np.append(0, ends)[runs].astype(np.float64)
