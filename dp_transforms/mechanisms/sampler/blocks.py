"""Finds where inside its blocks a walk moves, once its states at the block ends are known.

These questions involve closed forms or transfer weights between two known states only, never
messages. So they settle themselves, at whatever precision they need, and never make a release
start again.

On one side of zero, where moves are does not depend on how far from zero they are: T_n(D, D+k) is
q**(n D) T_n(0, k), path by path, and T_n(-s, -t) is q**(n t) T_n(-(s-t), 0). So all moves lead
towards zero or start from it. In a block of zeros those that lead towards zero come first. Their
places, and the distances of the others from the block's end, add up to the exponent of q, up to a
constant. Where a block is roomy both are drawn as in infinite runs, again and again until they lie
inside and do not collide. Others are halved.

Single moves and parts of infinite runs answer one question about one uniform number U: which is
the smallest x >= 1 with U < F(x)? Here F(x) = (1 - q**x) / (1 - q**n) is the distribution function
of a geometric variable on 1..n (n may be infinite). F has a closed form, so these decisions raise
their own precision until they are certain and never depend on anything else.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dp_transforms.mechanisms.arrays import BoolArray, FloatArray, IntArray, WordArray
from dp_transforms.mechanisms.bisection import smallest_where
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.enclosure import Undecided, exactly, rounding_pair, settled
from dp_transforms.mechanisms.randomness import WORD_BITS, RandomTape, Uniform
from dp_transforms.mechanisms.sampler.float_transfer import FloatTransfer
from dp_transforms.mechanisms.sampler.precise_transfer import PreciseTransfer
from dp_transforms.mechanisms.sampler.transfer import UNIT_ROUNDOFF
from dp_transforms.mechanisms.sampler.walk import Blocks, choose

# numpy's expm1 is within 4 units in the last place; the argument's rounding adds less than as many.
_EXPM1_ERROR = 2.0**-48


def fill_blocks(
    blocks: Blocks, states: IntArray, transfer: FloatTransfer, tape: RandomTape
) -> tuple[IntArray, IntArray]:
    """The places of all moves, given the len(blocks) + 1 states at the block ends. Reads "places",
    "splits r" and "ends b t".

    Returns:
      (blocks, places): the block and the place in it of every move, the places from 1.
    """
    # Mirrored where the bit is 1, so that every block is one of zeros.
    entered = np.where(blocks.bits == 0, states[:-1], -states[:-1])
    moves = np.abs(np.diff(states))
    single, several = np.flatnonzero(moves == 1), np.flatnonzero(moves > 1)
    found_blocks, found_places = [single[:0]], [single[:0]]

    decay, lengths = transfer.decay, blocks.lengths[single]
    words = tape.words("places", len(blocks))
    x = places(decay, lengths, tape, "places", single, words[single])
    # Away from zero a late move is cheap, towards zero an early one is.
    found_blocks.append(single)
    found_places.append(np.where(entered[single] >= 0, lengths - x + 1, x))

    early = np.clip(-entered, 0, moves)
    late = moves - early
    is_roomy = np.zeros(len(blocks), dtype=bool)
    for bit in (0, 1):
        chosen = several[blocks.bits[several] == bit]
        if not len(chosen):
            continue
        room = _room(decay, early[chosen]) + _room(decay, late[chosen])
        chosen = chosen[blocks.lengths[chosen] >= room]
        is_roomy[chosen] = True
        numbers, at = _near_the_ends(
            decay, blocks.lengths[chosen], early[chosen], late[chosen], tape, f"ends {bit}"
        )
        found_blocks.append(chosen[numbers])
        found_places.append(at)

    for block in several[~is_roomy[several]].tolist():
        splitter = _Splitter(transfer, tape, f"splits {block}")
        splitter.split(int(blocks.lengths[block]), int(entered[block]), int(moves[block]), 0)
        found_blocks.append(np.full(len(splitter.places), block))
        found_places.append(np.array(splitter.places))

    return np.concatenate(found_blocks), np.concatenate(found_places)


def _room(decay: Decay, counts: IntArray) -> FloatArray:
    """Returns the reach of the moves near one end, but for a probability of at most 1/4 each.

    The largest of s distinct parts of an infinite run is above s + x with a probability of at most
    s q**x. This decides how places are drawn, not how likely they are. MPFR rounds correctly, so
    that it is decided alike on every machine.
    """
    down, _ = rounding_pair(53)
    _, rate = decay.log_enclosure(WORD_BITS)
    distinct, kind = np.unique(counts, return_inverse=True)
    reach = [n + float(down.div(down.log(4 * n), rate)) if n else 0.0 for n in distinct.tolist()]
    return np.array(reach)[kind]


def _near_the_ends(
    decay: Decay,
    lengths: IntArray,
    early: IntArray,
    late: IntArray,
    tape: RandomTape,
    channel: str,
) -> tuple[IntArray, IntArray]:
    """Draws the places of early moves from the starts of blocks, of late ones from their ends:
    (blocks, places) of all moves; blocks are numbered as in ``lengths``."""
    found_blocks, found_places = [np.arange(0)], [np.arange(0)]
    waiting = np.arange(len(lengths))
    tries = 0
    while len(waiting):
        branch = tape.branch(f"{channel} {tries}")
        firsts = partitions(decay, early[waiting], branch, "early")
        lasts = partitions(decay, late[waiting], branch, "late")
        inside = _largest(firsts, early[waiting]) + _largest(lasts, late[waiting])
        accepted = inside <= lengths[waiting]
        for parts, counts, are_late in ((firsts, early[waiting], 0), (lasts, late[waiting], 1)):
            kept = np.repeat(accepted, counts)
            block = np.repeat(waiting, counts)[kept]
            found_blocks.append(block)
            found_places.append(lengths[block] - parts[kept] + 1 if are_late else parts[kept])
        waiting = waiting[~accepted]
        tries += 1
    return np.concatenate(found_blocks), np.concatenate(found_places)


def _largest(parts: IntArray, counts: IntArray) -> IntArray:
    """The first part of each partition, or 0 where it is empty."""
    found = np.zeros_like(counts)
    found[counts > 0] = parts[(counts.cumsum() - counts)[counts > 0]]
    return found


@dataclass
class _Splitter:
    """Halves a block until each part has no choice left."""

    transfer: FloatTransfer
    tape: RandomTape
    channel: str
    places: list[int] = field(default_factory=list)
    indices: Iterator[int] = field(default_factory=itertools.count)

    def split(self, length: int, entered: int, moves: int, offset: int) -> None:
        """Places ``moves`` moves in the ``length`` steps after ``offset``, from state
        ``entered``."""
        if moves == 0:
            return
        if moves == length:
            self.places.extend(range(offset + 1, offset + length + 1))
            return
        if moves == 1:
            uniform = self.tape.uniform(self.channel, next(self.indices))
            climbing = entered >= 0
            x = geometric(self.transfer.decay, 1, uniform, length)
            self.places.append(offset + (length - x + 1 if climbing else x))
            return
        half = length // 2
        early = self._early_moves(half, length - half, entered, moves)
        self.split(half, entered, early, offset)
        self.split(length - half, entered + early, moves - early, offset + half)

    def _early_moves(self, near: int, far: int, entered: int, moves: int) -> int:
        index = next(self.indices)
        entered = max(min(entered, 0), -moves)
        try:
            return self._by_floats(index, near, far, entered, moves)
        except (Undecided, FloatingPointError):
            return settled(
                lambda bits: self._precisely(index, near, far, entered, moves, bits), 2 * WORD_BITS
            )

    def _by_floats(self, index: int, near: int, far: int, entered: int, moves: int) -> int:
        start = entered + self.transfer.window
        if not (0 <= start and start + moves < self.transfer.size):
            raise Undecided
        word = self.tape.prefix(self.channel, index, 53)
        lo, hi = self.transfer.in_first_part(near, far, start, moves)
        return choose(word * UNIT_ROUNDOFF, (word + 1) * UNIT_ROUNDOFF, lo, hi)

    def _precisely(
        self, index: int, near: int, far: int, entered: int, moves: int, precision: int
    ) -> int:
        window = max(abs(entered), abs(entered + moves))
        transfer = PreciseTransfer(self.transfer.decay, window, precision)
        lower, upper = self.tape.uniform(self.channel, index).enclosure(precision)
        return choose(lower, upper, *transfer.in_first_part(near, far, entered + window, moves))


def partitions(decay: Decay, counts: IntArray, tape: RandomTape, channel: str) -> IntArray:
    """Partitions into ``counts`` distinct positive parts, with law proportional to q**sum; in a
    row, each partition's parts in descending order.

    The i-th column of a diagram from the right is repeated G_i + 1 times, where G_i is geometric
    with ratio q**i: sum = count (count + 1) / 2 + sum_i i G_i. The parts are the distances of moves
    from the end of the first infinite run, or their places in the last one.
    """
    if not counts.any():
        return counts[:0]
    ends = counts.cumsum()
    starts = ends - counts
    total = int(counts.sum())
    columns = unbounded(decay, np.arange(total) - np.repeat(starts, counts) + 1, tape, channel)
    behind = np.append(columns[::-1].cumsum()[::-1], 0)
    parts: IntArray = behind[:-1] - np.repeat(behind[ends], counts)
    return parts


def geometric(decay: Decay, factor: int, uniform: Uniform, length: int | None = None) -> int:
    """The smallest x >= 1 with U < F(x), for the ratio q**factor; F's support is 1..length.

    So x has the law P(x) proportional to q**(factor * x) on 1..length, or on all x >= 1 where
    length is None.
    """
    found = _by_float(_rate(decay) * factor, length or math.inf, uniform.prefix(53) * UNIT_ROUNDOFF)
    if found is not None:
        return found
    return settled(lambda bits: _precisely(decay, factor, uniform, length, bits))


def places(
    decay: Decay,
    lengths: IntArray,
    tape: RandomTape,
    channel: str,
    indices: IntArray,
    words: WordArray,
) -> IntArray:
    """``geometric(decay, 1, tape.uniform(channel, index), length)`` for arrays of both, given the
    leading 64 bits of those uniform numbers."""
    found, certain = _by_floats(_rate(decay), lengths, words)
    for i in np.flatnonzero(~certain).tolist():
        found[i] = geometric(decay, 1, tape.uniform(channel, indices.item(i)), lengths.item(i))
    return found


def unbounded(decay: Decay, factors: IntArray, tape: RandomTape, channel: str) -> IntArray:
    """``geometric(decay, factors[i], tape.uniform(channel, i))`` for i = 0, 1, ..."""
    found, certain = _by_floats(_rate(decay) * factors, math.inf, tape.words(channel, len(factors)))
    for i in np.flatnonzero(~certain).tolist():
        found[i] = geometric(decay, factors.item(i), tape.uniform(channel, i))
    return found


def _rate(decay: Decay) -> float:
    return float(decay.log_enclosure(WORD_BITS)[0])


def _by_float(rate: float, length: float, lower: float) -> int | None:
    """``_by_floats`` for one number, ten times as fast; None if float64 does not settle it."""
    norm = -math.expm1(-rate * length)
    x = min(max(math.floor(math.log1p(-lower * norm) / -rate) + 1, 1), length)
    below, up_to = -math.expm1(-rate * (x - 1)) / norm, -math.expm1(-rate * x) / norm
    certain = x == length or lower + UNIT_ROUNDOFF <= up_to * (1 - 4 * _EXPM1_ERROR)
    return int(x) if certain and lower >= below * (1 + 4 * _EXPM1_ERROR) else None


def _by_floats(rates: Any, lengths: Any, words: WordArray) -> tuple[IntArray, BoolArray]:
    """The answers, and which of them float64 settles; for the rates -ln(ratio) and lengths, each of
    them one for all or an array, and the leading 64 bits of the uniform numbers."""
    norms = -np.expm1(-rates * lengths)
    lower = (words >> np.uint64(11)) * UNIT_ROUNDOFF
    found = np.clip(np.floor(np.log1p(-lower * norms) / -rates) + 1, 1, lengths)
    below, up_to = (-np.expm1(-rates * x) / norms for x in (found - 1, found))
    certain = (found == lengths) | (lower + UNIT_ROUNDOFF <= up_to * (1 - 4 * _EXPM1_ERROR))
    certain &= lower >= below * (1 + 4 * _EXPM1_ERROR)
    return found.astype(np.int64), certain


def _precisely(decay: Decay, factor: int, uniform: Uniform, length: int | None, bits: int) -> int:
    """The answer.

    Raises:
      Undecided: this precision does not settle it.
    """
    number = uniform.enclosure(bits)
    norm = exactly(1)
    if length is not None:
        norm = decay.one_minus_power(factor * length, bits + 16)

    def is_reached(x: int) -> bool:
        if length is not None and x >= length:
            return True
        return number.is_below(decay.one_minus_power(factor * x, bits + 16) / norm)

    return smallest_where(is_reached, 1)
