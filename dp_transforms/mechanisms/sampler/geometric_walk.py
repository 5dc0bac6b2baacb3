"""The geometric mechanism's walk: drawn forwards in one pass, without messages.

Notation as in ``walk``: bits f_c of the list's boundary, D(c) = k_x(c) - k_f(c). A vertex lies
between two bits of x; it is a corner if they differ, and flipping it moves D there by one. The
mechanism's weight is q**||x - f||_1 times the sum of (-t)**|S| over all sets S of marked corners,
no two at consecutive vertices, t = q / (1 + q); between walls only corners that may be flipped
inside them can be marked. By the theorem in ``integer_partition.geometric`` these weights sum to
one, whatever f is.

Closed forms. Given the bits before a vertex, what all continuations weigh in which the vertex is
not marked is that theorem again, for the lists whose boundary passes through the vertex at D: it is
q**A for the path that returns to f as soon as f's bits allow, A being the sum of its |D|. Call
``back`` the next bit of that path (0 for D > 0, 1 for D < 0, f_c for D = 0), and ``away`` the other
one, after which the soonest path costs q**gap more, where

    gap = the distance to the (|D| + 1)-th bit of f, from c on, that is ``away`` if D moves by it
          and the (|D| + 1)-th of the other kind if D stays by it:

a path that is one further from f's stays so until that bit. So, relative to q**A,

    F = 1 - t * q**gap if the last bit was ``back``, and 1 - t if it was ``away``

is the weight if the vertex may be marked, since a mark needs the next bit to differ from the last,
and forbids one at the next vertex. Let r be minus the part of the weight, so far, of those S with a
mark at the last vertex: r is 0 where that was no corner that may be flipped, and t / (1 - r') after
one, r' being the r before. So r depends on how many corners there were in a row, the ``chain``. The
future weighs F - r, and after ``away`` it is F' = 1 - t, since then ``back`` would make a corner
that may always be flipped. Hence

    straight  last bit = back:  P(away) = q**gap * ((1 - r) (1 - t) - t) / (1 - t q**gap - r)
    turned    last bit = away:  P(away) = q**gap * (1 - r) (1 - t) / (1 - t - r)
    held      a corner here may not be flipped:  P(away) = q**gap * (1 - t)

and P(away) = 0 where it leads through a wall. Where x goes straight along f on f's side of the
move (``back`` is f_c), without a chain, the product of many P(back) telescopes: it follows f until
the gap is n or less with probability (1 - t q**n) / (1 - t q**gap). And a whole run of f of length
L, entered at D = 0 from its corner with chain m, is followed for k bits at least with probability
1 - t q**(L - k) for k >= 2, whatever m is, and 1 - P(away, turned) for k = 1.

The walk asks one question for each run while it follows f, and a few for each time that it leaves.
Which questions it asks depends on f, the walls, q and earlier answers only.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from dp_transforms.mechanisms.arrays import IntArray
from dp_transforms.mechanisms.sampler.walk import Blocks, Walk

NEVER = 2**64  # The gap where f has no such bit any more: q**gap is zero.

_ENDLESS = 2**62

STRAIGHT, TURNED, HELD = range(3)
"""Kinds of the vertex in front of a bit, see the module."""


class Decisions(Protocol):
    """Answers the walk's questions, each with its exact probability."""

    def departure(self, run: int) -> int:
        """The first run from this one on that the walk does not follow to its end.

        It is also one that is not regular, and the number of runs if there is none.
        """

    def kept(self, run: int) -> int:
        """Returns the number of bits that the walk follows of that regular run: fewer than all."""

    def nearest(self, gap: int, least: int) -> int:
        """The gap where the walk leaves f, going straight along it without a chain.

        ``least``, below gap, if it does not leave before.
        """

    def away(self, gap: int, vertex: int, chain: int) -> bool:
        """Tells whether the next bit leads away."""


class Runs:
    """f's runs, in blocks on which the walls move evenly, as the walk reads them.

    A block is regular if it is a whole run and no wall is felt at D = 0. In a run of zeros the
    wall ahead is the upper one, and in a run of ones the lower one.

    Attributes:
      blocks: as ``Blocks.of`` or ``walls.walled_blocks`` give them.
      lengths: of each block, followed by an endless one.
      bits: likewise.
      regular: whether each block is regular; the endless one is not.
      chains: the chain at the start of each block if x has followed f up to there.
      ahead: for each block its wall ahead, as a distance from D = 0 at the block's start and what
        a bit adds to it.
      behind: the other wall, likewise.
      head_room: how far up D may go in front of the first block.
    """

    def __init__(self, blocks: Blocks):
        bits = np.append(blocks.bits, 1)
        turns = np.append(bits[0] == 1, bits[1:] != bits[:-1])
        lowest, highest = blocks.lowest, blocks.highest
        ahead = _wall(blocks.bits, -lowest, highest)
        behind = _wall(blocks.bits, highest, -lowest)
        inner = (ahead.sum(axis=0) > 0) & (behind[0] > 0)
        regular = turns & inner & np.append(turns[1:], False)
        places = np.arange(len(bits))
        longer = np.where(regular[:-1] & (blocks.lengths == 1), -1, places[:-1])
        self.blocks = blocks
        self.lengths: list[int] = [*blocks.lengths.tolist(), _ENDLESS]
        self.bits: list[int] = bits.tolist()
        self.regular: list[bool] = regular.tolist()
        self.chains: IntArray = places - 1 - np.maximum.accumulate(np.append(-1, longer))
        self.ahead: list[list[int]] = ahead.T.tolist()
        self.behind: list[list[int]] = behind.T.tolist()
        self.head_room = highest.item(0)


def _wall(bits: IntArray, in_ones: IntArray, in_zeros: IntArray) -> IntArray:
    """Distances from D = 0 at the start of each block, and what a bit adds there; two rows."""
    starts = np.where(np.append(bits, 1), in_ones, in_zeros)
    ends = np.where(bits, in_ones[1:], in_zeros[1:])
    return np.array([starts, np.append(np.sign(ends - starts[:-1]), 0)])


def draw(runs: Runs, decisions: Decisions) -> Walk:
    """The walk that these answers give.

    Here d is D in runs of zeros and -D in runs of ones, so that a move always adds one to d, and
    ``same`` says whether the last bit was that of the run.
    """
    lengths, bits, regular = runs.lengths, runs.bits, runs.regular
    last = len(lengths) - 1
    moved: list[int] = []
    left: list[int] = []

    def reach(block: int, bit: int, number: int, distance: int) -> int:
        """``distance`` plus the way from a block's start to the number-th of such bits."""
        while bits[block] != bit or number > lengths[block]:
            if block == last:
                return NEVER
            if bits[block] == bit:
                number -= lengths[block]
            distance += lengths[block]
            block += 1
        return distance + number - 1

    block, bit, rest, d, same, chain = -1, 0, 0, 0, True, 0
    room, widening, reserve, narrowing = runs.head_room, 0, 0, 0
    if room:
        least = reach(0, 1, 1, 0)
        rest = decisions.nearest(NEVER, least) - least
        if rest:
            moved.append(-1)
            left.append(rest)
            rest, d, same, chain = rest - 1, 1, False, 1
    while True:
        while rest:
            if d >= 0:
                if block == last:
                    return _walk(runs, moved, left)
                blocked = d == room and not widening
                gap = NEVER if blocked else reach(block + 1, 1 - bit, d + 1, rest)
                if same and gap == NEVER:
                    rest = chain = 0
                    break
                if same and not chain and d < room:
                    steps = gap - decisions.nearest(gap, gap - rest)
                    rest -= steps
                    if not rest:
                        break
                    room += steps * widening
                    reserve += steps * narrowing
                    vertex, away = STRAIGHT, True
                else:
                    if same:
                        vertex = STRAIGHT if d < room else HELD
                    else:
                        vertex = TURNED if d or reserve else HELD
                    away = gap != NEVER and decisions.away(gap, vertex, chain)
                moves = away
            else:
                if same:
                    vertex = TURNED
                else:
                    vertex = STRAIGHT if d + reserve > 0 else HELD
                away = False
                if d + reserve + narrowing >= 0:
                    gap = -d if rest > -d else reach(block + 1, bit, 1 - d - rest, rest)
                    away = gap != NEVER and decisions.away(gap, vertex, chain)
                moves = not away
            chain = chain + 1 if vertex == (STRAIGHT if away else TURNED) else 0
            same = not moves
            if moves:
                moved.append(block)
                left.append(rest)
                d += 1
            rest -= 1
            room += widening
            reserve += narrowing
        block += 1
        if bits[block] != bit:
            bit, d, same = 1 - bit, -d, not same
        rest = lengths[block]
        kept = 0
        if regular[block] and not d and not same and chain == runs.chains[block]:
            block = decisions.departure(block)
            bit, rest, chain = bits[block], lengths[block], runs.chains[block]
            if regular[block]:
                kept = decisions.kept(block)
                moved.append(block)
                left.append(rest - kept)
                rest -= kept + 1
                kept += 1
                d = 1
                chain = 0 if kept == 1 else chain + 2 if kept == 2 else 1
        (room, widening), (reserve, narrowing) = runs.ahead[block], runs.behind[block]
        room += kept * widening
        reserve += kept * narrowing


def _walk(runs: Runs, moved: list[int], left: list[int]) -> Walk:
    """The moves, given their blocks (-1 and the last one are endless) and the bits left there."""
    blocks, rests = np.array(moved, np.int64), np.array(left, np.int64)
    places = np.array(runs.lengths, np.int64)[blocks] - rests + 1
    head, tail = blocks < 0, blocks == len(runs.blocks)
    inner = ~(head | tail)
    return Walk(rests[head].tolist(), blocks[inner], places[inner], places[tail].tolist())
