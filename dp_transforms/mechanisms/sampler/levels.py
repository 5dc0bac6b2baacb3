"""Samples walks at levels of rising precision, each made when it is first needed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dp_transforms.mechanisms.arrays import IntArray
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.enclosure import Undecided
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.randomness import RandomTape
from dp_transforms.mechanisms.sampler.blocks import fill_blocks, partitions
from dp_transforms.mechanisms.sampler.float_level import FloatLevel
from dp_transforms.mechanisms.sampler.float_transfer import FloatTransfer
from dp_transforms.mechanisms.sampler.precise_level import LookingAhead, PreciseLevel
from dp_transforms.mechanisms.sampler.precise_transfer import PreciseTransfer
from dp_transforms.mechanisms.sampler.transfer import independence_length
from dp_transforms.mechanisms.sampler.walk import NO_WALL, Blocks, Walk

_WIDEST_FLOAT_WINDOW = 2000


@dataclass(frozen=True)
class Level:
    """The precision with which questions are settled."""

    window: int  # the states -window..window are looked at
    bits: int = 53  # of the numbers
    ahead: bool = False  # questions that float64 leaves open are settled by ``LookingAhead``

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
    """Draws lists x with weights q**||x - f||_1.

    Args:
      blocks: f's runs, each as one block.
      decay: the ratio q.
    """

    def __init__(self, blocks: Blocks, decay: Decay):
        self.decay = decay
        corners = np.minimum(blocks.lengths[1:], blocks.lengths[:-1])
        self.first_level = Level.first(decay, int(corners.max(initial=0)))
        self.blocks = blocks.cut(independence_length(decay, self.first_level.window))
        self._transfers: dict[int, FloatTransfer] = {}
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
        windows = [window for window in self._transfers if window >= reach]
        transfer = self._transfer(min(windows, default=reach))
        blocks, places = fill_blocks(self.blocks, states, transfer, tape)
        head, tail = (
            partitions(self.decay, states[at : at + 1], tape, channel).tolist()
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
                assert isinstance(floats, FloatLevel)
                found = LookingAhead(self.blocks, floats, self.decay)
            elif level.bits == 53:
                found = FloatLevel(self.blocks, self._transfer(level.window))
            else:
                transfer = PreciseTransfer(self.decay, level.window, level.bits)
                found = PreciseLevel(self.blocks, transfer)
            self._levels[level] = found
        return found

    def _transfer(self, window: int) -> FloatTransfer:
        if window not in self._transfers:
            self._transfers[window] = FloatTransfer(self.decay, window)
        return self._transfers[window]
