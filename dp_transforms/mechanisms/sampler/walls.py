"""The walk between bounds: L_i <= x_i <= U_i for all ranks i is a pair of walls for the walk.

Two descending sequences are nested, L_i <= x_i for all i, exactly if k_L(c) <= k_x(c) on every
diagonal c. So with D(c) = k_x(c) - k_f(c) the bounds say

    k_L(c) - k_f(c) <= D(c) <= k_U(c) - k_f(c).

In one step from a diagonal to the next, D - (k_L - k_f) changes by b_x - b_L. So where b_L is 0 the
walk only gets further from the lower wall, and where b_L is 1 only closer to it; likewise for
the upper wall. Within a block on which b_L and b_U do not change, the walls are kept everywhere
if they are kept at both ends. So blocks are cut wherever a bit of f, L or U changes, and the walls
are applied to the messages at the blocks' ends, and nowhere else.

The mechanism is the same for f as for f moved between the bounds rank by rank: for x between
them, |x_i - f_i| is |x_i - g_i| + |g_i - f_i| where g_i is the value nearest to f_i, and the second
part does not depend on x. So f is replaced by g first. Then the state 0 is always allowed.
"""

from __future__ import annotations

import numpy as np

from dp_transforms.mechanisms.arrays import IntArray
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.partition_bounds import PartitionBounds
from dp_transforms.mechanisms.sampler.walk import Blocks


def walled_blocks(frequency_list: FrequencyList, bounds: PartitionBounds) -> Blocks:
    """The runs of f moved between the bounds, with the bounds as walls."""
    inner = bounds.nearest(frequency_list)
    lists = (inner, bounds.lower, bounds.upper)
    # How many ranks lie in front of each list, and its value at the ranks behind it.
    heads = (0, 0, bounds.unbounded_ranks)
    tails = (0, 0, bounds.beyond)
    first = [
        int(values.frequencies[0]) - head if len(values) else tail - head
        for values, head, tail in zip(lists, heads, tails, strict=True)
    ]
    top = max(first)
    changes = [
        _changes(values, top + head, tail)
        for values, head, tail in zip(lists, heads, tails, strict=True)
    ]
    end = max(change.item(-1) for change in changes)
    cuts = np.unique(np.concatenate([[0, end], *changes]))
    lengths = np.diff(cuts)
    bits = np.array([change.searchsorted(cuts[:-1], side="right") % 2 for change in changes])
    heights = np.array(heads)[:, None] + np.pad((bits * lengths).cumsum(axis=1), ((0, 0), (1, 0)))
    lowest, highest = heights[1] - heights[0], heights[2] - heights[0]

    return Blocks(bits[0], lengths, lengths, top, lowest, highest)


def _changes(values: FrequencyList, top: int, tail: int) -> IntArray:
    """The places where a list's bits change; they are 0 in front of the first. Place p is diagonal
    top - 1 - p, counted from this list's first rank; all ranks behind it have the value tail."""
    ends = values.multiplicities.cumsum()
    starts = top - values.frequencies + ends - values.multiplicities
    last = top - tail + (ends.item(-1) if len(ends) else 0)
    inner = np.stack([starts, top - values.frequencies + ends], axis=1).ravel()
    return np.append(inner, last)
