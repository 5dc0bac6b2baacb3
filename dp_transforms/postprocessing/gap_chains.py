"""Forward-backward over strictly falling chains that are seen through two-sided geometric noise.

A chain x_1 > x_2 > ... > x_n > 0 = 0 = ... has independent gaps x_j - x_(j+1) - 1, and ends where a
gap leads below 1. Seen is z_j = x_j + noise. States are kept in windows around a guess of x_j, in
cells of one or more integers. Filtered laws of x_j are relative to the chain that is 0 at j: since
all later coordinates of a chain that ends are 0, ends at all places can be compared.

Arms are cut into segments that are swept side by side. The message that enters a segment is first
guessed from the last few places before it; segments are swept again until each has been entered by
the message with which its neighbour was left. So the result is that of one long sweep.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dp_transforms.mechanisms.arrays import Array, FloatArray, IntArray
from dp_transforms.postprocessing.gap_model import LAWS, GapLaws

TINY = 1e-200
"""Divisors are at least this. Nothing is lost: other terms are of the order of 1."""

ROUNDING = 1e-30
"""Far below the error of a Fourier transform of values up to 1."""

SEGMENT = 64
"""Places of a segment, at least."""

WARM_UP = 24
"""Places before a segment from which its first message is guessed."""

AGREEMENT = 1e-3
"""The most that messages may differ in total; 0.1 while learning."""


@dataclass(frozen=True)
class Arm:
    """One noisy chain.

    Args:
      values: z_1, z_2, ...
      guess: a falling guess of the chain; windows are around it.
      lowest, highest: what is known of each x_j.
    """

    values: IntArray
    guess: IntArray
    lowest: IntArray
    highest: IntArray


class GapChains:
    """Posterior laws of pairs of arms with a common square.

    Args:
      arms: those of rows, then as many of columns.
      means: the mean gaps behind each place of each arm.
      weights: for each arm those of the laws of gaps.
      rate: c; noise n has probability proportional to exp(-c |n|).
      cell: the number of integers of a state.
      reach: how far windows go to either side of the guess.
      learn: whether expected gaps and shares of the laws are wanted.
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
    ):
        self.rate, self.cell, self.arms = rate, cell, arms
        self.width = math.ceil(2 * reach / cell) + 2
        self._fast = _fast_length(2 * self.width - 1)
        lengths = [len(arm.values) for arm in arms]
        self._length = min(max(lengths), max(SEGMENT, min(int(8 / rate), 512), sum(lengths) // 256))
        segments = [-(-length // self._length) for length in lengths]
        self._ends = np.cumsum(segments)
        self._starts = self._ends - segments
        self._rows = int(self._ends[len(arms) // 2 - 1])
        self._lay_out(means, reach)
        self._weights = np.repeat(weights, segments, axis=0)
        self._evaluate_laws(learn)
        self._learn = learn
        self._agreement = 0.1 if learn else AGREEMENT
        self._forward()
        self._backward()

    def _by_step(self, arrays: list[Array], fill: float) -> Array:
        """Arms one after the other, padded to whole segments: places x segments."""
        padded = [
            np.append(array, np.full(-len(array) % self._length, fill, array.dtype))
            for array in arrays
        ]
        return np.ascontiguousarray(np.concatenate(padded).reshape(-1, self._length).T)

    def by_arm(self, steps: Array) -> list[Array]:
        """The reverse: for each arm an array with its places first."""
        whole = np.swapaxes(steps, 0, 1)
        return [
            whole[start:end].reshape(-1, *steps.shape[2:])[: len(arm.values)]
            for arm, start, end in zip(self.arms, self._starts, self._ends, strict=True)
        ]

    def _lay_out(self, means: list[FloatArray], reach: float) -> None:
        """Windows, and likelihoods within them."""
        cell, width = self.cell, self.width
        bases, shares = [], []
        for arm, mean in zip(self.arms, means, strict=True):
            base = np.maximum(arm.guess - int(reach), 1 if cell == 1 else 1 - cell)
            share = np.zeros(len(base))
            if cell > 1:  # States drift with the mean gap, so that a mean gap leads to a state.
                drift = np.cumsum(np.append(0.0, 1 + mean[:-1]))
                share = np.mod(-np.mod(drift, cell) - np.mod(base, cell), cell)
            bases.append(base)
            shares.append(share)
        self._base = self._by_step(bases, 1)
        self._share = self._by_step(shares, 0.0)
        values = self._by_step([arm.values for arm in self.arms], 0)
        self._mean = self._by_step(means, 1.0)
        after = _following(self._base)
        self._drop = (self._base - after) + (self._share - _following(self._share)) - 1
        offset = (values - self._base) - self._share
        states = cell * np.arange(float(width))
        far = np.abs(offset[..., None] - states)
        nearest = far.min(2)
        self._like = np.exp(-self.rate * (far - nearest[..., None]))
        self._shift = self.rate * (np.abs(values) - nearest)
        position = (self._base + self._share)[..., None] + states
        self._like[position < 0.5] = 0
        seen = self._by_step([np.ones(len(arm.values)) for arm in self.arms], 0.0)
        self._like *= seen[..., None]
        for name, sign in (("lowest", 1), ("highest", -1)):
            limit = self._by_step([getattr(arm, name) for arm in self.arms], 0)
            beyond = sign * ((limit - self._base)[..., None] - self._share[..., None] - states)
            self._like[beyond > cell / 2] = 0
        self._position = position
        self._first = np.zeros(len(self._base[0]), bool)
        self._first[self._starts] = True
        self._last = np.zeros_like(self._first)
        self._last[self._ends - 1] = True

    def _evaluate_laws(self, learn: bool) -> None:
        """Transforms of the laws of gaps, each or mixed, and probabilities of ends."""
        steps, segments = self._mean.shape
        size = self._fast // 2 + 1
        self._laws = np.empty((LAWS if learn else 1, steps, segments, size), complex)
        self._end = np.empty((steps, segments, self.width))
        chunk = max(1, 2**16 // (self.width * segments))
        for step in range(0, steps, chunk):
            for some in self._kinds():
                part = slice(step, step + chunk), some
                laws, mixed, weights = self._laws_at(*part)
                for law, mass in enumerate(laws if learn else [mixed]):
                    self._laws[law][part] = np.fft.rfft(mass, self._fast).reshape(
                        -1, *self._laws[0, 0, some].shape
                    )
                position = self._position[part].reshape(-1, self.width)
                ends = self._gap_laws(*part).ends(position, weights)
                self._end[part] = ends.reshape(self._end[part].shape)

    def _kinds(self) -> tuple[slice, slice]:
        return slice(0, self._rows), slice(self._rows, None)

    def _gap_laws(self, steps: slice, some: slice) -> GapLaws:
        return GapLaws(self._mean[steps, some].ravel(), some.start >= self._rows)

    def _laws_at(self, steps: slice, some: slice) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The laws of differences of states, their mixture, and its weights."""
        gaps = self._drop[steps, some].ravel()[:, None]
        gaps = gaps + self.cell * np.arange(1 - self.width, self.width)
        laws = self._gap_laws(steps, some).cells(gaps, self.cell)
        weights = np.tile(self._weights[some], (laws.shape[1] // len(self._weights[some]), 1))
        weights = weights.T[..., None]
        return laws, (weights * laws).sum(0), weights

    def _kernel(self, step: int, which: Array | slice = slice(None)) -> Array:
        """The transform of the mixture at one place of some segments."""
        if len(self._laws) == 1:
            return self._laws[0, step][which]
        return np.einsum("bl,lbf->bf", self._weights[which], self._laws[:, step][:, which])

    def _forward(self) -> None:
        """Filtered laws, and the log evidence of an end at each place."""
        steps, segments, width = self._like.shape
        self.filtered = np.empty_like(self._like)
        self._evidence = np.empty((steps, segments))
        entering = np.roll(self._kernel(steps - 1), 1, axis=0)
        start = 1 / self.rate / (np.maximum(self._position[0], 1) + 1 / self.rate) ** 2
        start *= self.cell

        def step_on(message: FloatArray, kernel: Array) -> FloatArray:
            turned = np.fft.rfft(message, self._fast).conj()
            ahead = np.fft.irfft(kernel * turned, self._fast)[:, :width][:, ::-1]
            return np.maximum(ahead, 0)

        def sweep(which: Array | slice, message: FloatArray) -> None:
            for step in range(steps):
                kernel = self._kernel(step - 1, which) if step else entering[which]
                ahead = step_on(message, kernel)
                if not step:
                    first = self._first[which]
                    ahead[first] = start[which][first]
                ahead *= self._like[step][which]
                total = np.maximum(ahead.sum(1), TINY)
                message = ahead / total[:, None]
                self.filtered[step][which] = message
                self._evidence[step][which] = np.log(total)

        warm = max(steps - WARM_UP, 0)
        message = self._like[warm] / np.maximum(self._like[warm].sum(1), TINY)[:, None]
        for step in range(warm + 1, steps):
            ahead = step_on(message, self._kernel(step - 1)) * self._like[step]
            message = ahead / np.maximum(ahead.sum(1), TINY)[:, None]
        entry = np.roll(message, 1, axis=0)
        sweep(slice(None), entry)
        while True:
            leaving = np.roll(self.filtered[-1], 1, axis=0)
            wrong = np.abs(leaving - entry).sum(1) > self._agreement
            again = np.flatnonzero(wrong & ~self._first)
            if not len(again):
                break
            entry[again] = leaving[again]
            sweep(again, entry[again])
        self._join()

    def _join(self) -> None:
        """The law of the common square, from the evidence of both arms."""
        mass = np.einsum("sbw,sbw->sb", self.filtered, self._end)
        gains = self.by_arm(self._evidence + self._shift)
        # Relative to a chain that is positive everywhere: large entries add to none of these.
        logs = [
            np.append(0.0, np.log(np.maximum(end, TINY)))
            - np.append(np.cumsum(gain[::-1])[::-1], 0.0)
            for end, gain in zip(self.by_arm(mass), gains, strict=True)
        ]
        pairs = len(self.arms) // 2
        self._squares: list[FloatArray] = []
        ends: list[FloatArray] = [np.empty(0)] * len(self.arms)
        for pair in range(pairs):
            # D rows with D or D - 1 columns.
            rows, columns = logs[pair], logs[pairs + pair]
            size = min(len(rows), len(columns) + 1)
            joint = np.full((2, size), -np.inf)
            common = min(size, len(columns))
            joint[0, :common] = rows[:common] + columns[:common]
            joint[1, 1:] = rows[1:size] + columns[: size - 1]
            needed = [np.count_nonzero(self.arms[arm].lowest) for arm in (pair, pairs + pair)]
            joint[:, : min(max(needed), size - 1)] = -np.inf
            best = joint.max()
            joint = np.exp(joint - best)
            joint /= joint.sum()
            self._squares.append(joint)
            ends[pair], ends[pairs + pair] = np.zeros(len(rows)), np.zeros(len(columns))
            ends[pair][:size] = joint.sum(0)
            ends[pairs + pair][:common] = joint[0, :common]
            ends[pairs + pair][: size - 1] += joint[1, 1:]
        # The probability to be alive at each place, and to end there.
        self.alive = [np.cumsum(end[::-1])[::-1][1:] for end in ends]
        self._alive = self._by_step(self.alive, 0.0)
        self._stop = self._by_step([end[1:] for end in ends], 0.0) / np.maximum(mass, TINY)

    def _backward(self) -> None:
        """Smoothed laws; expected gaps and shares of the laws, if they are to be learned."""
        steps, segments, width = self._like.shape
        back = np.empty_like(self._like)
        self._going = np.zeros((steps, segments))
        self._shares = np.zeros((steps, segments, LAWS))
        after = _following(self._alive)
        after[-1, self._last] = 0
        lengths = self._fast, slice(width - 1, 2 * width - 1)

        def step_back(step: int, which: Array | slice, seen: FloatArray) -> FloatArray:
            seen = seen / np.maximum(seen.max(1), TINY)[:, None]
            turned = np.fft.rfft(seen, self._fast)
            on = np.fft.irfft(self._kernel(step, which) * turned, lengths[0])[:, lengths[1]]
            on = np.maximum(on, 0)
            highest = np.maximum(on.max(1), ROUNDING)[:, None]
            on /= highest
            filtered, alive = self.filtered[step][which], after[step][which]
            mass = filtered * on
            total = np.maximum(mass.sum(1), TINY)
            if self._learn:
                self._going[step][which] = mass @ np.arange(width) / total
                for law in range(1, LAWS):
                    by_law = np.fft.irfft(self._laws[law, step][which] * turned, lengths[0])
                    share = (filtered * by_law[:, lengths[1]] / highest).sum(1) / total
                    most = 1 / self._weights[which, law]
                    self._shares[step, :, law][which] = alive * np.clip(share, 0, most)
            return on * (alive / total)[:, None]

        def sweep(which: Array | slice, seen: FloatArray) -> None:
            for step in range(steps - 1, -1, -1):
                on = step_back(step, which, seen)
                on += self._end[step][which] * self._stop[step][which][:, None]
                back[step][which] = on
                seen = self._like[step][which] * on

        def direction(seen: FloatArray) -> FloatArray:
            return seen / np.maximum(seen.sum(1), TINY)[:, None]

        warm = min(WARM_UP, steps) - 1
        seen = self._like[warm].copy()
        for step in range(warm - 1, -1, -1):
            turned = np.fft.rfft(seen, self._fast) * self._kernel(step)
            seen = np.maximum(np.fft.irfft(turned, self._fast)[:, lengths[1]], 0)
            seen = direction(seen * self._like[step])
        entry = np.roll(direction(seen), -1, axis=0)
        sweep(slice(None), entry)
        while True:
            leaving = direction(np.roll(self._like[0] * back[0], -1, axis=0))
            # Where hardly any chain is alive, nobody looks.
            wrong = np.abs(leaving - entry).sum(1) * after[-1] > self._agreement
            again = np.flatnonzero(wrong & ~self._last)
            if not len(again):
                break
            entry[again] = leaving[again]
            sweep(again, entry[again])
        self.smoothed = np.multiply(self.filtered, back, out=back)

    def expected_gaps(self) -> tuple[list[FloatArray], list[FloatArray], list[FloatArray]]:
        """Returns for each arm: expected gaps given that they are, their probabilities, shares of
        laws."""
        after = _following(self._alive)
        after[-1, self._last] = 0
        total = np.maximum(self.smoothed.sum(2), TINY)
        mean = self.smoothed @ np.arange(self.width) / total
        gaps = self._drop + self.cell * (self._going - _following(mean))
        return (
            self.by_arm(np.maximum(gaps, 0)),
            self.by_arm(after),
            [shares.sum(0) for shares in self.by_arm(self._shares)],
        )

    def quantiles(self, level: float) -> list[IntArray]:
        """Returns for each arm the smallest x with Pr[x_j <= x] >= level, at every place."""
        dead = 1 - self._alive
        below = dead[..., None] + np.cumsum(self.smoothed, 2) < level
        state = np.minimum(below.sum(2), self.width - 1)
        value = self._base + np.rint(self._share + self.cell * state).astype(np.int64)
        value = np.where(dead >= level, 0, np.maximum(value, 1))
        return self.by_arm(value)

    def sample(self, number: int, seed: int) -> list[IntArray]:
        """Draws of the first pair of arms: two arrays, draws x places."""
        random = np.random.default_rng(seed)
        law = self._squares[0].ravel()
        more, size = np.divmod(random.choice(len(law), number, p=law), len(law) // 2)
        pairs = len(self.arms) // 2
        return [
            self._sample_arm(arm, sizes, random) for arm, sizes in ((0, size), (pairs, size - more))
        ]

    def _sample_arm(self, arm: int, sizes: IntArray, random: np.random.Generator) -> IntArray:
        """Draws of an arm with so many positive places, from its last place to its first."""
        steps, width = self._length, self.width
        places = len(self.arms[arm].values)
        values = np.zeros((len(sizes), places), np.int64)
        state = np.zeros(len(sizes), np.int64)
        for place in range(int(sizes.max()) - 1, -1, -1):
            segment, step = divmod(place, steps)
            segment += self._starts[arm]
            if place == sizes.max() - 1 or step == steps - 1:
                mixed = self._laws_at(slice(None), slice(segment, segment + 1))[1]
            filtered = self.filtered[step, segment]
            weight = np.empty((len(sizes), width))
            weight[:] = filtered * self._end[step, segment]
            going = sizes > place + 1
            shifted = np.lib.stride_tricks.sliding_window_view(mixed[step], width)
            weight[going] = filtered * shifted[width - 1 - state[going]]
            sums = np.cumsum(weight, 1)
            level = random.random(len(sizes)) * sums[:, -1]
            state = np.minimum((sums <= level[:, None]).sum(1), width - 1)
            value = self._base[step, segment] + np.rint(
                self._share[step, segment] + self.cell * state
            ).astype(np.int64)
            values[:, place] = np.where(sizes > place, np.maximum(value, 1), 0)
        return values


def _following(steps: Array) -> Array:
    """The values at the next place of each arm; at its last, those of the next arm."""
    return np.concatenate([steps[1:], np.roll(steps[:1], -1, axis=1)])


def _fast_length(least: int) -> int:
    """The least 2^i 3^j 5^k from ``least`` on."""
    best = 1 << least.bit_length()
    for fives in range(6):
        for threes in range(6):
            odd = 5**fives * 3**threes
            best = min(best, odd << max(0, (-(-least // odd) - 1).bit_length()))
    return best + best % 2
