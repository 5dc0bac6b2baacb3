"""Proven error bars for one frequency of a released list, and for its number of items.

Let f be the private list, x the release of ``IntegerPartitionMechanism``, q = e**-c with
c = epsilon / (2 sensitivity), and i any rank. For every f and every k >= 1

    P[x_i >= f_i + k] <= 1 - prod_{j >= k} (1 - q**j)
    P[x_i <= f_i - k] <= 1 - prod_{k <= j < k + i} (1 - q**j)

Both are equalities at a large corner, such as f_1 = f_2 = ... = f_n in the first for i = 1. The
private list is not in them, and the released one is public: these intervals cost no privacy.

Proof of the first. Given x_1, ..., x_{i-1}, the rest has the law of the mechanism at (f_i, f_{i+1},
...) under the condition that its first entry is at most x_{i-1}. An upper bound on an entry does
not make large values of it more likely: it is enough to prove i = 1. Let m_j = min(x_j, f_1) and
l_j = max(x_j - f_1, 0). Since f_j <= f_1, |x_j - f_j| = |m_j - f_j| + l_j. Given m, l is any
partition of at most r parts, r = #{j : m_j = f_1}, with a weight of q**(sum of l). The generating
function of such partitions is 1 / prod_{j <= r} (1 - q**j); with parts below k it is a Gaussian
binomial coefficient, and the quotient of the two is P[l_1 < k | m] = prod_{k <= j < k + r} (1 -
q**j), which is at least the product over all j >= k. QED.

The second likewise: given x_{i+1}, ..., the first i entries are a descending tuple with the weights
q**|x_j - f_j| and a lower bound on x_i, which does not make small values of it more likely. Without
it, what is missing from f_i is a partition of at most r <= i parts. QED.

The number of items is the first entry of the conjugate partition (entry j counts the items with a
frequency of at least j). Conjugation keeps L1 distances, so the conjugate of x is a release of the
conjugate of f, and the bounds for i = 1 hold for the number of items.

The bounds are for the unrestricted mechanism, whose outcomes are all lists.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dp_transforms.guessing_error import checked_decay
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.partition_mechanism import MIN_RATE

IntArray = npt.NDArray[np.int64]

_ROUNDING = 1 - 1e-9
"""Failure probabilities are made smaller by this, which is more than all rounding below."""


def frequency_interval(
    released: FrequencyList,
    ranks: Sequence[int],
    epsilon: float,
    sensitivity: int = 1,
    confidence: float = 0.95,
) -> tuple[IntArray, IntArray]:
    """Lower and upper bounds on the private list's frequencies at some ranks.

    For every private list they hold, for all of these ranks together, with at least the given
    probability over the mechanism's randomness. Choose the ranks without looking at the release.

    Args:
      released: what the mechanism returned; not further processed.
      ranks: from 1; those beyond the list may be asked for too. Fewer ranks, tighter bounds.
      epsilon: the mechanism's. For a release in base 2, the epsilon of its privacy statement.
      sensitivity: the mechanism's.
      confidence: the probability that all bounds hold.

    Raises:
      ValueError: a parameter is out of its range, or a rank is below 1.

    >>> released = FrequencyList([500, 20, 1], [1, 10, 300])
    >>> lower, upper = frequency_interval(released, [1], epsilon=1)
    >>> lower.tolist(), upper.tolist()
    ([491], [507])
    """
    if min(ranks, default=1) < 1:
        raise ValueError(f"ranks must be positive, got {min(ranks)}")
    rate, failure = _checked(epsilon, sensitivity, confidence)
    each = failure / (2 * max(1, len(ranks)))
    below = np.array(_largest_deviations(rate, each, ranks), dtype=np.int64)
    (above,) = _largest_deviations(rate, each, [None])
    ends = np.cumsum(released.multiplicities)
    frequencies = np.append(released.frequencies, 0)[np.searchsorted(ends, ranks)]
    return np.maximum(frequencies - above, 0), frequencies + below


def distinct_interval(
    released: FrequencyList, epsilon: float, sensitivity: int = 1, confidence: float = 0.95
) -> tuple[int, int]:
    """Lower and upper bounds on the private list's number of items.

    For every private list they hold with at least the given probability over the mechanism's
    randomness.

    Args:
      released: what the mechanism returned; not further processed.
      epsilon: the mechanism's. For a release in base 2, the epsilon of its privacy statement.
      sensitivity: the mechanism's.
      confidence: the probability that both bounds hold.

    Raises:
      ValueError: a parameter is out of its range.

    >>> distinct_interval(FrequencyList([500, 20, 1], [1, 10, 300]), epsilon=1)
    (302, 318)
    """
    rate, failure = _checked(epsilon, sensitivity, confidence)
    above, below = _largest_deviations(rate, failure / 2, [None, 1])
    return max(released.distinct - above, 0), released.distinct + below


def _checked(epsilon: float, sensitivity: int, confidence: float) -> tuple[float, float]:
    """c, and the probability that the bounds may fail with."""
    rate = checked_decay(epsilon, sensitivity, confidence)
    if rate < MIN_RATE * _ROUNDING:
        raise ValueError(
            "epsilon / (2 * sensitivity) must be at least 1/1024, as for the mechanism; got "
            f"epsilon={epsilon}, sensitivity={sensitivity}"
        )
    return rate, (1 - confidence) * _ROUNDING


def _largest_deviations(rate: float, failure: float, parts: Sequence[int | None]) -> list[int]:
    """The smallest d with 1 - prod_{d < j <= d + parts} (1 - q**j) <= failure; all j > d if None.

    So a deviation is at most d, except with this probability.
    """
    # Beyond, the rest of the product is 1 within failure * 1e-12.
    reach = math.ceil((math.log(1e12 / failure) - math.log(-math.expm1(-rate))) / rate) + 1
    logarithms = np.log1p(-np.exp(-rate * np.arange(1, reach + 1)))
    sums = np.append(np.cumsum(logarithms[::-1])[::-1], 0.0)
    found = []
    for count in parts:
        last = np.arange(reach + 1) + (reach if count is None else min(count, reach))
        failing = -np.expm1(sums - sums[np.minimum(last, reach)])
        found.append(int(np.flatnonzero(failing <= failure)[0]))
    return found
