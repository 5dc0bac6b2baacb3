"""Describes the integer-partition mechanism as a walk along the diagonals of a Young diagram.

For a partition x (x_1 >= x_2 >= ... >= 0) let k_x(c) = #{i >= 1 : x_i - i >= c} for every integer
c, and D(c) = k_x(c) - k_f(c). The cells of x on one diagonal are a prefix of it, so

    ||x - f||_1 = sum over c of |D(c)|,        sum x - sum f = sum over c of D(c).

The bit b_x(c) = k_x(c) - k_x(c+1) is 1 iff some x_i - i is equal to c. Read c from +infinity to
-infinity: D starts and ends at 0. Where b_f = 0 it stays or goes up by one, and where b_f = 1 it
stays or goes down by one. If every position has the weight q**|D|, then x has the weight
q**||x - f||_1. So the mechanism is a walk of the state D.

The bits of f come in runs: an infinite run of zeros; for each distinct frequency v_j of
multiplicity m_j a run of m_j ones and one of v_j - v_{j+1} zeros; an infinite run of ones. Runs are
cut into blocks of few different lengths, by a rule that depends only on f and q. The walk's states
at the block ends form a Markov chain, and its course inside a block depends only on both ends.

The questions. A release asks the following questions, and no others, in this order. Each reads its
own uniform number.

    head          which state a >= 0 does the first infinite run end in?  In the order a = 0, 1, ...
    moves r       by how much does D move in block r?                     In the order 0, 1, ...
    places r      where in block r is its only move?                      geometric
    splits r, i   how many of a block's moves are in its first half?      In the order 0, 1, ...
    ends b t, i   where are the moves near the ends of roomy blocks of    geometric
                  the bit b (try t, see ``blocks``)?
    head parts i, where are the moves in the two infinite runs?           geometric
    tail parts i

Each answer is the smallest j with U < C_j, for a uniform number U and exact real numbers C_j. The
questions, their order and their numbers depend only on f, q and earlier answers. A level of
precision settles a question by enclosures of C_j or gives up. Then the next level answers the same
questions from the same numbers. So the walk is a function of the tape alone, and its distribution
is exactly the mechanism's.

Bounds. Two descending sequences are nested, L_i <= x_i for all i, iff k_L(c) <= k_x(c) on every
diagonal c. So bounds L_i <= x_i <= U_i on all ranks i are a pair of walls for the walk,

    k_L(c) - k_f(c) <= D(c) <= k_U(c) - k_f(c).

In one step from a diagonal to the next, D - (k_L - k_f) changes by b_x - b_L. So if b_L is 0 the
walk never gets closer to the lower wall, and if b_L is 1 it never gets further from it; likewise
for the upper wall. So within a block on which b_L and b_U do not change, the walk keeps the walls
everywhere if it keeps them at both ends. Blocks are cut wherever a bit of f, L or U changes, and
the walls are applied to the messages at the blocks' ends, and nowhere else.

Let g_i be the value between L_i and U_i that is nearest to f_i. The mechanism is the same for f as
for g: for x between the bounds, |x_i - f_i| is |x_i - g_i| + |g_i - f_i|, and the second part does
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
COMMON = 16  # A length that at least this many runs have is worth transfer weights of its own.
NO_WALL = 2**63 - 1  # A wall that no walk reaches, and a length that no run has.


@dataclass(frozen=True)
class Blocks:
    """Holds the finite runs of f's bits, as blocks in reading order. State 0 is always allowed."""

    bits: IntArray  # 0 or 1 for each block
    lengths: IntArray
    top: int  # the first block starts on diagonal top - 1, behind the infinite run of zeros
    lowest: IntArray  # the least state allowed in front of each block, and behind the last one
    highest: IntArray  # the largest, likewise

    @classmethod
    def of(cls, frequency_list: FrequencyList, bounds: PartitionBounds | None = None) -> Blocks:
        """Returns the runs of a frequency list, each as one block. If there are bounds, the list is
        moved between them first. The bounds become walls, and runs are cut where their bits
        change."""
        if bounds is None:
            lists, heads, tails = [frequency_list], [0], [0]
        else:
            lists = [bounds.nearest(frequency_list), bounds.lower, bounds.upper]
            # The number of ranks in front of each list, and the value at the ranks behind it.
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
        """Returns the same bits in blocks of fewer different lengths, given each run as one block.
        A run stays whole if it is short, has at least the length ``long``, or has a length that is
        common. Others are cut into powers of two and a rest."""
        distinct, counts = np.unique(self.lengths, return_counts=True)
        common = set(distinct[counts >= COMMON].tolist())
        pieces = []
        for length in self.lengths.tolist():
            is_whole = length <= SHORT or length >= long or length in common
            pieces.append([length] if is_whole else _pieces(length))
        numbers = np.array([len(of_run) for of_run in pieces], dtype=np.int64)
        run_of = np.repeat(np.arange(len(pieces)), numbers)
        lengths = np.array([length for of_run in pieces for length in of_run], dtype=np.int64)
        # The distance from the start of the run to the start of the piece.
        passed = lengths.cumsum() - np.append(0, self.lengths.cumsum())[run_of] - lengths

        def walls(values: IntArray) -> IntArray:
            # Within a run a wall does not move, or moves by one at each step.
            inner = values[run_of] + np.sign(np.diff(values))[run_of] * passed
            return np.append(inner, values[-1])

        bits, top = self.bits[run_of], self.top
        return Blocks(bits, lengths, top, walls(self.lowest), walls(self.highest))

    @cached_property
    def ends(self) -> IntArray:
        """Returns the last diagonals of the first infinite run and of all blocks, descending."""
        return self.top - np.append(0, self.lengths.cumsum())

    def flipped(self, diagonals: IntArray) -> FrequencyList:
        """Returns the list whose bits differ from f's on these diagonals, and on no others."""
        flips = np.sort(diagonals)[::-1]
        # Segments of equal bits: one for each flip and one for each stretch between cuts. They end
        # at the last flip or at the end of the blocks, behind which x is zero.
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
    """Returns the lengths of the pieces of a run: descending powers of two, and a short rest."""
    pieces = []
    for exponent in reversed(range(run.bit_length())):
        power = 1 << exponent
        if power >= SHORT and run & power:
            pieces.append(power)
    rest = run % SHORT
    return [*pieces, rest] if rest else pieces


def choose(lower: Any, upper: Any, lo: Sequence[Any], hi: Sequence[Any]) -> int:
    """Returns the smallest j with U < C_j, given lower <= U < upper and lo[j] <= C_j <= hi[j].

    Raises:
      Undecided: the enclosures leave more than one answer.
    """
    for j, (below, above) in enumerate(zip(lo, hi, strict=True)):
        if upper <= below:
            return j
        # This is also true for a bound that is not a number, which settles nothing.
        if not above <= lower:
            width = float(above - below)
            raise Undecided(width if width < 1 else 1.0)
    raise Undecided


def _distinct(parts: Sequence[Any]) -> IntArray:
    """Returns the distinct numbers of several arrays, ascending."""
    # np.unique would load numpy.ma, which takes longer than a release.
    places = np.sort(np.concatenate(parts))
    distinct: IntArray = places[np.append(True, np.diff(places) > 0)]
    return distinct


def _changes(values: FrequencyList, top: int, tail: int) -> IntArray:
    """Returns the places where a list's bits change, from 0 to 1 and back.

    Args:
      values: the list; all ranks behind it have the value ``tail``.
      top: place p is the diagonal top - 1 - p, if ranks are counted from the list's first one.
    """
    ends = values.multiplicities.cumsum()
    starts = top - values.frequencies + ends - values.multiplicities
    last = top - tail + (ends.item(-1) if len(ends) else 0)
    inner = np.stack([starts, top - values.frequencies + ends], axis=1).ravel()
    return np.append(inner, last)
