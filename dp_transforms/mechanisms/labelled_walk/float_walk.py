"""Messages along a list in float64, and the questions that they settle.

The message of a block end is the weight of all that follows, by state, up to a factor. It is kept
as two arrays of floats, lower and upper, which hold for the true numbers up to a relative error
that is counted. Matrices are applied to both; exits are in the upper one only. A long run makes
messages independent of what follows, so that errors start again.

Underflow. Within ``FloatTransfer.steps`` bits weights fall by 2**-480 at most. After so many bits
messages are scaled, lower ones below FLOOR count as 0, and upper ones are FLOOR at least. What
underflow and TINY add to a message between is below 2**-900 of its largest entry.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from dp_transforms.mechanisms.labelled_walk.float_transfer import (
    FAINT,
    SLACK,
    SURE,
    UNIT,
    FloatArray,
    FloatTransfer,
    IntArray,
    Shares,
    tail,
)
from dp_transforms.mechanisms.labelled_walk.labels import KINDS
from dp_transforms.mechanisms.labelled_walk.runs import Runs
from dp_transforms.mechanisms.sampler.walk import Undecided

FLOOR = 2.0**-500

_CENTRAL = 2
"""For |D| up to this, the questions of all blocks are settled at once."""

_MOVES = 2
"""As far as they are about fewer moves than this."""

UNSETTLED = -(2**62)


class FloatWalk:
    """Settles questions about a list's blocks by certified floats.

    Args:
      transfer: matrices of runs.
      runs: f's blocks.
      end: the least D that is allowed before the last infinite run, in the mirror.

    Attributes:
      messages: (blocks + 1, 2, states): lower and upper messages.
      errors: their relative errors.
    """

    def __init__(self, transfer: FloatTransfer, runs: Runs, end: int):
        self._transfer = transfer
        self._bits = runs.bits
        self._numbers = np.empty(len(runs), dtype=np.int64)
        is_walled = runs.walled(transfer.window)
        self._numbers[~is_walled] = transfer.numbers(runs.lengths[~is_walled])
        for index in np.flatnonzero(is_walled).tolist():
            self._numbers[index] = transfer.number(runs[index])
        count, size = len(runs), transfer.size
        self.messages: FloatArray = np.empty((count + 1, 2, size))
        self.errors: FloatArray = np.empty(count + 1)
        # What a block's message is to be multiplied by, to be that of the next one through it.
        self._factors = np.ones((2, count + 1))
        self.messages[count] = [bound[::-1] for bound in tail(transfer, end)]
        self.errors[count] = transfer.limit_error
        lengths = np.minimum(runs.lengths, transfer.long).tolist()
        with np.errstate(all="ignore"):
            self._backward(lengths)

    def _backward(self, lengths: list[int]) -> None:
        transfer, messages = self._transfer, self.messages
        transposed = [matrix.T for matrix in transfer.matrices[: len(transfer.errors)]]
        round_off = (transfer.size + 8) * UNIT
        errors = [error + round_off for error in transfer.errors]
        bits, numbers = self._bits.tolist(), self._numbers.tolist()
        error, steps, out = self.errors.item(-1), 0, np.empty((2, transfer.size))
        ends = transfer.ends
        for index in range(len(lengths) - 1, -1, -1):
            number = numbers[index]
            after = messages[index + 1]
            if bits[index]:
                after = after[:, ::-1]
            if number in ends:
                self._through_long(index, number, after, out)
                error = transfer.limit_error + round_off
                steps = transfer.steps
            else:
                np.dot(after, transposed[number], out=out)
                out[0, :KINDS] = 0
                out[0, -KINDS:] = 0
                error += errors[number]
                steps += lengths[index]
            messages[index] = out[:, ::-1] if bits[index] else out
            self.errors[index] = error
            if index and steps + lengths[index - 1] > transfer.steps:
                self._rescale(index)
                steps = 0

    def _through_long(self, index: int, number: int, after: FloatArray, out: FloatArray) -> None:
        settling, leaving = self._transfer.ends[number]
        lower, upper = after @ leaving
        spread = self._transfer.remainder @ after[1] * (SLACK / lower)
        np.maximum(settling - spread, 0, out=out[0])
        out[0, :KINDS] = 0
        out[0, -KINDS:] = 0
        np.add(settling, spread, out=out[1])
        self._factors[:, index] = lower, upper

    def _rescale(self, index: int) -> None:
        message = self.messages[index]
        lower, upper = message
        scale = 2.0 ** math.frexp(upper.max())[1]
        if not 2.0**-9 < scale < 2.0**9:
            message *= 1 / scale
            self._factors[:, index] *= scale
        lower *= lower >= FLOOR
        np.maximum(upper, FLOOR, out=upper)

    # Questions.

    def head(self, highest: int) -> Shares:
        """Enclosures for the state behind the first infinite run, in the order of codes from 0 on.

        Raises:
          Undecided: nothing is known of the total weight.
        """
        transfer = self._transfer
        weights = transfer.powers.leaving(highest).ravel() * self.messages[0]
        weights[0, -KINDS:] = 0
        error = self.errors.item(0) + transfer.limit_error
        return transfer.shares(weights[:, KINDS * (transfer.window + 1) :], error)

    def states(self, code: int, lower: FloatArray, upper: FloatArray) -> IntArray | None:
        """The states behind every block if it is entered in one state, UNSETTLED where unknown.

        Args:
          code: the state.
          lower: lower <= U for the uniform number U of each block.
          upper: U < upper.

        Returns:
          None for states that are far from zero.
        """
        transfer, bits, numbers = self._transfer, self._bits, self._numbers
        if abs(code // KINDS) > _CENTRAL:
            return None
        known, options = len(transfer.errors), KINDS * _MOVES
        # By the number of the matrix for blocks of zeros, and behind these for blocks of ones.
        rows_lo, rows_hi = (np.empty((options, 2 * known)) for _ in range(2))
        columns = []
        for bit, seen in enumerate((code, 2 - code)):
            first = KINDS * (transfer.window + 1 + seen // KINDS)
            columns.append(KINDS * (_CENTRAL + seen // KINDS))
            row, behind = first + seen % KINDS, slice(first, first + options)
            of_bit = slice(bit * known, (bit + 1) * known)
            rows_hi[:, of_bit] = transfer.matrices[:known, row, behind].T
            rows_lo[:, of_bit] = np.where(rows_hi[:, of_bit] > SURE, rows_hi[:, of_bit], 0)
            for number, matrix in transfer.lower.items():
                rows_lo[:, bit * known + number] = matrix[row, behind]
        kinds, ones = numbers + known * bits, bits == 1
        here = KINDS * (transfer.window + 1) + code
        with np.errstate(all="ignore"):
            totals = self.messages[:-1, :, here] * self._factors[:, :-1].T
            margin = 2 * (self.errors[1:] + np.array(transfer.errors)[numbers])
            margin += 2 * (transfer.size + 16) * UNIT
            for_lo, for_hi = (1 - margin) / totals[:, 1], (1 + margin) / totals[:, 0]
            sum_lo = sum_hi = 0.0
            passed = np.zeros(len(bits), dtype=np.int64)
            certain = np.zeros(len(bits), dtype=bool)
            for option in range(options):
                after = np.where(
                    ones,
                    self._central[:, columns[1] + option],
                    self._central[:, columns[0] + option],
                )
                sum_lo = sum_lo + rows_lo[option, kinds] * after[0]
                sum_hi = sum_hi + rows_hi[option, kinds] * after[1]
                # Answers so far are below this one; a bound that is not a number settles nothing.
                is_here = passed == option
                is_beyond = lower >= sum_hi * for_hi
                certain |= is_here & ~is_beyond & (upper <= sum_lo * for_lo)
                passed += is_here & is_beyond
            certain &= self.messages[:-1, 0, here] > FAINT
        first = KINDS * (code // KINDS)
        found = np.where(ones, first + KINDS - 1 - passed, first + passed)
        return np.where(certain, found, UNSETTLED)

    @cached_property
    def _central(self) -> FloatArray:
        """Messages behind the blocks, as zeros, of the levels from -_CENTRAL on: (2, states,
        blocks)."""
        levels = 2 * _CENTRAL + _MOVES
        start = KINDS * (self._transfer.window + 1 - _CENTRAL)
        states = np.arange(start, start + KINDS * levels)
        plain, turned = (
            self.messages[1:, :, columns].transpose(1, 2, 0)
            for columns in (states, self._transfer.size - 1 - states)
        )
        found: FloatArray = np.where(self._bits == 1, turned, plain)
        return found

    def shares(self, index: int, code: int) -> Shares:
        """Enclosures for the state behind one block, given the one before it, both as zeros.

        Args:
          index: the block.
          code: the state before it; the others come in the order of codes from 3 D on.

        Raises:
          Undecided: nothing is known of the total weight.
        """
        transfer, number = self._transfer, self._numbers.item(index)
        if abs(code // KINDS) > transfer.window:
            raise Undecided(1.0)
        first = KINDS * (transfer.window + 1 + code // KINDS)
        row = transfer.row(number, first + code % KINDS)
        after = self.messages[index + 1]
        if self._bits.item(index):
            after = after[:, ::-1]
        error = self.errors.item(index + 1) + transfer.errors[number]
        return transfer.shares((after * row)[:, first:], error)
