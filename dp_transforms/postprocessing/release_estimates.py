"""Estimates of the noise in a released list, from the release alone.

The exact error of a release depends on the private list. Here the released list takes its place:
the mechanism's distributions at the released list are computed, not sampled (a parametric
bootstrap, as in Efron and Tibshirani, "An introduction to the bootstrap", 1993). That is
post-processing and costs no privacy. These are estimates: a released list has more different
frequencies than a private one, since the noise pulls equal ones apart, so that at a large corner a
third to two thirds of a bias is left. Measured over 14 pairs of a list and an epsilon
(benchmarks/results/release_estimates.md), 95% intervals of the number of items held in 96% to 100%
of the releases, those of the total in 92% to 99% at epsilon >= 1, and in 79% to 94% at 0.25. Bounds
that hold for every private list are in ``frequency_intervals``, ``rank_intervals`` and
``guessing_intervals``.

All of it is for the unrestricted mechanism, whose outcomes are all lists.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from statistics import NormalDist, pstdev

from dp_transforms.mechanisms.arrays import FloatArray
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.integer_partition.mechanism import PartitionMechanism
from dp_transforms.mechanisms.laws.marginals import Marginals
from dp_transforms.postprocessing.frequency_intervals import distinct_interval, failure_probability
from dp_transforms.postprocessing.guessing_estimates import Estimate
from dp_transforms.postprocessing.smoothing import simulated_releases

_DRAWS = 100
_FIRST_SEED = 2 * 10**6


class ReleaseEstimates:
    """Estimates about the private list and the noise, from a released list.

    Args:
      released: what the mechanism returned; not further processed.
      mechanism: of all lists.

    Raises:
      ValueError: c is below 1/256, where float64's range is too small; the mechanism has no
        ``law``, or public bounds on which its marginals depend.

    >>> released = FrequencyList([5000, 21, 20, 1], [1, 4, 5, 300])
    >>> from dp_transforms.mechanisms import IntegerPartitionMechanism
    >>> estimates = ReleaseEstimates(released, IntegerPartitionMechanism(epsilon=1))
    >>> estimates.distinct()
    Estimate(value=310.0, lower=303, upper=316)
    >>> estimates.bias([1, 10, 310]).round(3).tolist()
    [0.0, -0.009, 0.011]
    """

    def __init__(self, released: FrequencyList, mechanism: PartitionMechanism):
        self._released = released
        self._mechanism = mechanism
        self._law = mechanism.law
        # The list in the private one's place is public.
        self._marginals = self._law.marginals(released)

    @cached_property
    def l1(self) -> float:
        """The mean of ||x - f||_1. ``dist`` of Blocki et al. (2016) is half of it."""
        return self._law.expected_l1(self._released)

    def bias(self, ends: Sequence[int]) -> FloatArray:
        """The mean of E[x_i] - f_i over ranges of ranks.

        Args:
          ends: the last ranks of consecutive ranges, ascending. The first range starts at rank 1.

        Raises:
          ValueError: ends are not positive and strictly ascending.
        """
        return self._marginals.mean_differences(ends)

    def distinct(self, confidence: float = 0.95) -> Estimate:
        """How many distinct items are there? The interval is that of ``distinct_interval``.

        The value is what was released minus its bias at the released list. The interval is proven:
        it holds for every private list.

        Raises:
          ValueError: confidence is not between 0 and 1.
        """
        distinct = self._released.distinct
        bias = self._marginals.law_of_distinct().mean_above(distinct)
        lower, upper = distinct_interval(self._released, self._law, confidence)
        return Estimate(min(max(distinct - bias, lower), upper), lower, upper)

    def total(self, confidence: float = 0.95) -> Estimate:
        """The sum of all frequencies: how many contributions of users are there?

        The interval comes from the distribution of the total at the released list. It is
        approximate: its coverage is measured and not proven, see the module.

        Raises:
          ValueError: confidence is not between 0 and 1.
        """
        beyond = failure_probability(confidence) / 2
        total = self._released.total
        bias, least, most = self._total_moved((beyond, 1 - beyond))
        return Estimate(max(total - bias, 0.0), max(total - most, 0), total - least)

    def _total_moved(self, tails: tuple[float, float]) -> tuple[float, int, int]:
        """The mean, and two quantiles, of the release's total less the list's own."""
        total = self._released.total
        if isinstance(self._marginals, Marginals):
            law = self._marginals.law_of_total()
            least, most = (law.quantile(level) - total for level in tails)
            return law.mean_above(total), least, most
        # There is no closed form for another mechanism. Many corners add to it: it is about normal.
        draws = simulated_releases(self._mechanism, _FIRST_SEED)(self._released, _DRAWS)
        bias = self._marginals.total_difference
        normal = NormalDist(bias, pstdev(one.total - total for one in draws))
        lower, upper = map(normal.inv_cdf, tails)
        return bias, math.floor(lower), math.ceil(upper)
