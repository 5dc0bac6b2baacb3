"""Sums over all walks in plain floats: for evaluation, and no part of a release.

A position in state D weighs q**|D|, q = e**-c, so that a walk weighs q**||x - f||_1. Sums are
analytic in c, which may be complex: with a tiny imaginary step they give derivatives without any
cancellation (the complex-step method; Squire and Trapp, 1998).
"""

from __future__ import annotations

import cmath
import math
from typing import Any

import numpy as np

from dp_transforms.mechanisms.arrays import Array, ComplexArray
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.partition.walk.walk import Blocks

STEP = 1e-30  # An imaginary step so small that its square is nothing beside 1.

FLOAT64_RATE = 1 / 256
"""At smaller c, sums on a window that is wide enough for all lists span more than float64's range.
They are then made in numpy's longdouble, which has a wider one on most machines."""

_MOST_STEPS = 64  # In longdouble, longer blocks are applied as a matrix, shorter ones step by step.


def window_for(rate: float) -> int:
    """W such that |D| > W has a probability below 1e-20 at every position of every walk.

    |D| is largest where two long runs meet. There its distribution is q**(d**2) / (q; q)_d**2 up to
    a factor: about Gaussian, with mean ln(2) / c and variance 1 / 4c where c is small.
    """
    return math.ceil(math.log(2) / rate + 5 / math.sqrt(rate)) + 3


class WalkSums:
    """Total weights of walks without walls, by states -W..W; state D has index D + W.

    Args:
      rate: c; its real part is positive.
      window: W, such that nothing that matters lies outside.
    """

    def __init__(self, rate: complex, window: int):
        self._window = window
        self._size = 2 * window + 1
        self._rate = rate
        self._wide = rate.real < FLOAT64_RATE
        self._number: Any = np.clongdouble if self._wide else np.complex128
        states = np.arange(window + 1)
        powers = np.exp(-self._number(rate) * states)
        self._costs: ComplexArray = np.concatenate([powers[:0:-1], powers])
        # q**(a(a+1)/2) / (q; q)_a and q**(e(e-1)/2) / (q; q)_e: the weights of the first infinite
        # run by the state it is left in, and of the last one by the state it is entered in.
        rest = -np.expm1(-self._number(rate) * states[1:])
        self._leaving = np.append(1, np.cumprod(powers[1:] / rest))
        self._entering = np.append(1, np.cumprod(powers[:-1] / rest))
        self._matrices: dict[tuple[int, int], ComplexArray] = {}

    def log_total(self, blocks: Blocks) -> complex:
        """The logarithm of the total weight of all walks, up to a multiple of 2 pi i."""
        vector, logarithm = np.append(np.zeros(self._window), self._entering), 0.0
        for bit, length in reversed(pairs(blocks)):
            vector = self._step(bit, length, vector)
            scale = np.abs(vector).max()
            vector, logarithm = vector / scale, logarithm + np.log(scale)
        return complex(np.log(self._leaving @ vector[self._window :]) + logarithm)

    def _step(self, bit: int, length: int, vector: Array) -> Array:
        """Weights of all that follows, before a block, from those behind it.

        D is monotone in a run, so they are exact in spite of the window.
        """
        if length > (_MOST_STEPS if self._wide else 1):
            matrix: Array = self._power(bit, length)
            if self._wide:
                scales = self._scales(bit)
                matrix = matrix * scales[:, None] / scales
            return matrix @ vector
        # The states where a move starts, and the states where it ends.
        here, there = slice(None, -1), slice(1, None)
        if bit:
            here, there = there, here
        for _ in range(length):
            costly = vector * self._costs
            vector = costly.copy()
            vector[here] += costly[there]
        return vector

    def _power(self, bit: int, length: int) -> ComplexArray:
        """The weights of walks through ``length`` equal bits, by first state and last state,
        divided by the scales if they are wide."""
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
        steps = (np.eye(self._size) + np.eye(self._size, k=-1 if bit else 1)) * self._costs
        if self._wide:
            scales = self._scales(bit)
            steps = steps / scales[:, None] * scales
        return steps

    def _scales(self, bit: int) -> Any:
        """The s of a bit, such that T(D, D') s(D') / s(D) is at most about 1.

        In a run of zeros it is B(-D) below zero and 1 / A(D) above. Then a step from D <= 0 has the
        weight q**|D| if D stays, and 1 - q**|D| if it moves.
        """
        states, rate = np.arange(1, self._window + 1), self._rate.real
        logarithms = -np.log(-np.expm1(-np.longdouble(rate) * states))
        leaving = np.exp(np.cumsum(logarithms - rate * states))
        entering = np.exp(np.cumsum(logarithms - rate * (states - 1)))
        of_zeros = np.concatenate([entering[::-1], [1], 1 / leaving])
        return of_zeros[::-1] if bit else of_zeros


def expected_l1(frequency_list: FrequencyList, rate: float) -> float:
    """E||x - f||_1 where x has weight e**(-rate * ||x - f||_1); as private as f.

    With Z(c) the total weight e**(-c * ||x - f||_1) of all lists x it is -d ln Z / dc.

    Args:
      frequency_list: f.
      rate: c > 0, the natural logarithm of 1/q.

    Raises:
      ValueError: the range of this machine's floats is too small for this rate.
    """
    exponent = complex(rate, STEP)
    with np.errstate(over="ignore", invalid="ignore"):
        sums = WalkSums(exponent, window_for(rate))
        total = sums.log_total(Blocks.of(frequency_list))
    if not cmath.isfinite(total):
        raise ValueError(
            "epsilon / (2 * sensitivity) is too small: this machine's floats do not hold the sums "
            "that the expectation comes from"
        )
    return -total.imag / STEP


def pairs(blocks: Blocks) -> list[tuple[int, int]]:
    """The blocks, cut so that their lengths are few, as pairs of a bit and a length."""
    blocks = blocks.cut()
    return list(zip(blocks.bits.tolist(), blocks.lengths.tolist(), strict=True))
