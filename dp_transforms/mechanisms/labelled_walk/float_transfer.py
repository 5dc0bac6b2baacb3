"""Transfer matrices of runs in float64, with bounds of their errors.

The matrix of a run has, for each state before and each after it, a float within a known relative
error of the true weight. Entries below TINY are replaced by TINY, also where the true weight is
zero; they are upper bounds only. The index of a state is level * KINDS + kind (see ``labels``).
"""

from __future__ import annotations

import math
from typing import Any

import gmpy2
import numpy as np

from dp_transforms.mechanisms.arrays import Array, FloatArray, IntArray
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.enclosure import Undecided, rounding_pair
from dp_transforms.mechanisms.labelled_walk.decoupling import long_from, remainder, window_of
from dp_transforms.mechanisms.labelled_walk.labels import KINDS, Powers
from dp_transforms.mechanisms.labelled_walk.precise import enclosed_powers
from dp_transforms.mechanisms.labelled_walk.runs import Run

Shares = tuple[list[float], list[float]]
"""(lo, hi): enclosures of Pr[at most the j-th state], for j = 0, 1, ..."""

UNIT = 2.0**-53
TINY = 2.0**-900
SURE = 2.0**-800  # A matrix entry above this is a lower bound too: TINY is negligible beside it.
FAINT = 2.0**-400  # Total weights below this are left to more precise numbers.
SLACK = 1 + 2.0**-20  # More than all relative errors, for numbers that need only be upper bounds.

_BITS = 53
_DECOUPLED_BITS = 56
_PRECISION = 96
_STEP_ERROR = 8 * UNIT


class FloatTransfer:
    """The matrices of runs of zeros, each computed when it is first needed.

    Attributes:
      window: W; matrices have KINDS * (2 W + 3) rows.
      long: runs at least this long share one matrix.
      matrices: upper bounds, by number; as many as there are ``errors``.
      errors: the matrices' relative errors.
      growths: the logarithms to base 2 of their largest row sums, or 1 if that is more.
    """

    def __init__(self, decay: Decay):
        self.decay = decay
        rate = float(decay.log_enclosure(64)[0])
        self.window = window_of(rate, _BITS)
        self.long = long_from(rate, self.window, _DECOUPLED_BITS)
        exact = enclosed_powers(decay, self.window, _PRECISION)
        self.powers = _as_floats(exact[0])
        self.size = KINDS * self.powers.levels
        with gmpy2.context(rounding_pair(_PRECISION)[1]):
            bounds = remainder(exact[1], self.long).astype(np.float64)
        # The same for all kinds.
        bounds = np.kron(bounds, np.full((KINDS, KINDS), SLACK))
        self.remainder: FloatArray = np.maximum(bounds, TINY)
        self.matrices: FloatArray = np.empty((self.long + 8, self.size, self.size))
        self.errors: list[float] = []
        self.growths: list[float] = []
        self.lower: dict[int, FloatArray] = {}
        self.ends: dict[int, tuple[FloatArray, FloatArray]] = {}
        self._numbers: dict[Run, int] = {}
        self.plain = np.full(self.long + 1, -1)

    def number(self, run: Run) -> int:
        """The number of a run's matrix."""
        run = run.on_window(self.window)
        if run.length > self.long and not (run.low_rise or run.high_rise):
            run = Run(self.long, run.lowest, run.highest)
        found = self._numbers.get(run)
        if found is None:
            matrix, error = self._make(run)
            found = len(self.errors)
            if found == len(self.matrices):
                self.matrices = np.concatenate([self.matrices, np.empty_like(self.matrices)])
            np.maximum(matrix, TINY, out=self.matrices[found])
            self.errors.append(error)
            self.growths.append(max(1.0, math.log2(matrix.sum(axis=1).max() * SLACK)))
            self._numbers[run] = found
            if run.length == self.long and not (run.low_rise or run.high_rise):
                settling, leaving = self.limits(run)
                self.ends[found] = settling, leaving
                self.lower[found] = np.maximum(np.outer(settling, leaving) - self.remainder, 0.0)
            if run == Run(run.length):
                self.plain[run.length] = found
        return found

    def numbers(self, lengths: IntArray) -> IntArray:
        """The numbers of the matrices of runs without walls."""
        lengths = np.minimum(lengths, self.long)
        for length in np.flatnonzero(np.bincount(lengths)).tolist():
            if self.plain[length] < 0:
                self.number(Run(length))
        return self.plain[lengths]

    def limits(self, run: Run) -> tuple[FloatArray, FloatArray]:
        """Settling and leaving (see ``labels``), flattened, without exits."""
        found = self.powers.settling(run.lowest), self.powers.leaving(run.highest)
        for ends in found:
            ends[[0, -1]] = 0
        return found[0].ravel(), found[1].ravel()

    def bounds(self, number: int, where: Any) -> FloatArray:
        """(lower, upper) bounds of a row or a column of a matrix, up to its relative error."""
        upper = self.matrices[number][where]
        if number in self.lower:
            return np.stack([self.lower[number][where], upper])
        return np.stack([np.where(upper > SURE, upper, 0), upper])

    def shares(self, weights: FloatArray, error: float) -> Shares:
        """Enclosures of the states' shares, from (lower, upper) bounds of their weights in order,
        up to a relative error; the last level is the exit.

        Raises:
          Undecided: the total weight may be too small for floats.
        """
        lo, hi = weights.cumsum(axis=1)
        if not lo[-1] > FAINT:
            raise Undecided
        margin = 2 * (error + (self.size + 16) * UNIT)
        lo, hi = lo * ((1 - margin) / hi[-1]), hi * ((1 + margin) / lo[-1])
        return lo[:-KINDS].tolist(), hi[:-KINDS].tolist()

    def _make(self, run: Run) -> tuple[FloatArray, float]:
        if run.low_rise or run.high_rise:
            matrix, error = np.eye(self.size), 0.0
            for stretch in run.stretches(self.window):
                number = self.number(stretch)
                matrix = matrix @ self.matrices[number]
                error += self.errors[number] + (self.size + 2) * UNIT
            return matrix, error
        if run.length == self.long:
            settling, leaving = self.limits(run)
            return np.outer(settling, leaving) + self.remainder, self.limit_error
        before = self._numbers.get(Run(run.length - 1, run.lowest, run.highest))
        if run.length == 1 or before is not None:
            behind = np.eye(self.size) if before is None else self.matrices[before]
            shape = (self.powers.levels, KINDS, self.size)
            matrix = self.powers.backward(behind.reshape(shape), run.lowest, run.highest)
            error = 0.0 if before is None else self.errors[before]
            return matrix.reshape(self.size, self.size), error + _STEP_ERROR
        half = run.length // 2
        parts = [self.number(run.part(0, length)) for length in (half, run.length - half)]
        matrix = self.matrices[parts[0]] @ self.matrices[parts[1]]
        return matrix, sum(self.errors[part] for part in parts) + (self.size + 2) * UNIT

    @property
    def limit_error(self) -> float:
        """The relative error of ``limits``: about ten operations for each level."""
        return 16 * (self.window + 2) * UNIT


def _as_floats(powers: Powers) -> Powers:
    costs: Array = powers.costs.astype(np.float64)
    rests: Array = powers.rests.astype(np.float64)
    return Powers(powers.window, costs, rests, float(powers.loop), float(powers.loop_rest))
