"""Error bars for the frequencies of a released list, rank by rank, from the release alone.

With S_b the sum of the first b released frequencies and W_b the bound of ``ReleaseError`` on the
sum of |x_i - f_i| over them: for every a < i, f_i is at most the mean of f over the ranks a+1..i,
since f descends, so at most (S_i - S_a + W_i) / (i - a). For every b >= i it is at least the mean
over i..b, so at least (S_b - S_{i-1} - W_b) / (b - i + 1). Each a and b gives a valid bound; here
they are the ends of the released list's runs and the rank's own neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dp_transforms.guessing import RankSums
from dp_transforms.guessing_error import ReleaseError
from dp_transforms.mechanisms.frequency_list import FrequencyList


def rank_frequency_interval(
    released: FrequencyList, ranks: Sequence[int], error: ReleaseError
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
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
    sums = RankSums(released)
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
