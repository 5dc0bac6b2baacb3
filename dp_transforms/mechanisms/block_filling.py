"""Where inside its blocks a walk moves, once its states at the block ends are known.

These questions involve closed forms or transfer weights between two known states only, never
messages. So they settle themselves, at whatever precision they need, and never make a release
start again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dp_transforms.mechanisms.decay import Decay, rounding_pair
from dp_transforms.mechanisms.float_level import AnyTransfer
from dp_transforms.mechanisms.geometric import geometric, places, unbounded
from dp_transforms.mechanisms.randomness import WORD_BITS, RandomTape
from dp_transforms.mechanisms.transfer import (
    UNIT_ROUNDOFF,
    PreciseTransfer,
)
from dp_transforms.mechanisms.walk import Blocks, Undecided, choose

IntArray = npt.NDArray[np.int64]


def fill_blocks(
    blocks: Blocks,
    states: IntArray,
    transfers: tuple[AnyTransfer, AnyTransfer],
    tape: RandomTape,
) -> tuple[IntArray, IntArray]:
    """The places of all moves, given the states at the block ends.

    Args:
      blocks: the blocks of f.
      states: len(blocks) + 1 states.
      transfers: the transfer weights for runs of zeros and, mirrored, for runs of ones.
      tape: channels "places" and "splits r" are read.

    Returns:
      (blocks, places): the block and the place in it of every move, the places from 1.
    """
    # Mirrored where the bit is 1, so that every block is one of zeros.
    entered = np.where(blocks.bits == 0, states[:-1], -states[:-1])
    moves = np.abs(np.diff(states))
    found_blocks, found_places = [], []

    single = np.flatnonzero(moves == 1)
    words = tape.words("places", len(blocks))
    for bit in (0, 1):
        for climbing in (True, False):
            chosen = single[(blocks.bits[single] == bit) & ((entered[single] >= 0) == climbing)]
            lengths = blocks.lengths[chosen]
            decay = transfers[bit].positive if climbing else transfers[bit].negative
            x = places(decay, lengths, tape, "places", chosen, words[chosen])
            # Away from zero a late move is cheap, towards zero an early one is.
            found_blocks.append(chosen)
            found_places.append(lengths - x + 1 if climbing else x)

    for block in np.flatnonzero(moves > 1).tolist():
        splitter = _Splitter(transfers[blocks.bits[block]], tape, f"splits {block}")
        splitter.split(int(blocks.lengths[block]), int(entered[block]), int(moves[block]), 0)
        found_blocks.append(np.full(len(splitter.places), block))
        found_places.append(np.array(splitter.places))
    return np.concatenate(found_blocks), np.concatenate(found_places)


@dataclass
class _Splitter:
    """Halves a block until each part has no choice left."""

    transfer: AnyTransfer
    tape: RandomTape
    channel: str
    places: list[int] = field(default_factory=list)
    asked: int = 0

    def split(self, length: int, entered: int, moves: int, offset: int) -> None:
        """Places ``moves`` moves in the ``length`` steps after ``offset``, from state
        ``entered``."""
        if moves == 0:
            return
        if moves == length:
            self.places.extend(range(offset + 1, offset + length + 1))
            return
        if moves == 1:
            uniform = self.tape.uniform(self.channel, self._next_index())
            climbing = entered >= 0
            decay = self.transfer.positive if climbing else self.transfer.negative
            x = geometric(decay, 1, uniform, length)
            self.places.append(offset + (length - x + 1 if climbing else x))
            return
        half = length // 2
        early = self._early_moves(half, length - half, entered, moves)
        self.split(half, entered, early, offset)
        self.split(length - half, entered + early, moves - early, offset + half)

    def _next_index(self) -> int:
        self.asked += 1
        return self.asked - 1

    def _early_moves(self, near: int, far: int, entered: int, moves: int) -> int:
        index = self._next_index()
        try:
            return self._by_floats(index, near, far, entered, moves)
        except (Undecided, FloatingPointError):
            pass
        precision = 2 * WORD_BITS
        while True:
            try:
                return self._precisely(index, near, far, entered, moves, precision)
            except Undecided:
                precision *= 2

    def _by_floats(self, index: int, near: int, far: int, entered: int, moves: int) -> int:
        start = entered + self.transfer.window
        if not (0 <= start and start + moves < self.transfer.size):
            raise Undecided(1.0)
        word = self.tape.prefix(self.channel, index, 53)
        lo, hi = self.transfer.in_first_part(near, far, start, moves)
        return choose(word * UNIT_ROUNDOFF, (word + 1) * UNIT_ROUNDOFF, lo, hi)

    def _precisely(
        self, index: int, near: int, far: int, entered: int, moves: int, precision: int
    ) -> int:
        window = max(abs(entered), abs(entered + moves))
        transfer = PreciseTransfer(
            self.transfer.positive, self.transfer.negative, window, precision
        )
        start = entered + window
        sums = []
        for bound, context in enumerate(rounding_pair(precision)):
            first, second = transfer.matrix(near)[bound], transfer.matrix(far)[bound]
            total, cumulative = context.add(0, 0), []
            for state in range(start, start + moves + 1):
                weight = context.mul(first[start, state], second[state, start + moves])
                total = context.add(total, weight)
                cumulative.append(total)
            sums.append(cumulative)
        down, up = rounding_pair(precision)
        lower, upper = self.tape.uniform(self.channel, index).enclosure(precision)
        lo = [down.div(part, sums[1][-1]) for part in sums[0][:-1]]
        hi = [up.div(part, sums[0][-1]) for part in sums[1][:-1]]
        return choose(lower, upper, [*lo, 1], [*hi, 1])


def infinite_run_parts(decay: Decay, count: int, tape: RandomTape, channel: str) -> list[int]:
    """A partition into ``count`` distinct positive parts, with law proportional to q**sum.

    The i-th column of its diagram from the right is repeated G_i + 1 times, where G_i is geometric
    with ratio q**i: sum = count (count + 1) / 2 + sum_i i G_i. The parts are the distances of the
    moves from the end of the first infinite run, or their places in the last one.
    """
    columns = unbounded(decay, np.arange(1, count + 1), tape, channel)
    parts: list[int] = columns[::-1].cumsum()[::-1].tolist()
    return parts
