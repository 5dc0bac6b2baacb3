"""Draws the states of a walk at the ends of its blocks.

A question is settled by certified enclosures in float64, or else by looking ahead in MPFR numbers
(``precise``).
"""

from __future__ import annotations

import math
from functools import cached_property

import gmpy2
import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray, IntArray
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.enclosure import Enclosure, Undecided, rounding_pair
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.partition.walk.blocks import fill_blocks, partitions
from dp_transforms.mechanisms.partition.walk.precise import LookingAhead, PreciseTransfer
from dp_transforms.mechanisms.partition.walk.transfer import (
    LEAST_WIDTH,
    UNIT_ROUNDOFF,
    FloatTransfer,
    backward,
    clipped,
    independence_length,
)
from dp_transforms.mechanisms.partition.walk.walk import Blocks, choose
from dp_transforms.mechanisms.randomness import RandomTape

# A smaller float is replaced by the bounds 0 and _TINY: near underflow there is no bound on its
# relative error.
_TINY = 2.0**-940

_AT_ONCE = LEAST_WIDTH  # The number of thresholds that are computed together, for all blocks.
_UNSETTLED = -1
_WIDE = 2.0**-20  # If an enclosure is wider than this, those of other questions are wide too.
_NARROWEST = 32  # The first window to look ahead on.


class Level:
    """Settles the questions of a release on one level of precision: a window of states -W..W, and
    MPFR numbers of a fixed number of bits for the questions that float64 leaves open.

    Args:
      blocks: the blocks of the private list.
      decay: q.
      window: W.
      bits: the precision of MPFR numbers.

    Raises:
      Undecided: the window is too narrow for any enclosure.
    """

    def __init__(self, blocks: Blocks, decay: Decay, window: int, bits: int = 128):
        self.window = window
        self.bits = bits
        self._blocks = blocks
        self._decay = decay
        self._transfer = FloatTransfer(decay, window)
        self._tables: dict[int, tuple[FloatArray, FloatArray]] = {}
        self._messages = backward(blocks, self._transfer)

    @np.errstate(all="ignore")
    def states(self, tape: RandomTape) -> IntArray:
        """Returns the states in front of each block and behind the last one; reads "head" and
        "moves" of the tape.

        Raises:
          Undecided: a question needs a wider window, or more bits.
        """
        # The leading 53 bits of uniform numbers, which are lower bounds without rounding.
        count = len(self._blocks)
        lower = (tape.words("moves", count) >> np.uint64(11)) * UNIT_ROUNDOFF
        state = self._move(tape, -1, 0, tape.prefix("head", 0, 53) * UNIT_ROUNDOFF)
        # The blocks in front of which the state changes, and the states from there on.
        changes, states = [0], [state]
        answers: dict[int, tuple[IntArray, IntArray]] = {}
        index = 0
        while index < count:
            if state not in answers:
                answers[state] = self._answers(state, lower)
            moves_of_blocks, places = answers[state]
            # The state stays the same up to the next place.
            at = int(places.searchsorted(index))
            if at == len(places):
                break
            index = places.item(at)
            moves = moves_of_blocks.item(index)
            if moves == _UNSETTLED:
                moves = self._move(tape, index, state, lower.item(index))
            if moves:
                state += -moves if self._blocks.bits.item(index) else moves
                changes.append(index + 1)
                states.append(state)
            index += 1
        return np.repeat(states, np.diff([*changes, count + 1]))

    def _move(self, tape: RandomTape, index: int, state: int, lower: float) -> int:
        """Returns the number of moves in a block, or for block -1 the state behind the first
        infinite run. ``lower`` has the leading 53 bits of the uniform number."""
        try:
            return choose(lower, lower + UNIT_ROUNDOFF, *self.thresholds(index, state))
        except Undecided as undecided:
            if undecided.width > _WIDE:
                raise
        return self.looked_ahead(tape, index, state)

    def looked_ahead(self, tape: RandomTape, index: int, state: int) -> int:
        """Returns the answer of ``_move``, by MPFR numbers that look ahead on windows of up to W.

        Raises:
          Undecided: more bits or a wider window are needed.
        """
        uniform = tape.uniform("moves", index) if index >= 0 else tape.uniform("head", 0)
        window = min(_NARROWEST, self.window)
        while True:
            transfer = PreciseTransfer(self._decay, window, self.bits)
            ahead = LookingAhead(self._blocks, self.messages, transfer)
            try:
                return ahead.settle(uniform, index, state)
            except Undecided:
                if window == self.window:
                    raise
            window = min(2 * window, self.window)

    def messages(self, at: int, window: int) -> list[Enclosure]:
        """Encloses the message beta in front of a block, for the states -window..window. Raises
        Undecided if some state has no bound."""
        messages, inner = self._messages, slice(self.window - window, self.window + window + 1)
        lo, hi = messages.lo[at, inner], messages.hi[at, inner]
        if not np.isfinite(hi).all():
            raise Undecided
        down, up = rounding_pair(64)
        error = messages.errors.item(at)
        factor = Enclosure(down.sub(1, error), up.add(1, error))
        exponents = messages.exponents[at, inner].tolist()
        return [
            Enclosure(gmpy2.mpfr(below), gmpy2.mpfr(above)) * factor * Enclosure(*scale)
            for below, above, *scale in zip(
                lo, hi, map(down.exp2, exponents), map(up.exp2, exponents), strict=True
            )
        ]

    def _answers(self, state: int, lower: FloatArray) -> tuple[IntArray, IntArray]:
        """Returns (moves, places): the number of moves in each block if it is entered in this
        state, or _UNSETTLED if the first thresholds leave it open, and the blocks where this is not
        0."""
        if abs(state) > self.window - _AT_ONCE:
            return np.full(len(lower), _UNSETTLED), np.arange(len(lower))
        if state not in self._tables:
            every = np.arange(len(self._blocks))
            self._tables[state] = self._cumulative(every, state, _AT_ONCE)
        lo, hi = self._tables[state]
        flips = (lower[:, None] >= hi).sum(axis=1)
        # Comparisons with a bound that is not a number are false, so it settles nothing.
        reached = lo[np.arange(len(lo)), np.minimum(flips, lo.shape[1] - 1)]
        is_settled = (flips < lo.shape[1]) & (lower + UNIT_ROUNDOFF <= reached)
        flips[~is_settled] = _UNSETTLED
        return flips, np.flatnonzero(flips)

    @np.errstate(all="ignore")
    def thresholds(self, index: int, state: int) -> tuple[list[float], list[float]]:
        """Returns lower and upper bounds on Pr[at most j moves in block ``index`` | state] for j =
        0, 1, ...; for index -1, on Pr[the first infinite run ends in a state of at most j]. An
        unknown bound is infinite or not a number. Raises Undecided outside the window."""
        if index < 0:
            return self._head
        if abs(state) > self.window:
            raise Undecided
        towards = -state if self._blocks.bits.item(index) else state
        count = min(self.window + 1 - towards, self._blocks.lengths.item(index) + 1)
        lo, hi = self._cumulative(np.array([index]), state, count)
        return lo[0].tolist(), hi[0].tolist()

    def _cumulative(self, index: IntArray, state: int, count: int) -> tuple[FloatArray, FloatArray]:
        """Returns the first ``count`` ``thresholds`` of some blocks: an array of lower and one of
        upper bounds, each of a row for each block."""
        messages, here = self._messages, self.window + state
        bits = self._blocks.bits[index]
        # The transfer weights of 0, 1, ... moves, which blocks of equal bit and length share.
        row_lo, row_hi = np.empty((2, len(index), count))
        scale = np.empty((len(index), count), dtype=np.int64)
        error = np.empty((len(index), 1))
        kinds = 2 * np.minimum(self._blocks.lengths[index], self._transfer.long) + bits
        for kind in np.unique(kinds).tolist():
            length, bit = divmod(kind, 2)
            matrix, same = self._transfer.matrix(length), kinds == kind
            start = self.window + (-state if bit else state)
            row_lo[same], row_hi[same] = matrix.bounds[:, start, :count]
            scale[same] = matrix.exponents[start, :count]
            error[same] = matrix.error
        # They are multiplied by the messages of the states that the moves lead to.
        index, directions = index[:, None], 1 - 2 * bits[:, None]
        there = here + directions * np.arange(count)
        scale = scale + messages.exponents[index + 1, there]
        shift = clipped(scale - messages.exponents[index, here])
        lo, hi = row_lo * messages.lo[index + 1, there], row_hi * messages.hi[index + 1, there]
        # Products and scaled numbers may have been rounded near underflow.
        _widen_near_underflow(lo, hi)
        lo, hi = np.ldexp(lo, shift), np.ldexp(hi, shift)
        _widen_near_underflow(lo, hi)
        lo, hi = lo.cumsum(axis=1), hi.cumsum(axis=1)
        error = error + messages.errors[index] + messages.errors[index + 1]
        error = error + (count + 8) * UNIT_ROUNDOFF
        # The message of the state in front is the total weight.
        lo *= (1 - error) / messages.hi[index, here]
        hi *= (1 + 2 * error) / messages.lo[index, here]
        _widen_near_underflow(lo, hi)
        return lo, hi

    @cached_property
    def _head(self) -> tuple[list[float], list[float]]:
        """Returns lower and upper bounds on Pr[a <= j] for j = 0..W, where a is the state behind
        the first infinite run."""
        window, messages = self.window, self._messages
        mantissas, scale = self._transfer.leaving_first_run
        scale = scale + messages.exponents[0, window:]
        shift = clipped(scale - scale.max())
        weights = np.stack([messages.lo[0, window:], messages.hi[0, window:]], axis=1)
        weights = np.ldexp(mantissas[:, None] * weights, shift[:, None])
        _widen_near_underflow(*weights.T)
        # A and beta_0 are both log-concave, and so is their product.
        lo, hi = weights.T
        # So the ratio of two neighbours is an upper bound on all later ratios.
        ratio = max((hi[1:] / lo[:-1]).min().item(), _TINY) * (1 + 2.0**-18)
        rest = hi.item(-1) * ratio / (1 - ratio) if ratio < 1 else math.inf
        error = 2 * messages.errors.item(0) + (4 * window + 10) * UNIT_ROUNDOFF
        lo, hi = lo.cumsum(), hi.cumsum()
        lo, hi = lo * ((1 - error) / (hi[-1] + rest)), hi * ((1 + 2 * error) / lo[-1])
        _widen_near_underflow(lo, hi)
        return lo.tolist(), hi.tolist()


def _widen_near_underflow(lo: FloatArray, hi: FloatArray) -> None:
    """Replaces bounds near underflow, in place: lower bounds by 0, upper bounds by _TINY."""
    lo[lo < _TINY] = 0.0
    np.maximum(hi, _TINY, out=hi)


class Sampler:
    """Draws lists x with weights q**||x - f||_1, given f's runs, each as one block.

    Levels of ever wider windows answer the same questions from the same uniform numbers. So a
    release does not depend on the level that settles its questions.
    """

    def __init__(self, blocks: Blocks, decay: Decay):
        self.decay = decay
        # At a corner |D| goes as far as the shorter of its two runs, or as far as about ln(2) / c,
        # and deviates from that by a few times 1 / sqrt(4 c).
        corner = int(np.minimum(blocks.lengths[1:], blocks.lengths[:-1]).max(initial=0))
        rate = float(decay.log_enclosure(64)[0])
        stray = 1 / math.sqrt(rate)
        window = 8 + math.ceil(max(5 * stray, 3 * stray + min(corner, math.log(2) / rate)))
        self.blocks = blocks.cut(independence_length(decay, window))
        self._bits = 128
        self.window = window
        """The window of the level in use, or of the first level to try."""
        self._level: Level | None = None

    def release(self, tape: RandomTape) -> FrequencyList:
        """Returns the list that this tape determines."""
        return self.blocks.flipped(self.flips(tape))

    def flips(self, tape: RandomTape) -> IntArray:
        """Returns the diagonals on which the walk that this tape determines moves."""
        states = self.states(tape)
        inner = fill_blocks(self.blocks, states, self.decay, tape)
        head = partitions(self.decay, states[:1], tape, "head parts")
        tail = partitions(self.decay, states[-1:], tape, "tail parts")
        top, bottom = self.blocks.ends[[0, -1]].tolist()
        return np.concatenate([top + head - 1, inner, bottom - tail])

    def states(self, tape: RandomTape) -> IntArray:
        """Returns the walk's states in front of each block and behind the last one."""
        while True:
            try:
                if self._level is None:
                    self._level = Level(self.blocks, self.decay, self.window, self._bits)
                return self._level.states(tape)
            except Undecided:
                # A window that was too narrow for this release may be so for later ones too.
                self._level = None
                self.window, self._bits = math.ceil(1.5 * self.window), 2 * self._bits
