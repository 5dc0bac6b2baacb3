"""Proven error bars for one frequency of a released list, and for its number of items.

Let f be the private list, x the release, and i any rank. ``laws.release_law`` bounds the tails of
x_i - f_i for every f, and proves it for each mechanism. The private list is not in these bounds,
and the released one is public: the intervals cost no privacy.

The number of items is the first entry of the conjugate partition (entry j counts the items with a
frequency of at least j). Conjugation keeps L1 distances and corners, so the conjugate of x is a
release of the conjugate of f, and the bounds for i = 1 hold for the number of items.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dp_transforms.mechanisms.arrays import IntArray
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.laws.release_law import ReleaseLaw


def frequency_interval(
    released: FrequencyList, ranks: Sequence[int], law: ReleaseLaw, confidence: float = 0.95
) -> tuple[IntArray, IntArray]:
    """Lower and upper bounds on the private list's frequencies at some ranks.

    For every private list they hold, for all of these ranks together, with at least the given
    probability over the mechanism's randomness. Choose the ranks without looking at the release.

    Args:
      released: what the mechanism returned; not further processed.
      ranks: from 1; those beyond the list may be asked for too. Fewer ranks, tighter bounds.
      law: the mechanism's ``law``.
      confidence: the probability that all bounds hold.

    Raises:
      ValueError: a parameter is out of its range, or a rank is below 1.

    >>> released = FrequencyList([500, 20, 1], [1, 10, 300])
    >>> from dp_transforms.mechanisms import IntegerPartitionMechanism
    >>> law = IntegerPartitionMechanism(epsilon=1).law
    >>> lower, upper = frequency_interval(released, [1], law)
    >>> lower.tolist(), upper.tolist()
    ([493], [506])
    """
    if min(ranks, default=1) < 1:
        raise ValueError(f"ranks must be positive, got {min(ranks)}")
    each = failure_probability(confidence) / (2 * max(1, len(ranks)))
    below = np.array(law.largest_shortfalls(each, ranks), dtype=np.int64)
    above = law.largest_excess(each)
    frequencies = released.at_ranks(ranks)
    return np.maximum(frequencies - above, 0), frequencies + below


def distinct_interval(
    released: FrequencyList, law: ReleaseLaw, confidence: float = 0.95
) -> tuple[int, int]:
    """Lower and upper bounds on the private list's number of items.

    For every private list they hold with at least the given probability over the mechanism's
    randomness.

    Args:
      released: what the mechanism returned; not further processed.
      law: the mechanism's ``law``.
      confidence: the probability that both bounds hold.

    Raises:
      ValueError: a parameter is out of its range.

    >>> from dp_transforms.mechanisms import IntegerPartitionMechanism
    >>> law = IntegerPartitionMechanism(epsilon=1).law
    >>> distinct_interval(FrequencyList([500, 20, 1], [1, 10, 300]), law)
    (304, 317)
    """
    each = failure_probability(confidence) / 2
    (below,), above = law.largest_shortfalls(each, [1]), law.largest_excess(each)
    return max(released.distinct - above, 0), released.distinct + below


def failure_probability(confidence: float) -> float:
    """1 - confidence.

    Raises:
      ValueError: confidence is not between 0 and 1.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, got {confidence}")
    return 1 - confidence
