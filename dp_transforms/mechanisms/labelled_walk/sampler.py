"""Draws lists from the corner-weighted law, by a tape.

Decisions. A release makes these, and no others. Each reads a uniform number U of its own and takes
the first state j, in the order of codes, with U < C_j: the exact probability of this state or an
earlier one.

    head           in which state does the first infinite run end?
    moves r        in which state does block r end?        In the order r = 0, 1, ...
    head pieces i  in which state does a piece of the first infinite run begin, going outwards?
    tail pieces i  in which state does a piece of the last one end?      Until D is 0.
    splits t, i    which state is in the middle of a part of a block?    See ``filling``.

Which decisions are made, and by which numbers, depends on f, q and earlier decisions only: never on
a window or a precision. Each is made by enclosures in float64 or, if these are not precise enough,
by MPFR numbers of rising precision on wider windows. So the list is a function of the tape alone,
and its law is exactly the mechanism's. How often floats are not precise enough depends on f, and
can show in the running time.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from dp_transforms.mechanisms.arrays import IntArray
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.enclosure import Undecided
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.labelled_walk.filling import Filler, Side
from dp_transforms.mechanisms.labelled_walk.float_transfer import UNIT, FloatTransfer
from dp_transforms.mechanisms.labelled_walk.float_walk import PART, UNSETTLED, FloatWalk, Part
from dp_transforms.mechanisms.labelled_walk.labels import KINDS
from dp_transforms.mechanisms.labelled_walk.precise import Precise, Vector, mirrored
from dp_transforms.mechanisms.labelled_walk.runs import Run, Runs
from dp_transforms.mechanisms.randomness import RandomTape
from dp_transforms.mechanisms.sampler.walk import Blocks, Walk, choose


@lru_cache(maxsize=4)
def _filler(decay: Decay) -> tuple[FloatTransfer, Filler]:
    transfer = FloatTransfer(decay)
    return transfer, Filler(transfer)


class CornerSampler:
    """Draws lists x with weights q**||x - f||_1 w(x), q >= 1/3, given f's runs as blocks."""

    def __init__(self, blocks: Blocks, decay: Decay):
        self._blocks = blocks
        self._runs = Runs(blocks)
        self._bits = blocks.bits
        self._transfer, self._filler = _filler(decay)
        # The infinite runs, as pieces of zeros; the last one in the mirror.
        length = self._transfer.long
        self._first = Run(length, blocks.lowest.item(0), blocks.highest.item(0))
        self._last = Run(length, -blocks.highest.item(-1), -blocks.lowest.item(-1))
        self._walk = FloatWalk(self._transfer, self._runs, self._last.lowest)

    def release(self, tape: RandomTape) -> FrequencyList:
        """The list that this tape gives."""
        states = self.states(tape)
        befores, behinds = (
            np.where(self._bits, 2 - part, part) for part in (states[:-1], states[1:])
        )
        blocks, places = self._filler.places(self._runs, befores, behinds, tape, "splits")
        head = self._outwards(tape, states.item(0), "head pieces")
        tail = self._outwards(tape, 2 - states.item(-1), "tail pieces")
        return Walk(head, blocks, places, tail).applied_to(self._blocks)

    def states(self, tape: RandomTape) -> IntArray:
        """The codes, 3 D + kind, of the states before each block and after the last, from the
        channels "head" and "moves"."""
        word = tape.prefix("head", 0, 53)
        try:
            code = choose(word * UNIT, (word + 1) * UNIT, *self._walk.head(self._first.highest))
        except Undecided:
            code = self._head(tape)
        count, bits = len(self._runs), self._bits.tolist()
        lower = (tape.words("moves", count) >> np.uint64(11)) * UNIT
        upper = lower + UNIT
        codes = [code]
        for index in range(count):
            if index % PART == 0:
                part = Part(self._walk, index, lower, upper)
            seen = 2 - code if bits[index] else code
            known = part.states(seen)
            following = UNSETTLED if known is None else known[index % PART]
            if following == UNSETTLED:
                try:
                    shares = self._walk.shares(index, seen)
                    following = KINDS * (seen // KINDS)
                    following += choose(lower.item(index), upper.item(index), *shares)
                except Undecided:
                    following = self._state(tape, index, seen)
            code = 2 - following if bits[index] else following
            codes.append(code)
        return np.array(codes)

    def _outwards(self, tape: RandomTape, code: int, channel: str) -> list[int]:
        """The distances of the moves in an infinite run from the list's end, at least 1 each, given
        the state next to the list; for the last run, in the mirror image. Reads the channels "head
        pieces" or "tail pieces", and "... splits r"."""
        is_head = channel == "head pieces"
        run = self._first if is_head else self._last
        codes = [code]
        while codes[-1] // KINDS:
            known = Side(run, codes[-1])
            sides = (Side(run, None), known) if is_head else (known, Side(run, None))
            first = 0 if is_head else KINDS * (codes[-1] // KINDS)
            uniform = tape.uniform(channel, len(codes) - 1)
            codes.append(self._filler.between(first, *sides, uniform))
        near, far = np.array(codes[:-1], dtype=np.int64), np.array(codes[1:], dtype=np.int64)
        befores, behinds = (far, near) if is_head else (near, far)
        pieces, places = self._filler.places(
            Runs.repeated(run, len(near)), befores, behinds, tape, f"{channel} splits"
        )
        inner = run.length - places + 1 if is_head else places
        distances: list[int] = (pieces * run.length + inner).tolist()
        return sorted(distances)

    # Decisions for which floats are not precise enough.

    def _head(self, tape: RandomTape) -> int:
        return self._filler.precisely(
            0,
            self._transfer.window,
            lambda level: (level.leaving(self._first.highest), self._message(level, 0)),
            tape.uniform("head", 0),
        )

    def _state(self, tape: RandomTape, index: int, code: int) -> int:
        """The state after a block, given the one before it, in the block's orientation."""

        def vectors(level: Precise) -> tuple[Vector, Vector]:
            right = self._message(level, index + 1)
            return (
                level.forward(self._runs[index], level.single(code)),
                mirrored(right) if self._bits.item(index) else right,
            )

        state = code // KINDS
        reach = max(abs(state), self._transfer.window)
        return self._filler.precisely(KINDS * state, reach, vectors, tape.uniform("moves", index))

    def _message(self, level: Precise, index: int) -> Vector:
        """The messages before block ``index``.

        After the next run that is long at this level, messages in floats are precise enough.
        """
        count = len(self._runs)
        end = next(
            (
                i
                for i in range(index, count)
                if self._walk.messages[i + 1, 0].any()
                and any(part.length >= level.long for part in self._runs[i].stretches(level.window))
            ),
            None,
        )
        if end is None:
            end, vector = count - 1, mirrored(level.settling(self._last.lowest))
        else:
            lower, upper = self._walk.messages[end + 1]
            vector = level.enclosing(lower, upper, self._walk.errors.item(end + 1))
            # Floats are kept as the block before them sees them.
            vector = mirrored(vector) if self._bits.item(end) else vector
        for i in range(end, index - 1, -1):
            run = self._runs[i]
            if self._bits.item(i):
                vector = mirrored(level.backward(run, mirrored(vector)))
            else:
                vector = level.backward(run, vector)
        return vector
