"""Draws where inside its blocks a walk moves, once its states at the block ends are known.

These questions involve only closed forms or transfer weights between two known states, and never
messages. So each question is answered at the precision that it needs, and none of them makes a
release start again.

On one side of zero, the places of moves do not depend on the distance from zero: T_n(D, D+k) is
q**(n D) T_n(0, k), path by path, and T_n(-s, -t) is q**(n t) T_n(-(s-t), 0). So one may assume that
all moves lead towards zero or start from it. In a block of zeros the moves towards zero come first.
The weight of a path is q to a power: up to a constant, this is the sum of the places of the moves
towards zero and of the distances of the other moves from the block's end. If a block is roomy, both
kinds of moves are drawn as in infinite runs, again and again until they lie inside and do not
collide. Other blocks are halved.

The place of a single move, and each part of an infinite run, is the smallest x >= 1 with U < F(x)
for a uniform number U. Here F(x) = (1 - q**x) / (1 - q**n) is the distribution function of a
geometric variable on 1..n, where n may be infinite. F has a closed form, so these decisions raise
their own precision until they are certain, and depend on nothing else.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray, IntArray, WordArray
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.enclosure import (
    refine_until_decided,
    rounding_pair,
    smallest_where,
)
from dp_transforms.mechanisms.partition.walk.precise import PreciseTransfer
from dp_transforms.mechanisms.partition.walk.transfer import UNIT_ROUNDOFF
from dp_transforms.mechanisms.partition.walk.walk import Blocks, choose
from dp_transforms.mechanisms.randomness import WORD_BITS, RandomTape, Uniform
from dp_transforms.mechanisms.taylor import one_minus_exp_minus

# The relative error of a ratio of two values of ``one_minus_exp_minus`` at rounded arguments.
_ERROR = 2.0**-43


@lru_cache(maxsize=32)
def _transfer(decay: Decay, flips: int, bits: int) -> PreciseTransfer:
    return PreciseTransfer(decay, flips, bits)


@lru_cache(maxsize=4096)
def _shares(
    decay: Decay, near: int, far: int, start: int, flips: int, bits: int
) -> tuple[list[Any], list[Any]]:
    return _transfer(decay, flips, bits).in_first_part(near, far, start + flips, flips)


def in_first_part(
    decay: Decay, near: int, far: int, state_before: int, flips: int, uniform: Uniform
) -> int:
    """Draws how many of ``flips`` moves are among the first ``near`` steps of a run of near + far
    zeros.

    Args:
      decay, near, far, flips: the weight of a step, the lengths of both parts, and the moves.
      state_before: the walk's state in front of the run.
      uniform: the uniform number that decides.

    Returns:
      An integer from 0 to flips. Its distribution, given the state and the moves, follows from the
      weights of walks, see ``PreciseTransfer.in_first_part``.
    """
    # On one side of zero the distance from zero does not matter.
    start = max(min(state_before, 0), -flips)
    return refine_until_decided(
        lambda bits: choose(
            *uniform.enclosure(bits), *_shares(decay, near, far, start, flips, bits)
        )
    )


def fill_blocks(blocks: Blocks, states: IntArray, decay: Decay, tape: RandomTape) -> IntArray:
    """Returns the diagonals of all moves, given the states at the block ends. Reads "places",
    "splits r" and "ends b t" of the tape."""
    # States are mirrored where the bit is 1, so that every block is one of zeros.
    states_before = np.where(blocks.bits == 0, states[:-1], -states[:-1])
    flips = np.abs(np.diff(states))
    single, several = np.flatnonzero(flips == 1), np.flatnonzero(flips > 1)
    early = np.clip(-states_before, 0, flips)
    late = flips - early

    moves: list[IntArray] = []
    is_roomy = np.zeros(len(blocks), dtype=bool)
    for bit in (0, 1):
        chosen = several[blocks.bits[several] == bit]
        room = _room(decay, early[chosen]) + _room(decay, late[chosen])
        chosen = chosen[blocks.lengths[chosen] >= room]
        is_roomy[chosen] = True
        ends = blocks.ends[chosen], blocks.ends[chosen + 1]
        moves += _near_the_ends(decay, *ends, early[chosen], late[chosen], tape, f"ends {bit}")

    # Blocks and parts of blocks that have one move: the diagonal in front, the length, the state
    # in front, and the uniform number that decides where the move is.
    tops, lengths = blocks.ends.tolist(), blocks.lengths.tolist()
    parts = [
        (tops[block], lengths[block], states_before.item(block), tape.uniform("places", block))
        for block in single.tolist()
    ]

    def split(
        channel: str, asked: Iterator[int], top: int, length: int, start: int, count: int
    ) -> None:
        """Adds the ``count`` moves of a part to ``moves``, or the part to ``parts`` if it has one
        move. ``asked`` counts the numbers read on the channel."""
        if count == 0:
            return
        if count == length:
            moves.append(top - np.arange(1, length + 1))
            return
        number = tape.uniform(channel, next(asked))
        if count == 1:
            parts.append((top, length, start, number))
            return
        near, far = length // 2, length - length // 2
        first = in_first_part(decay, near, far, start, count, number)
        split(channel, asked, top, near, start, first)
        split(channel, asked, top - near, far, start + first, count - first)

    for block in several[~is_roomy[several]].tolist():
        whole = tops[block], lengths[block], states_before.item(block), flips.item(block)
        split(f"splits {block}", itertools.count(), *whole)
    of_parts = [number.prefix(WORD_BITS) for *_, number in parts[len(single) :]]
    words = np.append(
        tape.words("places", len(blocks))[single], np.array(of_parts, dtype=np.uint64)
    )
    table = np.array([part[:3] for part in parts], dtype=np.int64).reshape(-1, 3)
    top, length, start = table.T
    x = geometric(decay, np.ones_like(top), length, words, lambda i: parts[i][-1])
    # Moves away from zero are likely to be late, and moves towards zero early: x counts from there.
    return np.concatenate([*moves, top - np.where(start >= 0, length - x + 1, x)])


def _room(decay: Decay, counts: IntArray) -> FloatArray:
    """Returns, for each number of moves near one end, a distance from that end that they exceed
    with a probability of at most 1/4.

    The largest of s distinct parts of an infinite run is above s + x with a probability of at most
    s q**x. The room decides how places are drawn, and not how likely they are. It is the same on
    every machine, since MPFR rounds correctly.
    """
    down, _ = rounding_pair(53)
    _, rate = decay.log_enclosure(WORD_BITS)
    distinct, kind = np.unique(counts, return_inverse=True)
    reach = [n + float(down.div(down.log(4 * n), rate)) if n else 0.0 for n in distinct.tolist()]
    return np.array(reach)[kind]


def _near_the_ends(
    decay: Decay,
    tops: IntArray,
    bottoms: IntArray,
    early: IntArray,
    late: IntArray,
    tape: RandomTape,
    channel: str,
) -> Iterator[IntArray]:
    """Yields the diagonals of early moves, drawn from the tops of blocks, and of late moves, drawn
    from their bottoms. In each try all blocks are drawn whose moves collided or lay outside in
    earlier tries."""
    waiting = np.arange(len(tops))
    for tries in itertools.count():
        if not len(waiting):
            return
        branch = tape.branch(f"{channel} {tries}")
        firsts = partitions(decay, early[waiting], branch, "early")
        lasts = partitions(decay, late[waiting], branch, "late")
        inside = _largest(firsts, early[waiting]) + _largest(lasts, late[waiting])
        accepted = inside <= (tops - bottoms)[waiting]
        for parts, counts, origin in ((-firsts, early, tops), (lasts, late, bottoms - 1)):
            kept = np.repeat(accepted, counts[waiting])
            yield np.repeat(origin[waiting], counts[waiting])[kept] + parts[kept]
        waiting = waiting[~accepted]


def _largest(parts: IntArray, counts: IntArray) -> IntArray:
    """Returns the largest part of each partition, or 0 if it has none; see ``partitions``."""
    largest = np.zeros_like(counts)
    largest[counts > 0] = parts[(counts.cumsum() - counts)[counts > 0]]
    return largest


def partitions(decay: Decay, counts: IntArray, tape: RandomTape, channel: str) -> IntArray:
    """Returns random partitions into ``counts`` distinct positive parts, each with a probability
    proportional to q**(sum of its parts).

    The partitions follow one another in one array, each with its parts in descending order. They
    are drawn by columns of their diagrams: for each i there are G_i + 1 columns of i cells, where
    G_i is geometric with ratio q**i. So the sum is count (count + 1) / 2 + sum_i i G_i. In the
    infinite runs the parts are the distances of moves from the end of the first run, or their
    places in the last one.
    """
    if not counts.any():
        return counts[:0]
    ends = counts.cumsum()
    starts = ends - counts
    total = int(counts.sum())
    factors = np.arange(total) - np.repeat(starts, counts) + 1
    words = tape.words(channel, total)
    columns = geometric(decay, factors, None, words, lambda i: tape.uniform(channel, i))
    behind = np.append(columns[::-1].cumsum()[::-1], 0)
    parts: IntArray = behind[:-1] - np.repeat(behind[ends], counts)
    return parts


def geometric(
    decay: Decay,
    factors: IntArray,
    lengths: IntArray | None,
    words: WordArray,
    number: Callable[[int], Uniform],
) -> IntArray:
    """Returns for each uniform number U the smallest x >= 1 with U < F(x). F is the distribution
    function of P(x) proportional to q**(factor * x) on 1..length, or on all x >= 1.

    Args:
      factors: the factor of each number.
      lengths: the length for each number; None for all x >= 1.
      words: the leading 64 bits of the uniform numbers.
      number: returns the i-th uniform number.
    """
    rates: Any = float(decay.log_enclosure(WORD_BITS)[0]) * factors
    most: Any = math.inf if lengths is None else lengths
    norms = one_minus_exp_minus(rates * most)
    lower = (words >> np.uint64(11)) * UNIT_ROUNDOFF
    guesses = np.clip(np.floor(np.log1p(-lower * norms) / -rates) + 1, 1, most)
    below, up_to = (one_minus_exp_minus(rates * x) / norms for x in (guesses - 1, guesses))
    certain = (guesses == most) | (lower + UNIT_ROUNDOFF <= up_to * (1 - _ERROR))
    certain &= lower >= below * (1 + _ERROR)
    draws: IntArray = guesses.astype(np.int64)
    for i in np.flatnonzero(~certain).tolist():
        length = None if lengths is None else lengths.item(i)
        question = partial(_precisely, decay, factors.item(i), number(i), length)
        draws[i] = refine_until_decided(question)
    return draws


def _precisely(decay: Decay, factor: int, uniform: Uniform, length: int | None, bits: int) -> int:
    """Returns one result of ``geometric``. Raises Undecided if more bits are needed."""
    number, power = uniform.enclosure(bits), partial(decay.one_minus_power, precision=bits + 16)
    if length is None:
        return smallest_where(lambda x: number.is_below(power(factor * x)), 1)
    norm = power(factor * length)
    return smallest_where(lambda x: x >= length or number.is_below(power(factor * x) / norm), 1)
