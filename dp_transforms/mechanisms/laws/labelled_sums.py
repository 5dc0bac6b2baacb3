"""Sums over all labelled walks in plain floats: for evaluation, and no part of a release.

The counterpart of ``walk_sums`` for corner-weighted releases: rates above and below zero may be
complex, and differ. States are (D, kind), see ``labelled_walk.labels``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dp_transforms.mechanisms.arrays import ComplexArray
from dp_transforms.mechanisms.labelled_walk.decoupling import window_of
from dp_transforms.mechanisms.labelled_walk.labels import KINDS, Powers
from dp_transforms.mechanisms.labelled_walk.runs import Run, Runs
from dp_transforms.mechanisms.laws.walk_sums import STEP, Block
from dp_transforms.mechanisms.sampler.walk import Blocks

_BITS = 70


def window_for(rate: float) -> int:
    """W such that |D| > W is negligible."""
    return window_of(rate, _BITS)


class LabelledSums:
    """Total weights of parts of labelled walks, by states level * KINDS + kind.

    Args:
      up: the rate above zero; its real part is positive.
      down: the rate below zero, likewise.
      window: W.
    """

    def __init__(self, up: complex, down: complex, window: int):
        above, below = (_powers(complex(rate), window) for rate in (up, down))
        self._powers = [
            Powers(window, here.costs, here.rests, 0j, 1 + 0j, there)
            for here, there in ((above, below), (below, above))
        ]
        self.window = window
        self.size = KINDS * above.levels
        self._matrices: dict[tuple[int, Run], ComplexArray] = {}

    def matrix(self, bit: int, run: Run) -> ComplexArray:
        """The weights of walks through equal bits between constant walls, in the mirror for
        ones."""
        found = self._matrices.get((bit, run))
        if found is None:
            if run.length == 1:
                powers = self._powers[bit]
                one = np.eye(self.size, dtype=complex).reshape(-1, KINDS, self.size)
                found = powers.backward(one, run.lowest, run.highest).reshape(one.shape[2], -1)
            else:
                half = run.length // 2
                rest = run.part(half, run.length - half)
                found = self.matrix(bit, run.part(0, half)) @ self.matrix(bit, rest)
            self._matrices[bit, run] = found
        return found

    def step(self, bit: int, vector: ComplexArray) -> ComplexArray:
        """Messages before one bit, from those behind it."""
        return self._oriented(bit, lambda seen: self.matrix(bit, Run(1)) @ seen, vector)

    def advance(self, bit: int, vector: ComplexArray) -> ComplexArray:
        """Weights behind one bit, from those before it."""
        return self._oriented(bit, lambda seen: seen @ self.matrix(bit, Run(1)), vector)

    @property
    def at_zero(self) -> tuple[ComplexArray, ComplexArray]:
        """Inside a long run of zeros: the weights that come before, the messages behind."""
        before, behind = np.zeros((2, self.size), dtype=complex)
        centre = KINDS * (self.window + 1)
        before[centre : centre + 2] = 0.5
        behind[centre : centre + KINDS] = [1, 1, 0.5]
        return before, behind

    def forward(self, blocks: Sequence[Block]) -> ComplexArray:
        """The weights of all that precedes each block end, up to a positive factor for each."""
        messages = np.empty((len(blocks) + 1, self.size), dtype=complex)
        messages[0] = self._powers[0].leaving().ravel()
        for index, (bit, length) in enumerate(blocks):
            matrix = self.matrix(bit, Run(length))
            vector = self._oriented(bit, lambda seen, m=matrix: seen @ m, messages[index])
            messages[index + 1] = vector / np.abs(vector).max()
        return messages

    def backward(self, blocks: Sequence[Block]) -> ComplexArray:
        """The weights of all that follows each block end, up to a positive factor for each."""
        messages = np.empty((len(blocks) + 1, self.size), dtype=complex)
        messages[-1] = self._powers[1].settling().ravel()[::-1]
        for index in range(len(blocks) - 1, -1, -1):
            bit, length = blocks[index]
            matrix = self.matrix(bit, Run(length))
            vector = self._oriented(bit, lambda seen, m=matrix: m @ seen, messages[index + 1])
            messages[index] = vector / np.abs(vector).max()
        return messages

    def log_total(self, blocks: Blocks) -> complex:
        """The logarithm of the total weight of all walks, up to a multiple of 2 pi i.

        Args:
          blocks: each run as one block; perhaps with walls.
        """
        runs = Runs(blocks)
        vector = self._powers[1].settling(-blocks.highest.item(-1)).ravel()[::-1]
        logarithm = 0.0
        for index in reversed(range(len(runs))):
            bit = runs.bits.item(index)
            for stretch in reversed(list(runs[index].stretches(self.window))):
                matrix = self.matrix(bit, stretch)
                vector = self._oriented(bit, lambda seen, m=matrix: m @ seen, vector)
            scale = np.abs(vector).max()
            vector, logarithm = vector / scale, logarithm + np.log(scale)
        leaving = self._powers[0].leaving(blocks.highest.item(0)).ravel()
        return complex(np.log(leaving @ vector) + logarithm)

    def _oriented(self, bit: int, apply: Any, vector: ComplexArray) -> ComplexArray:
        found: ComplexArray = apply(vector[::-1])[::-1] if bit else apply(vector)
        return found


def expected_l1(blocks: Blocks, rate: float) -> float:
    """E||x - f||_1 where x has weight e**(-rate * ||x - f||_1) times its corner weight.

    It is -d ln Z / dc, as corner weights do not depend on c, by an imaginary step (``walk_sums``).

    Args:
      blocks: f's runs, each as one block; perhaps with walls.
      rate: c, at most ln 3.
    """
    exponent = complex(rate, STEP)
    return -LabelledSums(exponent, exponent, window_for(rate)).log_total(blocks).imag / STEP


def _powers(rate: complex, window: int) -> Powers:
    states = np.arange(window + 3)
    return Powers(window, np.exp(-rate * states), -np.expm1(-rate * states), 0j, 1 + 0j)
