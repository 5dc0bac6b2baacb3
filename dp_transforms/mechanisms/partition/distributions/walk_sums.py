"""Sums over all walks in plain floats: for evaluation, and no part of a release.

The weights may be complex. A position in state D weighs e**(-up * D) where D is positive and
e**(down * D) where it is negative, so that

    up = down = c           gives the mechanism's weights q**||x - f||_1, q = e**-c
    up = c - s, down = c+s  multiplies them by e**(s * sum D) = e**(s * (sum x - sum f))

for any complex s. All sums are analytic in up and down. With a tiny imaginary step they give
derivatives without any cancellation (the complex-step method; Squire and Trapp, 1998); with
imaginary s they give characteristic functions.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from dp_transforms.mechanisms.arrays import Array, ComplexArray
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.partition.walk.walk import Blocks

Block = tuple[int, int]
"""A bit, and how often it is repeated."""

STEP = 1e-30  # An imaginary step so small that its square is nothing beside 1.

FLOAT64_RATE = 1 / 256
"""At smaller c, sums on a window that is wide enough for all lists span more than float64's range.
They are then made in numpy's longdouble, which has a wider one on most machines."""

_MOST_STEPS = 64  # In longdouble, longer blocks are applied as a matrix, shorter ones step by step.


def window_for(rate: float) -> int:
    """W such that |D| > W has a probability below 1e-20 at every position of every walk.

    |D| is largest where two long runs meet. There its distribution is q**(d**2) / (q; q)_d**2 up to
    a
    factor: about Gaussian, with mean ln(2) / c and variance 1 / 4c where c is small.
    """
    return math.ceil(math.log(2) / rate + 5 / math.sqrt(rate)) + 3


class WalkSums:
    """Total weights of parts of walks without walls, by states -W..W; state D has index D + W.

    Args:
      up: the rate above zero; its real part is positive.
      down: the rate below zero, likewise.
      window: W, such that nothing that matters lies outside.
    """

    def __init__(self, up: complex, down: complex, window: int):
        self.window = window
        self.size = 2 * window + 1
        self._rates = up, down
        self._wide = min(up.real, down.real) < FLOAT64_RATE
        self._number: Any = np.clongdouble if self._wide else np.complex128
        states = np.arange(window + 1)
        above, below = (np.exp(-self._number(rate) * states) for rate in (up, down))
        self.weights: ComplexArray = np.concatenate([below[:0:-1], above])
        """The cost of each state."""
        # q**(a(a+1)/2) / (q; q)_a and q**(e(e-1)/2) / (q; q)_e.
        rest = -np.expm1(-self._number(up) * states[1:])
        self._leaving = np.append(1, np.cumprod(above[1:] / rest))
        self._entering = np.append(1, np.cumprod(above[:-1] / rest))
        self._matrices: dict[tuple[int, int], ComplexArray] = {}

    def leaving_first_run(self) -> ComplexArray:
        """The weights of walks through the infinite run of zeros, by the state it is left in."""
        return np.append(np.zeros(self.window), self._leaving)

    def entering_last_run(self) -> ComplexArray:
        """The weights of walks through the infinite run of ones, by the state it is entered in."""
        return np.append(np.zeros(self.window), self._entering)

    def forward(self, blocks: Sequence[Block]) -> ComplexArray:
        """The weights of all that precedes each block end, up to a positive factor for each."""
        messages = np.empty((len(blocks) + 1, self.size), dtype=self._number)
        messages[0] = self.leaving_first_run()
        for index, block in enumerate(blocks):
            vector = self.advance(block, messages[index])
            messages[index + 1] = vector / np.abs(vector).max()
        return messages

    def backward(self, blocks: Sequence[Block]) -> ComplexArray:
        """The weights of all that follows each block end, up to a positive factor for each."""
        messages = np.empty((len(blocks) + 1, self.size), dtype=self._number)
        messages[-1] = self.entering_last_run()
        for index in range(len(blocks) - 1, -1, -1):
            vector = self.step(blocks[index], messages[index + 1])
            messages[index] = vector / np.abs(vector).max()
        return messages

    def log_total(self, blocks: Blocks) -> complex:
        """The logarithm of the total weight of all walks, up to a multiple of 2 pi i."""
        vector, logarithm = self.entering_last_run(), 0.0
        for block in reversed(pairs(blocks)):
            vector = self.step(block, vector)
            scale = np.abs(vector).max()
            vector, logarithm = vector / scale, logarithm + np.log(scale)
        return complex(np.log(self.leaving_first_run() @ vector) + logarithm)

    def matrix(self, bit: int, length: int) -> ComplexArray:
        """The weights of walks through ``length`` equal bits, by first state and last state.

        D is monotone in a run, so entries are exact in spite of the window.
        """
        if not self._wide:
            return self._power(bit, length)
        scales = self._scales[bit]
        wide: ComplexArray = self._power(bit, length) * scales[:, None] / scales
        return wide

    def _power(self, bit: int, length: int) -> ComplexArray:
        found = self._matrices.get((bit, length))
        if found is None:
            if length == 1:
                found = np.asarray(self._one_step(bit), dtype=np.complex128)
            else:
                half = length // 2
                found = self._power(bit, half) @ self._power(bit, length - half)
            self._matrices[bit, length] = found
        return found

    def _one_step(self, bit: int) -> ComplexArray:
        steps = (np.eye(self.size) + np.eye(self.size, k=-1 if bit else 1)) * self.weights
        if self._wide:
            scales = self._scales[bit]
            steps = steps / scales[:, None] * scales
        return steps

    @cached_property
    def _scales(self) -> tuple[Any, Any]:
        """The s of each bit, such that T(D, D') s(D') / s(D) is at most about 1.

        In a run of zeros it is B(-D) below zero and 1 / A(D) above. Then a step from D <= 0 has the
        weight q**|D| if D stays, and 1 - q**|D| if it moves.
        """
        states = np.arange(1, self.window + 1)
        leaving, entering = [], []
        for rate in self._rates:
            logarithms = -np.log(-np.expm1(-np.longdouble(rate.real) * states))
            leaving.append(np.exp(np.cumsum(logarithms - rate.real * states)))
            entering.append(np.exp(np.cumsum(logarithms - rate.real * (states - 1))))
        zeros, ones = (
            np.concatenate([entering[1 - bit][::-1], [1], 1 / leaving[bit]]) for bit in (0, 1)
        )
        return zeros, ones[::-1]

    def advance(self, block: Block, vector: Array) -> Array:
        """Weights behind a block, from those before it."""
        bit, length = block
        if length == 1:
            here, there = _sides(bit)
            found: Array = vector * self.weights
            found[there] += vector[here] * self.weights[there]
        else:
            found = vector @ self.matrix(bit, length)
        return found

    def step(self, block: Block, vector: Array) -> Array:
        """Weights of all that follows, before a block, from those behind it."""
        bit, length = block
        if length > (_MOST_STEPS if self._wide else 1):
            return self.matrix(bit, length) @ vector
        here, there = _sides(bit)
        for _ in range(length):
            costly = vector * self.weights
            vector = costly.copy()
            vector[here] += costly[there]
        return vector


def _sides(bit: int) -> tuple[slice, slice]:
    """Returns the states where a move starts, and the states where it ends."""
    here, there = slice(None, -1), slice(1, None)
    return (there, here) if bit else (here, there)


def expected_l1(frequency_list: FrequencyList, rate: float, window: int | None = None) -> float:
    """E||x - f||_1 where x has weight e**(-rate * ||x - f||_1); as private as f.

    With Z(c) the total weight e**(-c * ||x - f||_1) of all lists x it is -d ln Z / dc.

    Args:
      frequency_list: f.
      rate: c > 0, the natural logarithm of 1/q.
      window: walks are cut off at |D| <= window, wide enough to lose nothing by default.

    Raises:
      ValueError: the range of this machine's floats is too small for this rate.
    """
    exponent = complex(rate, STEP)
    with np.errstate(over="ignore", invalid="ignore"):
        sums = WalkSums(exponent, exponent, window or window_for(rate))
        total = sums.log_total(Blocks.of(frequency_list))
    if not cmath.isfinite(total):
        raise ValueError(
            "epsilon / (2 * sensitivity) is too small: this machine's floats do not hold the sums "
            "that the expectation comes from"
        )
    return -total.imag / STEP


def pairs(blocks: Blocks) -> list[Block]:
    """The blocks, cut so that their lengths are few, as pairs of a bit and a length."""
    blocks = blocks.cut()
    return list(zip(blocks.bits.tolist(), blocks.lengths.tolist(), strict=True))
