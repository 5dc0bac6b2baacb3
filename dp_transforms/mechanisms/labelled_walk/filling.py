"""The places of a walk's moves inside blocks, given its states at the blocks' ends.

A block with moves is halved, and the state at its middle drawn given those at its ends, until each
part has only one walk left. All blocks are halved in rounds. The probabilities of these decisions
depend on the weights of runs only, and not on messages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dp_transforms.mechanisms.arrays import BoolArray, FloatArray, IntArray, WordArray
from dp_transforms.mechanisms.enclosure import Undecided, settled
from dp_transforms.mechanisms.labelled_walk.float_transfer import SURE, UNIT, FloatTransfer, Shares
from dp_transforms.mechanisms.labelled_walk.labels import KINDS
from dp_transforms.mechanisms.labelled_walk.precise import Precise, Vector
from dp_transforms.mechanisms.labelled_walk.runs import Run, Runs
from dp_transforms.mechanisms.randomness import RandomTape, Uniform
from dp_transforms.mechanisms.sampler.walk import choose

_MOVES = 4  # Blocks with at most this many moves are halved in one array operation.
_FIRST_BITS = 128  # The first precision of decisions for which floats are not precise enough.


class Side(NamedTuple):
    """What lies on one side of a state: a run of zeros and the state at its other end; or the walls
    of an infinite run, and no state."""

    run: Run
    code: int | None


class Filler:
    """Draws states inside runs of zeros."""

    def __init__(self, transfer: FloatTransfer):
        self._transfer = transfer
        self._precise: dict[tuple[int, int], Precise] = {}

    def precise(self, bits: int, reach: int = 0) -> Precise:
        """The weights at one precision, on a window that contains the states |D| <= reach."""
        # Few sizes, so that each is computed once.
        reach = 1 << max(reach, 1).bit_length()
        if (bits, reach) not in self._precise:
            self._precise[bits, reach] = Precise(self._transfer.decay, bits, reach)
        return self._precise[bits, reach]

    def between(self, first: int, left: Side, right: Side, uniform: Uniform) -> int:
        """Draws the state between two sides, with the product of their weights as its weight, from
        the code ``first`` on."""
        word = uniform.prefix(53)
        try:
            shares = self.float_shares(first, left, right)
            return first + choose(word * UNIT, (word + 1) * UNIT, *shares)
        except Undecided:
            pass
        codes = [first, *(side.code for side in (left, right) if side.code is not None)]
        reach = max(abs(code // KINDS) for code in codes)
        return self.precisely(first, reach, lambda level: self.vectors(level, left, right), uniform)

    def precisely(
        self,
        first: int,
        reach: int,
        vectors: Callable[[Precise], tuple[Vector, Vector]],
        uniform: Uniform,
    ) -> int:
        """The same at rising precision, on windows that contain the states |D| <= reach, from the
        weights of what is before the state and of what is after it."""

        def choice(bits: int) -> int:
            level = self.precise(bits, reach)
            return level.choose(first, *vectors(level), uniform)

        return settled(choice, _FIRST_BITS)

    def vectors(self, level: Precise, left: Side, right: Side) -> tuple[Vector, Vector]:
        """The weights of the states between two sides: those of the left and of the right."""
        return (
            level.leaving(left.run.highest)
            if left.code is None
            else level.forward(left.run, level.single(left.code)),
            level.settling(right.run.lowest)
            if right.code is None
            else level.backward(right.run, level.single(right.code)),
        )

    def float_shares(self, first: int, left: Side, right: Side) -> Shares:
        """Enclosures of the shares of the states from ``first`` on.

        Raises:
          Undecided: the total weight may be too small for floats, or states are off the window.
        """
        transfer = self._transfer
        start = KINDS * (transfer.window + 1) + first
        if not KINDS <= start < transfer.size - KINDS:
            raise Undecided
        weights, error = self._ends(left, True)
        others, other_error = self._ends(right, False)
        return transfer.shares((weights * others)[:, start:], error + other_error)

    def _ends(self, side: Side, is_left: bool) -> tuple[FloatArray, float]:
        """(lower, upper) weights of the states at the near end of a side, and their error."""
        transfer = self._transfer
        if side.code is None:
            ends = transfer.limits(side.run)[1 if is_left else 0]
            return np.stack([ends, ends]), transfer.limit_error
        index = KINDS * (transfer.window + 1) + side.code
        if not KINDS <= index < transfer.size - KINDS:
            raise Undecided
        number = transfer.number(side.run)
        near = np.s_[index, :] if is_left else np.s_[:, index]
        return transfer.bounds(number, near), transfer.errors[number]

    def places(
        self, runs: Runs, befores: IntArray, behinds: IntArray, tape: RandomTape, channel: str
    ) -> tuple[IntArray, IntArray]:
        """The places of all moves in runs of zeros, given the codes of the states before and behind
        them. Reads "``channel`` r" in round r, a number for each part.

        Returns:
          (runs, places): the run and the place in it of every move, the places from 1.
        """
        numbers = np.flatnonzero(behinds // KINDS != befores // KINDS)
        # In rows: a part's run, the bits of the run in front of it, its length, and its two states.
        ends = (runs.lengths[numbers], befores[numbers], behinds[numbers])
        parts = np.stack([numbers, np.zeros_like(numbers), *ends])
        is_walled = runs.walled(self._transfer.window)
        found_runs, found_places = [], []
        turn = 0
        while True:
            run, start, length, before, behind = parts
            moves = behind // KINDS - before // KINDS
            full = moves == length
            repeats = length[full]
            within = np.arange(1, repeats.sum() + 1) - np.repeat(
                repeats.cumsum() - repeats, repeats
            )
            found_runs.append(np.repeat(run[full], repeats))
            found_places.append(np.repeat(start[full], repeats) + within)
            parts = parts[:, (moves > 0) & ~full]
            if not parts.size:
                return np.concatenate(found_runs), np.concatenate(found_places)
            run, start, length, before, behind = parts
            middle = self._middles(runs, parts, is_walled, tape, f"{channel} {turn}")
            half = length // 2
            early = [run, start, half, before, middle]
            late = [run, start + half, length - half, middle, behind]
            parts = np.concatenate([early, late], axis=1)
            turn += 1

    def _middles(
        self, runs: Runs, parts: IntArray, is_walled: BoolArray, tape: RandomTape, channel: str
    ) -> IntArray:
        """The states in the middle of the parts."""
        run, start, length, before, behind = parts
        words = tape.words(channel, len(run))
        state, window = before // KINDS, self._transfer.window
        found = np.full(len(run), -1)
        quick = (behind // KINDS - state <= _MOVES) & ~is_walled[run]
        quick &= (state >= -window) & (state <= window - _MOVES)
        found[quick] = self._at_once(length[quick], before[quick], behind[quick], words[quick])
        for i in np.flatnonzero(found < 0).tolist():
            here, near, half = runs[run.item(i)], start.item(i), length.item(i) // 2
            left = Side(here.part(near, half), before.item(i))
            right = Side(here.part(near + half, length.item(i) - half), behind.item(i))
            first = KINDS * state.item(i)
            found[i] = self.between(first, left, right, tape.uniform(channel, i)) - first
        middles: IntArray = KINDS * state + found
        return middles

    def _at_once(
        self, lengths: IntArray, befores: IntArray, behinds: IntArray, words: WordArray
    ) -> IntArray:
        """The middle states less the least possible; -1 where floats are not precise enough."""
        transfer = self._transfer
        halves = lengths // 2
        lefts, rights = transfer.numbers(halves), transfer.numbers(lengths - halves)
        centre = KINDS * (transfer.window + 1)
        rows, columns = befores + centre, behinds + centre
        options = KINDS * (_MOVES + 1)
        states = (KINDS * (befores // KINDS) + centre)[:, None] + np.arange(options)
        hi = lo = np.ones((len(states), options))
        errors = np.array(transfer.errors)
        for numbers, before, behind in (
            (lefts, rows[:, None], states),
            (rights, states, columns[:, None]),
        ):
            upper = transfer.matrices[numbers[:, None], before, behind]
            lower = np.where(upper > SURE, upper, 0)
            for number, matrix in transfer.lower.items():
                lower = np.where(numbers[:, None] == number, matrix[before, behind], lower)
            hi, lo = hi * upper, lo * lower
        hi, lo = hi.cumsum(axis=1), lo.cumsum(axis=1)
        margin = 2 * (errors[lefts] + errors[rights] + (options + 16) * UNIT)
        below = (words >> np.uint64(11)) * UNIT
        with np.errstate(all="ignore"):
            tops = hi * ((1 + margin) / lo[:, -1])[:, None]
            bottoms = lo * ((1 - margin) / hi[:, -1])[:, None]
            passed = (below[:, None] >= tops).sum(axis=1)
            reached = bottoms[np.arange(len(lo)), np.minimum(passed, options - 1)]
            certain = (passed < options) & (below + UNIT <= reached) & (lo[:, -1] > SURE)
        return np.where(certain, passed, -1)
