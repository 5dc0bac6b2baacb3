"""The geometric mechanism's distribution by its definition, and all that its walk can do."""

import itertools
import math
from fractions import Fraction
from functools import cache

import numpy as np

from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.enclosure import enclosed, exactly
from dp_transforms.mechanisms.partition.walk.geometric_walk import (
    NEVER,
    TURNED,
    GeometricWeights,
    Runs,
    draw,
)
from tests import enumeration


class RationalBase:
    """A rational q, as the base of a ``Decay``."""

    def __init__(self, q):
        self.q = q

    def log_enclosure(self, precision):
        return enclosed(1 / self.q, precision).log()


def rational_decay(q):
    """q itself, which no epsilon gives."""
    return Decay(base=RationalBase(q))


def probability(q, values, private, walls=None):
    """q**||x - f||_1 times the sum over marked sets of corners, corner by corner on the boundary.
    Zeros may follow x, a descending tuple. Walls are two tuples of equal length, beyond which x is
    zero; f is between them."""
    rows = max(len(values), len(private)) + 2 if walls is None else len(walls[0])
    x, f = ([*counts, *[0] * (rows - len(counts))][:rows] for counts in (values, private))
    mark = q / (1 + q)
    flips = []
    for i, value in enumerate(x):
        below = x[i + 1] if i + 1 < rows else 0
        # A row's removable cell lies on diagonal value - 1 - i, its addable one on value - i.
        least, most = (0, value + 1) if walls is None else (walls[0][i], walls[1][i])
        if value > below and value > least:
            flips.append(value - 1 - i)
        if value < most and (i == 0 or x[i - 1] > value):
            flips.append(value - i)
    previous, unmarked, marked = None, Fraction(1), Fraction(0)
    for place in sorted(flips):
        both = unmarked + marked
        unmarked, marked = both, -mark * (unmarked if place - 1 == previous else both)
        previous = place
    return q ** enumeration.l1_distance(x, f) * (unmarked + marked)


def frequency_distribution(rate, private, rank, values):
    """P(x_rank = 0), ..., P(x_rank = values), cell by cell: one is in the wrong list with
    probability q**k / (1 + q), k being how many cells must be added, or removed, with it."""
    frequencies = np.repeat(private.frequencies, private.multiplicities)
    padded = np.append(frequencies, np.zeros(max(rank - len(frequencies), 0), np.int64))
    own = int(padded[rank - 1])
    at_least = []
    for value in range(values + 2):
        added = np.maximum(value - padded[:rank], 0).sum()
        removed = np.maximum(padded[rank - 1 :] - value + 1, 0).sum()
        wrong = math.exp(-rate * (added if value > own else removed)) / (1 + math.exp(-rate))
        at_least.append(1.0 if value == 0 else wrong if value > own else 1 - wrong)
    return [above - beyond for above, beyond in itertools.pairwise(at_least)]


class _Unlikely(Exception):
    """Raised where all that follows is less likely than is asked for."""


class _Explorer:
    """Answers by a script, and keeps the probability of what it has said."""

    def __init__(self, runs, away, left_by, script, least):
        self._runs, self._away, self._left_by = runs, away, left_by
        self._script, self._least, self._kept = script, least, 0
        self.options = []
        self.probability = exactly(1)

    def _choose(self, chances):
        asked = len(self.options)
        if asked == len(self._script):
            self._script.append(0)
        chosen = self._script[asked]
        self.options.append(len(chances))
        self.probability *= chances[chosen]
        if self.probability.upper <= self._least:
            raise _Unlikely
        return chosen

    def departure(self, run):
        while run < len(self._runs.blocks) and self._runs.regular[run]:
            length = self._runs.lengths[run]
            before = [self._left_by(NEVER, length - k) for k in range(length + 1)]
            before[0] = exactly(0)
            before[1] = self._away(length, TURNED, int(self._runs.chains[run]))
            self._kept = self._choose(_differences(before))
            if self._kept < length:
                break
            run += 1
        return run

    def kept(self, run):
        return self._kept

    def nearest(self, gap, least):
        last = least + 8 if gap == NEVER else gap
        beyond = [self._left_by(gap, near) for near in range(last, least - 1, -1)]
        return last - self._choose(_differences(beyond))

    def away(self, gap, vertex, chain):
        away = self._away(gap, vertex, chain)
        return not self._choose([away, 1 - away])


def _differences(cumulative):
    """The probabilities of the intervals between P(below), in ascending order, and the rest."""
    return [b - a for a, b in itertools.pairwise([*cumulative, exactly(1)])]


def releases(blocks, decay, least=0):
    """(release, enclosure of its probability) of all that are likelier than ``least``. The first
    infinite run is left within the last 8 places or not at all."""
    runs, weights, script = Runs(blocks), GeometricWeights(decay), []
    # The enclosures that the sampler decides by, as fractions, each worked out once.
    away = cache(lambda *question: weights.away(*question, 128).rational())
    left_by = cache(lambda *question: weights.left_by(*question, 128).rational())
    while True:
        explorer = _Explorer(runs, away, left_by, script, least)
        try:
            released = blocks.flipped(draw(runs, explorer))
        except _Unlikely:
            pass
        else:
            yield released, explorer.probability
        while script and script[-1] + 1 == explorer.options[len(script) - 1]:
            script.pop()
        if not script:
            return
        script[-1] += 1
