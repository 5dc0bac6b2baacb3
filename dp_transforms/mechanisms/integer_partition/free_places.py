"""Walks of a given excess, found sooner: the places of some moves are integrated out.

Given the states at the ends of runs, the places of moves in different runs are independent. Take K
moves above zero, each the only one of its run. A step of one changes the excess by one: with the
i-th counted from the end of its run that is cheap, it adds x_i to the excess, of the law

    (1 - q) q**(x - 1) / (1 - q**n_i)                                   x = 1..n_i

where n_i is the run's length, whatever the blocks are that it is cut into. If all else leaves y to
be added, the K places add it with the probability

    w(y) = C(y - 1, K - 1) (1 - q)**K q**(y - K) / prod (1 - q**n_i) * Pr[parts fit]

where the parts are those of a uniform composition of y into K parts, and fit if the i-th is at most
n_i. So instead of waiting for a walk that happens to add y, one is accepted with probability
w(y) / M, and its places are such a composition. M bounds w from above, for all n_i >= L.

The K moves are those of the first such runs of length L or more, among the first m runs. Which
these are does not depend on the places. Some walks have fewer there. So an attempt is for one of
two kinds of walks, which is decided first: with probability M / (1 + M) for those that have K,
accepted with probability w(y) / M, and else for those that have not, accepted if their excess is
right. Every walk of this excess comes out of an attempt with its own probability divided by 1 + M,
whichever kind it is: the law is exact. K, L and m decide how long it takes and nothing else. An
attempt of the second kind mostly ends after m runs.

Source: Arratia and DeSalvo, "Probabilistic divide-and-conquer" (2016), with many coordinates.
"""

from __future__ import annotations

import math
from typing import Any

import gmpy2
import numpy as np

from dp_transforms.mechanisms.arrays import IntArray
from dp_transforms.mechanisms.enclosure import Enclosure, agreed, exactly, rounding_pair, settled
from dp_transforms.mechanisms.randomness import KEY_BYTES, WORD_BITS, RandomTape, Uniform, is_below
from dp_transforms.mechanisms.sampler.levels import Sampler
from dp_transforms.mechanisms.sampler.walk import Blocks, Walk

_NUMBERS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""What K may be, where all of the walks have as many that are drawn to see."""

_LENGTHS = (2, 3, 5, 8)  # What L may be, in units of 1 / c.
_DRAWS = 16  # The number of those walks.
_WHOLE = 4  # How much longer a walk takes than its states do.

_PRECISION = 128


class FreePlaces:
    """Attempts at walks without walls of one excess; number, length and runs are K, L and m."""

    def __init__(self, sampler: Sampler, number: int, length: int, runs: int):
        self._sampler = sampler
        self._number = number
        self._length = length
        self._runs = _Runs(sampler.blocks)
        self._blocks = int(self._runs.ends[:runs].max(initial=0))
        down, up = rounding_pair(_PRECISION)
        least, _ = sampler.positive.one_minus_power(length, _PRECISION)
        self._most = gmpy2.mpq(up.div(self._largest(), down.pow(least, number)))
        self._share = self._most / (1 + self._most)

    @classmethod
    def suited_to(cls, sampler: Sampler) -> FreePlaces | None:
        """Those that take the least time, or None; a function of the sampler alone."""
        _, up = rounding_pair(WORD_BITS)
        rate, _ = sampler.positive.log_enclosure(WORD_BITS)
        runs = _Runs(sampler.blocks)
        constant = RandomTape(bytes(KEY_BYTES))
        draws = [sampler.states(constant.branch(f"free {i}")) for i in range(_DRAWS)]
        best, least = None, gmpy2.mpq(_WHOLE * len(sampler.blocks))
        for length in (int(up.ceil(up.div(part, rate))) for part in _LENGTHS):
            found = [runs.free(states, length) for states in draws]
            fewest = min(map(len, found))
            for number in (number for number in _NUMBERS if number <= fewest):
                # Twice as far as any draw needed: walks that have fewer take long to refuse.
                reach = 2 * (1 + max(free.item(number - 1) for free in found))
                places = cls(sampler, number, length, reach)
                if places._work < least:
                    best, least = places, places._work
        return best

    @property
    def _work(self) -> Any:
        """For a walk, over the probability of its excess; in blocks whose states are drawn."""
        whole = _WHOLE * len(self._sampler.blocks)
        return (1 + self._most) * self._blocks + self._most * whole

    def attempt(self, excess: int, tape: RandomTape) -> Walk | None:
        """A walk of this excess, or None if another attempt is to be made, with another tape."""
        number, sampler, runs = self._number, self._sampler, self._runs
        are_free = is_below(tape.uniform("kind", 0), lambda _: exactly(self._share))
        chosen = runs.free(sampler.states(tape, count=self._blocks), self._length)[:number]
        if (len(chosen) == number) != are_free:
            return None
        walk = sampler.walk_along(sampler.states(tape), tape)
        missing = excess - walk.excess(sampler.blocks)
        if not are_free:
            return None if missing else walk
        at, places = runs.only_moves(chosen, walk)
        lengths, are_zeros = runs.lengths[chosen], runs.bits[chosen] == 0
        # Above zero, late moves up are cheap, and early ones down.
        drawn = np.where(are_zeros, lengths - places + 1, places)
        left = missing + int(drawn.sum())
        if left < number or not is_below(
            tape.uniform("accepted", 0), lambda bits: self._accepted(left, lengths.tolist(), bits)
        ):
            return None
        parts = composition(left, number, tape)
        if (parts > lengths).any():
            return None
        places = np.where(are_zeros, lengths - parts + 1, parts)
        walk.blocks[at], walk.places[at] = runs.in_blocks(chosen, places)
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


class _Runs:
    """Runs of equal bits, of which each is one block or more.

    Attributes:
      ends: how many blocks there are up to the end of each run.
      lengths, bits: of each.
    """

    def __init__(self, blocks: Blocks):
        last = np.flatnonzero(blocks.run_lengths)
        self.ends, self.lengths, self.bits = last + 1, blocks.run_lengths[last], blocks.bits[last]
        self._run_ends = self.lengths.cumsum()
        self._block_ends = blocks.lengths.cumsum()
        self._block_lengths = blocks.lengths

    def free(self, states: IntArray, length: int) -> IntArray:
        """The runs of at least the length L with one move, between states of 0 or more, given the
        states at the ends of the first blocks, of which the last ends a run."""
        known = int(self.ends.searchsorted(len(states)))
        at_ends = states[np.append(0, self.ends[:known])]
        found = (np.abs(np.diff(at_ends)) == 1) & (at_ends[:-1] >= 0) & (at_ends[1:] >= 0)
        return np.flatnonzero(found & (self.lengths[:known] >= length))

    def only_moves(self, runs: IntArray, walk: Walk) -> tuple[IntArray, IntArray]:
        """For runs of one move: the move's index in the walk, and its place in the run."""
        of_moves = self.ends.searchsorted(walk.blocks, side="right")
        order = of_moves.argsort()
        at = order[of_moves.searchsorted(runs, sorter=order)]
        block = walk.blocks[at]
        passed = self._block_ends[block] - self._block_lengths[block]
        return at, passed + walk.places[at] - (self._run_ends - self.lengths)[runs]

    def in_blocks(self, runs: IntArray, places: IntArray) -> tuple[IntArray, IntArray]:
        """The block of each place in a run, and the place in it."""
        passed = (self._run_ends - self.lengths)[runs] + places
        block = self._block_ends.searchsorted(passed)
        return block, passed - self._block_ends[block] + self._block_lengths[block]


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
