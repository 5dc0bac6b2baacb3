"""The backward pass of the walk in float64: enclosures of every block's messages.

beta_r(D) is the total weight of all completions of a walk that is in state D before block r. It is
log-concave in D (q**|D| is, and a convolution with (1, 1) keeps it). So beyond the edge of the
window each message is at most the one before it times the ratio of the two at the edge.

Messages have lower and upper bounds, and their relative rounding errors are bounded apart, by one
number for each block: all terms are positive, so errors only add up.

Two kinds of vectors carry them, as rates differ. ``float_messages`` has one exponent for all
states, and is ten times as fast on lists of many short blocks; ``scaled_messages`` has one for each
state, for rates so small that messages span more than float64's range. They differ in what they do
about underflow, and in nothing that a caller can see: where a number may have lost its relative
precision, its lower bound is 0 and its upper bound is at least what it can have been before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray, IntArray
from dp_transforms.mechanisms.sampler.walk import Blocks


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


_Transfer = TypeVar("_Transfer", contravariant=True)


class Vector(Protocol[_Transfer]):
    """The messages before or behind some block, in the orientation in which it is one of zeros."""

    error: float

    def mirror(self) -> None:
        """Turns ones into zeros."""

    def pass_block(
        self, transfer: _Transfer, length: int, run_length: int, lowest: int, highest: int
    ) -> None:
        """Passes a block of the transfer's bit, which has walls in front of it that allow states
        from lowest to highest. ``run_length`` is that of the run that it ends, or 0."""

    def bounds(self) -> tuple[FloatArray, Any]:
        """Lower and upper bounds as two rows, and their exponents, or the one of all."""


@np.errstate(divide="ignore")
def backward(
    blocks: Blocks,
    transfers: tuple[_Transfer, _Transfer],
    behind_last_block: Callable[[_Transfer, int, int], Vector[_Transfer]],
) -> Messages:
    """The messages of all blocks, given transfers of one window for blocks of zeros and, mirrored,
    for blocks of ones, and what makes the vector behind the last block from the walls there.

    Raises:
      FloatingPointError: the window is too narrow, or float64's range too small.
    """
    count = len(blocks)
    lowest, highest = blocks.lowest.tolist(), blocks.highest.tolist()
    bits, lengths, run_lengths = (
        array.tolist() for array in (blocks.bits, blocks.lengths, blocks.run_lengths)
    )
    vector = behind_last_block(transfers[0], lowest[count], highest[count])
    bounds, scale = vector.bounds()
    values = np.empty((count + 1, *bounds.shape))
    exponents = np.empty((count + 1, np.size(scale)), dtype=np.int64)
    errors = np.empty(count + 1)
    orientation = 0
    for index in range(count, -1, -1):
        if index < count:
            # Mirrored before a block of ones, so that all blocks are of zeros.
            if bits[index] != orientation:
                vector.mirror()
                orientation = bits[index]
            vector.pass_block(
                transfers[orientation],
                lengths[index],
                run_lengths[index],
                lowest[index],
                highest[index],
            )
            bounds, scale = vector.bounds()
        values[index] = bounds[:, ::-1] if orientation else bounds
        exponents[index] = scale[::-1] if orientation and np.size(scale) > 1 else scale
        errors[index] = vector.error
    if not errors[0] < 2.0**-20:
        raise FloatingPointError("too many blocks for float64")
    # A product of factors 1 + e is at most exp(sum e), below 1 + 1.01 sum e for small sums.
    return Messages(values[:, 0], values[:, 1], exponents, 1.01 * errors)
