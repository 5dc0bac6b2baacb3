"""Messages and weights of the walk in MPFR numbers, at any precision.

A vector is a pair (lower, upper) of arrays as in ``labels``: up to one common factor, the true
numbers lie between them. Only ratios within a vector matter for decisions, so factors common to a
vector are dropped at long runs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import gmpy2
import numpy as np

from dp_transforms.mechanisms.arrays import Array
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.enclosure import Undecided, rounding_pair
from dp_transforms.mechanisms.labelled_walk.decoupling import long_from, remainder, window_of
from dp_transforms.mechanisms.labelled_walk.labels import KINDS, OPEN, Powers
from dp_transforms.mechanisms.labelled_walk.runs import Run
from dp_transforms.mechanisms.randomness import Uniform
from dp_transforms.mechanisms.sampler.walk import choose, shares

Vector = tuple[Array, Array]

_GUARD_BITS = 32


def enclosed_powers(decay: Decay, window: int, precision: int) -> tuple[Powers, Powers]:
    """Powers of q from below and from above, as MPFR numbers."""
    contexts = rounding_pair(precision)
    costs = [decay.power(d, precision) for d in range(window + 3)]
    rests = [decay.one_minus_power(d, precision) for d in range(window + 3)]
    loops = [
        context.mul(costs[window + 1][i], context.add(1, costs[1][i]))
        for i, context in enumerate(contexts)
    ]
    loop_rests = [context.sub(1, loops[1 - i]) for i, context in enumerate(contexts)]
    found = []
    for i, context in enumerate(contexts):
        # Halves have the context's precision too.
        with gmpy2.context(context):
            found.append(
                Powers(
                    window,
                    np.array([cost[i] for cost in costs], dtype=object),
                    np.array([rest[1 - i] for rest in rests], dtype=object),
                    loops[i],
                    loop_rests[1 - i],
                )
            )
    return found[0], found[1]


def mirrored(vector: Vector) -> Vector:
    """The mirror image: D to -D, and bits exchanged."""
    return vector[0][::-1, ::-1], vector[1][::-1, ::-1]


class Precise:
    """The walk's weights, of whose ratios about so many bits are known, on a window that contains
    the states |D| <= reach, and more."""

    def __init__(self, decay: Decay, bits: int, reach: int = 0):
        rate = float(decay.log_enclosure(64)[0])
        self.bits = bits
        self.window = max(window_of(rate, bits), reach + 2)
        self.long = long_from(rate, self.window, bits)
        self._contexts = rounding_pair(bits + _GUARD_BITS)
        self._powers = enclosed_powers(decay, self.window, bits + _GUARD_BITS)

    def single(self, code: int) -> Vector:
        """Weight 1 for the state D = code // 3 of the kind code % 3, and 0 for all others."""
        found = self._each(lambda powers, _: powers.zeros(), (None, None))
        for bound in found:
            bound[self._powers[0].level(code // KINDS), code % KINDS] += 1
        return found

    def leaving(self, highest: int) -> Vector:
        """The weights of the states after an infinite run of zeros."""
        return self._each(lambda powers, _: powers.leaving(highest), (None, None))

    def settling(self, lowest: int) -> Vector:
        """The messages before an infinite run of zeros."""
        return self._each(lambda powers, _: powers.settling(lowest), (None, None))

    def enclosing(self, lower: Array, upper: Array, error: float) -> Vector:
        """A vector from bounds in flat arrays of floats on a smaller window, up to a relative
        error."""
        side = (self._powers[0].levels - len(lower) // KINDS) // 2
        found = []
        for bound, factor, outside in ((lower, 1 - 2 * error, 0.0), (upper, 1 + 2 * error, None)):
            levels = (bound * factor).reshape(-1, KINDS)
            # Messages of states beyond the smaller window are at most its exit's.
            low, high = levels[[0, -1]] if outside is None else (outside, outside)
            padded = np.empty((len(levels) + 2 * side, KINDS))
            padded[:side], padded[side : len(padded) - side], padded[-side:] = low, levels, high
            found.append(np.array([gmpy2.mpfr(x) for x in padded.ravel().tolist()], dtype=object))
        return found[0].reshape(-1, KINDS), found[1].reshape(-1, KINDS)

    def backward(self, run: Run, after: Vector) -> Vector:
        """The messages before a run of zeros."""
        for stretch in reversed(list(run.stretches(self.window))):
            after = self._passed(stretch, after, Powers.backward, self._before_long)
        return after

    def forward(self, run: Run, before: Vector) -> Vector:
        """The weights of the states after a run of zeros."""
        for stretch in run.stretches(self.window):
            before = self._passed(stretch, before, Powers.forward, self._after_long)
        return before

    def _passed(
        self,
        stretch: Run,
        vector: Vector,
        step: Callable[..., Any],
        pass_long: Callable[[Run, Vector], Vector],
    ) -> Vector:
        """The vector on the other side of a stretch, by steps or as one of all long ones."""
        if stretch.length >= self.long:
            return pass_long(stretch, vector)
        for _ in range(stretch.length):
            vector = self._each(step, vector, stretch.lowest, stretch.highest)
        return vector

    def shares(self, first: int, left: Vector, right: Vector) -> tuple[list[Any], list[Any]]:
        """Enclosures of Pr[at most the j-th state], for j = 0, 1, ... from the code ``first`` on,
        given the weights of what is before a state and after it.

        Raises:
          Undecided: the lower bound of the total weight is zero.
        """
        start = KINDS * (self.window + 1) + first
        lower, upper = (
            map(context.mul, before[:-1].ravel()[start:], behind[:-1].ravel()[start:])
            for context, before, behind in zip(self._contexts, left, right, strict=True)
        )
        rest = self._contexts[1].mul(left[1][-1, OPEN], right[1][-1, OPEN])
        lo, hi = shares(self._contexts, lower, upper, rest)
        if not lo[-1] > 0:
            raise Undecided
        return lo, hi

    def choose(self, first: int, left: Vector, right: Vector, uniform: Uniform) -> int:
        """The state that the uniform number U chooses: the first with U < Pr[at most this state].

        Raises:
          Undecided: the enclosures allow more than one.
        """
        return first + choose(*uniform.enclosure(self.bits), *self.shares(first, left, right))

    def _before_long(self, run: Run, after: Vector) -> Vector:
        ends = self.settling(run.lowest), self.leaving(run.highest)
        return self._decoupled(*ends, after, lambda sums: self._remainder @ sums)

    def _after_long(self, run: Run, before: Vector) -> Vector:
        ends = self.leaving(run.highest), self.settling(run.lowest)
        found = self._decoupled(*ends, before, lambda sums: sums @ self._remainder)
        # As in ``Powers.forward``: the upper exit holds one number, and the lower one none.
        found[1][0], found[1][-1, [OPEN - 1, OPEN + 1]] = 0, 0
        return found

    def _decoupled(
        self, near: Vector, far: Vector, vector: Vector, apply: Callable[[Array], Array]
    ) -> Vector:
        """The vector on the other side of a long run: settling or leaving, whichever is ``near``
        it, up to a remainder. ``apply`` multiplies by the bounds of that.

        The factor that is dropped is the inner product of ``far``, the other one, and the vector.
        """
        down, up = self._contexts
        with gmpy2.context(down):
            factor = (far[0] * vector[0])[1:-1].sum()
        with gmpy2.context(up):
            rest = apply(vector[1].sum(axis=1))[:, None]
            rest = rest / factor if factor > 0 else np.full_like(rest, gmpy2.inf())
            inner = near[1].copy()
            inner[[0, -1]] = 0
            upper = inner + rest
        with gmpy2.context(down):
            lower = near[0] - rest
        lower[lower < 0] = 0
        lower[[0, -1]] = gmpy2.mpfr(0)
        return lower, upper

    @cached_property
    def _remainder(self) -> Array:
        with gmpy2.context(self._contexts[1]):
            return remainder(self._powers[1], self.long)

    def _each(self, make: Callable[..., Array], vector: tuple[Any, Any], *walls: int) -> Vector:
        """What ``make`` gives of both bounds, without exits in the lower one."""
        found = []
        for context, powers, bound in zip(self._contexts, self._powers, vector, strict=True):
            with gmpy2.context(context):
                found.append(make(powers, bound, *walls))
        found[0][[0, -1]] = gmpy2.mpfr(0)
        return found[0], found[1]
