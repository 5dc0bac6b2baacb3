"""Walks of a given excess, found sooner: the places of some moves are integrated out.

Given the states at the block ends, the places of moves are independent. Take K moves above zero,
each the only one of its block. A step of one changes the excess by one: with the i-th counted from
the end of its block that is cheap, it adds x_i to the excess, of the law

    (1 - q) q**(x - 1) / (1 - q**n_i)                                   x = 1..n_i

where n_i is the block's length. If all else leaves y to be added, the K places add it with the
probability

    w(y) = C(y - 1, K - 1) (1 - q)**K q**(y - K) / prod (1 - q**n_i) * Pr[parts fit]

where the parts are those of a uniform composition of y into K parts, and fit if the i-th is at most
n_i. So instead of waiting for a walk that happens to add y, one is accepted with probability
w(y) / M, and its places are such a composition. M bounds w from above, for all n_i >= L.

The K moves are the first that there are among the first m blocks. Some walks have fewer there. So
an attempt is for one of two kinds of walks, which is decided first: with probability M / (1 + M)
for those that have K, accepted with probability w(y) / M, and else for those that have not,
accepted if their excess is right. Every walk of this excess comes out of an attempt with its own
probability divided by 1 + M, whichever kind it is: the law is exact. K, L and m decide how long it
takes and nothing else. An attempt of the second kind mostly ends after m blocks.

Source: Arratia and DeSalvo, "Probabilistic divide-and-conquer" (2016), with many coordinates.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import gmpy2
import numpy as np

from dp_transforms.mechanisms.arrays import IntArray
from dp_transforms.mechanisms.enclosure import Enclosure, agreed, exactly, rounding_pair, settled
from dp_transforms.mechanisms.randomness import KEY_BYTES, WORD_BITS, RandomTape, Uniform, is_below
from dp_transforms.mechanisms.sampler.levels import Sampler
from dp_transforms.mechanisms.sampler.walk import Walk

_NUMBERS = (8, 4, 2)
"""What K may be: the first that all of the walks have that are drawn to see."""

_DRAWS = 16
"""The number of those walks."""

_LENGTH = 3
"""L in units of 1 / c."""

_MOST = Fraction(1, 4)
"""At a larger M little is gained."""

_PRECISION = 128


class FreePlaces:
    """Attempts at walks of one excess.

    Args:
      sampler: of the walks.
      number: K.
      length: L.
      blocks: m.
    """

    def __init__(self, sampler: Sampler, number: int, length: int, blocks: int):
        self._sampler = sampler
        self._number = number
        self._length = length
        self._blocks = blocks
        down, up = rounding_pair(_PRECISION)
        least, _ = sampler.positive.one_minus_power(length, _PRECISION)
        self._most = gmpy2.mpq(up.div(self._largest(), down.pow(least, number)))
        self._share = self._most / (1 + self._most)

    @classmethod
    def suited_to(cls, sampler: Sampler) -> FreePlaces | None:
        """Those of a number that walks usually have, or None; a function of the sampler alone."""
        _, up = rounding_pair(WORD_BITS)
        rate, _ = sampler.positive.log_enclosure(WORD_BITS)
        length = int(up.ceil(up.div(_LENGTH, rate)))
        constant = RandomTape(bytes(KEY_BYTES))
        found = [
            _free_blocks(sampler, sampler.states(constant.branch(f"free {i}")), length)
            for i in range(_DRAWS)
        ]
        for number in _NUMBERS:
            if min(map(len, found)) >= number:
                blocks = 1 + max(blocks.item(number - 1) for blocks in found)
                places = cls(sampler, number, length, blocks)
                return places if places._most <= _MOST else None
        return None

    def attempt(self, excess: int, tape: RandomTape) -> Walk | None:
        """A walk of this excess, or None if another attempt is to be made, with another tape."""
        number, sampler = self._number, self._sampler
        are_free = is_below(tape.uniform("kind", 0), lambda _: exactly(self._share))
        begin = sampler.states(tape, count=self._blocks)
        chosen = _free_blocks(sampler, begin, self._length)[:number]
        if (len(chosen) == number) != are_free:
            return None
        walk = sampler.walk_along(sampler.states(tape), tape)
        missing = excess - walk.excess(sampler.blocks)
        if not are_free:
            return None if missing else walk
        order = walk.blocks.argsort()
        at = order[walk.blocks.searchsorted(chosen, sorter=order)]
        lengths, are_zeros = sampler.blocks.lengths[chosen], sampler.blocks.bits[chosen] == 0
        # Above zero, late moves up are cheap, and early ones down.
        drawn = np.where(are_zeros, lengths - walk.places[at] + 1, walk.places[at])
        left = missing + int(drawn.sum())
        if left < number or not is_below(
            tape.uniform("accepted", 0), lambda bits: self._accepted(left, lengths.tolist(), bits)
        ):
            return None
        parts = composition(left, number, tape)
        if (parts > lengths).any():
            return None
        walk.places[at] = np.where(are_zeros, lengths - parts + 1, parts)
        return walk

    def _largest(self) -> Any:
        """An upper bound of the first factors of w, which rise up to (K - 1) / (1 - q)."""
        lo, hi = self._sampler.positive.one_minus_power(1, _PRECISION)
        first = int((self._number - 1) / float(hi)) - 1
        last = int((self._number - 1) / float(lo)) + 3
        around = range(max(first, self._number), max(last, self._number) + 1)
        return max(self._sum_law(y, _PRECISION)[1] for y in around)

    def _sum_law(self, y: int, precision: int) -> Enclosure:
        """(lo, hi) around C(y - 1, K - 1) (1 - q)**K q**(y - K)."""
        decay = self._sampler.positive
        power, rest = decay.power(y - self._number, precision), decay.one_minus_power(1, precision)
        return power * rest**self._number * math.comb(y - 1, self._number - 1)

    def _accepted(self, y: int, lengths: list[int], precision: int) -> Enclosure:
        """(lo, hi) around w(y) / M, apart from whether the parts fit."""
        precision += WORD_BITS
        share = self._sum_law(y, precision)
        for length in lengths:
            share /= self._sampler.positive.one_minus_power(length, precision)
        return share / exactly(self._most)


def _free_blocks(sampler: Sampler, states: IntArray, length: int) -> IntArray:
    """The blocks of at least this length with one move, between states of 0 or more."""
    blocks = len(states) - 1
    found = (np.abs(np.diff(states)) == 1) & (states[:-1] >= 0) & (states[1:] >= 0)
    return np.flatnonzero(found & (sampler.blocks.lengths[:blocks] >= length))


def composition(total: int, number: int, tape: RandomTape) -> IntArray:
    """A uniform choice of ``number`` positive integers, in order, that add up to ``total``.

    Their sums are a uniform subset of 1..total - 1 (by Floyd's algorithm) and ``total``.
    """
    cuts: set[int] = set()
    for index, last in enumerate(range(total - number + 1, total)):
        cut = 1 + _uniform_below(last, tape.uniform("cuts", index))
        cuts.add(last if cut in cuts else cut)
    ends = np.array([0, *sorted(cuts), total], dtype=np.int64)
    return ends[1:] - ends[:-1]


def _uniform_below(bound: int, uniform: Uniform) -> int:
    """floor(U * bound)."""

    def answer(bits: int) -> int:
        least = uniform.prefix(bits) * bound
        return agreed((least >> bits, least + bound - 1 >> bits))

    return settled(answer)
