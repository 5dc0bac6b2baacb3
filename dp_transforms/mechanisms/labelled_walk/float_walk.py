"""Messages along a list in float64, and the decisions that they are precise enough for.

The message at a block's end is the total weight of all continuations, for each state, up to a
common factor. It is kept as two arrays of floats, a lower and an upper bound up to a relative error
that is counted. The matrix of a block is applied to both; only the upper one has exits. Messages
before a long run do not depend on what follows it, so that their errors start anew.

Underflow. Messages are scaled to a largest entry near 1 where that of D = 0 leaves 2**-60 .. 2**60,
and before the growths of blocks (the row sums of matrices) multiply to more than 2**GROWTH. No
entry of a matrix is below TINY = 2**-900, so that underflow takes next to nothing from an upper
bound. To lower bounds, TINY and underflow add less than 2**-600 between two scalings; then those
below FLOOR count as 0, and all do where the largest entry fell by more than 2**100 at once.
"""

from __future__ import annotations

import math

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray, IntArray
from dp_transforms.mechanisms.enclosure import Undecided
from dp_transforms.mechanisms.labelled_walk.float_transfer import (
    FAINT,
    SLACK,
    SURE,
    UNIT,
    FloatTransfer,
    Shares,
)
from dp_transforms.mechanisms.labelled_walk.labels import KINDS, OPEN
from dp_transforms.mechanisms.labelled_walk.runs import Runs

FLOOR = 2.0**-400

GROWTH = 200  # In bits.

_LEAST, _MOST = 2.0**-60, 2.0**60

_FALL = 2.0**-100

PART = 4096  # Blocks whose decisions are made at once.
_CENTRAL = 2  # The largest |D| before a block for which they are.
_MOVES = 2  # They are made if there are fewer moves than this in the block.

UNSETTLED = -(2**62)


class FloatWalk:
    """Enclosures of the probabilities that decisions at a list's blocks need.

    Args:
      transfer, runs: matrices, and f's blocks.
      end: the least D that is allowed before the last infinite run, in the mirror.

    Attributes:
      transfer: the matrices.
      numbers: which one each block has.
      messages: (blocks + 1, 2, states): lower and upper messages before each block and after the
        last one, in the orientation in which the block before them is one of zeros.
      is_turned: where the block after them is one of zeros in the other orientation.
      factors: (2, blocks + 1): a block's matrix times the message after it is the message before
        it times this.
      errors: the messages' relative errors.
    """

    def __init__(self, transfer: FloatTransfer, runs: Runs, end: int):
        self.transfer = transfer
        self.numbers: IntArray = np.empty(len(runs), dtype=np.int64)
        is_walled = runs.walled(transfer.window)
        self.numbers[~is_walled] = transfer.numbers(runs.lengths[~is_walled])
        for index in np.flatnonzero(is_walled).tolist():
            self.numbers[index] = transfer.number(runs[index])
        count = len(runs)
        self.messages: FloatArray = np.empty((count + 1, 2, transfer.size))
        self.factors = np.ones((2, count + 1))
        bits = np.concatenate([[0], runs.bits, [1]])
        self.is_turned = bits[1:] != bits[:-1]
        last = np.stack([transfer.powers.settling(end)] * 2)
        last[0, [0, -1]] = 0
        last = last.reshape(2, -1)
        self.messages[count] = last[:, ::-1] if self.is_turned[count] else last
        self._rescale(count)
        with np.errstate(all="ignore"):
            self.errors = self._backward()

    def _backward(self) -> FloatArray:
        transfer, messages, is_turned = self.transfer, list(self.messages), self.is_turned
        numbers, known = self.numbers.tolist(), len(transfer.errors)
        matrices = np.swapaxes(transfer.matrices[:known], 1, 2)
        # For messages that the block before is to see in the mirror image, and for others.
        matrix_of = {
            turned: list(np.ascontiguousarray(matrices[..., :: -1 if turned else 1]))
            for turned in np.unique(is_turned[:-1]).tolist()
        }
        round_off = (transfer.size + 8) * UNIT
        block_errors = [error + round_off for error in transfer.errors]
        growths, ends = transfer.growths, transfer.ends
        zero = KINDS * (transfer.window + 1) + OPEN
        error, growth = transfer.limit_error, 0.0
        errors = [error]
        for index, turned in zip(
            range(len(numbers))[::-1], is_turned[-2::-1].tolist(), strict=True
        ):
            number, after, out = numbers[index], messages[index + 1], messages[index]
            if number in ends:
                self._through_long(index, turned)
                error, growth = transfer.limit_error + round_off, growths[number]
            else:
                np.dot(after, matrix_of[turned][number], out=out)
                error += block_errors[number]
                growth += growths[number]
            out[0, :KINDS] = 0
            out[0, -KINDS:] = 0
            errors.append(error)
            if growth > GROWTH or not _LEAST < out.item(1, zero) < _MOST:
                self._rescale(index)
                growth = 0.0
        return np.array(errors[::-1])

    def _through_long(self, index: int, turned: bool) -> None:
        settling, leaving = self.transfer.ends[self.numbers.item(index)]
        after, out = self.messages[index + 1], self.messages[index]
        lower, upper = after @ leaving
        spread = self.transfer.remainder @ after[1] * (SLACK / lower)
        if turned:
            settling, spread = settling[::-1], spread[::-1]
        np.maximum(settling - spread, 0, out=out[0])
        np.add(settling, spread, out=out[1])
        self.factors[:, index] = lower, upper

    def _rescale(self, index: int) -> None:
        message = self.messages[index]
        largest = message[1].max()
        scale = 2.0 ** math.frexp(largest)[1]
        message *= 1 / scale
        self.factors[:, index] *= scale
        message[0] *= (message[0] >= FLOOR) & (largest > _FALL)

    # Questions.

    def head(self, highest: int) -> Shares:
        """Enclosures of the shares of the states after the first infinite run, from code 0 on.

        Raises:
          Undecided: the total weight may be too small for floats.
        """
        transfer = self.transfer
        weights = transfer.powers.leaving(highest).ravel() * self.messages[0]
        weights[0, -KINDS:] = 0
        error = self.errors.item(0) + transfer.limit_error
        return transfer.shares(weights[:, KINDS * (transfer.window + 1) :], error)

    def shares(self, index: int, code: int) -> Shares:
        """Enclosures of the shares of the states after a block, given the one before it, 3 D +
        kind: in order from code 3 D on, in the orientation in which the block is one of zeros.

        Raises:
          Undecided: the total weight may be too small for floats.
        """
        transfer, number = self.transfer, self.numbers.item(index)
        if abs(code // KINDS) > transfer.window:
            raise Undecided
        first = KINDS * (transfer.window + 1 + code // KINDS)
        row = transfer.bounds(number, np.s_[first + code % KINDS, :])
        error = self.errors.item(index + 1) + transfer.errors[number]
        return transfer.shares((self.messages[index + 1] * row)[:, first:], error)


class Part:
    """The decisions of the blocks ``start``, ``start`` + 1, ..., PART of them at most, all at once,
    for uniform numbers lower <= U < upper of each block of the list."""

    def __init__(self, walk: FloatWalk, start: int, lower: FloatArray, upper: FloatArray):
        lower, upper = lower[start : start + PART], upper[start : start + PART]
        self._walk, self._lower, self._upper = walk, lower, upper
        self._blocks = slice(start, start + len(lower))
        self._answers: dict[int, list[int] | None] = {}
        behind = slice(start + 1, start + 1 + len(lower))
        first = KINDS * (walk.transfer.window + 1 - _CENTRAL)
        states = slice(first, first + KINDS * (2 * _CENTRAL + _MOVES))
        # (2, states, blocks): the messages after the blocks.
        self._after = np.ascontiguousarray(walk.messages[behind, :, states].transpose(1, 2, 0))
        self._numbers = walk.numbers[self._blocks]
        errors = walk.errors[behind] + np.array(walk.transfer.errors)[self._numbers]
        self._margin = 2 * errors + 2 * (walk.transfer.size + 16) * UNIT

    def states(self, code: int) -> list[int] | None:
        """The state after each block if the state before it is this one, both in the orientation in
        which the block is one of zeros; UNSETTLED where floats are not precise enough. None for
        states far from zero."""
        if code not in self._answers:
            known = abs(code // KINDS) <= _CENTRAL
            self._answers[code] = self._states(code).tolist() if known else None
        return self._answers[code]

    def _states(self, code: int) -> IntArray:
        walk, transfer, options = self._walk, self._walk.transfer, KINDS * _MOVES
        first = KINDS * (transfer.window + 1 + code // KINDS)
        row, behind = first + code % KINDS, slice(first, first + options)
        rows = np.stack([transfer.matrices[: len(transfer.errors), row, behind]] * 2)
        rows[0, rows[0] <= SURE] = 0
        for number, matrix in transfer.lower.items():
            rows[0, number] = matrix[row, behind]
        columns = np.where(walk.is_turned[self._blocks], transfer.size - 1 - row, row)
        places = np.arange(self._blocks.start, self._blocks.stop)
        before = walk.messages[places, :, columns].T
        start = KINDS * (_CENTRAL + code // KINDS)
        after = self._after[:, start : start + options]
        with np.errstate(all="ignore"):
            totals = before * walk.factors[:, self._blocks]
            for_lo, for_hi = (1 - self._margin) / totals[1], (1 + self._margin) / totals[0]
            lo, hi = (rows[:, self._numbers].transpose(0, 2, 1) * after).cumsum(axis=1)
            # Comparisons with NaN are false: such a bound decides nothing.
            passed = (self._lower >= hi * for_hi).sum(axis=0)
            reached = np.take_along_axis(lo, np.minimum(passed, options - 1)[None], axis=0)[0]
            certain = (passed < options) & (self._upper <= reached * for_lo) & (before[0] > FAINT)
        return np.where(certain, KINDS * (code // KINDS) + passed, UNSETTLED)
