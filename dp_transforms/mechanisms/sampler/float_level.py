"""The walk's chain of states, settled by certified float64 enclosures."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray, IntArray, ObjectArray
from dp_transforms.mechanisms.enclosure import Undecided, rounding_pair
from dp_transforms.mechanisms.randomness import RandomTape
from dp_transforms.mechanisms.sampler.float_transfer import FloatTransfer
from dp_transforms.mechanisms.sampler.messages import backward
from dp_transforms.mechanisms.sampler.transfer import (
    TINY,
    UNIT_ROUNDOFF,
    clipped,
    cumulative,
    settle,
)
from dp_transforms.mechanisms.sampler.walk import NO_WALL, Blocks, choose

_CENTRAL = 7  # For |D| up to this, the questions of all blocks are settled at once.
_AT_ONCE = 4  # So many thresholds of each.
_AHEAD = 6  # How many moves within one block are looked at before all of them are.

_UNSETTLED = -1

_UNTOUCHED = TINY * 2.0**100
"""Weights above this are not affected by the bounds that replace what underflows."""

_REMEMBERED = 2**15  # How many questions' thresholds are kept for the next release.


class FloatLevel:
    """Settles the questions of a release by float64 enclosures on a window of states.

    Raises:
      Undecided: the window is too narrow, or float64's range too small, for any enclosure.
    """

    def __init__(self, blocks: Blocks, transfer: FloatTransfer):
        self._blocks = blocks
        self._transfer = transfer
        self.window = transfer.window
        self._size = transfer.size
        self._reach = min(_CENTRAL, self.window - _AT_ONCE)
        self._tables: dict[int, tuple[FloatArray, FloatArray]] = {}
        self._recent: dict[tuple[int, int], tuple[list[float], list[float]]] = {}
        with np.errstate(all="ignore"):
            try:
                self._messages = backward(blocks, transfer)
            except FloatingPointError:
                raise Undecided from None

    def states(
        self,
        tape: RandomTape,
        count: int = NO_WALL,
        otherwise: Callable[[int, int], int] | None = None,
    ) -> IntArray:
        """The states before each block and after the last of the first ``count``, from the channels
        "head" and "moves".

        Raises:
          Undecided: an enclosure does not settle a question, which ``otherwise`` would, given the
            block (-1 for the head) and the state in front of it.
        """
        with np.errstate(all="ignore"):
            return self._states(tape, min(count, len(self._blocks)), otherwise)

    def messages(self, at: int, window: int) -> tuple[ObjectArray, ObjectArray]:
        """MPFR bounds of beta in front of a block, for the states -window..window.

        Raises:
          Undecided: some state has none.
        """
        messages, inner = self._messages, slice(self.window - window, self.window + window + 1)
        lo, hi = messages.lo[at, inner], messages.hi[at, inner]
        if not np.isfinite(hi).all():
            raise Undecided
        exponents = messages.exponents[at, inner].tolist()
        down, up = rounding_pair(64)
        error = messages.errors.item(at)
        factors = down.sub(1, error), up.add(1, error)
        lower, upper = (
            np.array(
                [
                    context.mul(context.mul(factor, bound), context.exp2(exponent))
                    for bound, exponent in zip(side.tolist(), exponents, strict=True)
                ]
            )
            for context, factor, side in zip((down, up), factors, (lo, hi), strict=True)
        )
        return lower, upper

    # The chain of states.

    def _states(
        self, tape: RandomTape, count: int, otherwise: Callable[[int, int], int] | None
    ) -> IntArray:
        word = tape.prefix("head", 0, 53)
        try:
            state = choose(word * UNIT_ROUNDOFF, (word + 1) * UNIT_ROUNDOFF, *self.head)
        except Undecided:
            if otherwise is None:
                raise
            state = otherwise(-1, 0)
        # Only 53 bits are looked at here: these bounds are exact.
        lower = (tape.words("moves", count) >> np.uint64(11)) * UNIT_ROUNDOFF
        upper = lower + UNIT_ROUNDOFF
        changes, levels = [0], [state]
        answers: dict[int, tuple[IntArray, IntArray]] = {}
        index = 0
        while index < count:
            moves = _UNSETTLED
            if abs(state) <= self._reach:
                if state not in answers:
                    answers[state] = self._answers(state, lower, upper)
                known, waiting = answers[state]
                at = int(waiting.searchsorted(index))
                if at == len(waiting):
                    break
                index = waiting.item(at)
                moves = known.item(index)
            if moves == _UNSETTLED:
                try:
                    moves = self._moves(index, state, lower.item(index), upper.item(index))
                except Undecided:
                    if otherwise is None:
                        raise
                    moves = otherwise(index, state)
            index += 1
            if moves:
                state += -moves if self._blocks.bits.item(index - 1) else moves
                changes.append(index)
                levels.append(state)
        return np.repeat(levels, np.diff([*changes, count + 1]))

    def _answers(
        self, state: int, lower: FloatArray, upper: FloatArray
    ) -> tuple[IntArray, IntArray]:
        """The moves of every block, if it is entered in this state, and where they are not 0.

        They are _UNSETTLED where the thresholds at hand do not tell.
        """
        if state not in self._tables:
            self._tables[state] = self._table(state)
        lo, hi = (bounds[: len(lower)] for bounds in self._tables[state])
        moves = (lower[:, None] >= hi).sum(axis=1)
        # A bound that is not a number settles nothing.
        reached = lo[np.arange(len(lo)), np.minimum(moves, lo.shape[1] - 1)]
        is_settled = (moves < lo.shape[1]) & (upper <= reached)
        moves[~is_settled] = _UNSETTLED
        return moves, np.flatnonzero(moves)

    def _moves(self, index: int, state: int, lower: float, upper: float) -> int:
        if abs(state) > self.window:
            raise Undecided
        found = self._recent.get((index, state))
        if found is None:
            found = self.thresholds(index, state, _AHEAD)
            if len(self._recent) < _REMEMBERED:
                self._recent[index, state] = found
        try:
            return choose(lower, upper, *found)
        except Undecided:
            return choose(lower, upper, *self.thresholds(index, state))

    def thresholds(
        self, index: int, state: int, ahead: int = NO_WALL
    ) -> tuple[list[float], list[float]]:
        """Enclosures of Pr[at most j moves in block ``index`` | state], for j = 0, 1, ...

        Of at most ``ahead`` of them. A bound that cannot be told is infinite or not a number.
        """
        bit, length = self._blocks.bits.item(index), self._blocks.lengths.item(index)
        matrix = self._transfer.matrix(length)
        start = self.window + (-state if bit else state)
        row_lo, row_hi, scale = matrix.row(start, min(ahead, self._size - start, length + 1))
        lo, hi = self._cumulative(index, bit, state, row_lo, row_hi, scale, matrix.error)
        return lo.tolist(), hi.tolist()

    def _table(self, state: int) -> tuple[FloatArray, FloatArray]:
        """The first thresholds of all blocks, as two arrays with a row for each block."""
        bits = self._blocks.bits
        shape = len(bits), _AT_ONCE
        row_lo, row_hi, scales = np.empty(shape), np.empty(shape), np.empty(shape, dtype=np.int64)
        errors = np.empty((len(bits), 1))
        for bit in (0, 1):
            blocks = np.flatnonzero(bits == bit)
            lengths, kinds = np.unique(
                np.minimum(self._blocks.lengths[blocks], self._transfer.long), return_inverse=True
            )
            start = self.window + (-state if bit else state)
            for kind, length in enumerate(lengths.tolist()):
                matrix, same = self._transfer.matrix(length), blocks[kinds == kind]
                row_lo[same], row_hi[same], scales[same] = matrix.row(start, _AT_ONCE)
                errors[same] = matrix.error
        everywhere = np.arange(len(bits))[:, None]
        return self._cumulative(everywhere, bits[:, None], state, row_lo, row_hi, scales, errors)

    def _cumulative(
        self,
        index: Any,
        bit: Any,
        state: int,
        row_lo: FloatArray,
        row_hi: FloatArray,
        scale: Any,
        error: Any,
    ) -> tuple[FloatArray, FloatArray]:
        """Enclosures of Pr[at most j moves | state], from bounds of T(state, state + j) * 2**scale.

        For one block, or for arrays of blocks in rows. A bound that cannot be told is infinite or
        not a number.
        """
        messages, here = self._messages, self.window + state
        count = row_lo.shape[-1]
        there = here + (1 - 2 * bit) * np.arange(count)
        scale = scale + messages.exponents[index + 1, there]
        shift = clipped(scale - messages.exponents[index, here])
        lo, hi = cumulative(
            row_lo * messages.lo[index + 1, there], row_hi * messages.hi[index + 1, there], shift
        )
        error = error + messages.errors[index] + messages.errors[index + 1]
        error = error + (count + 8) * UNIT_ROUNDOFF
        lo *= (1 - error) / messages.hi[index, here]
        hi *= (1 + 2 * error) / messages.lo[index, here]
        settle(lo, hi)
        return lo, hi

    @cached_property
    def head(self) -> tuple[list[float], list[float]]:
        """Enclosures of Pr[a <= j] for j = 0..W."""
        window, messages = self.window, self._messages
        mantissas, scale = self._transfer.leaving_first_run
        scale = scale + messages.exponents[0, window:]
        shift = clipped(scale - scale.max())
        weights = np.stack([messages.lo[0, window:], messages.hi[0, window:]], axis=1)
        weights = np.ldexp(mantissas[:, None] * weights, shift[:, None])
        settle(*weights.T)
        # A and beta_0 are log-concave both, and so is their product.
        edge, ratio = _edge_of(weights)
        rest = edge * ratio / (1 - ratio) if ratio < 1 else math.inf
        error = 2 * messages.errors.item(0) + (2 * self._size + 8) * UNIT_ROUNDOFF
        lo, hi = weights.cumsum(axis=0).T
        lo, hi = lo * ((1 - error) / (hi[-1] + rest)), hi * ((1 + 2 * error) / lo[-1])
        settle(lo, hi)
        return lo.tolist(), hi.tolist()


def _edge_of(values: FloatArray) -> tuple[float, float]:
    """(edge, ratio) such that beta(W + k) <= edge * ratio**k for k >= 1, by log-concavity.

    Args:
      values: enclosures (lo, hi) of a log-concave sequence, its last row at W.
    """
    last = len(values) - 1
    is_tight = values.item(last, 1) <= 1.001 * values.item(last, 0)
    if is_tight and values.item(last - 1, 0) > _UNTOUCHED:
        ratio = values.item(last, 1) / values.item(last - 1, 0)
    else:
        # Near underflow an enclosure is wide, and so it is at the edge of a window that is hardly
        # wide enough. Every earlier ratio bounds the later ones as well.
        ratio = max((values[1:, 1] / values[:-1, 0]).min().item(), TINY)
    return values.item(last, 1), ratio * (1 + 2.0**-18)
