"""Sums over all labelled walks in plain floats: for evaluation, and no part of a release.

The counterpart of ``walk_sums`` for corner-weighted releases: rates above and below zero may be
complex, and differ. States are (D, kind), see ``labelled_walk.labels``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dp_transforms.mechanisms.arrays import Array, ComplexArray
from dp_transforms.mechanisms.labelled_walk.decoupling import window_of
from dp_transforms.mechanisms.labelled_walk.labels import KINDS, Powers
from dp_transforms.mechanisms.labelled_walk.runs import Run, Runs
from dp_transforms.mechanisms.laws.walk_sums import STEP, ChainSums
from dp_transforms.mechanisms.sampler.walk import NO_WALL, Blocks

_BITS = 70


def window_for(rate: float) -> int:
    """W such that |D| > W is negligible."""
    return window_of(rate, _BITS)


class LabelledSums(ChainSums):
    """Sums over labelled walks, perhaps with walls, by states level * KINDS + kind: see
    ``WalkSums``."""

    def __init__(self, up: complex, down: complex, window: int):
        above, below = (_powers(complex(rate), window) for rate in (up, down))
        self._powers = [
            Powers(window, here.costs, here.rests, 0j, 1 + 0j, there)
            for here, there in ((above, below), (below, above))
        ]
        self.window = window
        self.size = KINDS * above.levels
        self._matrices: dict[tuple[int, Run], ComplexArray] = {}

    def matrix(self, bit: int, run: Run | int) -> ComplexArray:
        """The weights of walks through equal bits between constant walls, in the mirror for
        ones; without walls where the run is just a length."""
        if isinstance(run, int):
            run = Run(run)
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

    def leaving_first_run(self, highest: int = NO_WALL) -> ComplexArray:
        return self._powers[0].leaving(highest).ravel()

    def entering_last_run(self, highest: int = NO_WALL) -> ComplexArray:
        return self._powers[1].settling(-highest).ravel()[::-1]

    def pieces(self, blocks: Blocks) -> list[tuple[int, Any]]:
        runs = Runs(blocks)
        return [
            (bit, stretch)
            for index, bit in enumerate(blocks.bits.tolist())
            for stretch in runs[index].stretches(self.window)
        ]

    def advance(self, block: tuple[int, Any], vector: Array) -> Array:
        bit, run = block
        turn = -1 if bit else 1
        return (vector[::turn] @ self.matrix(bit, run))[::turn]

    def step(self, block: tuple[int, Any], vector: Array) -> Array:
        bit, run = block
        turn = -1 if bit else 1
        return (self.matrix(bit, run) @ vector[::turn])[::turn]


def expected_l1(blocks: Blocks, rate: float) -> float:
    """E||x - f||_1 where x has weight e**(-rate * ||x - f||_1) times its corner weight, given f's
    runs as blocks, perhaps with walls. As ``walk_sums.expected_l1``: corner weights do not depend
    on c."""
    exponent = complex(rate, STEP)
    return -LabelledSums(exponent, exponent, window_for(rate)).log_total(blocks).imag / STEP


def _powers(rate: complex, window: int) -> Powers:
    states = np.arange(window + 3)
    return Powers(window, np.exp(-rate * states), -np.expm1(-rate * states), 0j, 1 + 0j)
