"""Runs forward-backward over two strictly falling chains, seen through geometric noise.

A chain x_1 > x_2 > ... > x_n > 0 = 0 = ... has independent gaps x_j - x_(j+1) - 1, and ends where a
gap leads below 1. Seen is z_j = x_j + noise. States are kept in windows around a guess of x_j, in
cells of one or more integers. Filtered distributions of x_j are relative to the chain that is 0 at
j: since all later coordinates of a chain that ends are 0, ends at all places can be compared.

Arms are cut into segments that are swept side by side. The message that enters a segment is first
guessed from the last few places before it; segments are swept again until each has been entered by
the message with which its neighbour was left. So the result is that of one long sweep.
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
    cell_masses,
    end_probabilities,
)

TINY = 1e-200  # The least divisor. Nothing is lost: other terms are of the order of 1.
SEGMENT = 64  # The least number of places of a segment.
WARM_UP = 24  # Places before a segment from which its first message is guessed.
UNREACHED = 1e-12
"""Places that an arm reaches with less than this probability are taken for never reached, as most
are, where there is noise alone."""
AGREEMENT, ROUGH_AGREEMENT = 1e-3, 0.1
"""The most that messages may differ in total, in the last pass and while learning."""


@dataclass(frozen=True)
class Arm:
    """An arm is one noisy chain z, with a falling guess of it and bounds on each x_j."""

    values: IntArray
    guess: IntArray
    lowest: IntArray
    highest: IntArray

    def first(self, length: int) -> Arm:
        """Returns the arm of the first places."""
        return Arm(
            self.values[:length], self.guess[:length], self.lowest[:length], self.highest[:length]
        )


class GapChains:
    """Computes posterior distributions of rows and columns with a common square.

    Several lists may be decoded side by side: then a list's posterior is that which it has alone,
    but for the rounding of floats. Arrays have a line for each place of the rows of all lists, then
    of the columns of all lists, and one that is no place.

    Args:
      arms: the rows of each list, then the columns of each list.
      means, weights: of each arm, mean gaps behind its places, and of the distributions of gaps.
      rate: c; noise n has probability proportional to exp(-c |n|).
      cell: the number of integers of a state.
      reach: how far windows go to either side of the guess.
      learn: compute expected gaps and shares of the distributions.
      entry: returns the masses of the first coordinates of all arms at states, both arms x states;
        by default these have a heavy tail.
      few: logarithms of the prior odds that a list has no partition, and only one: 2 x lists; 0 by
        default.
      end: the probability that an arm ends anywhere, whatever its gaps.
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
        self._stops = end
        self._few = np.zeros((2, len(arms) // 2)) if few is None else few
        self.rate, self.cell, self.arms = rate, cell, arms
        self.width = math.ceil(2 * reach / cell) + 2
        self._fast = _fast_length(2 * self.width - 1)
        lengths = [len(arm.values) for arm in arms]
        self._lists = len(arms) // 2
        self._ends: IntArray = np.cumsum([0, *lengths])
        self._split, self._places = int(self._ends[self._lists]), int(self._ends[-1])
        self._means = np.concatenate([*means, [1.0]])
        self._weights = np.repeat([*weights, weights[-1]], [*lengths, 1], axis=0)
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
        """Returns for each arm the probabilities that its places are positive, which fall."""
        return self.by_arm(self._alive)

    def by_arm(self, lines: Array) -> list[Array]:
        """Splits an array into its parts for the arms."""
        return [lines[begin:end] for begin, end in pairwise(self._ends.tolist())]

    def _cut_into_segments(self) -> None:
        """Sets the place of each segment in each step, and the first and last segments of arms."""
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

        ``sweep`` takes segments, the messages that enter them and perhaps a step to begin at, as
        first guesses do at ``begin``; it returns the messages that leave, ``towards`` 1 forwards or
        -1 backwards. ``weight`` says how much the message that enters a segment matters.
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
        """Sets windows, and likelihoods within them."""
        cell = self.cell
        guess, values, lowest, highest = (
            np.append(np.concatenate([getattr(arm, name) for arm in self.arms]), 0)
            for name in ("guess", "values", "lowest", "highest")
        )
        self._base = np.maximum(guess - int(reach), 1 if cell == 1 else 1 - cell)
        self._base[-1] = 1
        self._share = np.zeros(len(guess))
        if cell > 1:  # States drift with the mean gap, so that a mean gap leads to a state.
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
        start = self._base[places] + self._share[places]
        positions: FloatArray = start[:, None] + self.cell * np.arange(float(self.width))
        return positions

    def _evaluate_distributions(self, learn: bool) -> None:
        """Sets the distributions of gaps, their mixture's transform, and probabilities of ends."""
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
                self._stops,
            )

    def _chunks(self) -> Iterator[slice]:
        """Yields places of one arm each, few enough for a cache."""
        step = max(1, 2**15 // self.width)
        for first, last in ((0, self._split), (self._split, self._places)):
            yield from (slice(at, min(at + step, last)) for at in range(first, last, step))

    def _gaps(self, places: slice) -> FloatArray:
        """Returns the gaps of all differences of states: places x differences."""
        differences: FloatArray = self.cell * np.arange(1.0 - self.width, self.width)
        gaps: FloatArray = self._drop[places, None] + differences
        return gaps

    def _evaluated(self, places: slice) -> FloatArray:
        """Returns the distributions of gaps: distributions x places x differences of states."""
        gaps = self._gaps(places)
        masses = np.zeros((DISTRIBUTIONS, *gaps.shape))
        possible = self._possible(gaps)
        masses[..., possible] = cell_masses(
            gaps[:, possible], self._means[places], self.cell, places.start >= self._split
        )
        return masses

    def _possible(self, gaps: FloatArray) -> slice:
        """Returns the differences of states at which some gap has a probability. Cells of gaps
        below 0 have none, but for those next to that of 0, where distributions are narrow."""
        return slice(int(np.count_nonzero(gaps.max(0) < -2 * self.cell)), None)

    def _forward(self) -> tuple[FloatArray, FloatArray]:
        """Returns for each place the log evidence of an end there, and its probability."""
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
        """Sets the distribution of the common square, from the evidence of both arms, and the
        evidence of each list: the logarithm of its coordinates' probability, relative to that if
        there were no partition."""
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
        # The probabilities of being positive at each place, at the next one, and of ending there.
        ends = [*(joint.rows for joint in joined), *(joint.columns for joint in joined)]
        from_on = [np.append(np.cumsum(end[::-1])[::-1], 0.0) for end in ends]
        self._alive, self._after = (
            np.concatenate(
                [
                    *(from_place[begin : begin + len(from_place) - 2] for from_place in from_on),
                    [0.0],
                ]
            )
            for begin in (1, 2)
        )
        stop = np.concatenate([*(end[1:] for end in ends), [0.0]])
        self._stop = stop / np.maximum(mass, TINY)

    def _backward(self) -> None:
        self._back = np.zeros_like(self._like)
        stopping = self._end * self._stop[:, None]

        def sweep(which: IntArray, seen: FloatArray, begin: int = -1) -> FloatArray:
            for step in range(begin % len(self._index), -1, -1):
                at = self._index[step, which]
                reached = np.flatnonzero(self._alive[at] > UNREACHED)
                at = at[reached]
                turned = self._kernel[at] * np.fft.rfft(seen[reached], self._fast)
                ahead = np.fft.irfft(turned, self._fast)[:, self.width - 1 : 2 * self.width - 1]
                on = np.maximum(ahead, 0)
                total = np.maximum((self.filtered[at] * on).sum(1), TINY)
                back = on * (self._after[at] / total)[:, None] + stopping[at]
                self._back[at] = back
                at_place = self._like[at] * back
                seen[reached] = at_place / np.maximum(at_place.sum(1), TINY)[:, None]
            return seen

        begin = min(WARM_UP, len(self._index)) - 1
        # Places that hardly any chain reaches do not matter.
        weight = np.where(self._final, 0.0, self._after[self._index[-1]])
        self._until_they_agree(sweep, begin, -1, weight)
        self.smoothed = self.filtered * self._back

    def _learn(self) -> None:
        """Sets expected gaps and shares of the distributions."""
        self.gaps, self.there = np.zeros(self._places + 1), self._after
        self.shares = np.zeros((self._places + 1, DISTRIBUTIONS))
        for chunk in self._chunks():
            part = chunk.start + np.flatnonzero(self._after[chunk] > UNREACHED)
            if not len(part):
                continue
            behind = part + 1
            seen = self._like[behind] * self._back[behind]
            seen /= np.maximum(seen.sum(1), TINY)[:, None]
            # The weights of all differences of states, but for the distributions of gaps.
            turned = np.fft.rfft(self.filtered[part], self._fast)
            turned *= np.fft.rfft(seen[:, ::-1], self._fast)
            pairs = np.maximum(np.fft.irfft(turned, self._fast)[:, : 2 * self.width - 1], 0)
            gaps = self._gaps(part)
            possible = self._possible(gaps)
            joint = self._masses[:, part, possible]
            joint *= pairs[:, possible]
            weights = self._weights[part].T
            alone = joint.sum(2)
            total = np.maximum((weights * alone).sum(0), TINY)
            self.shares[part] = (self._after[part] * np.minimum(alone / total, 1 / weights)).T
            mean_gaps = np.einsum("dpx,px->dp", joint, gaps[:, possible])
            self.gaps[part] = np.maximum((weights * mean_gaps).sum(0) / total, 0)

    def quantiles(self, level: float) -> list[IntArray]:
        """Returns for each arm the smallest x with Pr[x_j <= x] >= level, at every place."""
        dead = 1 - self._alive
        below = dead[:, None] + np.cumsum(self.smoothed, 1) < level
        state = np.minimum(below.sum(1), self.width - 1)
        return self.by_arm(np.where(dead >= level, 0, self._values(slice(None), state)))

    def marginals(self) -> Iterator[tuple[tuple[IntArray, FloatArray], ...]]:
        """Yields for each list the states and probabilities of rows, and of columns: places x
        states. What is missing from 1 is the probability of 0."""
        arms = [
            (
                np.maximum(np.rint(self._positions(slice(begin, end))).astype(np.int64), 1),
                self.smoothed[begin:end],
            )
            for begin, end in pairwise(self._ends.tolist())
        ]
        yield from zip(arms[: self._lists], arms[self._lists :], strict=True)

    def _values(self, places: int | slice, states: IntArray) -> IntArray:
        shift = np.rint(self._share[places] + self.cell * states).astype(np.int64)
        values: IntArray = np.maximum(self._base[places] + shift, 1)
        return values

    def sample(self, number: int, seed: int) -> list[IntArray]:
        """Draws from both arms of the only list: two arrays, draws x places."""
        random = np.random.default_rng(seed)
        distribution = self._squares.ravel()
        more, size = np.divmod(
            random.choice(len(distribution), number, p=distribution), len(distribution) // 2
        )
        return [
            self._sample_arm(slice(0, self._split), size, random),
            self._sample_arm(slice(self._split, self._places), size - more, random),
        ]

    def _sample_arm(self, places: slice, sizes: IntArray, random: np.random.Generator) -> IntArray:
        """Draws an arm with ``sizes`` positive places, from its last place to its first."""
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
    """Distributions of the common square of rows and columns, of the numbers of positive rows and
    of positive columns, and the evidence of both arms together."""

    squares: FloatArray
    rows: FloatArray
    columns: FloatArray
    evidence: float


def _join_arms(
    masses: list[FloatArray], gains: list[FloatArray], arms: list[Arm], few: FloatArray
) -> _Joined:
    """Joins the rows and columns of a list, by the evidence of both arms."""
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
    together = float(most + math.log(joint.sum()) + sum(gain.sum() for gain in gains))
    squares = joint / joint.sum()
    of_rows, of_columns = np.zeros(len(rows)), np.zeros(len(columns))
    of_rows[:size] = squares.sum(0)
    of_columns[:common] = squares[0, :common]
    of_columns[: size - 1] += squares[1, 1:]
    return _Joined(squares, of_rows, of_columns, together)


def _fast_length(least: int) -> int:
    """Returns the least even 2^i 3^j 5^k that is at least ``least``."""
    odd = [3**threes * 5**fives for threes in range(6) for fives in range(6)]
    lengths: list[int] = [part << max(1, (-(-least // part) - 1).bit_length()) for part in odd]
    return min(lengths)
