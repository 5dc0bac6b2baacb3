"""Describes the distributions of releases by public numbers that hold for every private list.

Let q = e**-c. Every mechanism here releases x with a probability of at most q**||x - f||_1 times a
factor that depends on x alone. The factors and the tails of the mechanisms differ. Error bars,
estimates and plans work with any ``ReleaseDistribution``. A new mechanism states a class of its own
as ``distribution_type``, and returns an instance as ``distribution``. Results computed from a
private list are as private as the list.
"""

from __future__ import annotations

import cmath
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dp_transforms.mechanisms.arrays import Array, ComplexArray
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.partition.walk.walk import Blocks

ROUNDING = 1 - 1e-9  # Failure probabilities are multiplied by this, which exceeds all rounding.

_NEGLIGIBLE = 1e-18


@dataclass(frozen=True)
class ReleaseDistribution(ABC):
    """Describes the distribution of releases x of any private list f.

    Attributes:
      rate: c = -ln q.
      title: the mechanism's name in privacy statements.

    Raises:
      ValueError: the rate is not a positive finite number.
    """

    rate: float
    title: ClassVar[str]

    def __post_init__(self) -> None:
        if not 0 < self.rate < math.inf:
            raise ValueError(f"rate must be a positive finite number, got {self.rate}")

    @abstractmethod
    def largest_excess(self, failure: float) -> int:
        """Returns an n with Pr[x_i > f_i + n] <= failure, for every f and i."""

    def largest_shortfalls(self, failure: float, ranks: Sequence[int]) -> list[int]:
        """Returns for each rank i an n with Pr[x_i < f_i - n] <= failure, for every f."""
        return [self.largest_excess(failure)] * len(ranks)

    @abstractmethod
    def log_weight(self, released: FrequencyList) -> float:
        """Returns a w with Pr_f[x] <= q**||x - f||_1 e**w at this x, for every f."""

    @property
    @abstractmethod
    def log_head(self) -> float:
        """Returns an h with E_f[e**(t W_b)] <= ((1+u) / (1-u))**b e**h for all f, b and 0 < t < c.
        Here W_b is the sum of |x_i - f_i| over the ranks i <= b, and u = q e**t."""

    @abstractmethod
    def expected_l1(self, frequency_list: FrequencyList) -> float:
        """Returns E||x - f||_1, which is as private as f. The ``dist`` of Blocki et al. (2016) is
        half of it."""


class ExponentialDistribution(ReleaseDistribution):
    """Describes the exponential mechanism: Pr_f[x] = q**||x - f||_1 / Z_f over all lists.

    For every f, i and k >= 1

        Pr[x_i >= f_i + k] <= 1 - prod_{j >= k} (1 - q**j)
        Pr[x_i <= f_i - k] <= 1 - prod_{k <= j < k + i} (1 - q**j)

    Both are equalities at a large corner. The first is one for i = 1 and f_1 = f_2 = ... = f_n with
    a large n, for example.

    Proof of the first. Given x_1, ..., x_{i-1}, the rest has the distribution of the mechanism at
    (f_i, f_{i+1}, ...), given that its first entry is at most x_{i-1}. An upper bound on an entry
    does not make large values of it more likely, so it is enough to prove i = 1. Let m_j = min(x_j,
    f_1) and l_j = max(x_j - f_1, 0). Since f_j <= f_1, |x_j - f_j| = |m_j - f_j| + l_j. Let r =
    #{j : m_j = f_1}. Given m, l is any partition of at most r parts, with a weight of q**(sum of
    l). The generating function of such partitions is 1 / prod_{j <= r} (1 - q**j). For partitions
    with parts below k it is a Gaussian binomial coefficient. The quotient of the two is Pr[l_1 < k
    | m] = prod_{k <= j < k + r} (1 - q**j), which is at least the product over all j >= k. QED.

    Proof of the second, in the same way. Given x_{i+1}, ..., the first i entries are a descending
    tuple with the weights q**|x_j - f_j| and a lower bound on x_i. This bound does not make small
    values of x_i more likely. Without it, the cells missing from f_i are a partition of at most r
    <= i parts. QED.

    Proof of ``log_weight``: Z_f >= 1, since x = f has weight 1. QED.

    Proof of ``log_head``. Write x as its first b entries h and the rest r. Without the condition
    h_b >= r_1, the sum over h of u**|h - f| is ((1+u) / (1-u))**b. So the expectation is at most
    this power times R / Z_f, where R is the sum over all r of q**|r - f|. Let R' be the part of
    this sum with r_1 <= f_b; then Z_f >= R', by the lists x with h = f. Any r consists of min(r,
    f_b) and of the partition v of its cells beyond f_b, and its distance is that of min(r, f_b)
    plus |v|. So R is at most R' times the sum of q**|v| over all partitions v. The logarithm of the
    latter is the sum of 1 / (k (e**(ck) - 1)) over k >= 1, which is at most pi**2 / (6c). QED.
    """

    title = "exponential mechanism for integer partitions"

    def largest_excess(self, failure: float) -> int:
        return self._largest([None], failure)[0]

    def largest_shortfalls(self, failure: float, ranks: Sequence[int]) -> list[int]:
        return self._largest(ranks, failure)

    def log_weight(self, released: FrequencyList) -> float:
        return 0.0

    @property
    def log_head(self) -> float:
        return math.pi**2 / (6 * self.rate)

    def expected_l1(self, frequency_list: FrequencyList) -> float:
        return expected_l1(frequency_list, self.rate)

    def _largest(self, parts: Sequence[int | None], failure: float) -> list[int]:
        """Returns, for each number of parts, the least d with 1 - prod_{d < j <= d + parts} (1 -
        q**j) <= failure. If the number is None, the product is over all j > d."""
        failure *= ROUNDING
        # The product over all j beyond ``reach`` is 1 within failure * 1e-12.
        spread = math.log(1e12 / failure) - math.log(-math.expm1(-self.rate))
        reach = math.ceil(spread / self.rate) + 1
        logarithms = np.log1p(-np.exp(-self.rate * np.arange(1, reach + 1)))
        sums = np.append(np.cumsum(logarithms[::-1])[::-1], 0.0)
        least = []
        for count in parts:
            factors = reach if count is None else min(count, reach)
            last = np.arange(reach + 1) + factors
            failing = -np.expm1(sums - sums[np.minimum(last, reach)])
            least.append(int(np.flatnonzero(failing <= failure)[0]))
        return least


@dataclass(frozen=True)
class GeometricDistribution(ReleaseDistribution):
    """Describes the geometric mechanism: Pr_f[x] = q**||x - f||_1 w(x), q <= 1/3 (see
    ``exponential``).

    For every f, i and k >= 1, Pr[x_i >= f_i + k] and Pr[x_i <= f_i - k] are at most q**k / (1 + q).
    They are equal to it at a large corner.

    Proof. Let X, F be the diagrams of x and f. Let S be a set of cells for which there is a diagram
    Y such that X xor F contains S iff it contains Y xor F. Let m be the number of maximal cells of
    Y outside F and of minimal cells of F outside Y. Then

        Pr_f[S in X xor F] = q**|Y xor F| / (1 + q)**m.

    For such X, d(X, F) = d(X, Y) + |Y xor F|. So the left side is q**|Y xor F| times the
    probability under Pr_Y that X agrees with Y at these m cells. In Y they can be flipped in any
    combination. Let p_T be the probability under Pr_Y that X disagrees with Y at the cells of T and
    at no others of the m cells. For a set U of these cells let Y' be Y flipped at U. The
    probabilities of all X under Pr_Y' sum to one. This says that the sum over T of p_T, times q for
    each cell in U but not in T, and times 1/q for each cell in both, is one. These equations, for
    all U, have one solution: X agrees with Y at each cell with probability 1 / (1 + q),
    independently. QED.

    x_i >= f_i + k says that X contains the k-th cell beyond the end of row i of F. With S this cell
    alone, it is the only maximal cell of Y outside F, and Y xor F contains at least the k cells of
    the row. The same holds for cells inside F.

    Proof of ``log_head``, with r = e**t. r**W_b is the sum of (r - 1)**|S| over the sets S of cells
    of X xor F in the first b rows. Sort these sets by their Y. Let n be the number of cells of Y
    xor F in these rows: S contains the m cells, and any subset of the other n - m. So E_f[r**W_b]
    is the sum over these Y of q**|Y xor F| (1 + q)**-m (r - 1)**m r**(n - m), where each term is at
    most (q r)**n. Y is determined by its first b rows, and n is their distance from the rows of F.
    The sum of u**n over all tuples of b integers is ((1+u) / (1-u))**b. (A set S with a cell inside
    F in front of one outside F has no Y, but X xor F never contains such a set.) QED.

    All this also holds between walls, for f between them, where more cells are impossible.

    Attributes:
      walled: whether there are walls. Between them fewer corners count in w, so that ``log_weight``
        is 0 and ``expected_l1`` is an upper bound.
    """

    walled: bool = False
    title = "geometric mechanism for integer partitions"

    def largest_excess(self, failure: float) -> int:
        # Pr[x_i > f_i + n] <= q**(n+1) / (1 + q)
        logarithm = math.log(failure * ROUNDING) + math.log1p(math.exp(-self.rate))
        return max(0, math.ceil(-logarithm / self.rate) - 1)

    def log_weight(self, released: FrequencyList) -> float:
        if self.walled:
            return 0.0
        # A corner lies between any two runs, also the infinite ones. A run of more than one bit
        # ends a chain of corners.
        ends = np.concatenate([[True], Blocks.of(released).lengths > 1, [True]])
        lengths, repeats = np.unique(np.diff(np.flatnonzero(ends)), return_counts=True)
        mark = math.exp(-self.rate) / (1 + math.exp(-self.rate))
        logarithms = np.empty(int(lengths.max()) + 1)
        total, ratio = 0.0, 1.0
        for length in range(1, len(logarithms)):
            # I_m / I_{m-1} = 1 - t / (I_{m-1} / I_{m-2})
            ratio = max(1 - mark / ratio, 0.5)
            total += math.log(ratio)
            logarithms[length] = total
        return float(logarithms[lengths] @ repeats) * ROUNDING

    @property
    def log_head(self) -> float:
        return 0.0

    def expected_l1(self, frequency_list: FrequencyList) -> float:
        """Returns E||x - f||_1, the sum over all cells of the probability that X xor F contains the
        cell. It is computed in float64, to 1e-9 of the whole.

        This probability is q**k / (1 + q), where k = |Y xor F| if S is the cell alone. For the n-th
        cell beyond v, in the a-th row of the run of rows of frequency v,

            k = a n + sum over s = 1..n of (ranks in front of the run with a frequency below v + s),

        and for the n-th cell from the end of the row, in the a-th row from the end of the run,

            k = a n + sum over s = 1..n of (ranks behind the run with one of at least v - s + 1).

        Sums over the rows of a run are geometric series.
        """
        values = np.append(frequency_list.frequencies, 0)
        ends = np.append(0, frequency_list.multiplicities.cumsum())
        # The zeros behind the list are a run without an end.
        rows = np.append(frequency_list.multiplicities.astype(np.float64), np.inf)
        reach = 1 + math.ceil(-math.log(_NEGLIGIBLE) / self.rate)
        steps = np.arange(1, reach + 1)[:, None]

        in_front = ends - frequency_list.at_least(values + steps)
        behind = frequency_list.at_least(values - steps + 1) - np.append(ends[1:], ends[-1])
        beyond, within = (
            np.exp(-self.rate * np.cumsum(ranks.astype(np.float64), axis=0))
            for ranks in (in_front, behind)
        )
        exponents = -self.rate * steps
        of_rows = np.exp(exponents) * np.expm1(exponents * rows) / np.expm1(exponents)
        cells = (beyond + np.where(steps <= values, within, 0)) * of_rows
        return float(cells.sum() / (1 + math.exp(-self.rate)))


STEP = 1e-30  # An imaginary step whose square is negligible beside 1.

_MOST_STEPS = 64  # Longer blocks are applied as a matrix, shorter ones step by step.


def window_for(rate: float) -> int:
    """Returns a W such that Pr[|D| > W] < 1e-20 at every position of every walk.

    |D| is largest where two long runs meet. There Pr[|D| = d] is q**(d**2) / (q; q)_d**2 up to a
    constant factor, where (q; q)_d = prod_{i <= d} (1 - q**i). For small c this distribution is
    about Gaussian, with mean ln(2) / c and variance 1 / 4c.
    """
    return math.ceil(math.log(2) / rate + 5 / math.sqrt(rate)) + 3


class WalkSums:
    """Sums the weights of walks without walls, over the states -W..W; state D has index D + W.

    A position in state D has the weight q**|D|, q = e**-c, so that a walk has the weight
    q**||x - f||_1. Sums are analytic in c, which may be complex: a tiny imaginary step of c gives
    derivatives without any cancellation (the complex-step method; Squire and Trapp, 1998). At c
    below 1/256 sums exceed the range of float64, but not that of numpy's longdouble on most
    machines.

    Args:
      rate: c; its real part is positive.
      window: W, such that states outside are negligible.
    """

    def __init__(self, rate: complex, window: int):
        self._window = window
        states = np.arange(window + 1)
        powers = np.exp(-np.clongdouble(rate) * states)
        self._costs: Array = np.concatenate([powers[:0:-1], powers])
        # The weights of the first infinite run by its last state a, q**(a(a+1)/2) / (q; q)_a, and
        # of the last infinite run by its first state e, q**(e(e-1)/2) / (q; q)_e.
        rest = -np.expm1(-np.clongdouble(rate) * states[1:])
        self._leaving = np.append(1, np.cumprod(powers[1:] / rest))
        self._entering = np.append(1, np.cumprod(powers[:-1] / rest))
        # In a run of zeros T(D, D') s(D') / s(D) is at most about 1, if the scale s(D) is 1 / A(D)
        # above zero and B(-D) below it. In these units a step from D <= 0 has the weight q**|D| if
        # D stays, and 1 - q**|D| if it moves.
        least = np.finfo(np.longdouble).tiny
        below, above = (np.maximum(x.real, least) for x in (self._entering, self._leaving))
        self._scales = np.concatenate([below[:0:-1], 1 / above])
        self._powers: dict[int, ComplexArray] = {}
        self._matrices: dict[int, Array] = {}

    def log_total(self, blocks: Blocks) -> complex:
        """Returns the logarithm of the total weight of all walks, up to a multiple of 2 pi i."""
        vector, logarithm = np.append(np.zeros(self._window), self._entering), 0.0
        for bit, length in reversed(pairs(blocks)):
            # Runs of ones are those of zeros mirrored.
            turn = slice(None, None, -1 if bit else 1)
            vector = self._passed(length, vector[turn])[turn]
            scale = np.abs(vector).max()
            vector, logarithm = vector / scale, logarithm + np.log(scale)
        return complex(np.log(self._leaving @ vector[self._window :]) + logarithm)

    def _passed(self, length: int, vector: Array) -> Array:
        """Returns the weights of the continuations in front of a run of zeros, given those behind
        it. The window does not make them inexact, since D is monotone in a run."""
        if length > _MOST_STEPS:
            if length not in self._matrices:
                scales = self._scales
                self._matrices[length] = self._power(length) * scales[:, None] / scales
            return self._matrices[length] @ vector
        for _ in range(length):
            costly = vector * self._costs
            vector = costly.copy()
            vector[:-1] += costly[1:]
        return vector

    def _power(self, length: int) -> ComplexArray:
        """Returns the scaled weights of the walks through this many zeros, by first and last
        state."""
        if length not in self._powers:
            if length == 1:
                size = len(self._costs)
                steps = (np.eye(size) + np.eye(size, k=1)) * self._costs
                scaled = steps / self._scales[:, None] * self._scales
                self._powers[1] = scaled.astype(np.complex128)
            else:
                half = length // 2
                self._powers[length] = self._power(half) @ self._power(length - half)
        return self._powers[length]


def expected_l1(frequency_list: FrequencyList, rate: float) -> float:
    """Returns E||x - f||_1 of the exponential mechanism: -d ln Z / dc, with Z(c) the total of
    the weights e**(-c * ||x - f||_1) of all lists x.

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
    """Returns the blocks, cut into pieces of few different lengths, as pairs (bit, length)."""
    blocks = blocks.cut()
    return list(zip(blocks.bits.tolist(), blocks.lengths.tolist(), strict=True))
