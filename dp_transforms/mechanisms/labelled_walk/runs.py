"""Runs of equal bits between walls, seen as runs of zeros, and their parts with constant walls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dp_transforms.mechanisms.arrays import BoolArray
from dp_transforms.mechanisms.labelled_walk.labels import NO_WALL
from dp_transforms.mechanisms.sampler.walk import Blocks


@dataclass(frozen=True)
class Run:
    """A run of zero bits of f, or of one bits in the mirror image."""

    length: int
    lowest: int = -NO_WALL  # the least D that is allowed before its first bit, at most 0
    highest: int = NO_WALL  # the largest, at least 0
    low_rise: int = 0  # the change of ``lowest`` from bit to bit
    high_rise: int = 0

    def part(self, start: int, length: int) -> Run:
        """The bits start .. start + length - 1."""
        return Run(
            length,
            self.lowest + start * self.low_rise,
            self.highest + start * self.high_rise,
            self.low_rise,
            self.high_rise,
        )

    def on_window(self, window: int) -> Run:
        """The same run on the states |D| <= window: walls beyond the window are left out."""
        lowest, highest, low_rise, high_rise = -NO_WALL, NO_WALL, 0, 0
        last = self.length - 1
        if max(self.lowest, self.lowest + last * self.low_rise) >= -window:
            lowest, low_rise = self.lowest, self.low_rise
        if min(self.highest, self.highest + last * self.high_rise) <= window:
            highest, high_rise = self.highest, self.high_rise
        if self.length == 1:
            low_rise = high_rise = 0
        return Run(self.length, lowest, highest, low_rise, high_rise)

    def stretches(self, window: int) -> Iterator[Run]:
        """Its parts in order, on a window; each has constant walls, or is one bit."""
        start = 0
        while start < self.length:
            rest = self.part(start, self.length - start)
            length = min(
                rest.length,
                _steady(rest.lowest, rest.low_rise, -1, window),
                _steady(rest.highest, rest.high_rise, 1, window),
            )
            yield rest.part(0, length).on_window(window)
            start += length


def _steady(wall: int, rise: int, side: int, window: int) -> int:
    """For how many bits a wall is constant, or beyond the window; at least one."""
    beyond = side * wall - window - 1
    if rise == 0 or (beyond >= 0 and rise * side > 0):
        return NO_WALL
    return max(1, beyond + 1)


class Runs:
    """A list's runs, those of ones in the mirror image; ``runs[i]`` is a ``Run``.

    Args:
      blocks: each run as one block.

    Attributes:
      bits: f's bits, 0 or 1 for each run.
      lengths: the numbers of bits of the runs.
    """

    def __init__(self, blocks: Blocks):
        low, high = blocks.lowest[:-1], blocks.highest[:-1]
        rises = np.sign(np.diff(blocks.lowest)), np.sign(np.diff(blocks.highest))
        ones = blocks.bits == 1
        self.bits, self.lengths = blocks.bits, blocks.lengths
        self._walls = np.stack(
            [
                np.where(ones, -high, low),
                np.where(ones, -low, high),
                np.where(ones, -rises[1], rises[0]),
                np.where(ones, -rises[0], rises[1]),
            ]
        )

    @classmethod
    def repeated(cls, run: Run, count: int) -> Runs:
        """``count`` copies of a run with constant walls."""
        walls = np.full(count + 1, run.lowest), np.full(count + 1, run.highest)
        bits, lengths = np.zeros(count, dtype=np.int64), np.full(count, run.length)
        return cls(Blocks(bits, lengths, lengths, 0, *walls))

    def __len__(self) -> int:
        return len(self.bits)

    def __getitem__(self, index: int) -> Run:
        return Run(self.lengths.item(index), *self._walls[:, index].tolist())

    def walled(self, window: int) -> BoolArray:
        """Which runs have a wall within the window."""
        lowest, highest, low_rises, high_rises = self._walls
        last = self.lengths - 1
        found: BoolArray = (np.maximum(lowest, lowest + low_rises * last) >= -window) | (
            np.minimum(highest, highest + high_rises * last) <= window
        )
        return found
