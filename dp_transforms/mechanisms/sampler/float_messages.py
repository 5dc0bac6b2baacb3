"""The backward pass of the walk in float64: enclosures of every block's messages.

beta_r(D) is the total weight of all completions of a walk that is in state D before block r. It is
log-concave in D (q**|D| is, and a convolution with (1, 1) keeps it). So beyond the edge of the
window each message is at most the one before it times the ratio of the two at the edge.

A bound for all message vectors is a pair of columns (lo, hi). Their relative rounding errors are
bounded apart, by one number for each block: all terms are positive, so errors only add up. Numbers
near underflow are replaced by the bounds 0 and TINY.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dp_transforms.mechanisms.sampler.float_transfer import FloatTransfer
from dp_transforms.mechanisms.sampler.transfer import TINY, UNIT_ROUNDOFF, settle
from dp_transforms.mechanisms.sampler.walk import Blocks

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_UNTOUCHED = TINY * 2.0**100
"""Messages above this are not affected by the bounds that replace what underflows."""

_ROOMY = 2.0**200
"""Messages are normalised before they can have grown by more than this."""


@dataclass(frozen=True)
class Messages:
    """Enclosures of beta_0..beta_R on the window; D has index D + W.

    beta_r(D) lies within lo[r, D] * (1 - errors[r]) and hi[r, D] * (1 + errors[r]), times
    2**exponents[r, D]. ``exponents`` has one column for every state, or one for all of them.
    """

    lo: FloatArray
    hi: FloatArray
    exponents: IntArray
    errors: FloatArray


@np.errstate(divide="ignore")
def backward(blocks: Blocks, transfers: tuple[FloatTransfer, FloatTransfer]) -> Messages:
    """The messages of all blocks.

    Args:
      blocks: f's blocks.
      transfers: for blocks of zeros and, mirrored, for blocks of ones; of one window.

    Raises:
      FloatingPointError: the window is too narrow, or float64's range too small.
    """
    size, count = transfers[0].size, len(blocks)
    current = _Vector.behind_last_block(transfers[0])
    stored = np.empty((count + 1, size, 2))
    exponents = np.empty((count + 1, 1), dtype=np.int64)
    errors = np.empty(count + 1)
    orientation = 0
    lowest, highest = blocks.lowest.tolist(), blocks.highest.tolist()
    current.forbid_outside(lowest[count], highest[count])
    current.store(stored, exponents, errors, count)
    for index, bit, length, run_length in zip(
        range(count - 1, -1, -1),
        blocks.bits[::-1].tolist(),
        blocks.lengths[::-1].tolist(),
        blocks.run_lengths[::-1].tolist(),
        strict=True,
    ):
        # Mirrored before a block of ones, so that all blocks are of zeros.
        if bit != orientation:
            current.mirror()
            orientation = bit
        current.pass_block(transfers[bit], length, run_length)
        low, high = lowest[index], highest[index]
        current.forbid_outside(*((-high, -low) if orientation else (low, high)))
        current.store(stored, exponents, errors, index)
    mirrored = np.flatnonzero(blocks.bits == 1)
    stored[mirrored] = stored[mirrored, ::-1]
    if not (np.isfinite(stored).all() and errors[0] < 2.0**-20):
        raise FloatingPointError("messages overflow float64")
    # A product of factors 1 + e is at most exp(sum e), below 1 + 1.01 sum e for small sums.
    return Messages(stored[:, :, 0], stored[:, :, 1], exponents, 1.01 * errors)


class _Vector:
    """Bounds (lo, hi) in the columns of ``values``, the exit's last, times 2**exponent."""

    def __init__(self, values: FloatArray, exponent: int):
        self.values = values
        self.exponent = exponent
        self.error = 4 * UNIT_ROUNDOFF
        self._growth = 1.0
        settle(*values.T)

    @classmethod
    def behind_last_block(cls, transfer: FloatTransfer) -> _Vector:
        mantissas, exponents = transfer.entering_last_run
        top = int(exponents.max())
        values = np.zeros((transfer.size + 1, 2))
        values[transfer.window : -1] = np.ldexp(mantissas, exponents - top)[:, None]
        return cls(values, top)

    def store(
        self, stored: FloatArray, exponents: IntArray, errors: FloatArray, index: int
    ) -> None:
        stored[index] = self.values[:-1]
        exponents[index] = self.exponent
        errors[index] = self.error

    def forbid_outside(self, lowest: int, highest: int) -> None:
        """Applies the walls: what is forbidden has no completions. The bound TINY stays, for the
        bounds of ratios are made of it."""
        window = len(self.values) // 2 - 1
        if lowest > -window:
            self.values[: lowest + window] = 0.0, TINY
        if highest < window:
            self.values[highest + window + 1 :] = 0.0, TINY

    def mirror(self) -> None:
        self.values[:-1] = self.values[-2::-1].copy()

    def pass_block(self, transfer: FloatTransfer, length: int, run_length: int) -> None:
        if self._growth > _ROOMY:
            _, top = math.frexp(self.values[:-1].max())
            self.values *= 2.0**-top
            self.exponent += top
            self._growth = 1.0
            settle(*self.values.T)
        if run_length:
            edge, ratio = edge_of(self.values[:-1])
            self.values[-1] = 0.0, _exit(transfer, edge, ratio, run_length)
        self.values, error, growth = transfer.apply(length, self.values)
        self.error += error
        self._growth *= growth
        settle(*self.values.T)


def edge_of(values: FloatArray) -> tuple[float, float]:
    """(edge, ratio) such that beta(W + k) <= edge * ratio**k for k >= 1, by log-concavity.

    Args:
      values: enclosures (lo, hi) of a log-concave sequence, its last row at W.
    """
    last = len(values) - 1
    is_tight = values.item(last, 1) <= 1.001 * values.item(last, 0)
    if is_tight and values.item(last - 1, 0) > _UNTOUCHED:
        ratio = values.item(last, 1) / values.item(last - 1, 0)
    else:
        # Near underflow an enclosure is wide, and so it is at the edge of a window that is hardly
        # wide enough. Every earlier ratio bounds the later ones as well.
        ratio = max((values[1:, 1] / values[:-1, 0]).min().item(), TINY)
    return values.item(last, 1), ratio * (1 + 2.0**-18)


def _exit(transfer: FloatTransfer, edge: float, ratio: float, run_length: int) -> float:
    weight = transfer.exit_weight(edge, ratio, run_length)
    if not math.isfinite(weight):
        raise FloatingPointError("the window is too narrow to bound what lies outside")
    return max(weight, TINY)
