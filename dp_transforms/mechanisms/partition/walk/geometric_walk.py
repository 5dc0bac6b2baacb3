"""Draws the geometric mechanism's walk forwards in one pass, without messages.

The notation is that of ``walk``: bits f_c of the list's boundary, and D(c) = k_x(c) - k_f(c). A
vertex lies between two bits of x. It is a corner if they differ, and flipping it moves D there by
one. Let t = q / (1 + q). The mechanism's weight is q**||x - f||_1 times the sum of (-t)**|S| over
all sets S of marked corners, no two of which are at consecutive vertices. Between walls only
corners that may be flipped inside them can be marked. By the theorem in ``partition.exponential``
these weights sum to one for every f.

Closed forms. Given the bits in front of a vertex, the total weight of all continuations that do not
mark the vertex follows from that theorem again, for the lists whose boundary passes through the
vertex at D. It is q**A, where A is the sum of |D| over the path that returns to f as soon as f's
bits allow. Call ``back`` the next bit of that path (0 for D > 0, 1 for D < 0, f_c for D = 0), and
``away`` the other bit. After ``away`` the path that returns soonest has a weight that is smaller by
the factor q**gap, where

    gap = the distance to the (|D| + 1)-th bit of f, from c on, that is ``away`` if D moves by it
          and the (|D| + 1)-th of the other kind if D stays by it,

since a path that is one step further from f's path stays so until that bit. A mark at the vertex
needs the next bit to differ from the last one, and forbids a mark at the next vertex. So if the
vertex may be marked, the weight of all continuations is, relative to q**A,

    F = 1 - t * q**gap if the last bit was ``back``, and 1 - t if it was ``away``.

Let -r be the share of the weight so far that belongs to sets S with a mark at the last vertex. If
that vertex was no corner, or one that may not be flipped, r is 0. Otherwise r is t / (1 - r'),
where r' is the r of the vertex before. So r depends only on the number of corners in a row, the
``chain``. The continuations have the weight F - r in all. After ``away`` the next vertex has F' =
1 - t, since there ``back`` would make a corner that may always be flipped. Hence

    straight  last bit = back:  P(away) = q**gap * ((1 - r) (1 - t) - t) / (1 - t q**gap - r)
    turned    last bit = away:  P(away) = q**gap * (1 - r) (1 - t) / (1 - t - r)
    held      a corner here may not be flipped:  P(away) = q**gap * (1 - t)

and P(away) = 0 if it leads through a wall. Let x go straight along f, without a chain, where
``back`` is f_c. Then the product of many P(back) telescopes: x follows f until the gap is n or less
with probability (1 - t q**n) / (1 - t q**gap). Let a whole run of f of length L be entered at D = 0
from its corner with chain m. It is followed for at least k bits with probability 1 - t q**(L - k)
for any m if k >= 2, and with probability 1 - P(away, turned) if k = 1.

The walk asks one question for each run while it follows f, and a few each time that it leaves f.
Its questions depend only on f, the walls, q and earlier answers.

Answers come from a tape, in float64 if that settles them, and otherwise by enclosures of rising
precision. Each question is whether U < p, for a uniform number U of its own and a rational function
p of q. In float64 an equivalent inequality is evaluated. Its two sides are computed from at most
four numbers between 0 and 2, each within 2**-52 of the exact one: the leading bits of U, a power of
q, and functions of q and the chain. At most four operations each add at most 2**-52. So a
difference above ``_MARGIN`` = 2**-48 settles the inequality. Other questions, about one in 10**14,
are settled by MPFR numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray, IntArray
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.enclosure import Enclosure, enclosed, exactly, rounding_pair
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.partition.walk.walk import Blocks
from dp_transforms.mechanisms.randomness import RandomTape, is_below

NEVER = 2**64  # The gap if f has no such bit any more, so that q**gap is zero.

_ENDLESS = 2**62  # The length of the infinite run behind the blocks.

_MARGIN = 2.0**-48
_NEGLIGIBLE = 2.0**-60  # A power of q below this is zero within 2**-52.
_UNIT = 1 << 128  # One, in the fixed-point recurrence for r. Each step loses less than 4 / _UNIT.
_GUARD_BITS = 64
_BATCH = 512

STRAIGHT, TURNED, HELD = range(3)  # kinds of the vertex in front of a bit


class Runs:
    """Holds f's runs as the walk reads them, in blocks on which each wall moves evenly or not at
    all.

    Lists have an entry for each block, and one for the infinite run behind the blocks, which is not
    regular. In a run of zeros the wall ahead is the upper one, and in a run of ones the lower one;
    the wall behind is the other one.

    Attributes:
      blocks: the blocks.
      head_room: the largest D in front of the first block.
      lengths, bits: the length and the bit of each block.
      regular: whether a block is a whole run and no wall matters at D = 0.
      chains: the chain at the start of each block if x has followed f up to there.
      ahead, behind: [distance, change] of a wall: how far it is from D = 0 at the block's start,
        and by how much that changes with each bit.
    """

    def __init__(self, blocks: Blocks):
        bits = np.append(blocks.bits, 1)
        # Whether a run begins with the block.
        begins = np.append(bits[0] == 1, bits[1:] != bits[:-1])
        lowest, highest = blocks.lowest, blocks.highest
        ahead = _wall(blocks.bits, -lowest, highest)
        behind = _wall(blocks.bits, highest, -lowest)
        is_free = (ahead.sum(axis=0) > 0) & (behind[0] > 0)
        regular = begins & is_free & np.append(begins[1:], False)
        # A chain goes on through a regular run of one bit, and ends in every other block.
        positions = np.arange(len(bits))
        chain_ends = np.where(regular[:-1] & (blocks.lengths == 1), -1, positions[:-1])
        self.blocks, self.head_room = blocks, highest.item(0)
        self.lengths: list[int] = [*blocks.lengths.tolist(), _ENDLESS]
        self.bits: list[int] = bits.tolist()
        self.regular: list[bool] = regular.tolist()
        self.chains: IntArray = positions - 1 - np.maximum.accumulate(np.append(-1, chain_ends))
        self.ahead: list[list[int]] = ahead.T.tolist()
        self.behind: list[list[int]] = behind.T.tolist()


def _wall(bits: IntArray, in_ones: IntArray, in_zeros: IntArray) -> IntArray:
    """Returns a row of distances of a wall from D = 0 at the start of each block, and a row of
    changes per bit."""
    starts = np.where(np.append(bits, 1), in_ones, in_zeros)
    ends = np.where(bits, in_ones[1:], in_zeros[1:])
    return np.array([starts, np.append(np.sign(ends - starts[:-1]), 0)])


def draw(runs: Runs, decisions: TapeDecisions) -> IntArray:
    """Returns the diagonals on which the walk moves if its questions have these answers.

    The walk reads f's bits one after the other, or many at once while it follows f. Its state is

      * ``block``, the index of the block, ``bit``, the block's bit, and ``rest``, the number of
        bits that are still to be read in the block;
      * ``d``, which is D in runs of zeros and -D in runs of ones, so that a move always adds one;
      * ``same``, whether the last bit of x was that of the run;
      * ``chain``, the number of corners in a row up to here;
      * the walls -``reserve`` <= d <= ``room``, and their changes with each bit, ``narrowing`` and
        ``widening``.
    """
    lengths, bits, regular = runs.lengths, runs.bits, runs.regular
    last = len(lengths) - 1
    # The last diagonals of blocks. Blocks -1 and last are infinite.
    ends: list[int] = runs.blocks.ends.tolist()
    ends.append(ends[-1] - _ENDLESS)
    flips: list[int] = []

    def reach(block: int, bit: int, number: int, distance: int) -> int:
        """Returns ``distance`` plus the number of bits in front of the number-th ``bit``, counted
        from a block's start; NEVER if there are not so many."""
        while bits[block] != bit or number > lengths[block]:
            if block == last:
                return NEVER
            if bits[block] == bit:
                number -= lengths[block]
            distance += lengths[block]
            block += 1
        return distance + number - 1

    block, bit, rest, d, same, chain = -1, 0, 0, 0, True, 0
    room, widening, reserve, narrowing = runs.head_room, 0, 0, 0
    if room:
        # The walk may leave f in the infinite run in front of the first block.
        least = reach(0, 1, 1, 0)
        rest = decisions.nearest(NEVER, least) - least
        if rest:
            flips.append(ends[0] + rest - 1)
            rest, d, same, chain = rest - 1, 1, False, 1
    while True:
        while rest:
            if d >= 0:
                if block == last:
                    return np.array(flips, np.int64)
                blocked = d == room and not widening
                gap = NEVER if blocked else reach(block + 1, 1 - bit, d + 1, rest)
                if same and gap == NEVER:
                    # The walk goes straight to the block's end.
                    rest = chain = 0
                    break
                if same and not chain and d < room:
                    # One question decides where the walk leaves a straight path.
                    steps = gap - decisions.nearest(gap, gap - rest)
                    rest -= steps
                    if not rest:
                        break
                    room += steps * widening
                    reserve += steps * narrowing
                    vertex, away = STRAIGHT, True
                else:
                    if same:
                        vertex = STRAIGHT if d < room else HELD
                    else:
                        vertex = TURNED if d or reserve else HELD
                    away = gap != NEVER and decisions.away(gap, vertex, chain)
                flip = away
            else:
                if same:
                    vertex = TURNED
                else:
                    vertex = STRAIGHT if d + reserve > 0 else HELD
                away = False
                if d + reserve + narrowing >= 0:
                    gap = -d if rest > -d else reach(block + 1, bit, 1 - d - rest, rest)
                    away = gap != NEVER and decisions.away(gap, vertex, chain)
                flip = not away
            # A corner that may be flipped: after ``back`` comes ``away``, or after ``away``
            # ``back``.
            is_corner = vertex == (STRAIGHT if away else TURNED)
            chain = chain + 1 if is_corner else 0
            same = not flip
            if flip:
                flips.append(ends[block + 1] + rest - 1)
                d += 1
            rest -= 1
            room += widening
            reserve += narrowing
        block += 1
        if bits[block] != bit:
            bit, d, same = 1 - bit, -d, not same
        rest = lengths[block]
        passed = 0
        if regular[block] and not d and not same and chain == runs.chains[block]:
            # The walk follows f over whole runs, up to the run in which it leaves f.
            block = decisions.departure(block)
            bit, rest, chain = bits[block], lengths[block], runs.chains[block]
            if regular[block]:
                kept = decisions.kept(block)
                # It leaves with the bit behind the kept ones.
                passed = kept + 1
                flips.append(ends[block + 1] + rest - passed)
                rest -= passed
                d = 1
                if kept == 0:
                    chain = 0
                elif kept == 1:
                    chain += 2
                else:
                    chain = 1
        (room, widening), (reserve, narrowing) = runs.ahead[block], runs.behind[block]
        room += passed * widening
        reserve += passed * narrowing


class GeometricWeights:
    """Computes the functions of q <= 1/3 and of the chain that decide questions, as floats and as
    enclosures.

    Attributes:
      t: q / (1 + q), as a float.
    """

    def __init__(self, decay: Decay):
        self._decay = decay
        self._t = int(rounding_pair(256)[0].mul(self.mark(128).lower, _UNIT))
        self._r = 0
        self._chains: list[tuple[float, float, float]] = []
        self.t = self._t / _UNIT
        self._powers = [1.0]
        while self._powers[-1] > _NEGLIGIBLE:
            self._powers.append(float(decay.power(len(self._powers), 64).lower))

    def power(self, exponent: int) -> float:
        """Returns q**exponent, or 0 if that is negligible."""
        return self._powers[exponent] if exponent < len(self._powers) else 0.0

    def chain(self, chain: int) -> tuple[float, float, float]:
        """Returns (1 - r) (1 - t) - t, 1 - r, and (1 - r) (1 - t) / (1 - t - r)."""
        while chain >= len(self._chains):
            rest, marked = _UNIT - self._r, _UNIT - self._t
            product = rest * marked
            straight, turned = product - self._t * _UNIT, (rest - self._t) * _UNIT
            self._chains.append((straight / _UNIT**2, rest / _UNIT, product / turned))
            self._r = self._t * _UNIT // rest
        return self._chains[chain]

    def mark(self, bits: int) -> Enclosure:
        """Encloses t."""
        power = self._decay.power(1, bits)
        return power / (1 + power)

    def away(self, gap: int, vertex: int, chain: int, bits: int) -> Enclosure:
        """Encloses P(away) of the module, for a kind of vertex."""
        bits += _GUARD_BITS
        power, mark = self._decay.power(gap, bits), self.mark(bits)
        if vertex == HELD:
            return power * (1 - mark)
        rest = enclosed(1, bits)  # 1 - r
        for _ in range(chain):
            rest = 1 - mark / rest
        weight = rest * (1 - mark)
        if vertex == TURNED:
            return power * weight / (rest - mark)
        return power * (weight - mark) / (rest - mark * power)

    def left_by(self, gap: int, near: int, bits: int) -> Enclosure:
        """Encloses the probability that a walk that goes straight along f, without a chain, leaves
        f while the gap is above ``near``: t (q**near - q**gap) / (1 - t q**gap)."""
        bits += _GUARD_BITS
        mark, power = self.mark(bits), self._decay.power(near, bits)
        far = exactly(0) if gap == NEVER else self._decay.power(gap, bits)
        return mark * (power - far) / (1 - mark * far)


class GeometricSampler:
    """Draws lists x with probability q**||x - f||_1 w(x), between walls or without."""

    def __init__(self, blocks: Blocks, decay: Decay):
        self.runs = Runs(blocks)
        self.weights = weights = GeometricWeights(decay)
        chains = self.runs.chains[:-1]
        turned = [weights.chain(chain)[2] for chain in range(int(chains.max(initial=0)) + 1)]
        # The probability that the walk leaves f in a regular run: P(away) of a turned vertex for a
        # run of one bit, and t for a longer run.
        single = np.array(turned)[chains] * weights.power(1)
        thresholds = np.where(blocks.lengths == 1, single, weights.t)
        self.thresholds = np.where(self.runs.regular[:-1], thresholds, 2.0)

    def release(self, tape: RandomTape) -> FrequencyList:
        """Returns the list that this tape determines."""
        return self.runs.blocks.flipped(draw(self.runs, TapeDecisions(self, tape)))


class TapeDecisions:
    """Answers the walk's questions from a tape, with their exact probabilities.

    Both questions about a regular run read the number at the run's index on the channel "runs". All
    other questions read the numbers of the channel "steps" in turn.
    """

    def __init__(self, sampler: GeometricSampler, tape: RandomTape):
        self._tape = tape
        self._runs, self._weights = sampler.runs, sampler.weights
        count = len(sampler.thresholds)
        self._numbers = _floats(tape, "runs", count)
        possible = np.flatnonzero(self._numbers < sampler.thresholds + _MARGIN)
        self._possible: Iterator[int] = iter([*possible.tolist(), count])
        self._steps: list[float] = []
        self._asked = 0

    def departure(self, run: int) -> int:
        """Returns the index of the first run, from this one on, that is not regular or that the
        walk does not follow to its end; the number of runs if there is none."""
        for candidate in self._possible:
            if candidate >= run and (not self._runs.regular[candidate] or self._departs(candidate)):
                break
        return candidate

    def kept(self, run: int) -> int:
        """Returns how many bits of a regular run the walk follows before it leaves f in it: fewer
        than all."""
        length = self._runs.lengths[run]
        number = self._numbers.item(run)
        if length > 2:
            kept = length - self._nearest("runs", run, number, NEVER, 1)
            if kept > 1:
                return kept
        if length == 1:
            return 0
        leaves_at_once = self._away("runs", run, number, length, TURNED, self._runs.chains[run])
        return 0 if leaves_at_once else 1

    def nearest(self, gap: int, least: int) -> int:
        """Returns the gap at which a walk that goes straight along f, without a chain, leaves f;
        ``least`` if it does not leave before the gap is ``least``, which is below ``gap``."""
        return self._nearest("steps", *self._step(), gap, least)

    def away(self, gap: int, vertex: int, chain: int) -> bool:
        """Tells whether the next bit is ``away``."""
        return self._away("steps", *self._step(), gap, vertex, chain)

    def _step(self) -> tuple[int, float]:
        """Returns the index of the next number of the channel "steps", and its leading bits."""
        index = self._asked
        if index == len(self._steps):
            self._steps += _floats(self._tape, "steps", _BATCH, index).tolist()
        self._asked += 1
        return index, self._steps[index]

    def _departs(self, run: int) -> bool:
        number = self._numbers.item(run)
        if self._runs.lengths[run] == 1:
            return self._away("runs", run, number, 1, TURNED, self._runs.chains[run])
        return self._nearest("runs", run, number, NEVER, 0) > 0

    def _nearest(self, channel: str, index: int, number: float, gap: int, least: int) -> int:
        """Returns the smallest n with U >= t (q**n - q**gap) / (1 - t q**gap)."""
        power, t = self._weights.power, self._weights.t
        far = t * power(gap)
        level = number * (1 - far) + far
        for near in itertools.count(least):
            difference = level - t * power(near)
            if difference > _MARGIN or (
                difference >= -_MARGIN
                and not self._is_below(channel, index, self._weights.left_by, gap, near)
            ):
                break
        return near

    def _away(
        self, channel: str, index: int, number: float, gap: int, vertex: int, chain: int
    ) -> bool:
        power, t = self._weights.power(gap), self._weights.t
        straight, rest, turned = self._weights.chain(chain)
        if vertex == TURNED:
            difference = power * turned - number
        elif vertex == HELD:
            difference = power * (1 - t) - number
        else:
            difference = power * (straight + number * t) - number * rest
        if abs(difference) > _MARGIN:
            return difference > 0
        return self._is_below(channel, index, self._weights.away, gap, vertex, chain)

    def _is_below(
        self, channel: str, index: int, threshold: Callable[..., Enclosure], *question: int
    ) -> bool:
        return is_below(self._tape.uniform(channel, index), partial(threshold, *question))


def _floats(tape: RandomTape, channel: str, count: int, start: int = 0) -> FloatArray:
    """Returns uniform numbers of a tape, rounded down to 53 bits."""
    words = tape.words(channel, count, start) >> np.uint64(11)
    numbers: FloatArray = np.ldexp(words.astype(np.float64), -53)
    return numbers
