"""Decodes noisy Frobenius coordinates into posterior medians, intervals and samples of lists.

Data: z = (a, b) + n. Here a and b are the rows and columns of a list (``noisy_coordinates``), and
each noise n has a probability proportional to exp(-c |n|).

Prior: gaps of rows and columns are a mixture of those of a Poisson process with a smooth rate, a
geometric distribution and a heavy tail (``gap_model``). An arm, the rows or the columns, ends where
a gap leads below 1; D rows and D or D - 1 columns are positive. The largest entry of each arm has a
heavy tail.

Inference: EM fits the mean gaps and the weights of the three distributions, starting from the
falling fit in least squares. Given them, both arms are Markov chains that D alone connects. The
posterior is then exact (``gap_chains``), except that integers share cells of 0.04 / c where c is
small. Lower medians are released: for falling chains with a common D, these are the rows and
columns of a list.
"""

from __future__ import annotations

import bisect
import math
from typing import NamedTuple

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray, IntArray
from dp_transforms.mechanisms.decoding.gap_chains import Arm, GapChains
from dp_transforms.mechanisms.decoding.gap_model import PRIOR_WEIGHTS, SmoothGaps, weights_along_arm
from dp_transforms.mechanisms.frequency_list import MAX_VALUE, FrequencyList
from dp_transforms.mechanisms.noisy_coordinates import NoisyCoordinates, list_of_coordinates
from dp_transforms.mechanisms.partition_bounds import PartitionBounds

PASSES = 3  # Of EM. One more pass computes the posterior.
CELL, COARSE_CELL = 0.04, 0.2
"""The number of integers in a state, times c: in the last pass, and while EM learns."""
REACH, MARGIN = 10, 8
"""Windows reach REACH / c + MARGIN to either side of the first fit; half as far while EM learns."""
LARGEST = 2**62  # Clips coordinates, so that differences fit in 64 bits.


class Posterior:
    """The posterior distribution of the rows and columns of a list.

    Args:
      coordinates: the noisy coordinates, any integers.
      bounds: public bounds on the list, if there are any.
    """

    def __init__(self, coordinates: NoisyCoordinates, bounds: PartitionBounds | None = None):
        self._bounds = bounds
        rate = coordinates.rate
        arms = []
        for rows, noisy in ((True, coordinates.rows), (False, coordinates.columns)):
            values = np.clip(np.asarray(noisy, np.int64), -LARGEST, LARGEST)
            if not len(values):  # An arm without draws is that of an empty list.
                values = np.zeros(1, np.int64)
            lowest, highest = _limits(bounds, len(values), rows)
            guess = np.clip(falling_fit(values), lowest, highest)
            arms.append(Arm(values, guess, lowest, highest))
        self._chains = fitted_chains(arms, rate).chains

    def quantiles(self, level: float) -> tuple[IntArray, IntArray]:
        """Returns for every row and column the least x with Pr[coordinate <= x] >= level."""
        rows, columns = (_strictly_falling(arm) for arm in self._chains.quantiles(level))
        return rows, columns

    def sample(self, number: int, seed: int = 0) -> tuple[IntArray, IntArray]:
        """Returns rows and columns of lists drawn from the posterior: draws x places each.

        Draws keep the bounds if cells are single integers. The seed is public.
        """
        rows, columns = (
            np.array([_strictly_falling(draw) for draw in arm])
            for arm in self._chains.sample(number, seed)
        )
        return rows, columns

    def median(self, max_total: int | None = None) -> FrequencyList:
        """Returns the list whose rows and columns are the lower medians.

        Lowered coordinates keep its total within ``max_total``, a public number. After that, public
        bounds on frequencies are kept, which may raise the total again.
        """
        rows, columns = self.quantiles(0.5)
        size = int(np.count_nonzero(rows))
        # There are as many positive columns as rows, or one less. This changes something only if
        # floats have broken a tie differently.
        least = np.maximum(size - 1 - np.arange(len(columns)), 0)
        columns = np.where(np.arange(len(columns)) < size, np.maximum(columns, least), 0)
        if max_total is not None:
            most = max_total
        elif self._bounds is None:
            most = MAX_VALUE
        else:
            # Frequencies below the bounds are lifted, by the total of the lower bounds at most.
            most = MAX_VALUE - self._bounds.lower.total
        frequency_list = list_of_coordinates(*_at_most(rows, columns, most))
        if self._bounds is None:
            return frequency_list
        return self._bounds.nearest(frequency_list)


class FittedChains(NamedTuple):
    """Chains whose mean gaps and weights of distributions were fitted by EM.

    Attributes:
      chains: the chains of one list, or of several lists side by side.
      merits: for each list, how well the model explains its coordinates: their log-likelihood less
        the effective number of parameters (Akaike 1974).
    """

    chains: GapChains
    merits: FloatArray


def fitted_chains(arms: list[Arm], rate: float, finest: float = CELL) -> FittedChains:
    """Returns the fitted chains of lists, each of which is decoded by itself, side by side.

    A pass of EM computes the posterior of all gaps, and fits the mean gaps and the weights to it.

    Args:
      arms: the rows of each list, then the columns of each list.
      rate: c, of the noise.
      finest: the number of integers in a state, times c, in the last pass.
    """
    lists = len(arms) // 2
    guesses = [arm.guess for arm in arms]
    pairs = [[of_list, lists + of_list] for of_list in range(lists)]
    smooth_gaps = []
    for pair in pairs:
        side = max(1, round(sum(np.count_nonzero(guesses[arm]) for arm in pair) / 2))
        smooth_gaps.append(SmoothGaps([len(guesses[arm]) for arm in pair], side))
    # Of each place: the expected gap behind it, and the probability that there is one.
    gaps = [np.maximum(np.append(guess[:-1] - guess[1:] - 1, 0), 0) for guess in guesses]
    there = [np.append(guess[1:] > 0, False).astype(float) for guess in guesses]
    weights = [PRIOR_WEIGHTS] * len(arms)
    reach = REACH / rate + MARGIN
    for passes_done in range(PASSES + 1):
        for model, pair in zip(smooth_gaps, pairs, strict=True):
            gaps_of_list, there_in_list = (
                np.concatenate([lines[arm] for arm in pair]) for lines in (gaps, there)
            )
            model.fit(gaps_of_list, there_in_list, 1 if passes_done else 10)
        rows, columns = zip(*(model.means() for model in smooth_gaps), strict=True)
        is_last = passes_done == PASSES
        cell = max(1, math.ceil((finest if is_last else COARSE_CELL) / rate - 1e-9))
        near = reach if is_last else reach / 2
        learn = not is_last
        chains = GapChains(arms, [*rows, *columns], weights, rate, cell, near, learn=learn)
        if learn:
            gaps, there, shares = map(chains.by_arm, (chains.gaps, chains.there, chains.shares))
            weights = [
                weights_along_arm(used, share, probability)
                for used, share, probability in zip(weights, shares, there, strict=True)
            ]
    return FittedChains(chains, chains.evidence - [model.parameters for model in smooth_gaps])


def falling_fit(values: IntArray) -> IntArray:
    """Returns a first guess of an arm: strictly falling positive numbers, and 0 behind them.

    The number of positive places is that with which most signs of the noisy values agree. The
    numbers there are the fit in least squares, and at least 1.
    """
    size = int(np.argmax(np.append(0, np.cumsum(np.where(values >= 1, 1, -1)))))
    levels = _pooled(values[:size] + np.arange(size))
    guess = np.zeros(len(values), np.int64)
    guess[:size] = np.maximum(levels - np.arange(size), 1)
    return guess


def _pooled(levels: IntArray) -> IntArray:
    """Returns the falling numbers nearest to the levels in least squares, rounded down.

    Neighbours that rise are pooled, and get their mean ("pool adjacent violators").
    """
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
    """Returns the values, or their strictly falling fit in least squares if they do not fall.

    Values may rise if cells hold several integers. They may also rise behind a steep fall, where
    Fourier transforms round off probabilities that matter.
    """
    size = int(np.count_nonzero(values))
    index = np.arange(size)
    levels = values[:size] + index
    if (np.diff(levels) <= 0).all():
        return values
    return np.append(np.maximum(_pooled(levels), size) - index, values[size:])


def _limits(bounds: PartitionBounds | None, length: int, rows: bool) -> tuple[IntArray, IntArray]:
    """Returns the least and the largest values of the first coordinates of an arm within bounds.

    Args:
      bounds: public bounds on the list, if there are any.
      length: the number of coordinates.
      rows: whether the arm is that of rows.
    """
    index = np.arange(1, length + 1)
    if bounds is None:
        return np.zeros(length, np.int64), np.full(length, LARGEST)
    if rows:  # Row i is the frequency at rank i, less i - 1.
        lowest = bounds.lower.at_ranks(index)
        highest = bounds.upper_at(index)
        subtracted = index - 1
    else:  # Column j is the number of partitions with at least j users, less j.
        lowest = bounds.lower.at_least(index)
        free = min(bounds.unbounded_ranks, LARGEST)
        highest = np.minimum(bounds.upper.at_least(index), LARGEST - free) + free
        highest = np.where(index <= bounds.beyond, LARGEST, highest)
        subtracted = index
    lowest, highest = (np.clip(limit - subtracted, 0, LARGEST) for limit in (lowest, highest))
    return lowest, highest


def _at_most(rows: IntArray, columns: IntArray, most: int) -> tuple[IntArray, IntArray]:
    """Returns the coordinates if their list has at most ``most`` users, and lower ones otherwise.

    All coordinates are lowered by one number, the least that is enough, except that arms still fall
    strictly. Then the first places of both arms are lowered by one less, as many as the total
    allows. So at most one user more is left out than must be.
    """

    def lowered(by: int, spared: int = 0) -> list[IntArray]:
        """Returns the arms lowered by a number, and by one less at the first ``spared`` places."""
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
    # With a larger square, even the least coordinates have too large a total: side * (side + 1).
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
