"""The places of a walk's moves inside blocks, given its states at the blocks' ends.

A block with moves is halved, and the state at its middle drawn given those at its ends, until each
part has only one walk left. All blocks are halved in rounds. The probabilities of these decisions
depend on the weights of runs only, and not on messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dp_transforms.mechanisms.arrays import BoolArray, FloatArray, IntArray
from dp_transforms.mechanisms.labelled_walk.float_transfer import SURE, UNIT, FloatTransfer, Shares
from dp_transforms.mechanisms.labelled_walk.labels import KINDS
from dp_transforms.mechanisms.labelled_walk.precise import Precise, Vector
from dp_transforms.mechanisms.labelled_walk.runs import Run, Runs
from dp_transforms.mechanisms.randomness import RandomTape, Uniform
from dp_transforms.mechanisms.sampler.walk import Undecided, choose

_MOVES = 4
"""Blocks with at most this many moves are halved in one array operation."""

FIRST_BITS = 128
"""The first precision of decisions for which floats are not precise enough."""


@dataclass(frozen=True)
class Side:
    """What lies on one side of a state: a run of zeros with a known other end, or an infinite one.

    Attributes:
      run: the run; of an infinite one, its walls.
      code: the state at the other end, or None if the run is infinite.
    """

    run: Run
    code: int | None


class Filler:
    """Draws states inside runs of zeros.

    Args:
      transfer: matrices of runs.
    """

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
        """Draws the state between two sides, with the product of their weights as its weight.

        Args:
          first: the least code that it can have; states are in the order of codes.
          left: what is before it.
          right: what is after it.
          uniform: the number that decides.
        """
        word = uniform.prefix(53)
        try:
            shares = self.float_shares(first, left, right)
            return first + choose(word * UNIT, (word + 1) * UNIT, *shares)
        except Undecided:
            pass
        codes = [first, *(side.code for side in (left, right) if side.code is not None)]
        reach = max(abs(code // KINDS) for code in codes)
        bits = FIRST_BITS
        while True:
            level = self.precise(bits, reach)
            try:
                return level.choose(first, *self.vectors(level, left, right), uniform)
            except Undecided:
                bits *= 2

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
            raise Undecided(1.0)
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
            raise Undecided(1.0)
        number = transfer.number(side.run)
        bounds = transfer.row(number, index) if is_left else transfer.column(number, index)
        return bounds, transfer.errors[number]

    def places(
        self, runs: Runs, befores: IntArray, behinds: IntArray, tape: RandomTape, channel: str
    ) -> tuple[IntArray, IntArray]:
        """The places of all moves in runs of zeros, given the states at their ends.

        Args:
          runs: the runs.
          befores: the codes of the states before them.
          behinds: the codes of the states after them.
          tape: "``channel`` r" is read in round r, a number for each part.
          channel: see ``tape``.

        Returns:
          (runs, places): the run and the place in it of every move, the places from 1.
        """
        numbers = np.flatnonzero(behinds // KINDS != befores // KINDS)
        parts = {
            "run": numbers,
            "start": np.zeros_like(numbers),
            "length": runs.lengths[numbers],
            "before": befores[numbers],
            "behind": behinds[numbers],
        }
        is_walled = runs.walled(self._transfer.window)
        found: list[tuple[IntArray, IntArray]] = []
        turn = 0
        while True:
            moves = parts["behind"] // KINDS - parts["before"] // KINDS
            full = moves == parts["length"]
            runs_of, starts, lengths = (parts[name][full] for name in ("run", "start", "length"))
            within = np.arange(1, lengths.sum() + 1) - np.repeat(
                lengths.cumsum() - lengths, lengths
            )
            found.append((np.repeat(runs_of, lengths), np.repeat(starts, lengths) + within))
            parts = {name: values[(moves > 0) & ~full] for name, values in parts.items()}
            if not len(parts["run"]):
                break
            middles = self._middles(runs, parts, is_walled, tape, f"{channel} {turn}")
            halves = parts["length"] // 2
            early = parts | {"length": halves, "behind": middles}
            late = parts | {
                "start": parts["start"] + halves,
                "length": parts["length"] - halves,
                "before": middles,
            }
            parts = {name: np.concatenate([early[name], late[name]]) for name in parts}
            turn += 1
        return (
            np.concatenate([run for run, _ in found]),
            np.concatenate([place for _, place in found]),
        )

    def _middles(
        self,
        runs: Runs,
        parts: dict[str, IntArray],
        is_walled: BoolArray,
        tape: RandomTape,
        channel: str,
    ) -> IntArray:
        count = len(parts["run"])
        words = tape.words(channel, count)
        firsts = KINDS * (parts["before"] // KINDS)
        found = np.full(count, -1)
        window = self._transfer.window
        quick = parts["behind"] // KINDS - parts["before"] // KINDS <= _MOVES
        quick &= (parts["before"] // KINDS >= -window) & ~is_walled[parts["run"]]
        quick &= parts["before"] // KINDS <= window - _MOVES
        chosen = np.flatnonzero(quick)
        found[chosen] = self._at_once(
            {name: values[chosen] for name, values in parts.items()}, words[chosen]
        )
        for i in np.flatnonzero(found < 0).tolist():
            run, start, length, before, behind = (
                parts[name].item(i) for name in ("run", "start", "length", "before", "behind")
            )
            half = length // 2
            left = Side(runs[run].part(start, half), before)
            right = Side(runs[run].part(start + half, length - half), behind)
            first = firsts.item(i)
            found[i] = self.between(first, left, right, tape.uniform(channel, i)) - first
        middles: IntArray = firsts + found
        return middles

    def _at_once(self, parts: dict[str, IntArray], words: Any) -> IntArray:
        """The middle states less the least possible; -1 where floats are not precise enough."""
        transfer = self._transfer
        halves = parts["length"] // 2
        lefts, rights = transfer.numbers(halves), transfer.numbers(parts["length"] - halves)
        centre = KINDS * (transfer.window + 1)
        rows: IntArray = parts["before"] + centre
        columns: IntArray = parts["behind"] + centre
        options = KINDS * (_MOVES + 1)
        firsts = KINDS * (parts["before"] // KINDS) + centre
        states = firsts[:, None] + np.arange(options)
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
        found: IntArray = np.where(certain, passed, -1)
        return found
