"""The walk's chain of states, settled by certified float64 enclosures."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dp_transforms.mechanisms.float_messages import Messages, backward, edge_of, settle
from dp_transforms.mechanisms.randomness import RandomTape
from dp_transforms.mechanisms.scaled_messages import scaled_backward
from dp_transforms.mechanisms.scaled_transfer import ScaledTransfer
from dp_transforms.mechanisms.transfer import UNIT_ROUNDOFF, FloatTransfer, clipped
from dp_transforms.mechanisms.walk import Blocks, Undecided, choose

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_CENTRAL = 7
"""Staying put is looked up in a table for |D| up to this; further out it is worked out when
asked."""

_AHEAD = 6
"""How many moves within one block are looked at before all of them are."""

_REMEMBERED = 2**15
"""How many questions' thresholds are kept for the next release."""


AnyTransfer = FloatTransfer | ScaledTransfer


class FloatLevel:
    """Settles the questions of a release by float64 enclosures on a window of states.

    Args:
      blocks: f's blocks.
      transfers: for blocks of zeros and, mirrored, for blocks of ones; of one window.

    Raises:
      Undecided: the window is too narrow, or float64's range too small, for any enclosure.
    """

    def __init__(self, blocks: Blocks, transfers: tuple[AnyTransfer, AnyTransfer]):
        self._blocks = blocks
        self._transfers = transfers
        self._window = transfers[0].window
        self._size = transfers[0].size
        self._recent: dict[tuple[int, int], tuple[list[float], list[float]]] = {}
        with np.errstate(all="ignore"):
            try:
                self._messages = _backward(blocks, transfers)
            except FloatingPointError:
                raise Undecided(1.0) from None

    def states(self, tape: RandomTape) -> IntArray:
        """The states before each block and after the last, from the channels "head" and "moves".

        Raises:
          Undecided: an enclosure does not settle a question.
        """
        with np.errstate(all="ignore"):
            return self._states(tape)

    def undecided_probability(self, states: IntArray) -> float:
        """How likely it was, along this chain of states, that a question would not be settled.

        The sum of the enclosures' widths; for evaluation only, as it depends on f.
        """
        with np.errstate(all="ignore"):
            thresholds = [self._head]
            for index, state in enumerate(states[:-1].tolist()):
                thresholds.append(self._thresholds(index, state, self._size))
        widths = 0.0
        for lo, hi in thresholds:
            inside = [(a, min(b, 1.0)) for a, b in zip(lo, hi, strict=True) if a < 1]
            widths += sum(b - a + UNIT_ROUNDOFF for a, b in inside)
        return widths

    # The chain of states.

    def _states(self, tape: RandomTape) -> IntArray:
        count = len(self._blocks)
        word = tape.prefix("head", 0, 53)
        state = choose(word * UNIT_ROUNDOFF, (word + 1) * UNIT_ROUNDOFF, *self._head)
        # Only 53 bits are looked at here: these bounds are exact.
        lower = (tape.words("moves", count) >> np.uint64(11)) * UNIT_ROUNDOFF
        upper = lower + UNIT_ROUNDOFF
        changes, levels = [0], [state]
        waiting: dict[int, IntArray] = {}
        index = 0
        while index < count:
            column = self._staying.get(state)
            if column is not None:
                if state not in waiting:
                    waiting[state] = np.flatnonzero(upper > column)
                at = int(waiting[state].searchsorted(index))
                if at == len(waiting[state]):
                    break
                index = int(waiting[state][at])
            moves = self._moves(index, state, lower.item(index), upper.item(index))
            index += 1
            if moves:
                state += -moves if self._blocks.bits.item(index - 1) else moves
                changes.append(index)
                levels.append(state)
        return np.repeat(levels, np.diff([*changes, count + 1]))

    def _moves(self, index: int, state: int, lower: float, upper: float) -> int:
        if abs(state) > self._window:
            raise Undecided(1.0)
        found = self._recent.get((index, state))
        if found is None:
            found = self._thresholds(index, state, _AHEAD)
            if len(self._recent) < _REMEMBERED:
                self._recent[index, state] = found
        try:
            return choose(lower, upper, *found)
        except Undecided:
            return choose(lower, upper, *self._thresholds(index, state, self._size))

    def _thresholds(self, index: int, state: int, ahead: int) -> tuple[list[float], list[float]]:
        """Enclosures of Pr[at most j moves in block ``index`` | state], for j = 0, 1, ..."""
        messages, bit = self._messages, self._blocks.bits.item(index)
        length = self._blocks.lengths.item(index)
        matrix = self._transfers[bit].matrix(length)
        start = self._window + (-state if bit else state)
        ahead = min(ahead, self._size - start, length + 1)
        climb = slice(start, start + ahead)
        lo, hi = messages.lo[index + 1], messages.hi[index + 1]
        here, after = messages.exponents[index], messages.exponents[index + 1]
        if bit:
            lo, hi, after = lo[::-1], hi[::-1], after[::-1]
        norm_lo = messages.lo.item(index, state + self._window)
        norm_hi = messages.hi.item(index, state + self._window)
        if not norm_lo > 0:
            raise Undecided(1.0)
        row_lo, row_hi, scale = matrix.row(start, ahead)
        below, above = row_lo * lo[climb], row_hi * hi[climb]
        if len(after) > 1:
            shift = clipped(scale + after[climb] - here[state + self._window])
            below, above = np.ldexp(below, shift), np.ldexp(above, shift)
        elif after.item(0) != here.item(0):
            shift = clipped(after - here)
            below, above = np.ldexp(below, shift), np.ldexp(above, shift)
        error = (
            messages.errors.item(index)
            + messages.errors.item(index + 1)
            + matrix.error
            + (ahead + 8) * UNIT_ROUNDOFF
        )
        below = below.cumsum() * ((1 - error) / norm_hi)
        above = above.cumsum() * ((1 + 2 * error) / norm_lo)
        return below.tolist(), above.tolist()

    @cached_property
    def _head(self) -> tuple[list[float], list[float]]:
        """Enclosures of Pr[a <= j] for j = 0..W."""
        window, messages = self._window, self._messages
        mantissas, scale = self._transfers[0].leaving_first_run
        if messages.exponents.shape[1] > 1:
            scale = scale + messages.exponents[0, window:]
        shift = clipped(scale - scale.max())
        weights = np.stack([messages.lo[0, window:], messages.hi[0, window:]], axis=1)
        weights = np.ldexp(mantissas[:, None] * weights, shift[:, None])
        settle(weights)
        # A and beta_0 are log-concave both, and so is their product.
        edge, ratio = edge_of(weights)
        rest = edge * ratio / (1 - ratio) if ratio < 1 else math.inf
        error = 2 * messages.errors.item(0) + (2 * self._size + 8) * UNIT_ROUNDOFF
        lo, hi = weights.cumsum(axis=0).T
        return (
            (lo * ((1 - error) / (hi[-1] + rest))).tolist(),
            (hi * ((1 + 2 * error) / lo[-1])).tolist(),
        )

    @cached_property
    def _staying(self) -> dict[int, FloatArray]:
        """Lower bounds of Pr[no move in block r | state] for every r, near the centre."""
        messages, blocks = self._messages, self._blocks
        errors = messages.errors[:-1] + messages.errors[1:]
        reach = min(_CENTRAL, self._window)
        table = {}
        for state in range(-reach, reach + 1):
            at = state + self._window
            rate = self._transfers[0 if state >= 0 else 1].rate
            cost = rate * abs(state) * blocks.lengths
            # numpy's exp is within 4 units; the argument is within 2, relative to itself.
            error = errors + (12 + 3 * cost) * UNIT_ROUNDOFF
            stay = np.exp(-cost) * (messages.lo[1:, at] / messages.hi[:-1, at]) * (1 - error)
            column = messages.exponents[:, at if messages.exponents.shape[1] > 1 else 0]
            table[state] = np.ldexp(stay, clipped(np.diff(column)))
        return table


def _backward(blocks: Blocks, transfers: tuple[AnyTransfer, AnyTransfer]) -> Messages:
    zeros, ones = transfers
    if isinstance(zeros, ScaledTransfer) and isinstance(ones, ScaledTransfer):
        return scaled_backward(blocks, (zeros, ones))
    if isinstance(zeros, FloatTransfer) and isinstance(ones, FloatTransfer):
        return backward(blocks, (zeros, ones))
    raise TypeError("both transfers must be of one kind")
