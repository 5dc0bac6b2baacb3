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
in spite of it. In MPFR numbers one further state, the exit, stands for everything above the
window; its column bounds (from above only) the weight of the paths that leave. (In float64 each row
bounds that by itself, see ``messages``.) Suppose that behind the run the messages satisfy
beta(W+k) <= edge * ratio**k for k >= 1. By the q-binomial theorem a path that reaches W + 1 with m
steps left goes on to weigh

    sum_k T_m(W+1, W+1+k) beta(W+1+k) <= edge * ratio * q**(m(W+1)) prod_{i=1..m} (1 + ratio q**i)

which is at most edge * ratio * R * lambda**m, with lambda = q**((W+1)/2) and R the maximum over m
of prod_{i=1..m} lambda (1 + ratio q**i). So the exit state keeps lambda of its weight at every
step, and starts from edge * ratio * R (``exit_weight``). In a long run, where the last move into
the exit has m steps behind it, T_{n-1-m}(D, W) q**(W+1) lambda**m add up to at most

    B(s) A(W) q**(W+1) / (1 - lambda)                                   from D = -s <= 0
    A(W - D) q**(W+1) n max(q**D, lambda)**(n-1)                        from D > 0

and the second falls in n.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

import gmpy2
import numpy as np
import numpy.typing as npt

from dp_transforms.mechanisms.arrays import FloatArray, IntArray
from dp_transforms.mechanisms.decay import Decay, Weights
from dp_transforms.mechanisms.enclosure import Enclosure, rounding_pair

UNIT_ROUNDOFF = 2.0**-53

FAR = 2**40  # Constants below 2**-FAR are not kept.

TINY = 2.0**-940
"""A smaller float counts as [0, TINY]: near underflow a relative error means nothing."""

INDEPENDENCE_BITS = 70
"""The ends of a run count as independent in float64 if they collide with a probability of at most
2 to the power of minus this."""


def independence_length(decay: Decay, window: int, bits: int = INDEPENDENCE_BITS) -> int:
    """The length from which on a run's ends collide with a probability of at most 2**-bits.

    Args:
      decay: the ratio q.
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


_Matrix = TypeVar("_Matrix")


class Transfer(ABC, Generic[_Matrix]):
    """T_n on the window -W..W, in some kind of number.

    Args:
      decay: the ratio q.
      window: W.
      constant_bits: the precision of the constants that closed forms are made of.
      independence_bits: see ``independence_length``.
      beyond: how many states beyond the window to make constants for.
    """

    def __init__(
        self,
        decay: Decay,
        window: int,
        constant_bits: int,
        independence_bits: int,
        beyond: int = 1,
    ):
        self.window = window
        self.size = 2 * window + 1
        self.decay = decay
        self.weights = Weights(decay, window + 1 + beyond, constant_bits)
        self.long = independence_length(decay, window, independence_bits)
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
