"""Estimates the users of named partitions from noisy counts, with a released list as the prior.

A noisy count just above the threshold of a selection is too large on average: of the partitions
with few users, only those with large noise are seen there. The released list of the same records
says how many partitions of each size there are. So the posterior mean does not have this bias.

Model (``CountModel``). Let m be the mean number of users of a partition in all records. The density
w(m) of partitions is the one that ``all_records.ThinnedMixture`` fits to the list; without a list
it is flat. A part r(m) of the records counts in the noisy count. The true count n is Poisson around
r(m) m, and the number of users whose record was dropped is Poisson around (1 - r(m)) m,
independently. The noise, and the probability of being named, are known exactly (``CountNoise``).
The estimate is the mean of all users, given the noisy count and that the partition is named.
Without a survey of degrees r = 1, and everything is about the records that count.

The part that counts also differs among partitions of equally many users (``_UNEVEN``). It would
pull estimates towards the list, and made them no better where it was tried. So only the model's
intervals take it into account.

If a noisy count is compared with a threshold, P[Y = y, named | n] is P[X = y - n] for all y above
it, where X is the noise. So the selection drops out of the posterior, with a prior over ALL
partitions and not only over named ones. If counts are made after the selection, the prior is over
named partitions: ``naming`` fits the probability of being named to the noisy counts.

Proved intervals use nothing of this: see ``CountNoise.intervals`` and ``dropped_users``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from scipy.special import gammaln, log_ndtr, ndtri

from dp_transforms.mechanisms.arrays import FloatArray, IntArray
from dp_transforms.mechanisms.decimals import Number, exact_fraction
from dp_transforms.mechanisms.discrete_noise import DiscreteLaplace, IntegerNoise
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.noisy_coordinates import FrobeniusCoordinates
from dp_transforms.mechanisms.selection.gaussian import RoundedGaussian
from dp_transforms.mechanisms.selection.strategy import NoisyCountStrategy
from dp_transforms.mechanisms.selection.threshold_distribution import TruncatedGeometricNoise
from dp_transforms.postprocessing.all_records import NEARLY_ALL, ThinnedMixture
from dp_transforms.postprocessing.degree_survey import DegreeSurvey
from dp_transforms.postprocessing.estimates import CONFIDENCE, failure_probability
from dp_transforms.postprocessing.kept_parts import TILT, KeptParts

_SINGLE = 300  # Counts up to this are tabulated one by one.
_SPACING = 0.01  # The relative distance of larger counts in tables.
_MOST_USERS = 2**53
_INTENSITIES = 700  # The number of intensities in a table of ``Thinning``.
_FEW = 64  # Smaller true counts are summed over one by one, for each noisy count.
_NODES = 256  # The most intervals of true counts around a noisy one.
_NEGLIGIBLE = -32.0  # The log of a probability of noise below which it is left out.
_UNEVEN = 0.5
"""The relative deviation of the part of a partition's users who count, among partitions of equally
many users, is about ``_UNEVEN`` times the part of those who do not count. It was 0.1 to 0.4 times
this part for words of git projects, and 0.3 to 1 times for their files, for places and for
articles. No release tells."""
_WIDE = 0.7
"""A Poisson number is replaced by a wider normal one if the steps of the grid of means, and the
noise of the list, are at least this part of its standard deviation: structure that is finer than
these is not in the data."""


class CountNoise(ABC):
    """How a released count is made from the true one, and when its partition is named.

    Counts are the numbers of users whose record of the partition counts, after bounding.
    """

    @property
    @abstractmethod
    def least_count(self) -> int:
        """Returns the smallest true count of a partition that may be named."""

    @property
    @abstractmethod
    def noise(self) -> IntegerNoise:
        """Returns the distribution of the noise."""

    @abstractmethod
    def intervals(
        self, noisy: IntArray, confidence: Number = CONFIDENCE
    ) -> tuple[IntArray, IntArray]:
        """Returns both ends of intervals that hold the true count with this confidence, given that
        the partition is named, whatever the count is."""

    def log_joint(self, noisy: FloatArray, counts: FloatArray) -> FloatArray:
        """Returns log P[Y = noisy | count], up to a constant. Arrays are broadcast."""
        log = log_probability(self.noise, noisy - counts)
        return np.where(counts >= self.least_count, log, -np.inf)


@dataclass(frozen=True)
class ThresholdedCounts(CountNoise):
    """Noisy counts that a strategy has compared with its threshold.

    >>> from dp_transforms.mechanisms.selection import LaplaceSelection
    >>> noise = ThresholdedCounts(LaplaceSelection(1, 1e-5))
    >>> [ends.tolist() for ends in noise.intervals(np.array([13, 100]))]
    [[1, 97], [16, 103]]
    """

    strategy: NoisyCountStrategy

    @property
    def least_count(self) -> int:
        return self.strategy.pre_threshold

    @property
    def noise(self) -> IntegerNoise:
        return self.strategy.distribution.noise

    def intervals(
        self, noisy: IntArray, confidence: Number = CONFIDENCE
    ) -> tuple[IntArray, IntArray]:
        return self.strategy.count_intervals(noisy, confidence)


@dataclass(frozen=True)
class CountsAfterSelection(CountNoise):
    """Counts of partitions that were named before. Their noise is independent of the selection, so
    that the interval of the noise alone holds whatever the selection named.

    Args:
      added: the noise.

    >>> noise = CountsAfterSelection(DiscreteLaplace(2))
    >>> [ends.tolist() for ends in noise.intervals(np.array([3, 100]))]
    [[0, 94], [9, 106]]
    """

    added: IntegerNoise

    @property
    def least_count(self) -> int:
        # Users count in a part of their named partitions. So none of a partition's users may count.
        return 0

    @property
    def noise(self) -> IntegerNoise:
        return self.added

    def intervals(
        self, noisy: IntArray, confidence: Number = CONFIDENCE
    ) -> tuple[IntArray, IntArray]:
        exact = exact_fraction("confidence", confidence)
        if not 0 < exact < 1:
            raise ValueError(f"confidence must be between 0 and 1, got {confidence!r}")
        reach = self.added.reach((1 - exact) / 2)
        noisy = np.asarray(noisy, np.int64)
        return np.maximum(noisy - reach, 0), np.maximum(noisy + reach, 0)


def log_probability(noise: IntegerNoise, x: FloatArray) -> FloatArray:
    """Returns log P[X = x], up to a constant.

    Raises:
      TypeError: there is no formula for this noise.
    """
    away = np.abs(x)
    if isinstance(noise, DiscreteLaplace):
        laplace: FloatArray = -away / float(noise.scale)
        return laplace
    if isinstance(noise, TruncatedGeometricNoise):
        return np.where(away <= noise.k, -away * float(noise.epsilon), -np.inf)
    if isinstance(noise, RoundedGaussian):
        sigma = math.sqrt(noise.sigma2)
        near, far = log_ndtr(-(away - 0.5) / sigma), log_ndtr(-(away + 0.5) / sigma)
        gaussian: FloatArray = near + np.log1p(-np.exp(np.minimum(far - near, -1e-300)))
        return gaussian
    raise TypeError(f"no formula for the probabilities of {type(noise).__name__}")


def rank_deviation(bounded: FrequencyList) -> float:
    """Returns the standard deviation of the noise at a rank of a released list, in users.

    It is that of continuous Laplace noise with the rate of the coordinates. For a list without
    noisy coordinates it is taken to be 0, since such noise is small.
    """
    coordinates = getattr(bounded, "coordinates", None)
    return 0.0 if coordinates is None else math.sqrt(2) / coordinates.rate


def noise_deviation(noise: IntegerNoise) -> float:
    """Returns the standard deviation of noise, approximately."""
    reach = noise.reach(Fraction(1, 1000))
    x = np.arange(-reach, reach + 1.0) if reach < 5000 else np.linspace(-reach, reach, 10_001)
    weights = np.exp(log_probability(noise, x))
    return math.sqrt(float(weights @ x**2 / weights.sum()))


@dataclass(frozen=True, eq=False)
class CountModel:
    """A model of how many users partitions have in all records, and which part of them counts.

    Attributes:
      means: a grid of mean numbers of users in all records, ascending, shape (n,).
      weights: how many partitions have these means, up to a factor; shape (n,).
      rates: the part of their records that counts; shape (n,).
      deviation: the standard deviation of the noise at a rank of the list that the model was fitted
        to. The list does not tell larger numbers of users apart better than this.
      exact_up_to: up to so many users, the list has its noise in numbers of partitions, and not in
        numbers of users.
    """

    means: FloatArray
    weights: FloatArray
    rates: FloatArray
    deviation: float = 0.0
    exact_up_to: float = 0.0

    @property
    def counted(self) -> FloatArray:
        """Returns the means of the users that count; shape (n,)."""
        return self.means * self.rates

    @property
    def blur(self) -> FloatArray:
        """Returns, for each counted mean, the standard deviation by which the list's noise blurs
        it."""
        return np.where(self.counted > self.exact_up_to, self.deviation, 0.0)

    @classmethod
    def of_list(
        cls,
        bounded: FrequencyList,
        kappa: int,
        survey: DegreeSurvey | None = None,
        thinning: Thinning | None = None,
    ) -> CountModel:
        """Fits the model to a list of the records that a bound of kappa keeps.

        Args:
          bounded: a PUBLIC list.
          kappa: its bound.
          survey: the degrees of users in all records. Without it, everything is about bounded
            records.
          thinning: which records count in the noisy counts; by default those of the list.
        """
        prior, bound = (_NOTHING_DROPPED, 1) if survey is None else (survey, kappa)
        kept = min(float(np.median(prior.kept_shares(bound))), 1.0)
        mixture = ThinnedMixture(bounded, bound, prior, kept, TILT)
        rates = mixture.kept
        if thinning is not None:
            counting = thinning.kept_parts(TILT)
            pairs = mixture.weights * mixture.means
            rates = counting.at(
                mixture.means, counting.centre(mixture.means, pairs, thinning.share)
            )
        elif kept >= NEARLY_ALL:
            rates = np.ones_like(rates)
        square = float(FrobeniusCoordinates(bounded).square)
        return cls(mixture.means, mixture.weights, rates, rank_deviation(bounded), square)

    @classmethod
    def without_list(cls, largest: float, thinning: Thinning) -> CountModel:
        """Returns the model in which all means are equally likely, for noisy counts up to
        ``largest``. Nothing shows which partitions are rare, so there is no tilt."""
        top = max(largest, 10.0) / thinning.share * 3
        means = np.geomspace(0.3, top, math.ceil(math.log(top / 0.3) / _SPACING))
        return cls(means, means, thinning.kept_parts(0).at(means, 0))


@dataclass(frozen=True, eq=False)
class Thinning:
    """Which part of users' records counts.

    Attributes:
      survey: the degrees of users in all records.
      counted: how many partitions of a user count.
      named: None if any partition of a user may be one of those that count. If only named ones may,
        the approximate numbers of users of the named partitions in all records, descending.
    """

    survey: DegreeSurvey
    counted: int
    named: IntArray | None = None

    @cached_property
    def parts(self) -> FloatArray:
        """Returns, for each degree, the part of a user's partitions that count."""
        degrees, users = self.survey.degrees, self.survey.users
        if self.named is None:
            kept: FloatArray = np.minimum(1, self.counted / degrees)
            return kept
        # A user has a partition of intensity l with probability 1 - exp(-l degree). A table gives
        # the intensities from the numbers of users, and these the number of a user's other named
        # partitions.
        logs = np.linspace(-30, 5, _INTENSITIES)
        numbers = -np.expm1(-np.exp(logs)[:, None] * degrees) @ users
        named = np.maximum(self.named, 1)
        intensities = np.exp(np.interp(np.log(named), np.log(np.maximum(numbers, 1e-300)), logs))
        others = -np.expm1(-intensities[:, None] * degrees).sum(0) * (1 - 1 / max(len(named), 1))
        kept = np.minimum(1, self.counted / (1 + others))
        return kept

    @property
    def share(self) -> float:
        """Returns the part of all pairs that would count."""
        return float(self.survey.pair_shares @ self.parts)

    def kept_parts(self, tilt: float) -> KeptParts:
        """Returns the model of which part of a partition's records counts, by its users."""
        return KeptParts(self.survey.users, self.survey.degrees, self.parts, tilt)


class NameCounts:
    """Estimates the users of named partitions.

    Args:
      noisy: the released noisy counts of named partitions, integer array of shape (n,).
      noise: how these counts were made.
      model: the model of the true numbers.

    >>> from dp_transforms.mechanisms.selection import LaplaceSelection
    >>> bounded = FrequencyList([300, 40, 3, 1], [1, 2, 400, 9_000])
    >>> noise = ThresholdedCounts(LaplaceSelection(0.5, 1e-5))
    >>> counts = NameCounts(np.array([301, 41, 26]), noise, CountModel.of_list(bounded, kappa=1))
    >>> counts.means().round().tolist()
    [301.0, 41.0, 15.0]
    """

    def __init__(self, noisy: IntArray, noise: CountNoise, model: CountModel):
        self._noisy = np.asarray(noisy, np.int64)
        self._noise = noise
        top = max(float(self._noisy.max(initial=0)), 1.0) + self._reach
        self._prior = _Prior(model, top)

    @property
    def _reach(self) -> float:
        """Returns how far a true count may be from a noisy one."""
        tail = Fraction(math.exp(_NEGLIGIBLE))
        return float(self._noise.noise.reach(tail) + 1)

    def means(self) -> FloatArray:
        """Returns the posterior mean of the users of each partition. It does not fall if the noisy
        count rises."""
        return self._moments[0]

    def model_intervals(self, confidence: float = CONFIDENCE) -> tuple[FloatArray, FloatArray]:
        """Returns the ends of the model's intervals, which are about quantiles of each posterior.
        They are only as good as the model, in which the users of a partition are nearly a random
        draw."""
        means, deviations = self._moments
        beyond = float(ndtri(1 - failure_probability(confidence) / 2)) * deviations
        return np.maximum(means - beyond, 0), means + beyond

    @property
    def _moments(self) -> tuple[FloatArray, FloatArray]:
        """Returns the mean and the standard deviation of each posterior."""
        if not len(self._noisy):
            return np.empty(0), np.empty(0)
        distinct, place = np.unique(self._noisy, return_inverse=True)
        # If there are many noisy counts, some of the large ones are left out and interpolated:
        # between neighbours, means are nearly linear in the noisy count.
        at = distinct
        if len(distinct) > 2 * _SINGLE:
            far = distinct[_SINGLE:]
            step = np.maximum(far * (_SPACING / 4), 1)
            chosen = np.append(True, np.diff((far / step).astype(np.int64)) != 0)
            chosen[-1] = True
            at = np.append(distinct[:_SINGLE], far[chosen])
        means, deviations = np.empty(len(at)), np.empty(len(at))
        for start in range(0, len(at), 1024):
            part = slice(start, start + 1024)
            means[part], deviations[part] = self._at(at[part])
        means = np.maximum.accumulate(means)
        return (
            np.interp(distinct, at, means)[place],
            np.interp(distinct, at, deviations)[place],
        )

    def _at(self, noisy: IntArray) -> tuple[FloatArray, FloatArray]:
        """Returns the mean and the standard deviation of the posteriors of some noisy counts."""
        reach = self._reach
        step = max(1, math.ceil(2 * reach / _NODES))
        away = np.arange(-math.ceil(reach / step), math.ceil(reach / step) + 1) * step
        # True counts are summed over: the small ones one by one, and those around each noisy count
        # in steps.
        few = np.broadcast_to(np.arange(_FEW), (len(noisy), _FEW))
        around = noisy[:, None] + away
        ends = np.maximum(around - step / 2, _FEW - 0.5)
        widths = np.append(np.ones(few.shape), np.maximum(around + step / 2 - ends, 0), 1)
        counts = np.append(few, np.maximum(around, 0), 1).astype(float)
        log = self._noise.log_joint(noisy[:, None].astype(float), counts)
        log += self._prior.log_density(counts)
        best = log.max(1, keepdims=True)
        weights = widths * np.exp(log - np.where(np.isfinite(best), best, 0))
        weights /= np.maximum(weights.sum(1, keepdims=True), 1e-300)
        given, variance = self._prior.users_given(counts)
        means = (weights * given).sum(1)
        spread = (weights * (variance + (given - means[:, None]) ** 2)).sum(1)
        return means, np.sqrt(spread)


def agreeing(
    estimates: FloatArray,
    low: IntArray,
    high: FloatArray,
    frequencies: FrequencyList,
    list_is_better: bool = True,
) -> tuple[IntArray, FrequencyList]:
    """Makes estimates for names and a list agree. For every t, the list then has at least as many
    partitions with t or more users as there are such names. So the sum of the names is at most the
    total.

    The name of rank i gets at most the users at rank i of the list. There are two exceptions, in
    which the list is raised instead: the proved interval of the name lies above, or names are known
    better than the list.

    Args:
      estimates: of the users of named partitions, shape (n,).
      low, high: the ends of their proved intervals; equal estimates have equal ends, and larger
        ones no smaller ends.
      frequencies: the list.
      list_is_better: whether the list has less noise at a rank than a name has.

    Returns:
      Whole numbers of users, at least 1 and within the intervals, and the list.

    >>> low, high = np.array([8, 1]), np.array([12.0, 6.0])
    >>> users, raised = agreeing(np.array([10.4, 4.0]), low, high, FrequencyList([7, 3], [1, 1]))
    >>> users.tolist(), list(raised)
    ([8, 3], [(8, 1), (3, 1)])
    """
    order = np.argsort(-estimates, kind="stable")
    sorted_estimates = estimates[order]
    # Names with equal estimates are treated alike: all have the last of their ranks.
    last_ranks = np.searchsorted(-sorted_estimates, -sorted_estimates, side="right")
    capped = np.rint(sorted_estimates)
    if list_is_better:
        capped = np.minimum(capped, frequencies.at_ranks(last_ranks))
    capped = np.clip(capped, low[order], np.minimum(high[order], _MOST_USERS)).astype(np.int64)
    capped = np.maximum(capped, 1)
    users = np.empty(len(estimates), np.int64)
    users[order] = capped
    ranks = np.arange(1, len(users) + 1)
    raised = np.maximum(frequencies.at_ranks(ranks), capped)
    after = np.maximum(frequencies.multiplicities.cumsum() - len(users), 0)
    rest = np.minimum(frequencies.multiplicities, after)
    runs = np.append(raised, frequencies.frequencies), np.append(np.ones_like(raised), rest)
    return users, FrequencyList.from_runs(*runs)


class _Prior:
    """Tabulates the density of true counts, and the mean and the variance of a partition's users in
    all records, given its true count."""

    def __init__(self, model: CountModel, top: float):
        means, rates = model.means, model.rates
        # True counts: small ones one by one, and larger ones at a fixed ratio.
        single = np.arange(min(top, _SINGLE) + 1)
        self._values = single
        if top > _SINGLE:
            number = math.ceil(math.log(top / _SINGLE) / _SPACING) + 2
            far = np.geomspace(_SINGLE, top * (1 + _SPACING), number)[1:]
            self._values = np.append(single, far)
        widths = np.hypot(np.gradient(np.log(means)) * model.counted, model.blur)
        log = _log_kernel(self._values[:, None], model.counted, widths)
        log += np.log(np.maximum(model.weights, 1e-300))
        best = log.max(1)
        joint = np.exp(log - best[:, None])
        total = joint.sum(1)
        self._log_density = best + np.log(total)
        # Given a true count, the probability of each mean, and with it the moments of the dropped
        # users. Their number is Poisson, and its mean differs among partitions.
        share = joint / total[:, None]
        dropped = (1 - rates) * means
        of_others = _UNEVEN * dropped
        mean = share @ dropped
        variance = share @ (dropped + dropped**2 + of_others**2) - mean**2
        self._users, self._variance = self._values + mean, np.maximum(variance, 0)

    def log_density(self, counts: FloatArray) -> FloatArray:
        log: FloatArray = np.interp(counts, self._values, self._log_density)
        return log

    def users_given(self, counts: FloatArray) -> tuple[FloatArray, FloatArray]:
        users = np.interp(counts, self._values, self._users)
        return users, np.interp(counts, self._values, self._variance)


def _log_kernel(values: FloatArray, means: FloatArray, widths: FloatArray) -> FloatArray:
    """Returns log P[a Poisson number = value], values x means. If a width is large, it is the log
    density of a normal number that is wider by it."""
    poisson = values * np.log(means) - means - gammaln(values + 1)
    variance = means + widths**2
    normal = -((values - means) ** 2) / (2 * variance) - np.log(2 * math.pi * variance) / 2
    log: FloatArray = np.where(widths < _WIDE * np.sqrt(means), poisson, normal)
    return log


_NOTHING_DROPPED = DegreeSurvey(np.ones(1), np.ones((1, 1)), np.ones(1), 10**6, math.inf)
"""Users of one partition each: bounding keeps all."""
