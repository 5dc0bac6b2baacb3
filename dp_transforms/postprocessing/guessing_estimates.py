"""Estimates of the private list's guessing metrics from a release, with the noise's bias removed.

A released list looks easier to guess than the private one, since the noise rounds the bend of its
rank-frequency curve outwards: at epsilon = 0.0114 the success rate of 100 guesses is half a bit off
on a list of 1.2 million passwords, with a standard deviation of 0.06. Here that bias is estimated
at a smooth list which the release is likely to come from (``smooth_lists``), as the mean over
releases of that list that are drawn here, and subtracted: a smoothed bootstrap (Efron and
Tibshirani, "An introduction to the bootstrap", 1993). Post-processing: it costs no privacy.

These are estimates under a prior about the shape of lists, and no proven bounds; those are in
``guessing_intervals``. Measured on eleven pairs of a list and an epsilon
(benchmarks/results/guessing_estimates.md), biases of 0.1 to 0.5 bits came down to a half at worst
and to a tenth at best. The 95% intervals held in 60% of the releases at worst, where the shape is
least like what is expected, and in nine of ten on average. Part of what is left no estimate can
take out: there are lists whose releases are nearly alike (benchmarks/results/guessing_limits.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from dp_transforms.mechanisms.decimals import Real
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.integer_partition.mechanism import PartitionMechanism
from dp_transforms.postprocessing.frequency_intervals import failure_probability
from dp_transforms.postprocessing.guessing_metrics import alpha_guesswork_bits, success_rate_bits
from dp_transforms.postprocessing.smoothing import (
    ROUGHNESS,
    SmoothFit,
    fit_smooth_list,
    simulated_releases,
    thinned,
)

_MOST_RATE = 0.5
"""Above, most frequencies do not change at all: the released list is as good as a smooth one."""
_DRAWS = 48
_FIRST_SEED = 10**6  # Other draws than those of the fit.
_WIDENING = 3


class Estimate(NamedTuple):
    """An estimate of a number of the private list, with the estimated bias taken out, and an
    interval around it."""

    value: float
    lower: float
    upper: float


class GuessingEstimates:
    """Estimates of guessing metrics of the private list, from a released one.

    The first estimate takes some 300 draws of the mechanism, a second or a few; others are quick.
    The same release gives the same estimates.

    Args:
      released: what the mechanism returned; not further processed.
      mechanism: of all lists.
      reference: a list of a similar shape, public or released, such as that of all users for that
        of a group. A random sample as large as the release takes its place where it is larger.

    Raises:
      ValueError: the list is empty, or the mechanism has no ``law``.

    >>> released = FrequencyList([500, 203, 90, 41, 20, 7, 2, 1], [1, 2, 3, 9, 20, 50, 200, 900])
    >>> from dp_transforms.mechanisms import IntegerPartitionMechanism
    >>> estimates = GuessingEstimates(released, IntegerPartitionMechanism(epsilon=0.5))
    >>> value, lower, upper = estimates.success_rate_bits(10)
    >>> lower < value < upper
    True
    """

    def __init__(
        self,
        released: FrequencyList,
        mechanism: PartitionMechanism,
        reference: FrequencyList | None = None,
    ):
        if not len(released):
            raise ValueError("released is empty, and guessing metrics need at least one item")
        self._released, self._reference = released, reference
        self._mechanism = mechanism
        self._rate = mechanism.law.rate

    def success_rate_bits(self, guesses: int, confidence: float = 0.95) -> Estimate:
        """lambda_beta in bits (see ``guessing_metrics.success_rate_bits``).

        Args:
          guesses: beta.
          confidence: that of the interval; approximate.

        Raises:
          ValueError: guesses is not positive, or confidence is not between 0 and 1.
        """
        return self._estimate(lambda one: success_rate_bits(one, guesses), confidence)

    def alpha_guesswork_bits(self, alpha: Real, confidence: float = 0.95) -> Estimate:
        """G-tilde_alpha (see ``guessing_metrics.alpha_guesswork_bits``).

        Args:
          alpha: the part of the accounts.
          confidence: that of the interval; approximate.

        Raises:
          ValueError: alpha is not in (0, 1], or confidence is not between 0 and 1.
        """
        return self._estimate(lambda one: alpha_guesswork_bits(one, alpha), confidence)

    @cached_property
    def _fit(self) -> SmoothFit | None:
        if self._rate > _MOST_RATE:
            return None
        reference = self._reference and thinned(self._reference, self._released.total)
        return fit_smooth_list(self._released, self._mechanism, reference)

    @cached_property
    def _smooth(self) -> FrequencyList:
        return self._released if self._fit is None else self._fit.curve.to_list()

    @cached_property
    def _draws(self) -> list[FrequencyList]:
        releases = simulated_releases(self._mechanism, _FIRST_SEED)(self._smooth, _DRAWS)
        return [one for one in releases if len(one)]

    def _estimate(self, metric: Callable[[FrequencyList], float], confidence: float) -> Estimate:
        beyond = failure_probability(confidence) / 2
        as_released = metric(self._released)
        errors = np.array([metric(one) for one in self._draws]) - metric(self._smooth)
        correction = float(errors.mean())
        # Another shape of the list would make another correction: half of it is in doubt.
        deviation = math.hypot(
            max(self._posterior_deviation(metric), float(errors.std())), correction / 2
        )
        width = NormalDist().inv_cdf(1 - beyond) * deviation
        value = max(as_released - correction, 0.0)
        return Estimate(value, max(value - width, 0.0), value + width)

    def _posterior_deviation(self, metric: Callable[[FrequencyList], float]) -> float:
        if self._fit is None:
            return 0.0
        slopes = self._fit.curve.metric_derivative(metric)
        # Slopes of real lists turn the same way for longer than the prior has it.
        return self._fit.deviation(slopes, _WIDENING * ROUGHNESS)
