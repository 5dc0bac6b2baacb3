"""The corner-weighted mechanism as a labelled walk: its states, and the transfer of one step.

As in ``sampler.walk``, a list x is read along the diagonals as bits b_x, D is the number of cells
by which its Young diagram exceeds that of f on a diagonal, and each position contributes a factor
of q**|D|. The corner weight of x at s = 1/4 is

    w(x) = product over maximal chains of m corners at consecutive vertices of (m + 2) / 2**(m+1)

where a corner is a vertex between two different bits. Corners count if they are flippable: if
exchanging the two bits keeps the list between the walls. w(x) is the probability that independent
fair labels (0 or 1), one for each bit, are never (1, 0) at the two sides of a flippable corner:
along a chain of m corners the m + 1 labels must ascend, and m + 2 of their 2**(m+1) values do. So
the law of x is a marginal of that of a walk which draws labels too. Its states are (D, kind):

    OPEN       the last label is 0: the next bit and label are free
    HELD_ZERO  the last bit is 0 and its label 1: at a flippable corner the next label must be 1
    HELD_ONE   the last bit is 1 and its label 1: likewise

The mirror image (D to -D, bits exchanged) exchanges the two held kinds. So only steps on a zero
bit of f are written here; for a one bit, arrays are reversed along both axes.

Windows. Arrays have a level for each D with |D| <= window, and at each end one more, the exit, for
all states beyond. A forced label weighs less than a free one, so OPEN has the largest message of
each level. If h bounds the messages of the states beyond one end after a step, then

    q**(window + 1) (1 + q) h + q**window F        F: the message of OPEN at that end

bounds them before it if steps lead inwards there, and the first term does if they lead outwards.
Read forwards, the same numbers bound the total weight of the walks beyond. In upper bounds an exit
holds such a bound; in lower bounds it is zero.

Functions here take arrays of any numbers: floats, complex numbers, or MPFR numbers in a context
that rounds down or up. All operations are sums and products of nonnegative numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dp_transforms.mechanisms.arrays import Array

KINDS = 3
HELD_ZERO, OPEN, HELD_ONE = range(KINDS)

NO_WALL = 2**62  # A wall that no walk reaches.


@dataclass(frozen=True)
class Powers:
    """Powers of q on a window, in one kind of number, rounded one way.

    Attributes:
      window: the largest |D|.
      costs: q**d for d = 0 .. window + 2.
      rests: bounds of 1 - q**d on the other side.
      loop: q**(window + 1) (1 + q), the factor of an exit.
      loop_rest: 1 - loop, likewise on the other side.
      below: those for D < 0, if there q is another number; by default the same.
    """

    window: int
    costs: Array
    rests: Array
    loop: Any
    loop_rest: Any
    below: Powers | None = None

    def __post_init__(self) -> None:
        below = self if self.below is None else self.below
        object.__setattr__(self, "below", below)
        halves = np.append(below.costs[self.window : 0 : -1], self.costs[: self.window + 2]) / 2
        object.__setattr__(self, "_here", halves[:-1])
        object.__setattr__(self, "_above", halves[1:])

    @property
    def levels(self) -> int:
        """How many values of D arrays have, with the two exits."""
        return 2 * self.window + 3

    def zeros(self) -> Array:
        """An array of states, (levels, KINDS), filled with 0."""
        return np.full((self.levels, KINDS), self.costs[0] - self.costs[0])

    def level(self, state: int) -> int:
        """The index of D = state."""
        return state + self.window + 1

    def backward(self, after: Array, lowest: int = -NO_WALL, highest: int = NO_WALL) -> Array:
        """Messages before one step on a zero bit of f, from those after it, an array of shape
        (levels, KINDS, ...). Before the step lowest <= D <= highest is allowed, 0 among them."""
        shape = (-1,) + (1,) * (after.ndim - 2)
        here, above = self._here.reshape(shape), self._above.reshape(shape)  # type: ignore[attr-defined]
        stay_held = here * after[1:-1, HELD_ZERO]
        stay = here * after[1:-1, OPEN] + stay_held
        move_held = above * after[2:, HELD_ONE]
        move = above * after[2:, OPEN] + move_held
        before = np.empty_like(after)
        before[1:-1, OPEN] = stay + move
        before[1:-1, HELD_ZERO] = stay + move_held
        before[1:-1, HELD_ONE] = stay_held + move
        before[0] = self.loop * after[0] + self.costs[self.window] * after[1, OPEN]
        before[-1] = self.loop * after[-1]
        if highest <= self.window:
            wall = self.level(highest)
            before[wall, HELD_ZERO] = before[wall, OPEN]
            before[wall + 1 :] = self.costs[0] - self.costs[0]
        if lowest >= -self.window:
            wall = self.level(lowest)
            before[wall, HELD_ONE] = before[wall, OPEN]
            before[:wall] = self.costs[0] - self.costs[0]
        return before

    def forward(self, before: Array, lowest: int = -NO_WALL, highest: int = NO_WALL) -> Array:
        """Weights of the states after one step on a zero bit of f, from those before it.

        The weight of all states above the window is in the upper exit, as OPEN. The lower exit
        must be zero.
        """
        inner = before[1:-1].copy()
        zero = self.costs[0] - self.costs[0]
        stay, move = inner[:, HELD_ZERO] + inner[:, OPEN], inner[:, OPEN] + inner[:, HELD_ONE]
        if highest <= self.window:
            move[highest + self.window] += inner[highest + self.window, HELD_ZERO]
        if lowest >= -self.window:
            stay[lowest + self.window] += inner[lowest + self.window, HELD_ONE]
        total = inner[:, HELD_ZERO] + inner[:, OPEN] + inner[:, HELD_ONE]
        for part in (stay, move, total):
            part[max(0, highest + self.window + 1) :] = zero
            part[: max(0, lowest + self.window)] = zero
        here, above = self._here, self._above  # type: ignore[attr-defined]
        after = np.full_like(before, zero)
        after[1:-1, HELD_ZERO] = here * total
        after[1:-1, OPEN] = here * stay
        after[2:, OPEN] += above * move
        after[2:, HELD_ONE] += above * total
        after[-1, OPEN] += after[-1, HELD_ONE] + self.loop * before[-1, OPEN]
        after[-1, HELD_ONE] = zero
        return after

    def leaving(self, highest: int = NO_WALL) -> Array:
        """The weights of the states after an infinite run of zeros.

        Solves L = L T, T being the transfer of one step, with fair labels far from the end. With y
        = OPEN + HELD_ZERO at level a, and o, h, k the weights of OPEN, HELD_ZERO and HELD_ONE one
        level below,

            HELD_ONE = q**a (o + h + k) / 2         y (1 - q**a) = q**a (o + k + HELD_ONE) / 2.
        """
        found = self.zeros()
        centre = self.level(0)
        found[centre, HELD_ZERO] = found[centre, OPEN] = self.costs[0] / 2
        for a in range(1, min(self.window, highest) + 1):
            below, half = found[centre + a - 1], self.costs[a] / 2
            moved = below[OPEN] + below[HELD_ONE]
            held_one = half * (moved + below[HELD_ZERO])
            both = half * (moved + held_one) / self.rests[a]
            found[centre + a] = [half * (both + held_one), half * (moved + both), held_one]
        if highest > self.window:
            edge = found[-2]
            moved = 2 * edge[OPEN] + 2 * edge[HELD_ONE] + edge[HELD_ZERO]
            found[-1, OPEN] = self.costs[self.window + 1] / 2 * moved / self.loop_rest
        return found

    def settling(self, lowest: int = -NO_WALL) -> Array:
        """The messages before an infinite run of zeros, for walks that end at D = 0.

        Solves R = T R, from level 0 down.
        """
        found = self.zeros()
        centre, one = self.level(0), self.costs[0]
        costs, rests = self.below.costs, self.below.rests  # type: ignore[union-attr]
        found[centre] = [one, one, one / 2 if lowest < 0 else one]
        for s in range(1, min(self.window, -lowest) + 1):
            above, half = found[centre - s + 1], costs[s] / 2
            held = costs[s - 1] / 2 * above[HELD_ONE]
            moved = costs[s - 1] / 2 * above[OPEN] + held
            both = (moved + held) / rests[s]
            stay = half * both
            held_zero = stay + held
            stay_held = half * held_zero if -s > lowest else stay
            found[centre - s] = [held_zero, stay + moved, stay_held + moved]
        if -lowest > self.window:
            found[0] = self.costs[self.window] * found[1, OPEN] / self.loop_rest
        return found
