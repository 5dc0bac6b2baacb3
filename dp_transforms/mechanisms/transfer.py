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

Across zero, T_n = T_h T_{n-h} with h = n // 2. In T_n(-s, j) = sum_m T_h(-s, m) T_{n-h}(m, j) at
most one of the two factors crosses zero, so a relative error grows with the number of halvings,
not with n.

A window keeps the states -W..W. As D is monotone within a run, entries inside the window are exact
in spite of it. One further state, the exit, stands for everything above the window; its column
bounds (from above only) the weight of the paths that leave. Suppose that behind the run the
messages satisfy beta(W+k) <= edge * ratio**k for k >= 1. By the q-binomial theorem a path that
reaches W + 1 with m steps left goes on to weigh

    sum_k T_m(W+1, W+1+k) beta(W+1+k) <= edge * ratio * q**(m(W+1)) prod_{i=1..m} (1 + ratio q**i)

which is at most edge * ratio * R * lambda**m, with lambda = q**((W+1)/2) and R the maximum over m
of prod_{i=1..m} lambda (1 + ratio q**i). So the exit state keeps lambda of its weight at every
step, and starts from edge * ratio * R (``exit_weight``).

The ratio may differ on the two sides of zero (``positive`` and ``negative`` decays).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import gmpy2
import numpy as np
import numpy.typing as npt

from dp_transforms.mechanisms.decay import Decay, Weights, rounding_pair
from dp_transforms.mechanisms.randomness import Enclosure

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
ObjectArray = npt.NDArray[np.object_]

UNIT_ROUNDOFF = 2.0**-53
TINY = 2.0**-940
"""A smaller float counts as [0, TINY]: near underflow a relative error means nothing."""

_FAR = 2**24
"""Exponents beyond this are cut: such numbers are zero, or overflow, in float64 anyway."""

_STEPPING = 24
"""Runs shorter than the window by this factor are cheaper step by step than by a matrix."""

_FLOAT_CONSTANT_BITS = 64
_SLACK = 1 + 2.0**-30
"""Covers the rounding of the few float operations that only bound the exit from above."""


@dataclass(frozen=True)
class FloatMatrix:
    """T_n in float64 on a window and its exit.

    Entry (i, j) stands for itself times 2**(rows[i] + columns[j]). The true entries lie within
    lo * (1 - error) and hi * (1 + error). ``growth`` is the largest sum of a row of hi.
    """

    lo: FloatArray
    hi: FloatArray
    rows: IntArray
    columns: IntArray
    error: float
    growth: float

    def __matmul__(self, messages: FloatArray) -> FloatArray:
        """The product with messages in two columns (lo, hi), exit included."""
        if self.lo is self.hi:
            return self.hi @ messages
        return np.stack([self.lo @ messages[:, 0], self.hi @ messages[:, 1]], axis=1)


class FloatTransfer:
    """T_n on the window -W..W and its exit, in float64.

    State D has index D + W; the exit has index 2W + 1. At small rates T_n(-s, j) is close to
    B(s) A(j), two factors that overflow. Where they do, matrices are ``scaled``: columns by
    T_n(0, j), and then each row to a largest entry of about 1.
    """

    def __init__(self, positive: Decay, negative: Decay, window: int):
        self.window = window
        self.size = 2 * window + 1
        self.positive = positive
        self.negative = negative
        self._positive = Weights(positive, window + 2, _FLOAT_CONSTANT_BITS)
        self._negative = (
            self._positive
            if negative == positive
            else Weights(negative, window + 2, _FLOAT_CONSTANT_BITS)
        )
        self.rate = float(positive.log_enclosure(_FLOAT_CONSTANT_BITS)[0])
        self._exit_decay = math.exp(-self.rate * (window + 1) / 2) * _SLACK
        _, entering = _split(self._negative.entering_last_run())
        _, leaving = _split(self._positive.leaving_first_run())
        self.scaled = bool(entering.max() + leaving.max() > 800)
        self._matrices: dict[int, FloatMatrix] = {}

    @cached_property
    def leaving_first_run(self) -> tuple[FloatArray, IntArray]:
        """A(a) for a = 0..W, as mantissas (two units of error) and exponents."""
        return _split(self._positive.leaving_first_run()[:-1])

    @cached_property
    def entering_last_run(self) -> tuple[FloatArray, IntArray]:
        """B(e) for e = 0..W, likewise."""
        return _split(self._positive.entering_last_run()[:-1])

    def apply(self, length: int, messages: FloatArray) -> tuple[FloatArray, float, float]:
        """T_length times messages in two columns (lo, hi), exit included; not where ``scaled``.

        Returns:
          The product; a bound on the relative error that it adds; and one on how much larger its
          largest entry is than the largest before.
        """
        if length * _STEPPING <= self.size:
            keep, climb = self._step
            for _ in range(length):
                moved = climb * messages[1:]
                messages = keep * messages
                messages[:-1] += moved
            return messages, 6 * length * UNIT_ROUNDOFF, 2.0**length
        matrix = self.matrix(length)
        return matrix @ messages, self.product_error(matrix), matrix.growth

    def product_error(self, matrix: FloatMatrix) -> float:
        """A bound on the relative error that a product with this matrix adds."""
        return matrix.error + (self.size + 4) * UNIT_ROUNDOFF

    def exit_weight(self, edge: float, ratio: float, length: int) -> float:
        """edge * ratio * R for a run of ``length`` zeros (see the module's text).

        R is bounded by its first factor, the largest, to the power of how many exceed 1. Infinite
        where the bound overflows: the window is too narrow then.
        """
        if not math.isfinite(ratio):
            return math.inf
        loss = self.rate * (self.window + 1) / 2
        gain = math.log1p(ratio * math.exp(-self.rate)) - loss
        if gain <= 0:
            return edge * ratio * _SLACK
        growing = min(length, math.log(ratio / math.expm1(loss)) / self.rate + 2)
        logarithm = growing * gain * _SLACK
        return edge * ratio * math.exp(logarithm) if logarithm < 500 else math.inf

    def matrix(self, length: int) -> FloatMatrix:
        """T_length, made once and kept.

        Raises:
          FloatingPointError: an entry overflows float64 in spite of the scaling.
        """
        found = self._matrices.get(length)
        if found is None:
            found = self._matrices[length] = self._make(length)
        return found

    @cached_property
    def _step(self) -> tuple[FloatArray, FloatArray]:
        """T_1: what each state keeps, and what moves up from each state, as columns."""
        down = _split(self._negative.powers(1)[-2:0:-1])
        up = _split(self._positive.powers(1))
        weights = np.concatenate([np.ldexp(*down), np.ldexp(*up)])
        keep = np.append(weights[:-1], self._exit_decay)
        return keep[:, None], weights[1:, None]

    def _make(self, length: int) -> FloatMatrix:
        w, size = self.window, self.size
        across = np.s_[:w, w + 1 : size]
        mantissas, exponents = self._one_side(length)
        columns = np.zeros(size + 1, dtype=np.int64)
        if self.scaled:
            # States that a run from zero can not reach take the scale of the last one that it can.
            reached = exponents[w, w:][np.minimum(np.arange(w + 1), length)]
            columns[w:size] = np.maximum(reached, 0)
            exponents -= columns[:size]
        # Entries on one side are products of two constants of two units each.
        error = one_side = 6 * UNIT_ROUNDOFF
        if length == 1:
            base = np.zeros(size + 1, dtype=np.int64)
            below = above = np.zeros((size + 1, size + 1))
            above[size - 1, size] = math.exp(-self.rate * (w + 1))
            above[size, size] = self._exit_decay
        else:
            near, far = self.matrix(length // 2), self.matrix(length - length // 2)
            error = max(near.error, far.error) + one_side + (size + 4) * UNIT_ROUNDOFF
            base = near.rows
            below = above = _product(near, far, columns, w, bound="hi")
            if near.lo is not near.hi or far.lo is not far.hi:
                below = _product(near, far, columns, w, bound="lo")
        rows = np.zeros(size + 1, dtype=np.int64)
        if self.scaled:
            peaks = [np.where(mantissas > 0, exponents, -_FAR).max(axis=1)]
            _, crossing = np.frexp(above[across].max(axis=1))
            peaks[0][:w] = np.maximum(peaks[0][:w], crossing + base[:w])
            rows[:size] = peaks[0]
        shift = _clipped(base - rows)[:, None]
        lo = np.zeros((size + 1, size + 1))
        lo[:size, :size] = np.ldexp(mantissas, _clipped(exponents - rows[:size, None]))
        hi = lo.copy()
        lo[across] = np.ldexp(below[across], shift[:w])
        hi[across] = np.ldexp(above[across], shift[:w])
        hi[:, size] = np.ldexp(above[:, size], shift[:, 0]) * _SLACK
        lo, hi = self._settled(lo, hi, length)
        return FloatMatrix(lo, hi, rows, columns, error, float(hi.sum(axis=1).max()))

    def _one_side(self, length: int) -> tuple[FloatArray, IntArray]:
        """The entries that do not cross zero, as mantissas (zero elsewhere) and exponents."""
        w, size = self.window, self.size
        mantissas = np.zeros((size, size))
        exponents = np.zeros((size, size), dtype=np.int64)
        for weights, climbs, mirrored in (
            (self._positive, self._positive.upward(length), False),
            (self._negative, self._negative.inward(length), True),
        ):
            row, row_exponents = _split(weights.powers(length)[: w + 1])
            climb, climb_exponents = _split(climbs[: w + 1])
            index = np.arange(w + 1)
            gap = index[None, :] - index[:, None]
            upper = gap >= 0
            gap = np.maximum(gap, 0)
            parts = (
                row[:, None] * climb[gap] * upper,
                row_exponents[:, None] + climb_exponents[gap],
            )
            for target, part in zip((mantissas, exponents), parts, strict=True):
                if mirrored:
                    # Entry (-s, -t) is that of (t, s).
                    target[: w + 1, : w + 1] = part.T[::-1, ::-1]
                else:
                    target[w:, w:] = part
        return mantissas, exponents

    def _settled(
        self, lo: FloatArray, hi: FloatArray, length: int
    ) -> tuple[FloatArray, FloatArray]:
        """Accounts for underflow; one array serves as both bounds where there is none."""
        if not (np.isfinite(lo).all() and np.isfinite(hi).all()):
            raise FloatingPointError("transfer weights overflow float64")
        index = np.arange(self.size + 1)
        climb = index[None, :] - index[:, None]
        weak = (climb >= 0) & (climb <= length) & (hi < TINY)
        lo[weak] = 0
        hi[weak] = TINY
        # The exit is zero in lo messages, so that its column does nothing there.
        lo[:, self.size] = hi[:, self.size]
        return (lo, hi) if weak[: self.size, : self.size].any() else (hi, hi)


class PreciseTransfer:
    """T_n on the window -W..W and its exit, as MPFR numbers rounded down and up.

    Indices are those of ``FloatTransfer``; nothing is scaled.
    """

    def __init__(self, positive: Decay, negative: Decay, window: int, precision: int):
        self.window = window
        self.size = 2 * window + 1
        self.precision = precision
        self.positive = positive
        self.negative = negative
        self._positive = Weights(positive, window + 2, precision)
        self._negative = Weights(negative, window + 2, precision)
        self._matrices: dict[int, tuple[ObjectArray, ObjectArray]] = {}

    @cached_property
    def _step(self) -> list[tuple[ObjectArray, ObjectArray]]:
        """For each bound: what each state keeps in one step, and what moves up from each state."""
        down, up = self._negative.powers(1)[-2:0:-1], self._positive.powers(1)
        steps = []
        for bound in (0, 1):
            weights = np.array([pair[bound] for pair in down + up], dtype=object)
            steps.append((np.append(weights[:-1], self._exit_decay), weights[1:]))
        return steps

    @cached_property
    def _exit_decay(self) -> Any:
        _, up = rounding_pair(self.precision)
        return up.sqrt(self.positive.power(self.window + 1, self.precision)[1])

    def exit_weight(self, edge: Any, ratio: Any, length: int) -> Any:
        """As in ``FloatTransfer``, with R's factors multiplied one by one."""
        _, up = rounding_pair(self.precision)
        step = self.positive.power(1, self.precision)[1]
        weight = up.mul(edge, ratio)
        for _ in range(length):
            ratio = up.mul(ratio, step)
            factor = up.mul(self._exit_decay, up.add(1, ratio))
            if factor <= 1:
                break
            weight = up.mul(weight, factor)
        return weight

    def leaving_first_run(self) -> list[Enclosure]:
        """A(a) for a = 0..W."""
        return self._positive.leaving_first_run()[:-1]

    def entering_last_run(self) -> list[Enclosure]:
        """B(e) for e = 0..W."""
        return self._positive.entering_last_run()[:-1]

    def apply(self, length: int, messages: ObjectArray, bound: int) -> ObjectArray:
        """T_length times lower (bound 0) or upper (bound 1) messages, exit included."""
        context = rounding_pair(self.precision)[bound]
        with gmpy2.context(context):
            if length <= self.size // 4:
                keep, climb = self._step[bound]
                for _ in range(length):
                    moved = climb * messages[1:]
                    messages = keep * messages
                    messages[:-1] += moved
                return messages
            product: ObjectArray = self.matrix(length)[bound] @ messages
            return product

    def matrix(self, length: int) -> tuple[ObjectArray, ObjectArray]:
        """(lo, hi) around T_length, made once and kept."""
        found = self._matrices.get(length)
        if found is None:
            found = self._matrices[length] = self._make(length)
        return found

    def _make(self, length: int) -> tuple[ObjectArray, ObjectArray]:
        w, size = self.window, self.size
        sides = [
            (self._positive.powers(length), self._positive.upward(length)),
            (self._negative.powers(length), self._negative.inward(length)),
        ]
        bounds = []
        for bound, context in enumerate(rounding_pair(self.precision)):
            table = np.full((size + 1, size + 1), context.add(0, 0), dtype=object)
            (powers, climbs), (returns, falls) = (
                ([pair[bound] for pair in a], [pair[bound] for pair in b]) for a, b in sides
            )
            for d in range(w + 1):
                for k in range(min(w - d, length) + 1):
                    table[w + d, w + d + k] = context.mul(powers[d], climbs[k])
                    table[w - d - k, w - d] = context.mul(returns[d], falls[k])
            if length == 1:
                table[size, size] = self._exit_decay
                table[size - 1, size] = self.positive.power(w + 1, self.precision)[1]
            else:
                near = self.matrix(length // 2)[bound]
                far = self.matrix(length - length // 2)[bound]
                with gmpy2.context(context):
                    table[:w, w + 1 : size] = near[:w, :size] @ far[:size, w + 1 : size]
                    table[:, size] = near @ far[:, size]
            bounds.append(table)
        return bounds[0], bounds[1]


def _split(enclosures: list[Enclosure]) -> tuple[FloatArray, IntArray]:
    """Mantissas in [1/2, 1) with an error of at most two units, and exponents."""
    parts = [gmpy2.frexp(lo) for lo, _ in enclosures]
    mantissas = np.array([float(mantissa) for _, mantissa in parts])
    return mantissas, np.array([max(int(exponent), -_FAR) for exponent, _ in parts])


def _product(
    near: FloatMatrix, far: FloatMatrix, columns: IntArray, window: int, bound: str
) -> FloatArray:
    """The positive columns and the exit's of near @ far, divided by 2**(near.rows + columns)."""
    inner = near.columns + far.rows
    # Half of the summed index's scale goes to each side: one alone could overflow.
    left = np.ldexp(getattr(near, bound), _clipped(inner // 2))
    right = getattr(far, bound)[:, window + 1 :]
    outer = (inner - inner // 2)[:, None] + (far.columns - columns)[window + 1 :]
    product: FloatArray = np.zeros_like(left)
    product[:, window + 1 :] = left @ np.ldexp(right, _clipped(outer))
    return product


def _clipped(exponents: IntArray) -> IntArray:
    """Exponents that ldexp takes."""
    return np.clip(exponents, -_FAR, _FAR)
