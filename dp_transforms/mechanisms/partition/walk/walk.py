"""Describes the integer-partition mechanism as a walk along the diagonals of a Young diagram.

For a partition x (x_1 >= x_2 >= ... >= 0) let k_x(c) = #{i >= 1 : x_i - i >= c} for every integer
c, and D(c) = k_x(c) - k_f(c). The cells of x on one diagonal are a prefix of it, so

    ||x - f||_1 = sum over c of |D(c)|,        sum x - sum f = sum over c of D(c).

k_x(c) - k_x(c+1) is the bit b_x(c): is some x_i - i equal to c? Read from c = +infinity to
-infinity, D starts and ends at 0; where b_f = 0 it stays or goes up by one, where b_f = 1 it stays
or goes down by one. So x weighs q**||x - f||_1 exactly if every position costs q**|D|: the
mechanism is a walk.

The bits of f come in runs: an infinite run of zeros; for each distinct frequency v_j of
multiplicity m_j a run of m_j ones and one of v_j - v_{j+1} zeros; an infinite run of ones. Runs are
cut into blocks of few lengths, by a rule that depends only on f and q. The walk's states at the
block ends form a Markov chain, and its course inside a block depends only on both ends.

The questions. A release asks these, and no others, in this order; each reads its own uniform
number.

    head          which state a >= 0 does the first infinite run end in?  In the order a = 0, 1, ...
    moves r       by how much does D move in block r?                     In the order 0, 1, ...
    places r      where in block r is its only move?                      geometric
    splits r, i   how many of a block's moves are in its first half?      In the order 0, 1, ...
    ends b t, i   the moves near the ends of roomy blocks of the bit b    geometric
    head parts i, tail parts i                                            geometric

Each asks for the smallest j with U < C_j for exact real numbers C_j. The questions, their order and
their numbers depend only on f, q and earlier answers. A level of precision settles them by
enclosures of C_j or gives up, and then the next level answers the same questions from the same
numbers. So the walk is a function of the tape alone, and its distribution is exactly the
mechanism's.

Bounds. Two descending sequences are nested, L_i <= x_i for all i, exactly if k_L(c) <= k_x(c) on
every diagonal c. So bounds L_i <= x_i <= U_i on all ranks i are a pair of walls for the walk,

    k_L(c) - k_f(c) <= D(c) <= k_U(c) - k_f(c).

In one step from a diagonal to the next, D - (k_L - k_f) changes by b_x - b_L. So if b_L is 0 the
walk only gets further from the lower wall, and if b_L is 1 only closer to it; likewise for the
upper wall. Within a block on which b_L and b_U do not change, the walls are kept everywhere if they
are kept at both ends. So blocks are cut wherever a bit of f, L or U changes, and the walls are
applied to the messages at the blocks' ends, and nowhere else.

The mechanism is the same for f as for f moved between the bounds rank by rank: for x between them,
|x_i - f_i| is |x_i - g_i| + |g_i - f_i| for the value g_i nearest to f_i, and the second part does
not depend on x. So f is replaced by g first. Then the state 0 is always allowed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dp_transforms.mechanisms.arrays import IntArray
from dp_transforms.mechanisms.enclosure import Undecided
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.partition_bounds import PartitionBounds

SHORT = 64  # A run of at most this length is one block.
COMMON = 16  # A length that this many runs have is worth transfer weights of its own.
NO_WALL = 2**63 - 1  # A wall that no walk reaches, and a length that no run has.


@dataclass(frozen=True)
class Blocks:
    """Holds the finite part of f's bits, in reading order. State 0 is always allowed."""

    bits: IntArray  # 0 or 1 for each block
    lengths: IntArray
    top: int  # the first block starts on diagonal top - 1, behind the infinite run of zeros
    lowest: IntArray  # the least state allowed in front of each block, and behind the last one
    highest: IntArray  # the largest, likewise

    @classmethod
    def of(cls, frequency_list: FrequencyList, bounds: PartitionBounds | None = None) -> Blocks:
        """Returns the runs of a frequency list, each as one block. With bounds, the list is moved
        between them; they become walls, and cut runs where their bits change."""
        if bounds is None:
            lists, heads, tails = [frequency_list], [0], [0]
        else:
            lists = [bounds.nearest(frequency_list), bounds.lower, bounds.upper]
            # How many ranks lie in front of each list, and its value at the ranks behind it.
            heads, tails = [0, 0, bounds.unbounded_ranks], [0, 0, bounds.beyond]
        each = list(zip(lists, heads, tails, strict=True))
        top = max(
            (values.frequencies.item(0) if len(values) else tail) - head
            for values, head, tail in each
        )
        changes = [_changes(values, top + head, tail) for values, head, tail in each]
        end = max(change.item(-1) for change in changes)
        cuts = _distinct([[0, end], *changes])
        lengths = np.diff(cuts)
        bits = np.array([change.searchsorted(cuts[:-1], side="right") % 2 for change in changes])
        walls = np.array([-NO_WALL, NO_WALL])[:, None].repeat(len(cuts), axis=1)
        if bounds is not None:
            heights = np.pad((bits * lengths).cumsum(axis=1), ((0, 0), (1, 0)))
            heights += np.array(heads)[:, None]
            walls = heights[1:] - heights[0]
        return cls(bits[0], lengths, top, *walls)

    def __len__(self) -> int:
        return len(self.bits)

    def cut(self, long: int = NO_WALL) -> Blocks:
        """Returns the same bits in blocks of fewer lengths, given each run as one block. Runs that
        are short, have at least the length ``long`` or have a common length stay whole. Others are
        cut into powers of two and a rest."""
        distinct, counts = np.unique(self.lengths, return_counts=True)
        common = set(distinct[counts >= COMMON].tolist())
        parts = [
            [length] if length <= SHORT or length >= long or length in common else _pieces(length)
            for length in self.lengths.tolist()
        ]
        numbers = np.array([len(part) for part in parts], dtype=np.int64)
        run_of = np.repeat(np.arange(len(parts)), numbers)
        lengths = np.array([length for part in parts for length in part], dtype=np.int64)
        passed = lengths.cumsum() - np.append(0, self.lengths.cumsum())[run_of] - lengths

        def walls(values: IntArray) -> IntArray:
            # Walls move evenly between the ends of a run: not at all, or by one a step.
            inner = values[run_of] + np.sign(np.diff(values))[run_of] * passed
            return np.append(inner, values[-1])

        bits, top = self.bits[run_of], self.top
        return Blocks(bits, lengths, top, walls(self.lowest), walls(self.highest))

    @cached_property
    def ends(self) -> IntArray:
        """Returns the last diagonals of the first infinite run and of all blocks, descending."""
        return self.top - np.append(0, self.lengths.cumsum())

    def flipped(self, diagonals: IntArray) -> FrequencyList:
        """Returns the partition whose bits differ from f's on these diagonals alone."""
        flips = np.sort(diagonals)[::-1]
        # Segments of equal bits: one for each flip and one for each stretch between cuts. They end
        # where reading reaches the last flip or the end of the blocks, beyond which x is zero.
        first = max([self.top - 1, *flips[:1].tolist()])
        last = min([self.ends.item(-1) - 1, *(flips[-1:] - 1).tolist()])
        cuts = _distinct([[first, last], self.ends - 1, flips, flips - 1])[::-1]
        cuts = cuts[(cuts <= first) & (cuts >= last)]
        own_bits = np.concatenate([[0], self.bits, [1]])
        block_of = np.searchsorted(1 - self.ends, -cuts[:-1], side="right")
        # flips[behind - 1] is the last flip that is not below a cut.
        behind = np.searchsorted(-flips, -cuts[:-1], side="right")
        is_flipped = np.append(cuts[:1] + 1, flips)[behind] == cuts[:-1]
        bits = own_bits[block_of] ^ is_flipped
        widths = cuts[:-1] - cuts[1:]
        ones = bits == 1
        rank = np.cumsum(np.where(ones, widths, 0)) - widths
        return FrequencyList.from_runs((cuts[:-1] + rank + 1)[ones], widths[ones])


def _pieces(run: int) -> list[int]:
    rest = run % SHORT
    powers = [1 << b for b in range(run.bit_length()) if run >> b & 1 and 1 << b >= SHORT]
    pieces = powers[::-1]
    return [*pieces, rest] if rest else pieces


def choose(lower: Any, upper: Any, lo: Sequence[Any], hi: Sequence[Any]) -> int:
    """Returns the smallest j with U < C_j, given lower <= U < upper and lo[j] <= C_j <= hi[j].

    Raises:
      Undecided: the enclosures leave more than one answer.
    """
    for j, (below, above) in enumerate(zip(lo, hi, strict=True)):
        if upper <= below:
            return j
        # A bound that is not a number settles nothing either.
        if not above <= lower:
            width = float(above - below)
            raise Undecided(width if width < 1 else 1.0)
    raise Undecided


def _distinct(parts: Sequence[Any]) -> IntArray:
    # np.unique would load numpy.ma, which takes longer than a release.
    places = np.sort(np.concatenate(parts))
    distinct: IntArray = places[np.append(True, np.diff(places) > 0)]
    return distinct


def _changes(values: FrequencyList, top: int, tail: int) -> IntArray:
    """Returns the places where a list's bits change, from 0 to 1 and back. Place p is diagonal top
    - 1 - p, from this list's first rank on; all ranks behind it have the value tail."""
    ends = values.multiplicities.cumsum()
    starts = top - values.frequencies + ends - values.multiplicities
    last = top - tail + (ends.item(-1) if len(ends) else 0)
    inner = np.stack([starts, top - values.frequencies + ends], axis=1).ravel()
    return np.append(inner, last)
