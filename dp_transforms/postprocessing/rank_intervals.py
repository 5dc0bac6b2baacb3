"""Error bars for the frequencies of a released list, rank by rank, from the release alone.

``rank_frequency_interval`` is good where many items have about the same frequency,
``frequency_error.frequency_interval`` at the most frequent ones; ``rank_frequency_band`` takes the
better of both.

The first: with S_b the sum of the first b released frequencies and W_b the bound of
``ReleaseError`` on the sum of |x_i - f_i| over them: for every a < i, f_i is at most the mean of f
over the ranks a+1..i, since f descends, so at most (S_i - S_a + W_i) / (i - a). For every b >= i it
is at least the mean over i..b, so at least (S_b - S_{i-1} - W_b) / (b - i + 1). Each a and b gives
a valid bound; here they are the ends of the released list's runs and the rank's own neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray, IntArray
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.laws.release_law import ReleaseLaw
from dp_transforms.postprocessing.frequency_intervals import frequency_interval
from dp_transforms.postprocessing.guessing_intervals import ReleaseError
from dp_transforms.postprocessing.guessing_metrics import rank_sums

_GRID: IntArray = np.unique(np.round(1.09 ** np.arange(500)).astype(np.int64))
"""Up to more ranks than any list has."""

_ROUNDING = 1e-12


def rank_frequency_band(
    released: FrequencyList, law: ReleaseLaw, confidence: float = 0.99
) -> tuple[IntArray, IntArray, IntArray]:
    """Ranks, and lower and upper bounds on the private list's frequencies there, for a picture.

    For every private list all of the bounds hold with at least the given probability over the
    mechanism's randomness. The ranks are those of a grid that no list has a part in, each about
    1.09 times the one before, as far as the released list goes. Post-processing: no privacy cost.

    Args:
      released: what the mechanism returned; not further processed, not empty.
      law: the mechanism's ``law``.
      confidence: the probability that all bounds hold.

    Raises:
      ValueError: the list is empty, or a parameter is out of its range.

    >>> released = FrequencyList([500, 20, 1], [1, 2, 300])
    >>> from dp_transforms.mechanisms import IntegerPartitionMechanism
    >>> law = IntegerPartitionMechanism(epsilon=1).law
    >>> ranks, lower, upper = rank_frequency_band(released, law)
    >>> ranks[:3].tolist(), lower[:3].tolist(), upper[:3].tolist()
    ([1, 2, 3], [478, 1, 1], [521, 42, 42])
    """
    each = (1 + confidence) / 2
    shown = _GRID[_GRID <= released.distinct].tolist()
    error = ReleaseError.of_release(released, law, each)
    lower, upper = rank_frequency_interval(released, shown, error)
    # On the whole grid: how far a list goes is not known before.
    least, most = frequency_interval(released, _GRID.tolist(), law, each)
    count = len(shown)
    # Frequencies are integers, and descend. What rounding may have moved is given back first.
    at_least = np.ceil(lower * (1 - _ROUNDING) - _ROUNDING).astype(np.int64)
    at_most = np.floor(upper * (1 + _ROUNDING) + _ROUNDING).astype(np.int64)
    at_least = np.maximum(at_least, least[:count])
    at_most = np.minimum(at_most, most[:count])
    return (
        _GRID[:count],
        np.maximum.accumulate(at_least[::-1])[::-1],
        np.minimum.accumulate(at_most),
    )


def rank_frequency_interval(
    released: FrequencyList, ranks: Sequence[int], error: ReleaseError
) -> tuple[FloatArray, FloatArray]:
    """Lower and upper bounds on the private list's frequencies at some ranks.

    They hold together whenever ``error`` does. Post-processing: this costs no privacy.

    Args:
      released: the released list; not empty.
      ranks: from 1; those beyond the list may be asked for too.
      error: bounds on the release's distance.

    Raises:
      ValueError: the list is empty, or a rank is below 1.

    >>> released = FrequencyList([500, 20, 1], [1, 10, 300])
    >>> lower, upper = rank_frequency_interval(released, [1, 11], ReleaseError(l1=10))
    >>> lower.tolist(), upper.tolist()
    ([490.0, 10.0], [510.0, 21.0])
    """
    if min(ranks, default=1) < 1:
        raise ValueError(f"ranks must be positive, got {min(ranks)}")
    sums = rank_sums(released)
    ends = np.array(sums.ends, dtype=np.float64)
    covered = np.array(sums.sums, dtype=np.float64)
    moved = np.array([error.up_to(end) for end in sums.ends], dtype=np.float64)
    lower, upper = np.empty(len(ranks)), np.empty(len(ranks))
    for index, rank in enumerate(ranks):
        here, before, bound = sums.sum_to(rank), sums.sum_to(rank - 1), error.up_to(rank)
        starts = np.append(ends[ends < rank], rank - 1)
        upper[index] = np.min(
            (here + bound - np.append(covered[ends < rank], before)) / (rank - starts)
        )
        stops = np.append(ends[ends >= rank], rank)
        lowest = np.append(covered[ends >= rank] - moved[ends >= rank], here - bound)
        lower[index] = max(0.0, np.max((lowest - before) / (stops - rank + 1)))
    return lower, upper
