"""Decodes noisy Frobenius coordinates into posterior medians, intervals and samples of lists.

Data: z = (a, b) + noise, the rows and columns of a list (``noisy_coordinates``) and noise n with
probability proportional to exp(-c |n|).

Prior: gaps of rows and columns are those of a Poisson process with a smooth rate, a geometric
distribution or a heavy tail (``gap_model``). An arm ends where a gap leads below 1; D rows and D or
D - 1 columns are positive. The largest entry of each arm has a heavy tail.

Inference: EM fits the mean gaps and the weights of the three distributions, from the falling fit in
least squares on. Given them, both arms are Markov chains that D alone connects, and the posterior
is exact (``gap_chains``) but for cells of 0.04 / c integers where c is small. Lower medians are
released: for falling chains with a common D, these are the rows and columns of a list.
"""

from __future__ import annotations

import bisect
import math
from typing import NamedTuple

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray, IntArray
from dp_transforms.mechanisms.decoding.gap_chains import Arm, GapChains
from dp_transforms.mechanisms.decoding.gap_model import PRIOR_WEIGHTS, SmoothGaps, learned_weights
from dp_transforms.mechanisms.frequency_list import MAX_VALUE, FrequencyList
from dp_transforms.mechanisms.noisy_coordinates import NoisyCoordinates, list_of_coordinates
from dp_transforms.mechanisms.partition_bounds import PartitionBounds

PASSES = 3  # Of EM, before the last one.
CELL, COARSE_CELL = 0.04, 0.2
"""The number of integers in a state, times c: in the last pass, and while learning."""
REACH, MARGIN = 10, 8
"""Windows reach REACH / c + MARGIN to either side of the first fit; half as far while learning."""
LARGEST = 2**62  # Clips coordinates, so that differences fit in 64 bits.


class Posterior:
    """Rows and columns have this posterior, given noisy values (any integers) and public bounds."""

    def __init__(self, coordinates: NoisyCoordinates, bounds: PartitionBounds | None = None):
        self._bounds = bounds
        rate = coordinates.rate
        arms = []
        for rows, noisy in ((True, coordinates.rows), (False, coordinates.columns)):
            values = np.clip(np.asarray(noisy, np.int64), -LARGEST, LARGEST)
            # An arm without draws is that of an empty list.
            values = values if len(values) else np.zeros(1, np.int64)
            lowest, highest = _limits(bounds, len(values), rows)
            guess = np.clip(falling_fit(values), lowest, highest)
            arms.append(Arm(values, guess, lowest, highest))
        self._chains = fitted_chains(arms, rate).chains

    def quantiles(self, level: float) -> tuple[IntArray, IntArray]:
        """Returns for every row and column the least x with Pr[coordinate <= x] >= level."""
        rows, columns = (_strictly_falling(arm) for arm in self._chains.quantiles(level))
        return rows, columns

    def sample(self, number: int, seed: int = 0) -> tuple[IntArray, IntArray]:
        """Draws rows and columns of lists from the posterior: draws x places each. Bounds are kept
        as far as cells are single integers. The seed is public."""
        rows, columns = (
            np.array([_strictly_falling(draw) for draw in arm])
            for arm in self._chains.sample(number, seed)
        )
        return rows, columns

    def median(self, max_total: int | None = None) -> FrequencyList:
        """Returns the list of medians, within the bounds and a public total if any list is."""
        rows, columns = self.quantiles(0.5)
        size = int(np.count_nonzero(rows))
        # A no-op but for ties among floats: as many columns as rows, or one less.
        least = np.maximum(size - 1 - np.arange(len(columns)), 0)
        columns = np.where(np.arange(len(columns)) < size, np.maximum(columns, least), 0)
        # Bounds lift coordinates below them, by their own total at most.
        room = MAX_VALUE - (0 if self._bounds is None else self._bounds.lower.total)
        most = room if max_total is None else max_total
        frequency_list = list_of_coordinates(*_at_most(rows, columns, most))
        return frequency_list if self._bounds is None else self._bounds.nearest(frequency_list)


class FittedChains(NamedTuple):
    """Chains, with mean gaps and weights of distributions fitted by EM.

    Attributes:
      chains: of one list, or of several side by side.
      merits: for each list, how well the model explains its coordinates: their log-likelihood less
        the effective number of parameters (Akaike 1974).
    """

    chains: GapChains
    merits: FloatArray


def fitted_chains(arms: list[Arm], rate: float, finest: float = CELL) -> FittedChains:
    """Returns the fitted chains of lists that are decoded by themselves, side by side.

    Args:
      arms: the rows of each list, then the columns of each list.
      rate: c, of the noise.
      finest: the number of integers in a state, times c, in the last pass.
    """
    lists = len(arms) // 2
    guesses = [arm.guess for arm in arms]
    pairs = [[of_list, lists + of_list] for of_list in range(lists)]
    curves = []
    for pair in pairs:
        side = max(1, round(sum(np.count_nonzero(guesses[arm]) for arm in pair) / 2))
        curves.append(SmoothGaps([len(guesses[arm]) for arm in pair], side))
    gaps = [np.maximum(np.append(guess[:-1] - guess[1:] - 1, 0), 0) for guess in guesses]
    there = [np.append(guess[1:] > 0, False).astype(float) for guess in guesses]
    weights = [PRIOR_WEIGHTS] * len(arms)
    reach = REACH / rate + MARGIN
    for done in range(PASSES + 1):
        for curve, pair in zip(curves, pairs, strict=True):
            seen, weight = (np.concatenate([part[arm] for arm in pair]) for part in (gaps, there))
            curve.fit(seen, weight, 1 if done else 10)
        rows, columns = zip(*(curve.means() for curve in curves), strict=True)
        last = done == PASSES
        cell = max(1, math.ceil((finest if last else COARSE_CELL) / rate - 1e-9))
        near = reach if last else reach / 2
        chains = GapChains(arms, [*rows, *columns], weights, rate, cell, near, learn=not last)
        if not last:
            gaps, there, shares = map(chains.by_arm, (chains.gaps, chains.there, chains.shares))
            weights = [
                learned_weights(used, share.sum(0), alive.sum())
                for used, share, alive in zip(weights, shares, there, strict=True)
            ]
    return FittedChains(chains, chains.evidence - [curve.parameters for curve in curves])


def falling_fit(values: IntArray) -> IntArray:
    """Returns a first guess: pools adjacent violators, on as many places as most signs suggest."""
    size = int(np.argmax(np.append(0, np.cumsum(np.where(values >= 1, 1, -1)))))
    levels = _pooled(values[:size] + np.arange(size))
    guess = np.zeros(len(values), np.int64)
    guess[:size] = np.maximum(levels - np.arange(size), 1)
    return guess


def _pooled(levels: IntArray) -> IntArray:
    """Returns the falling levels nearest in least squares, rounded down."""
    sums: list[int] = []
    lengths: list[int] = []
    for total in levels.tolist():
        length = 1
        while sums and sums[-1] * length < total * lengths[-1]:
            total += sums.pop()
            length += lengths.pop()
        sums.append(total)
        lengths.append(length)
    means = [total // length for total, length in zip(sums, lengths, strict=True)]
    return np.repeat(np.array(means, np.int64), lengths)


def _strictly_falling(values: IntArray) -> IntArray:
    """Returns the values, or a strictly falling least-squares fit if they do not fall: cells may
    hold several integers, and Fourier transforms round probabilities that matter behind a cliff."""
    size = int(np.count_nonzero(values))
    index = np.arange(size)
    levels = values[:size] + index
    if (np.diff(levels) <= 0).all():
        return values
    return np.append(np.maximum(_pooled(levels), size) - index, values[size:])


def _limits(bounds: PartitionBounds | None, length: int, rows: bool) -> tuple[IntArray, IntArray]:
    """Returns bounds on the first coordinates of an arm."""
    index = np.arange(1, length + 1)
    if bounds is None:
        return np.zeros(length, np.int64), np.full(length, LARGEST)
    if rows:
        lowest = bounds.lower.at_ranks(index)
        highest = bounds.upper_at(index)
    else:
        lowest = bounds.lower.at_least(index)
        free = min(bounds.unbounded_ranks, LARGEST)
        highest = np.minimum(bounds.upper.at_least(index), LARGEST - free) + free
        highest = np.where(index <= bounds.beyond, LARGEST, highest)
    index -= rows
    lowest, highest = (np.clip(limit - index, 0, LARGEST) for limit in (lowest, highest))
    return lowest, highest


def _at_most(rows: IntArray, columns: IntArray, most: int) -> tuple[IntArray, IntArray]:
    """Returns the coordinates of a list of at most ``most`` users: these, or lower ones.

    All coordinates are lowered by one number, or where that is too much the first ones of both arms
    by one less. So no more users go than must, but for one. Arms still fall strictly.
    """

    def lowered(by: int, spared: int = 0) -> list[IntArray]:
        arms = []
        for arm in (rows, columns):
            index = np.arange(len(arm))
            least = np.count_nonzero(arm) - index
            arms.append(np.where(arm > 0, np.maximum(arm - by + (index < spared), least), 0))
        return arms

    def is_too_large(arms: list[IntArray]) -> bool:
        return sum(sum(arm[arm > 0].tolist()) for arm in arms) > most

    if not is_too_large([rows, columns]):
        return rows, columns
    # The least coordinates with this square have a total of side * (side + 1).
    side = (math.isqrt(4 * most + 1) - 1) // 2
    rows, columns = (np.where(np.arange(len(arm)) < side, arm, 0) for arm in (rows, columns))
    if not is_too_large([rows, columns]):
        return rows, columns
    by = bisect.bisect_left(
        range(2 * LARGEST - 1), True, key=lambda by: not is_too_large(lowered(by))
    )
    longest = max(len(rows), len(columns))
    spared = bisect.bisect_left(
        range(longest), True, key=lambda spared: is_too_large(lowered(by, spared + 1))
    )
    rows, columns = lowered(by, spared)
    return rows, columns
