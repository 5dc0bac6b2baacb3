"""Transfer weights: how much a run of equal bits weighs, from each state to each other.

In a run of ``n`` zero bits the state D stays or goes up by one at each step, and every position
costs q**|D| (see ``walk``). T_n(D, D') is the total weight of the paths from D to D'. A run of one
bits is the mirror image (D to -D), so only runs of zeros appear here.

Where D and D' do not lie on different sides of zero, T_n has a closed form in Gaussian binomials
[n, k] = prod_{i=1..k} (1 - q**(n-k+i)) / (1 - q**i):

    T_n(0, k)       = q**(k(k+1)/2) [n, k]                       k >= 0
    T_n(D, D+k)     = q**(n D) T_n(0, k)                         D >= 0
    T_n(-s, 0)      = q**(-s) T_n(0, s)                          s >= 0, by reversal
    T_n(-s, -t)     = q**(n t) T_n(-(s-t), 0)                    s >= t >= 0

Across zero, T_n = T_h T_{n-h} where h is a power of two and at least n / 2. In T_n(-s, j) =
sum_m T_h(-s, m) T_{n-h}(m, j) at most one of the two factors crosses zero, so a relative error
grows with log n, not with n.

In a long run the two ends have nothing to do with each other. The s early moves from -s to zero
and the j late ones from zero to j may be drawn apart, as if the run had no other end, with the
total weights B(s) and A(j) of the infinite runs; r is the probability that they collide:

    T_n(-s, j) = B(s) A(j) (1 - r)      0 <= r <= (s + j) q**(n // 2 - max(s, j))
    T_n(D, D+k) <= q**(n D) A(k)        T_n(-s, -t) <= q**(n t) B(s - t)

So from ``independence_length`` on all lengths share one enclosure. It says of the states on the
wrong side, above zero in front of the run or below it behind, only how little they weigh.

A window keeps the states -W..W. As D is monotone within a run, entries inside the window are exact
in spite of it. One further state, the exit, stands for everything above the window; its column
bounds (from above only) the weight of the paths that leave. Suppose that behind the run the
messages satisfy beta(W+k) <= edge * ratio**k for k >= 1. By the q-binomial theorem a path that
reaches W + 1 with m steps left goes on to weigh

    sum_k T_m(W+1, W+1+k) beta(W+1+k) <= edge * ratio * q**(m(W+1)) prod_{i=1..m} (1 + ratio q**i)

which is at most edge * ratio * R * lambda**m, with lambda = q**((W+1)/2) and R the maximum over m
of prod_{i=1..m} lambda (1 + ratio q**i). So the exit state keeps lambda of its weight at every
step, and starts from edge * ratio * R (``exit_weight``). In a long run, where the last move into
the exit has m steps behind it, T_{n-1-m}(D, W) q**(W+1) lambda**m add up to at most

    B(s) A(W) q**(W+1) / (1 - lambda)                                   from D = -s <= 0
    A(W - D) q**(W+1) n max(q**D, lambda)**(n-1)                        from D > 0

and the second falls in n.

The ratio may differ on the two sides of zero (``positive`` and ``negative`` decays).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, Generic, TypeVar

import gmpy2
import numpy as np
import numpy.typing as npt

from dp_transforms.mechanisms.arrays import BoolArray, FloatArray, IntArray
from dp_transforms.mechanisms.decay import Decay, Weights
from dp_transforms.mechanisms.enclosure import Enclosure, rounding_pair

UNIT_ROUNDOFF = 2.0**-53

FAR = 2**40  # Constants below 2**-FAR are not kept.

TINY = 2.0**-940
"""A smaller float counts as [0, TINY]: near underflow a relative error means nothing."""

INDEPENDENCE_BITS = 70
"""The ends of a run count as independent in float64 if they collide with a probability of at most
2 to the power of minus this."""

_FLOAT_CONSTANT_BITS = 64


def independence_length(decay: Decay, window: int, bits: int = INDEPENDENCE_BITS) -> int:
    """The length from which on a run's ends collide with a probability of at most 2**-bits.

    Args:
      decay: the ratio q, the larger one if there are two.
      window: W; the run is entered and left in states within -W..W.
    """
    _, up = rounding_pair(64)
    rate, _ = decay.log_enclosure(64)
    cost = up.add(up.mul(bits, up.const_log2()), up.log(2 * max(window, 1)))
    distance = int(up.ceil(up.div(cost, rate)))
    return 2 * (window + distance) + 1


def parts_of(length: int) -> tuple[int, int]:
    """The lengths of the two runs that a run of more than one step is put together from."""
    first: int = 1 << ((length - 1).bit_length() - 1)
    return first, length - first


def slower_of(positive: Decay, negative: Decay) -> Decay:
    """The one that falls more slowly."""
    return min(positive, negative, key=lambda decay: decay.log_enclosure(64)[0])


def certain_in_row(centre: int, index: int, count: int) -> BoolArray:
    """Which of the entries (index, index..index+count-1) are bounded from below in long runs."""
    return (np.arange(index, index + count) >= centre) & (index <= centre)


class RunMatrix(ABC):
    """T_n on a window, known up to a relative ``error``."""

    error: float

    @abstractmethod
    def row(self, index: int, count: int) -> tuple[FloatArray, FloatArray, Any]:
        """Entries (index, index..index+count-1): lower and upper bounds, and exponents."""

    def column(self, first: int, index: int) -> tuple[FloatArray, FloatArray, Any]:
        """Entries (first..index, index), likewise."""
        rows = [self.row(row, index - row + 1) for row in range(first, index + 1)]
        lo, hi, exponents = (
            np.array([np.atleast_1d(part)[-1] for part in parts])
            for parts in zip(*rows, strict=True)
        )
        return lo, hi, exponents


_Matrix = TypeVar("_Matrix")
_RunMatrix = TypeVar("_RunMatrix", bound=RunMatrix)


class Transfer(ABC, Generic[_Matrix]):
    """T_n on the window -W..W, in some kind of number.

    Args:
      positive: the ratio q of the states above zero.
      negative: the ratio of the states below.
      window: W.
      constant_bits: the precision of the constants that closed forms are made of.
      independence_bits: see ``independence_length``.
      beyond: how many states beyond the window to make constants for.
    """

    def __init__(
        self,
        positive: Decay,
        negative: Decay,
        window: int,
        constant_bits: int,
        independence_bits: int,
        beyond: int = 1,
    ):
        self.window = window
        self.size = 2 * window + 1
        self.positive = positive
        self.negative = negative
        count = window + 1 + beyond
        self.positive_weights = self.negative_weights = Weights(positive, count, constant_bits)
        if negative != positive:
            self.negative_weights = Weights(negative, count, constant_bits)
        self.long = independence_length(slower_of(positive, negative), window, independence_bits)
        """From this length on all runs share one matrix."""
        self._matrices: dict[int, _Matrix] = {}

    def matrix(self, length: int) -> _Matrix:
        """T_length, made once and kept.

        Raises:
          FloatingPointError: the entries span more than float64 does.
        """
        length = min(length, self.long)
        if length not in self._matrices:
            self._matrices[length] = self._make(length)
        return self._matrices[length]

    @abstractmethod
    def _make(self, length: int) -> _Matrix:
        """T_length; at ``long`` an enclosure of those of all longer runs as well."""


class RunWeights(Transfer[_RunMatrix]):
    """Transfer weights in float64, and the closed forms that they are made of."""

    def __init__(self, positive: Decay, negative: Decay, window: int, beyond: int = 1):
        super().__init__(
            positive, negative, window, _FLOAT_CONSTANT_BITS, INDEPENDENCE_BITS, beyond
        )
        self.rate = float(positive.log_enclosure(_FLOAT_CONSTANT_BITS)[0])
        self._in_first_part: dict[tuple[int, int, int, int], tuple[list[float], list[float]]] = {}

    def in_first_part(
        self, near: int, far: int, start: int, moves: int
    ) -> tuple[list[float], list[float]]:
        """Enclosures of Pr[at most j moves are among the first ``near`` steps], for j = 0..moves,
        of a run of near + far steps with so many moves that the state of index start enters."""
        found = self._in_first_part.get((near, far, start, moves))
        if found is None:
            first, second = self.matrix(near), self.matrix(far)
            first_lo, first_hi, first_scale = first.row(start, moves + 1)
            second_lo, second_hi, second_scale = second.column(start, start + moves)
            scale = np.asarray(first_scale + second_scale)
            lo, hi = cumulative(
                first_lo * second_lo, first_hi * second_hi, clipped(scale - scale.max())
            )
            error = 2 * (first.error + second.error + (moves + 6) * UNIT_ROUNDOFF)
            with np.errstate(divide="ignore", invalid="ignore"):
                lo, hi = lo[:-1] / hi[-1] * (1 - error), hi[:-1] / lo[-1] * (1 + error)
            settle(lo, hi)
            # The last sum is the total by definition.
            found = [*lo.tolist(), 1.0], [*hi.tolist(), 1.0]
            self._in_first_part[near, far, start, moves] = found
        return found

    def crossing_long(self, below: IntArray, above: IntArray) -> tuple[FloatArray, IntArray]:
        """B(s) A(j) for arrays of s and j, as mantissas (five units of error) and exponents."""
        entering, leaving = self._entering_below, self.leaving_first_run
        return (
            np.outer(entering[0][below], leaving[0][above]),
            np.add.outer(entering[1][below], leaving[1][above]),
        )

    @cached_property
    def _entering_below(self) -> tuple[FloatArray, IntArray]:
        """B(s) for s = 0..W, with the ratio of the states below zero."""
        return split(self.negative_weights.entering_last_run()[: self.window + 1])

    @cached_property
    def leaving_first_run(self) -> tuple[FloatArray, IntArray]:
        """A(a) for a = 0..W, as mantissas (two units of error) and exponents."""
        return split(self.positive_weights.leaving_first_run()[: self.window + 1])

    @cached_property
    def entering_last_run(self) -> tuple[FloatArray, IntArray]:
        """B(e) for e = 0..W, likewise."""
        return split(self.positive_weights.entering_last_run()[: self.window + 1])


def settle(lo: FloatArray, hi: FloatArray) -> None:
    """Replaces bounds near underflow, in place: lower ones by 0, upper ones by TINY."""
    lo[lo < TINY] = 0.0
    np.maximum(hi, TINY, out=hi)


def cumulative(
    lo: FloatArray, hi: FloatArray, shift: npt.NDArray[np.int32]
) -> tuple[FloatArray, FloatArray]:
    """Bounds of the sums of the first 1, 2, ... numbers in each row, from bounds of the numbers up
    to the factors 2**shift, which are overwritten and may have been rounded near underflow."""
    settle(lo, hi)
    lo, hi = np.ldexp(lo, shift), np.ldexp(hi, shift)
    settle(lo, hi)
    return lo.cumsum(axis=-1), hi.cumsum(axis=-1)


def split(enclosures: list[Enclosure]) -> tuple[FloatArray, IntArray]:
    """Mantissas in [1/2, 1) with an error of at most two units, and exponents.

    What is below 2**-FAR has the mantissa 0 and the exponent -FAR.
    """
    parts = [gmpy2.frexp(lo) for lo, _ in enclosures]
    exponents = [int(exponent) if mantissa else -FAR for exponent, mantissa in parts]
    mantissas = [
        float(mantissa) if exponent > -FAR else 0.0
        for exponent, (_, mantissa) in zip(exponents, parts, strict=True)
    ]
    return np.array(mantissas), np.maximum(np.array(exponents), -FAR)


def clipped(exponents: IntArray) -> npt.NDArray[np.int32]:
    """Exponents that ldexp takes, and that do what the given ones do."""
    return np.minimum(np.maximum(exponents, -5000), 5000).astype(np.int32)
