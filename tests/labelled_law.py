"""The corner-weighted sampler's law, as enclosures, from the questions that it asks."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

from dp_transforms.mechanisms.labelled_walk.filling import Side
from dp_transforms.mechanisms.labelled_walk.labels import KINDS
from dp_transforms.mechanisms.labelled_walk.precise import mirrored
from dp_transforms.mechanisms.labelled_walk.runs import Run

Enclosure = tuple[Fraction, Fraction]

ONE = Fraction(1), Fraction(1)
NONE = Fraction(0), Fraction(0)


class SamplerLaw:
    """Probabilities of lists as products of those of the answers to a sampler's questions.

    Args:
      sampler: a ``CornerSampler``.
      bits: the precision of the enclosures; None for those in float64.
    """

    def __init__(self, sampler, bits=None):
        self._sampler = sampler
        window = sampler._transfer.window
        self._level = None if bits is None else sampler._filler.precise(bits, window)
        self._following, self._middle, self._pattern = map(
            cache, (self._following, self._middle, self._pattern)
        )

    def probability(self, values) -> Enclosure:
        """Of a descending tuple, whose moves in infinite runs are near the list."""
        blocks, runs = self._sampler._blocks, self._sampler._runs
        length, piece = int(blocks.lengths.sum()), self._sampler._first.length
        ends = {value - rank for rank, value in enumerate(values, 1)}
        bits = [
            int(c in ends or c < -len(values))
            for c in range(blocks.top + piece - 1, blocks.top - length - piece - 1, -1)
        ]
        moves = [i + 1 for i, bit in enumerate(bits[:piece]) if bit]
        states = {}
        for kind in range(KINDS):
            code = KINDS * len(moves) + kind
            chance = _times(
                self._following(-1, None, code),
                self._outside(True, code, moves),
            )
            states[code] = chance
        at, height = piece, len(moves)
        for index in range(len(runs)):
            run, bit = runs[index], runs.bits.item(index)
            moves = tuple(i + 1 for i in range(run.length) if bits[at + i] != bit)
            height += -len(moves) if bit else len(moves)
            found = {}
            for kind in range(KINDS):
                code = KINDS * height + kind
                total = NONE
                for before, chance in states.items():
                    seen = (2 - before, 2 - code) if bit else (before, code)
                    step = self._following(index, *seen)
                    step = _times(step, self._pattern(run, *seen, moves))
                    total = _plus(total, _times(chance, step))
                found[code] = total
            states = found
            at += run.length
        moves = [i + 1 for i, bit in enumerate(bits[at:]) if not bit]
        total = NONE
        for code, chance in states.items():
            total = _plus(total, _times(chance, self._outside(False, 2 - code, moves)))
        return total

    def _outside(self, is_head, code, moves) -> Enclosure:
        if not code // KINDS:
            return NONE if moves else ONE
        if code // KINDS != (len(moves) if is_head else -len(moves)):
            return NONE
        run = self._sampler._first if is_head else self._sampler._last
        total = NONE
        for other in range(KINDS):
            known, far = Side(run, code), Side(run, None)
            first = 0 if is_head else KINDS * (code // KINDS)
            sides = (far, known) if is_head else (known, far)
            ends = (other, code) if is_head else (code, other)
            chance = self._middle(first, *sides, other)
            total = _plus(total, _times(chance, self._pattern(run, *ends, tuple(moves))))
        return total

    def _following(self, index, before, behind) -> Enclosure:
        """Pr[state behind a block | before it], both as zeros; index -1 is the head."""
        sampler, level = self._sampler, self._level
        first = 0 if before is None else KINDS * (before // KINDS)
        if level is None:
            walk = sampler._walk
            head = sampler._first.highest
            shares = walk.head(head) if before is None else walk.shares(index, before)
        else:
            right = sampler._message(level, index + 1)
            if before is None:
                left = level.leaving(sampler._first.highest)
            else:
                left = level.forward(sampler._runs[index], level.single(before))
                right = mirrored(right) if sampler._bits.item(index) else right
            shares = level.shares(first, left, right)
        return _difference(shares, behind - first)

    def _middle(self, first, left, right, code) -> Enclosure:
        filler = self._sampler._filler
        if self._level is None:
            shares = filler.float_shares(first, left, right)
        else:
            shares = self._level.shares(first, *filler.vectors(self._level, left, right))
        return _difference(shares, code - first)

    def _pattern(self, run: Run, before, behind, moves) -> Enclosure:
        """Pr[these places in a run of zeros | the states at its ends]."""
        count = behind // KINDS - before // KINDS
        if count != len(moves):
            return NONE
        if count in (0, run.length):
            return ONE
        half = run.length // 2
        early = tuple(place for place in moves if place <= half)
        late = tuple(place - half for place in moves if place > half)
        near, far = run.part(0, half), run.part(half, run.length - half)
        first = KINDS * (before // KINDS)
        total = NONE
        for kind in range(KINDS):
            code = first + KINDS * len(early) + kind
            chance = self._middle(first, Side(near, before), Side(far, behind), code)
            chance = _times(chance, self._pattern(near, before, code, early))
            total = _plus(total, _times(chance, self._pattern(far, code, behind, late)))
        return total


def _difference(shares, index) -> Enclosure:
    (lo, hi), rest = (shares[0], shares[1]), Fraction(0)
    if index < 0:
        return NONE
    below = (rest, rest) if index == 0 else (_fraction(lo[index - 1]), _fraction(hi[index - 1]))
    return max(rest, _fraction(lo[index]) - below[1]), _fraction(hi[index]) - below[0]


def _fraction(number) -> Fraction:
    return Fraction(*map(int, number.as_integer_ratio()))


def _times(one: Enclosure, other: Enclosure) -> Enclosure:
    return one[0] * other[0], one[1] * other[1]


def _plus(one: Enclosure, other: Enclosure) -> Enclosure:
    return one[0] + other[0], one[1] + other[1]
