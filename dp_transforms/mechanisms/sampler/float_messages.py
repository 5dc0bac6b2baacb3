"""Messages with one exponent for all states.

A bound for all message vectors is a pair of columns (lo, hi). Numbers near underflow are replaced
by the bounds 0 and TINY (``settle``): a true message is at least the sum of what was not lost, and
what was lost is below TINY in the vector's own scale.
"""

from __future__ import annotations

import math

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray
from dp_transforms.mechanisms.sampler.float_transfer import FloatTransfer
from dp_transforms.mechanisms.sampler.messages import Messages, backward
from dp_transforms.mechanisms.sampler.transfer import TINY, UNIT_ROUNDOFF, settle
from dp_transforms.mechanisms.sampler.walk import Blocks

_UNTOUCHED = TINY * 2.0**100
"""Messages above this are not affected by the bounds that replace what underflows."""

_ROOMY = 2.0**200  # Messages are normalised before they can have grown by more than this.


def float_backward(blocks: Blocks, transfers: tuple[FloatTransfer, FloatTransfer]) -> Messages:
    """The messages of all blocks: see ``backward``."""
    messages = backward(blocks, transfers, _FloatVector)
    if not (np.isfinite(messages.lo).all() and np.isfinite(messages.hi).all()):
        raise FloatingPointError("messages overflow float64")
    return messages


class _FloatVector:
    """Bounds (lo, hi) in the columns of ``values``, the exit's last, times 2**exponent."""

    def __init__(self, transfer: FloatTransfer, lowest: int, highest: int):
        mantissas, exponents = transfer.entering_last_run
        self._window = transfer.window
        self._exponent = int(exponents.max())
        self._values = np.zeros((transfer.size + 1, 2))
        self._values[self._window : -1] = np.ldexp(mantissas, exponents - self._exponent)[:, None]
        self.error = 4 * UNIT_ROUNDOFF
        self._growth = 1.0
        self._mirrored = False
        settle(*self._values.T)
        self._forbid_outside(lowest, highest)

    def bounds(self) -> tuple[FloatArray, int]:
        return self._values[:-1].T, self._exponent

    def mirror(self) -> None:
        self._mirrored = not self._mirrored
        self._values[:-1] = self._values[-2::-1].copy()

    def pass_block(
        self, transfer: FloatTransfer, length: int, run_length: int, lowest: int, highest: int
    ) -> None:
        if self._growth > _ROOMY:
            _, top = math.frexp(self._values[:-1].max())
            self._values *= 2.0**-top
            self._exponent += top
            self._growth = 1.0
            settle(*self._values.T)
        if run_length:
            weight = transfer.exit_weight(*edge_of(self._values[:-1]), run_length)
            if not math.isfinite(weight):
                raise FloatingPointError("the window is too narrow to bound what lies outside")
            self._values[-1] = 0.0, max(weight, TINY)
        self._values, error, growth = transfer.apply(length, self._values)
        self.error += error
        self._growth *= growth
        settle(*self._values.T)
        self._forbid_outside(*((-highest, -lowest) if self._mirrored else (lowest, highest)))

    def _forbid_outside(self, lowest: int, highest: int) -> None:
        """Applies the walls: what is forbidden has no completions. The bound TINY stays, for the
        bounds of ratios are made of it."""
        if lowest > -self._window:
            self._values[: lowest + self._window] = 0.0, TINY
        if highest < self._window:
            self._values[highest + self._window + 1 :] = 0.0, TINY


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
