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

FAR = 2**40
"""Constants below 2**-FAR are not kept."""

INDEPENDENCE_BITS = 70
"""The ends of a run count as independent in float64 if they collide with a probability of at most
2 to the power of minus this."""

_STEPPING = 24
"""Runs shorter than the window by this factor are cheaper step by step than by a matrix."""

_FLOAT_CONSTANT_BITS = 64
_SLACK = 1 + 2.0**-30
"""Covers the rounding of the few float operations that only bound the exit from above."""


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


@dataclass(frozen=True)
class FloatMatrix:
    """T_n in float64 on a window and its exit.

    The true entries lie within lo * (1 - error) and hi * (1 + error). ``growth`` is the largest sum
    of a row of hi.

    The matrix of all long runs bounds some entries from above only: those of rows behind
    ``centre``, the index of state 0, and of columns in front of it. Elsewhere ``centre`` is None.
    """

    lo: FloatArray
    hi: FloatArray
    error: float
    growth: float
    centre: int | None = None

    def __matmul__(self, messages: FloatArray) -> FloatArray:
        """The product with messages in two columns (lo, hi), exit included."""
        if self.centre is not None:
            messages = messages.copy()
            messages[: self.centre, 0] = 0
        if self.lo is self.hi:
            product = self.hi @ messages
        else:
            product = np.stack([self.lo @ messages[:, 0], self.hi @ messages[:, 1]], axis=1)
        if self.centre is not None:
            product[self.centre + 1 :, 0] = 0
        return product

    def row(self, index: int, count: int) -> tuple[FloatArray, FloatArray, int]:
        """Entries (index, index..index+count-1): lower and upper bounds, and their exponent."""
        found = slice(index, index + count)
        lower = self.lo[index, found]
        if self.centre is not None and index != self.centre:
            lower = lower * certain_in_row(self.centre, index, count)
        return lower, self.hi[index, found], 0

    def column(self, first: int, index: int) -> tuple[FloatArray, FloatArray, int]:
        """Entries (first..index, index): lower and upper bounds, and their exponent."""
        found = slice(first, index + 1)
        lower = self.lo[found, index]
        if self.centre is not None:
            lower = lower * ((np.arange(first, index + 1) <= self.centre) & (index >= self.centre))
        return lower, self.hi[found, index], 0


def certain_in_row(centre: int, index: int, count: int) -> npt.NDArray[np.bool_]:
    """Which of the entries (index, index..index+count-1) are bounded from below in long runs."""
    return (np.arange(index, index + count) >= centre) & (index <= centre)


class RunWeights:
    """The closed forms that transfer weights on the window -W..W are made of.

    Args:
      positive: the ratio q of the states above zero.
      negative: the ratio of the states below.
      window: W.
      beyond: how many states beyond the window to make constants for.
    """

    def __init__(self, positive: Decay, negative: Decay, window: int, beyond: int = 1):
        self.window = window
        self.size = 2 * window + 1
        self.positive = positive
        self.negative = negative
        self.positive_weights = Weights(positive, window + 1 + beyond, _FLOAT_CONSTANT_BITS)
        self.negative_weights = (
            self.positive_weights
            if negative == positive
            else Weights(negative, window + 1 + beyond, _FLOAT_CONSTANT_BITS)
        )
        self.rate = float(positive.log_enclosure(_FLOAT_CONSTANT_BITS)[0])
        self.long = independence_length(slower_of(positive, negative), window)
        """From this length on all runs share one matrix."""

    def matrix(self, length: int) -> Any:
        """T_length, made once and kept: entries by ``row`` and ``column``, and an ``error``."""
        raise NotImplementedError

    def in_first_part(
        self, near: int, far: int, start: int, moves: int
    ) -> tuple[list[float], list[float]]:
        """Enclosures of Pr[at most j moves are among the first ``near`` steps], for j = 0..moves.

        Args:
          near: the length of a run's first part.
          far: of the rest.
          start: the index of the state that the run is entered in.
          moves: how many moves there are in the run.
        """
        found = self._in_first_part.get((near, far, start, moves))
        if found is None:
            first, second = self.matrix(near), self.matrix(far)
            first_lo, first_hi, first_scale = first.row(start, moves + 1)
            second_lo, second_hi, second_scale = second.column(start, start + moves)
            scale = np.asarray(first_scale + second_scale)
            shift = clipped(scale - scale.max())
            lo = np.cumsum(np.ldexp(first_lo * second_lo, shift))
            hi = np.cumsum(np.ldexp(first_hi * second_hi, shift))
            error = 2 * (first.error + second.error + (moves + 6) * UNIT_ROUNDOFF)
            with np.errstate(divide="ignore", invalid="ignore"):
                # The last sum is the total by definition.
                found = (
                    [*(lo[:-1] / hi[-1] * (1 - error)).tolist(), 1.0],
                    [*(hi[:-1] / lo[-1] * (1 + error)).tolist(), 1.0],
                )
            self._in_first_part[near, far, start, moves] = found
        return found

    @cached_property
    def _in_first_part(
        self,
    ) -> dict[tuple[int, int, int, int], tuple[list[float], list[float]]]:
        return {}

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


class FloatTransfer(RunWeights):
    """T_n on the window -W..W and its exit, in float64.

    State D has index D + W; the exit has index 2W + 1.
    """

    def __init__(self, positive: Decay, negative: Decay, window: int):
        super().__init__(positive, negative, window)
        self._exit_decay = math.exp(-self.rate * (window + 1) / 2) * _SLACK
        self._matrices: dict[int, FloatMatrix] = {}

    def apply(self, length: int, messages: FloatArray) -> tuple[FloatArray, float, float]:
        """T_length times messages in two columns (lo, hi), exit included.

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
        return matrix @ messages, matrix.error + (self.size + 4) * UNIT_ROUNDOFF, matrix.growth

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
          FloatingPointError: an entry overflows float64.
        """
        length = min(length, self.long)
        found = self._matrices.get(length)
        if found is None:
            make = self._make_long if length == self.long else self._make
            found = self._matrices[length] = make(length)
        return found

    @cached_property
    def _step(self) -> tuple[FloatArray, FloatArray]:
        """T_1: what each state keeps, and what moves up from each state, as columns."""
        down = split(self.negative_weights.powers(1)[-2:0:-1])
        up = split(self.positive_weights.powers(1))
        weights = np.concatenate([np.ldexp(*down), np.ldexp(*up)])
        keep = np.append(weights[:-1], self._exit_decay)
        return keep[:, None], weights[1:, None]

    def _make(self, length: int) -> FloatMatrix:
        w, size = self.window, self.size
        across = np.s_[:w, w + 1 : size]
        one_side = self._one_side(length)
        # Entries on one side are products of two constants of two units each.
        error = 6 * UNIT_ROUNDOFF
        lo = np.zeros((size + 1, size + 1))
        lo[:size, :size] = one_side
        hi = lo.copy()
        if length == 1:
            hi[size - 1, size] = math.exp(-self.rate * (w + 1)) * _SLACK
            hi[size, size] = self._exit_decay
        else:
            near, far = (self.matrix(part) for part in parts_of(length))
            error += max(near.error, far.error) + (size + 10) * UNIT_ROUNDOFF
            above = near.hi @ far.hi[:, w + 1 :]
            hi[across] = above[:w, :-1]
            hi[:, size] = above[:, -1] * _SLACK
            same = near.lo is near.hi and far.lo is far.hi
            lo[across] = hi[across] if same else near.lo[:w] @ far.lo[:, w + 1 : size]
        lo, hi = self._settled(lo, hi, length)
        return FloatMatrix(lo, hi, error, float(hi.sum(axis=1).max()))

    def _make_long(self, length: int) -> FloatMatrix:
        """An enclosure of T_length and of all longer runs."""
        w, size = self.window, self.size
        states = np.arange(w + 1)
        hi = np.zeros((size + 1, size + 1))
        hi[:size, :size] = self._one_side(length)
        mantissas, exponents = self.crossing_long(states, states)
        hi[: w + 1, w:size] = np.ldexp(mantissas, clipped(exponents))[::-1]
        # What leaves above the window (see the module's text).
        leaving = math.exp(-self.rate * (w + 1))
        hi[: w + 1, size] = hi[: w + 1, size - 1] * (leaving / (1 - self._exit_decay))
        slowest = np.exp(-self.rate * (length - 1) * np.minimum(states[1:], (w + 1) / 2))
        climbs = np.ldexp(*self.leaving_first_run)[w - 1 :: -1]
        hi[w + 1 : size, size] = climbs * (leaving * length) * slowest
        hi[size, size] = math.exp(-self.rate * (w + 1) / 2 * length)
        hi[:, size] *= _SLACK
        lo, hi = self._settled(hi.copy(), hi, length)
        error = 6 * UNIT_ROUNDOFF + 2.0**-INDEPENDENCE_BITS
        if (lo == hi)[: w + 1, w:].all():
            lo = hi
        return FloatMatrix(lo, hi, error, float(hi.sum(axis=1).max()), centre=w)

    def _one_side(self, length: int) -> FloatArray:
        """The entries that do not cross zero, and zero elsewhere."""
        w, size = self.window, self.size
        entries = np.zeros((size, size))
        index = np.arange(w + 1)
        gap = index[None, :] - index[:, None]
        for weights, climbs, mirrored in (
            (self.positive_weights, self.positive_weights.upward(length), False),
            (self.negative_weights, self.negative_weights.inward(length), True),
        ):
            row, row_exponents = split(weights.powers(length)[: w + 1])
            climb, climb_exponents = split(climbs[: w + 1])
            part = np.ldexp(
                row[:, None] * climb[np.maximum(gap, 0)] * (gap >= 0),
                clipped(row_exponents[:, None] + climb_exponents[np.maximum(gap, 0)]),
            )
            if mirrored:
                # Entry (-s, -t) is that of (t, s).
                entries[: w + 1, : w + 1] = part.T[::-1, ::-1]
            else:
                entries[w:, w:] = part
        return entries

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
        self._long = independence_length(slower_of(positive, negative), window, precision)
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
        length = min(length, self._long)
        found = self._matrices.get(length)
        if found is None:
            make = self._make_long if length == self._long else self._make
            found = self._matrices[length] = make(length)
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
                near, far = (self.matrix(part)[bound] for part in parts_of(length))
                with gmpy2.context(context):
                    table[:w, w + 1 : size] = near[:w, :size] @ far[:size, w + 1 : size]
                    table[:, size] = near @ far[:, size]
            bounds.append(table)
        return bounds[0], bounds[1]

    def _make_long(self, length: int) -> tuple[ObjectArray, ObjectArray]:
        """Bounds of T_length and of all longer runs."""
        w, size = self.window, self.size
        down, up = rounding_pair(self.precision)
        lo, hi = (np.full((size + 1, size + 1), up.add(0, 0), dtype=object) for _ in range(2))
        climbs, falls = self._positive.leaving_first_run(), self._negative.entering_last_run()
        stays, returns = self._positive.powers(length), self._negative.powers(length)
        kept = down.sub(1, up.exp2(-self.precision))
        for s in range(w + 1):
            for j in range(w + 1):
                hi[w - s, w + j] = up.mul(falls[s][1], climbs[j][1])
                lo[w - s, w + j] = down.mul(down.mul(falls[s][0], climbs[j][0]), kept)
        for d in range(1, w + 1):
            for k in range(w - d + 1):
                hi[w + d, w + d + k] = up.mul(stays[d][1], climbs[k][1])
                hi[w - d - k, w - d] = up.mul(returns[d][1], falls[k][1])
        # What leaves above the window (see the module's text).
        leaving = self.positive.power(w + 1, self.precision)[1]
        for s in range(w + 1):
            hi[w - s, size] = up.div(
                up.mul(hi[w - s, size - 1], leaving), down.sub(1, self._exit_decay)
            )
        for d in range(1, w + 1):
            slowest = max(self.positive.power(d, self.precision)[1], self._exit_decay)
            steps = up.mul(length, up.pow(slowest, length - 1))
            hi[w + d, size] = up.mul(up.mul(climbs[w - d][1], leaving), steps)
        hi[size, size] = up.pow(self._exit_decay, length)
        return lo, hi


def slower_of(positive: Decay, negative: Decay) -> Decay:
    """The one that falls more slowly."""
    return min(positive, negative, key=lambda decay: decay.log_enclosure(64)[0])


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
