"""Runs forward-backward over two strictly falling chains, seen through geometric noise.

A chain x_1 > x_2 > ... > x_n > 0 = 0 = ... has independent gaps x_j - x_(j+1) - 1, and ends where a
gap leads below 1. The data are z_j = x_j + noise. The states of x_j are cells of one or more
integers, in a window around a guess of x_j. Likelihoods of x_j are relative to that of 0. After its
end a chain is 0, so the relative likelihoods there are 1, and ends at all places can be compared.

Arms are cut into segments that are swept side by side. A sweep passes a message, a distribution of
states, from place to place. The message that enters a segment is first guessed from the last few
places before it. Segments are swept again until the message that entered each one agrees with the
one that left its neighbour. So the result is that of one long sweep, up to AGREEMENT.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from dp_transforms.mechanisms.arrays import Array, FloatArray, IntArray
from dp_transforms.mechanisms.decoding.gap_model import (
    DISTRIBUTIONS,
    END,
    TINY,
    cell_masses,
    end_probabilities,
)

SEGMENT = 64  # The least number of places of a segment.
WARM_UP = 24  # Places before a segment from which its first message is guessed.
UNREACHED = 1e-12
"""An arm that reaches a place with less than this probability is taken never to reach it. Most
places are such, since their values are noise alone."""
AGREEMENT, ROUGH_AGREEMENT = 1e-3, 0.1
"""The largest L1 distance of messages that agree: in the last pass, and while EM learns."""


@dataclass(frozen=True)
class Arm:
    """The data of one noisy chain, at each place j.

    Attributes:
      values: z_j.
      guess: a falling guess of x_j.
      lowest, highest: bounds on x_j.
    """

    values: IntArray
    guess: IntArray
    lowest: IntArray
    highest: IntArray

    def first(self, length: int) -> Arm:
        """Returns the arm cut to its first ``length`` places."""
        return Arm(
            self.values[:length], self.guess[:length], self.lowest[:length], self.highest[:length]
        )


class GapChains:
    """Computes posterior distributions of rows and columns with a common square.

    Several lists may be decoded side by side. Each has the posterior that it has alone, up to the
    rounding of floats. Arrays have a line for each place: the rows of all lists, then the columns
    of all lists. A last line is no place, and pads segments.

    Args:
      arms: the rows of each list, then the columns of each list.
      means: for each arm, the mean gap behind each of its places.
      weights: for each arm, the weights of the distributions of gaps, at all its places or at each.
      rate: c; noise n has probability proportional to exp(-c |n|).
      cell: the number of integers of a state.
      reach: how far windows go to either side of the guess.
      learn: whether to compute expected gaps and shares of the distributions.
      entry: takes the states of the first coordinates of all arms, arms x states, and returns their
        prior masses. By default these have a heavy tail.
      few: logarithms of prior odds, 2 x lists: that a list has no partition, and that it has one. 0
        by default.
      end: the probability that an arm ends behind a place, whatever its gap.
    """

    def __init__(
        self,
        arms: list[Arm],
        means: list[FloatArray],
        weights: list[FloatArray],
        rate: float,
        cell: int,
        reach: float,
        learn: bool = False,
        entry: Callable[[FloatArray], FloatArray] | None = None,
        few: FloatArray | None = None,
        end: float = END,
    ):
        self._end_anywhere = end
        self._few = np.zeros((2, len(arms) // 2)) if few is None else few
        self.rate, self.cell, self.arms = rate, cell, arms
        self.width = math.ceil(2 * reach / cell) + 2
        self._fast = _fast_length(2 * self.width - 1)
        lengths = [len(arm.values) for arm in arms]
        self._lists = len(arms) // 2
        self._ends: IntArray = np.cumsum([0, *lengths])
        self._split, self._places = int(self._ends[self._lists]), int(self._ends[-1])
        self._means = np.concatenate([*means, [1.0]])
        of_places = [
            np.broadcast_to(of_arm, (length, DISTRIBUTIONS))
            for of_arm, length in zip(weights, lengths, strict=True)
        ]
        self._weights = np.concatenate([*of_places, of_places[-1][-1:]])
        self._agreement = ROUGH_AGREEMENT if learn else AGREEMENT
        self._cut_into_segments()
        self._lay_out(means, reach)
        self._evaluate_distributions(learn)
        # The largest entry has a heavy tail.
        first = np.maximum(self._positions(self._ends[:-1]), 1)
        heavy = self.cell / self.rate / (first + 1 / self.rate) ** 2
        self._entry = heavy if entry is None else entry(first)
        self._join(*self._forward())
        self._backward()
        if learn:
            self._learn()

    @property
    def alive(self) -> list[FloatArray]:
        """Returns for each arm the probability that each place is positive; these fall."""
        return self.by_arm(self._alive)

    def by_arm(self, lines: Array) -> list[Array]:
        """Returns the part of an array for each arm, given an array of lines."""
        return [lines[begin:end] for begin, end in pairwise(self._ends.tolist())]

    def _cut_into_segments(self) -> None:
        """Sets ``_index``: the place of each segment at each step of a sweep, steps x segments.

        Segments behind the end of an arm are padded with the line that is no place. ``_begin`` and
        ``_final`` say which segments are the first and last of their arms.
        """
        longest = int(np.diff(self._ends).max())
        few = min(int(8 / self.rate), 128)
        length = min(longest, max(SEGMENT, few, self._places // 256))
        indices = []
        for first, last in pairwise(self._ends.tolist()):
            at = np.arange(first, last, length)[:, None] + np.arange(length)
            indices.append(np.where(at < last, at, self._places))
        self._index: IntArray = np.concatenate(indices).T.copy()
        count = np.arange(self._index.shape[1])
        behind = np.cumsum([len(segments) for segments in indices])
        self._begin = np.isin(count, [0, *behind[:-1]])
        self._final = np.isin(count, behind - 1)

    def _until_they_agree(
        self, sweep: Callable[..., FloatArray], begin: int, towards: int, weight: FloatArray
    ) -> None:
        """Sweeps all segments, and repeats segments until messages agree with their neighbours'.

        Args:
          sweep: takes segments, the messages that enter them and optionally a step to begin at;
            returns the messages that leave them.
          begin: the step at which the sweep begins that makes the first guesses.
          towards: 1 if messages go to the next segment, -1 if they go to the one before.
          weight: how much the message that enters each segment matters, from 0 to 1.
        """
        which = np.arange(len(self._begin))
        leaving = np.zeros((len(which), self.width))
        if weight.any():  # An arm that is one segment needs no guess.
            leaving = sweep(which, self._like[self._index[begin]], begin)
        entry = np.roll(leaving, towards, axis=0)
        while len(which):
            leaving[which] = sweep(which, entry[which])
            arriving = np.roll(leaving, towards, axis=0)
            wrong = np.abs(arriving - entry).sum(1) * weight > self._agreement
            which = np.flatnonzero(wrong)
            entry[which] = arriving[which]

    def _lay_out(self, means: list[FloatArray], reach: float) -> None:
        """Sets the windows of all places, and the likelihoods of their states.

        State k of a place is the number ``_base + _share + cell * k``. Between the states k of a
        place and l of the next one the gap is ``_drop + cell * (k - l)``. ``_like`` has likelihoods
        relative to the largest of the window, and ``_shift`` the logarithm of that one relative to
        the likelihood of 0. States outside of an arm's bounds have the likelihood 0.
        """
        cell = self.cell
        guess, values, lowest, highest = (
            np.append(np.concatenate([getattr(arm, name) for arm in self.arms]), 0)
            for name in ("guess", "values", "lowest", "highest")
        )
        self._base = np.maximum(guess - int(reach), 1 if cell == 1 else 1 - cell)
        self._base[-1] = 1
        self._share = np.zeros(len(guess))
        if cell > 1:  # Windows are shifted so that a mean gap leads from one state to another.
            drift = np.concatenate([np.cumsum(np.append(0.0, 1 + mean[:-1])) for mean in means])
            self._share[:-1] = np.mod(-np.mod(drift, cell) - np.mod(self._base[:-1], cell), cell)
        self._drop = np.append(-1.0 - np.diff(self._base) - np.diff(self._share), 0.0)
        self._drop[self._ends[1:] - 1] = 0
        states = cell * np.arange(float(self.width))
        far = np.abs(((values - self._base) - self._share)[:, None] - states)
        nearest = far.min(1)
        self._shift = self.rate * (np.abs(values) - nearest)
        self._like = np.exp(-self.rate * (far - nearest[:, None]))
        self._like[self._positions(slice(None)) < 0.5] = 0
        for limit, sign in ((lowest, 1), (highest, -1)):
            beyond = sign * (((limit - self._base) - self._share)[:, None] - states)
            self._like[beyond > cell / 2] = 0
        self._like[-1] = 0

    def _positions(self, places: slice | IntArray) -> FloatArray:
        """Returns the numbers in the middles of the states of places: places x states."""
        start = self._base[places] + self._share[places]
        positions: FloatArray = start[:, None] + self.cell * np.arange(float(self.width))
        return positions

    def _evaluate_distributions(self, learn: bool) -> None:
        """Sets ``_kernel``, the Fourier transforms of the distributions of gaps, and ``_end``, the
        probability that the arm ends behind each state; to learn, also ``_masses``, the
        probabilities of gaps in each distribution of the mixture."""
        if learn:
            self._masses = np.zeros((DISTRIBUTIONS, self._places, 2 * self.width - 1))
        self._kernel = np.zeros((self._places + 1, self._fast // 2 + 1), complex)
        self._end = np.zeros_like(self._like)
        for part in self._chunks():
            masses, weights = self._evaluated(part), self._weights[part].T[..., None]
            if learn:
                self._masses[:, part] = masses
            mixed = weights[0] * masses[0]
            for weight, mass in zip(weights[1:], masses[1:], strict=True):
                mixed += weight * mass
            self._kernel[part] = np.fft.rfft(mixed, self._fast)
            self._end[part] = end_probabilities(
                self._positions(part),
                self._means[part],
                weights,
                part.start >= self._split,
                self._end_anywhere,
            )

    def _chunks(self) -> Iterator[slice]:
        """Yields runs of places, of rows or of columns, that are small enough for a cache."""
        step = max(1, 2**15 // self.width)
        for first, last in ((0, self._split), (self._split, self._places)):
            yield from (slice(at, min(at + step, last)) for at in range(first, last, step))

    def _gaps(self, places: slice) -> FloatArray:
        """Returns the gap for each difference of states: places x differences."""
        differences: FloatArray = self.cell * np.arange(1.0 - self.width, self.width)
        gaps: FloatArray = self._drop[places, None] + differences
        return gaps

    def _evaluated(self, places: slice) -> FloatArray:
        """Returns the probabilities of gaps: distributions x places x differences of states."""
        gaps = self._gaps(places)
        masses = np.zeros((DISTRIBUTIONS, *gaps.shape))
        possible = self._possible(gaps)
        masses[..., possible] = cell_masses(
            gaps[:, possible], self._means[places], self.cell, places.start >= self._split
        )
        return masses

    def _possible(self, gaps: FloatArray) -> slice:
        """Returns the differences of states at which gaps can have a positive probability: cells
        below 0 have none, except near 0, since a narrow distribution is spread over three cells."""
        return slice(int(np.count_nonzero(gaps.max(0) < -2 * self.cell)), None)

    def _forward(self) -> tuple[FloatArray, FloatArray]:
        """Sets ``filtered``: the distribution of each state, given the values up to its place.

        Returns two numbers for each place, both of an arm that is positive there: the logarithm of
        the likelihood of its value given those before it, relative to that of 0; and the
        probability that the arm ends there, given the values up to it.
        """
        self.filtered = np.zeros_like(self._like)
        evidence = np.zeros(self._places + 1)

        def sweep(which: IntArray, message: FloatArray, begin: int = 0) -> FloatArray:
            for step in range(begin, len(self._index)):
                at = self._index[step, which]
                turned = np.fft.rfft(message, self._fast).conj()
                ahead = np.fft.irfft(self._kernel[at - 1] * turned, self._fast)[:, : self.width]
                message = np.maximum(ahead[:, ::-1], 0)
                if not step:
                    first = self._begin[which]
                    message[first] = self._entry[np.searchsorted(self._ends, at[first])]
                message *= self._like[at]
                total = np.maximum(message.sum(1), TINY)
                message /= total[:, None]
                self.filtered[at], evidence[at] = message, np.log(total)
            return message

        begin = max(len(self._index) - WARM_UP, 0)
        self._until_they_agree(sweep, begin, 1, np.where(self._begin, 0.0, 1.0))
        return evidence + self._shift, (self.filtered * self._end).sum(1)

    def _join(self, gains: FloatArray, mass: FloatArray) -> None:
        """Sets the distribution of the common square, and what follows from it, by both arms.

        ``evidence`` is, for each list, the logarithm of the probability of its noisy coordinates,
        relative to their probability if the list had no partition. ``_alive`` and ``_after`` are
        the probabilities that each place, and the next one, are positive. ``_stop`` is the
        probability that an arm ends at each place, divided by ``mass``.
        """
        masses, evidence = self.by_arm(mass), self.by_arm(gains)
        joined = [
            _join_arms(
                masses[which :: self._lists],
                evidence[which :: self._lists],
                self.arms[which :: self._lists],
                self._few[:, which],
            )
            for which in range(self._lists)
        ]
        self._squares = joined[0].squares
        self.evidence: FloatArray = np.array([joint.evidence for joint in joined])
        alive, after, stop = [], [], []
        for number in [*(joint.rows for joint in joined), *(joint.columns for joint in joined)]:
            # The probability of at least k positive places, for each k.
            at_least = np.append(np.cumsum(number[::-1])[::-1], 0.0)
            alive.append(at_least[1:-1])
            after.append(at_least[2:])
            stop.append(number[1:])
        self._alive = np.concatenate([*alive, [0.0]])
        self._after = np.concatenate([*after, [0.0]])
        self._stop = np.concatenate([*stop, [0.0]]) / np.maximum(mass, TINY)

    def _backward(self) -> None:
        """Sets ``smoothed``: the probability of each state given all values of both arms. What is
        missing from 1 at a place is the probability that it is 0."""
        self._back = np.zeros_like(self._like)
        stopping = self._end * self._stop[:, None]

        def sweep(which: IntArray, message: FloatArray, begin: int = -1) -> FloatArray:
            for step in range(begin % len(self._index), -1, -1):
                at = self._index[step, which]
                reached = np.flatnonzero(self._alive[at] > UNREACHED)
                at = at[reached]
                turned = self._kernel[at] * np.fft.rfft(message[reached], self._fast)
                ahead = np.fft.irfft(turned, self._fast)[:, self.width - 1 : 2 * self.width - 1]
                going_on = np.maximum(ahead, 0)
                total = np.maximum((self.filtered[at] * going_on).sum(1), TINY)
                back = going_on * (self._after[at] / total)[:, None] + stopping[at]
                self._back[at] = back
                at_place = self._like[at] * back
                message[reached] = at_place / np.maximum(at_place.sum(1), TINY)[:, None]
            return message

        begin = min(WARM_UP, len(self._index)) - 1
        # Places that hardly any chain reaches do not matter.
        weight = np.where(self._final, 0.0, self._after[self._index[-1]])
        self._until_they_agree(sweep, begin, -1, weight)
        self.smoothed = self.filtered * self._back

    def _learn(self) -> None:
        """Sets what EM learns from, for each place.

        ``there`` is the probability that there is a gap behind the place, and ``gaps`` the expected
        gap if there is one. ``shares`` has the probability of each distribution given the gap,
        divided by its weight and times ``there``.
        """
        self.gaps, self.there = np.zeros(self._places + 1), self._after
        self.shares = np.zeros((self._places + 1, DISTRIBUTIONS))
        for chunk in self._chunks():
            part = chunk.start + np.flatnonzero(self._after[chunk] > UNREACHED)
            if not len(part):
                continue
            behind = part + 1
            seen = self._like[behind] * self._back[behind]
            seen /= np.maximum(seen.sum(1), TINY)[:, None]
            # For each difference of states, the sum of weights over all pairs with it. The
            # weights do not include the probability of the gap.
            turned = np.fft.rfft(self.filtered[part], self._fast)
            turned *= np.fft.rfft(seen[:, ::-1], self._fast)
            pairs = np.maximum(np.fft.irfft(turned, self._fast)[:, : 2 * self.width - 1], 0)
            gaps = self._gaps(part)
            possible = self._possible(gaps)
            joint = self._masses[:, part, possible]
            joint *= pairs[:, possible]
            weights = self._weights[part].T
            of_each = joint.sum(2)
            total = np.maximum((weights * of_each).sum(0), TINY)
            self.shares[part] = (self._after[part] * np.minimum(of_each / total, 1 / weights)).T
            mean_gaps = np.einsum("dpx,px->dp", joint, gaps[:, possible])
            self.gaps[part] = np.maximum((weights * mean_gaps).sum(0) / total, 0)

    def quantiles(self, level: float) -> list[IntArray]:
        """Returns for each arm the smallest x with Pr[x_j <= x] >= level, at every place."""
        dead = 1 - self._alive
        below = dead[:, None] + np.cumsum(self.smoothed, 1) < level
        state = np.minimum(below.sum(1), self.width - 1)
        return self.by_arm(np.where(dead >= level, 0, self._values(slice(None), state)))

    def marginals(self) -> Iterator[tuple[tuple[IntArray, FloatArray], ...]]:
        """Yields (rows, columns) for each list. Both are pairs of arrays, places x states: the
        integers that stand for the states, and their probabilities (``smoothed``)."""
        arms = [
            (
                np.maximum(np.rint(self._positions(slice(begin, end))).astype(np.int64), 1),
                self.smoothed[begin:end],
            )
            for begin, end in pairwise(self._ends.tolist())
        ]
        yield from zip(arms[: self._lists], arms[self._lists :], strict=True)

    def _values(self, places: int | slice, states: IntArray) -> IntArray:
        """Returns the integer that stands for a state of each place."""
        shift = np.rint(self._share[places] + self.cell * states).astype(np.int64)
        values: IntArray = np.maximum(self._base[places] + shift, 1)
        return values

    def sample(self, number: int, seed: int) -> list[IntArray]:
        """Returns draws of the rows and of the columns of the only list, both draws x places."""
        random = np.random.default_rng(seed)
        distribution = self._squares.ravel()
        drawn = random.choice(len(distribution), number, p=distribution)
        # There are as many columns as rows, or one less.
        less, rows = np.divmod(drawn, len(distribution) // 2)
        return [
            self._sample_arm(slice(0, self._split), rows, random),
            self._sample_arm(slice(self._split, self._places), rows - less, random),
        ]

    def _sample_arm(self, places: slice, sizes: IntArray, random: np.random.Generator) -> IntArray:
        """Returns draws of an arm, draws x places, with the given numbers of positive places.

        Places are drawn from the last positive one to the first, each by its filtered distribution
        times the probability of the gap behind it.
        """
        values = np.zeros((len(sizes), places.stop - places.start), np.int64)
        state = np.zeros(len(sizes), np.int64)
        for index in range(int(sizes.max()) - 1, -1, -1):
            place = places.start + index
            weight = np.tile(self.filtered[place] * self._end[place], (len(sizes), 1))
            going = sizes > index + 1
            mixed = self._weights[place] @ self._evaluated(slice(place, place + 1))[:, 0]
            shifted = np.lib.stride_tricks.sliding_window_view(mixed, self.width)
            weight[going] = self.filtered[place] * shifted[self.width - 1 - state[going]]
            sums = np.cumsum(weight, 1)
            level = random.random(len(sizes)) * sums[:, -1]
            state = np.minimum((sums <= level[:, None]).sum(1), self.width - 1)
            values[:, index] = np.where(sizes > index, self._values(place, state), 0)
        return values


class _Joined(NamedTuple):
    """The numbers of positive rows and columns of a list.

    Attributes:
      squares: the joint distribution, 2 x numbers of rows: with as many columns as rows, and with
        one less.
      rows: the distribution of the number of positive rows.
      columns: the distribution of the number of positive columns.
      evidence: the logarithm of the probability of the list's noisy coordinates, relative to that
        if the list had no partition.
    """

    squares: FloatArray
    rows: FloatArray
    columns: FloatArray
    evidence: float


def _join_arms(
    masses: list[FloatArray], gains: list[FloatArray], arms: list[Arm], few: FloatArray
) -> _Joined:
    """Returns the distribution of the numbers of positive rows and columns of a list, given the
    results of ``GapChains._forward`` for its rows and its columns, and the prior odds ``few``."""
    # Relative to a chain that is positive everywhere, so that large entries cancel.
    rows, columns = (
        np.append(0.0, np.log(np.maximum(end, TINY))) - np.append(np.cumsum(gain[::-1])[::-1], 0.0)
        for end, gain in zip(masses, gains, strict=True)
    )
    # D rows with D or D - 1 columns.
    size = min(len(rows), len(columns) + 1)
    common = min(size, len(columns))
    joint = np.full((2, size), -np.inf)
    joint[0, :common] = rows[:common] + columns[:common]
    joint[1, 1:] = rows[1:size] + columns[: size - 1]
    joint[0, 0] += few[0]
    joint[1, 1:2] += few[1]
    needed = max(np.count_nonzero(arm.lowest) for arm in arms)
    joint[:, : min(needed, size - 1)] = -np.inf
    most = joint.max()
    joint = np.exp(joint - most)
    evidence = float(most + math.log(joint.sum()) + sum(gain.sum() for gain in gains))
    squares = joint / joint.sum()
    of_rows, of_columns = np.zeros(len(rows)), np.zeros(len(columns))
    of_rows[:size] = squares.sum(0)
    of_columns[:common] = squares[0, :common]
    of_columns[: size - 1] += squares[1, 1:]
    return _Joined(squares, of_rows, of_columns, evidence)


def _fast_length(least: int) -> int:
    """Returns the least even 2^i 3^j 5^k with j and k below 6 that is at least ``least``."""
    odd = [3**threes * 5**fives for threes in range(6) for fives in range(6)]
    lengths: list[int] = [part << max(1, (-(-least // part) - 1).bit_length()) for part in odd]
    return min(lengths)
