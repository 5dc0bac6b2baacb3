"""Samples walks at levels of rising precision, each made when it is first needed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

import numpy as np

from dp_transforms.mechanisms.arrays import IntArray
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.enclosure import Undecided
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.randomness import RandomTape
from dp_transforms.mechanisms.sampler.blocks import fill_blocks, partitions
from dp_transforms.mechanisms.sampler.float_level import AnyTransfer, FloatLevel
from dp_transforms.mechanisms.sampler.float_transfer import FloatTransfer
from dp_transforms.mechanisms.sampler.looking_ahead import LookingAhead
from dp_transforms.mechanisms.sampler.precise_level import PreciseLevel
from dp_transforms.mechanisms.sampler.precise_transfer import PreciseTransfer
from dp_transforms.mechanisms.sampler.scaled_transfer import ScaledTransfer
from dp_transforms.mechanisms.sampler.transfer import independence_length, slower_of
from dp_transforms.mechanisms.sampler.walk import NO_WALL, Blocks, Walk

SCALED_RATE = Fraction(1, 40)
"""Below this c messages have an exponent for each state: see ``scaled_messages``."""

_WIDEST_FLOAT_WINDOW = 2000

_T = TypeVar("_T")


@dataclass(frozen=True)
class Level:
    """How precisely questions are settled."""

    window: int  # the states -window..window are looked at
    bits: int = 53  # of the numbers
    ahead: bool = False  # questions that float64 leaves open are settled by ``looking_ahead``

    @classmethod
    def first(cls, decay: Decay, corner: int = 0) -> Level:
        """float64 on a window that is wide enough for most lists at this rate, whose neighbouring
        runs are at most ``corner`` long, or one of two is."""
        # |D| reaches the corner, or about ln(2) / c, and strays by a few times 1 / sqrt(4 c).
        rate = float(decay.log_enclosure(64)[0])
        stray = 1 / math.sqrt(rate)
        return cls(8 + math.ceil(max(5 * stray, 3 * stray + min(corner, math.log(2) / rate))))

    def next(self, width: float) -> Level:
        """The level to try when this one left an enclosure of that width around a question."""
        wider = math.ceil(1.5 * self.window)
        if self.bits == 53 and not self.ahead:
            is_narrow = width > 2.0**-20 and self.window < _WIDEST_FLOAT_WINDOW
            return Level(wider, ahead=not is_narrow)
        return Level(wider, 2 * self.bits) if self.bits > 53 else Level(self.window, 128)


class Sampler:
    """Draws lists x with weights q**||x - f||_1, or with one ratio for each direction.

    Args:
      blocks: f's runs, each as one block.
      positive: what a unit of x above f costs (D > 0).
      negative: what a unit below costs; by default the same.
    """

    def __init__(self, blocks: Blocks, positive: Decay, negative: Decay | None = None):
        self.positive = positive
        self._negative = positive if negative is None else negative
        slower = slower_of(positive, self._negative)
        corners = np.minimum(blocks.lengths[1:], blocks.lengths[:-1])
        self.first_level = Level.first(slower, int(corners.max(initial=0)))
        self.blocks = blocks.cut(independence_length(slower, self.first_level.window))
        self._scaled = slower.log_enclosure(64)[1] < SCALED_RATE
        self._float_transfers: dict[int, tuple[AnyTransfer, AnyTransfer]] = {}
        self._levels: dict[Level, FloatLevel | LookingAhead | PreciseLevel] = {}

    def release(self, tape: RandomTape) -> FrequencyList:
        """The list that this tape gives."""
        return self.walk(tape).applied_to(self.blocks)

    def walk(self, tape: RandomTape, level: Level | None = None) -> Walk:
        """The walk that this tape gives, whichever level is tried first."""
        return self.walk_along(self.states(tape, level), tape)

    def walk_along(self, states: IntArray, tape: RandomTape) -> Walk:
        """The walk that this tape gives, if it gives these states."""
        reach = int(np.abs(states).max())
        windows = [window for window in self._float_transfers if window >= reach]
        transfers = self._floats(min(windows, default=reach))
        blocks, places = fill_blocks(self.blocks, states, transfers, tape)
        head, tail = (
            partitions(self.positive, states[at : at + 1], tape, channel).tolist()
            for at, channel in ((0, "head parts"), (len(self.blocks), "tail parts"))
        )
        return Walk(head, blocks, places, tail)

    def states(
        self, tape: RandomTape, level: Level | None = None, count: int = NO_WALL
    ) -> IntArray:
        """The walk's states before each block and after the last of the first ``count``."""
        level = level or self.first_level
        while True:
            try:
                states = self.at_level(level).states(tape, count)
            except Undecided as undecided:
                level = level.next(undecided.width)
                continue
            if level == Level(level.window) and level.window > self.first_level.window:
                # A window that was too narrow once would be so again.
                self.first_level = level
            return states

    def at_level(self, level: Level) -> FloatLevel | LookingAhead | PreciseLevel:
        """The messages at one level.

        Raises:
          Undecided: the level's window is too narrow for any.
        """
        found = self._levels.get(level)
        if found is None:
            if level.ahead:
                floats = self.at_level(Level(level.window))
                found = LookingAhead(self.blocks, floats, self._precise)  # type: ignore[arg-type]
            elif level.bits == 53:
                found = FloatLevel(self.blocks, self._floats(level.window))
            else:
                found = PreciseLevel(self.blocks, self._precise(level.window, level.bits))
            self._levels[level] = found
        return found

    def _floats(self, window: int) -> tuple[AnyTransfer, AnyTransfer]:
        """The transfer weights of runs of zeros and, mirrored, of ones."""
        if window not in self._float_transfers:
            kind: type[AnyTransfer] = ScaledTransfer if self._scaled else FloatTransfer
            self._float_transfers[window] = self._by_bit(lambda q, r: kind(q, r, window))
        return self._float_transfers[window]

    def _precise(
        self, window: int, bits: int, most_steps: int | None = None
    ) -> tuple[PreciseTransfer, PreciseTransfer]:
        return self._by_bit(lambda q, r: PreciseTransfer(q, r, window, bits, most_steps))

    def _by_bit(self, make: Callable[[Decay, Decay], _T]) -> tuple[_T, _T]:
        """What ``make`` gives for runs of zeros and, mirrored, for runs of ones; once if equal."""
        zeros = make(self.positive, self._negative)
        if self.positive == self._negative:
            return zeros, zeros
        return zeros, make(self._negative, self.positive)
