"""Computes intervals from noisy Frobenius coordinates, proved for every private list.

Let a_i, b_j be the coordinates of the private list, D the side of its square, z the noisy
coordinates, and let noise n have a probability proportional to q**|n|: see ``noisy_coordinates``
and ``partition.frobenius``. An arm is drawn up to a length R that depends on the noise, and D is
private. Two ideas give intervals in spite of this.

1. Noise at a fixed index has a fixed distribution, Pr[|n| > t] = 2 q**(t + 1) / (1 + q), whether it
   is drawn or not. An index that was not drawn has the coordinate 0: the probability that any arm
   ends before its last positive coordinate is at most 2 D 2**-60, which is below 2**-35, since
   lists of D > 2**24 are refused. This probability is taken off every confidence.
2. Test inversion (Neyman, 1937). D, or the answer itself, is unknown but not random. Test every
   value of it at level alpha, and keep all values that are not refuted. The true value is tested
   once, and is kept with probability 1 - alpha, however many values there are.

The square. If D = d, the coordinates after d are 0. So the average over several k and h of

    exp(c P),  P = sum over t = 1, ..., k of |z_(d+k+1-t)| - |z_(d+k+1-t) - t - h|

on both arms has an expectation of at most 1: each term is a likelihood ratio, stopped where an arm
ends. Also, a_(d+1-t) >= t and b_(d-t) >= t. So the average of exp(-c P), h = 0, over windows that
end at d, or d - 1, has an expectation of at most 1, since |z| - |z - t| does not fall in z. By
Markov's inequality each average is at least 1 / alpha with probability alpha at most.

Row i. If D >= i, then f_i = a_i + i - 1, and z_i bounds it. If D < i, then f_i = s <= D, where
c_s >= i > c_(s+1): for each s, the noisy columns s and s + 1 are tested. Columns are bounded
likewise: c_t = b_t + t or, if D < t, c_t = s <= D with f_s >= t > f_(s+1). Each test has one noise
from below and one from above.

Sums. The first k rows hold, with h = f_k + 1,

    a_1 + ... + a_k + k (k - 1) / 2                                          if D >= k,
    a_1 + ... + a_D + (b_h + ... + b_D) + (k - 1) + ... + (k - h + 1)        if D < k,

and the total is a_1 + ... + a_D + b_1 + ... + b_D. For the true D and h, the errors of the noisy
sums are sums of a fixed number of independent noises, and their distribution is known. The interval
is the union over all D and h that are not refuted.

Small partitions. With s = c_k, the number of users of partitions with fewer than k users is

    (b_1 + ... + b_(k-1)) + k (k - 1) / 2 - (k - 1) (b_k + k)                 if D >= k,
    a_(s+1) + ... + a_D + b_1 + ... + b_D - s (s - 1) / 2                     if D < k,

In the first case these are the first k - 1 columns, each without its first s cells. In the second
case, where s <= D, they are the total without the first s rows. The rest of the total is bounded
likewise. One noise, that of b_k, has a weight, which is public.

Bands. With a bound d on D, row i and column i get the level alpha / (2 i H) each, where H = 1 + 1/2
+ ... + 1/d. Up to the true D these sum to alpha at most, since H grows with d. As rows and columns
fall strictly, these bounds give two lists.
"""

from __future__ import annotations

import bisect
import itertools
import math
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray, IntArray
from dp_transforms.mechanisms.decoding.decoder import Posterior
from dp_transforms.mechanisms.frequency_list import FrequencyList, ReleasedList
from dp_transforms.mechanisms.noisy_coordinates import (
    COLUMNS,
    ROWS,
    NoisyCoordinates,
    list_of_coordinates,
)
from dp_transforms.postprocessing.estimates import (
    COLLISIONS,
    CONFIDENCE,
    ENTROPY,
    GRID,
    SHARE,
    SMALL,
    SMALL_SHARE,
    SUM,
    ModelIntervals,
    RateCurve,
    ReleaseIntervals,
    curve_ends,
    failure_probability,
)
from dp_transforms.postprocessing.walk_intervals import WalkIntervals, closed

_NOT_DRAWN = 2.0**-35  # The probability of an arm that ends too early, see the module.
_OF_SQUARE = 0.1  # The share of bounds on D in the failure probability.
_LONGEST_PATH = 2048
_HEIGHTS = (4, 16, 64)  # h, times c.
_ROUNDING = 1 - 1e-9  # Failure probabilities are made smaller by more than all rounding below.


def intervals_of(released: ReleasedList) -> ReleaseIntervals:
    """Returns a release's intervals, from its noisy coordinates or its mechanism's distribution.
    Raises a ValueError if the list was read from a file, or if public knowledge narrowed a
    mechanism whose intervals are for unrestricted releases only."""
    if released.coordinates is not None:
        return CoordinateIntervals(released.coordinates, released)
    if released.mechanism is None:
        raise ValueError("a list without its mechanism or noisy coordinates has no intervals")
    return WalkIntervals(released, released.mechanism.distribution)


def model_intervals_of(released: ReleasedList, draws: int = 200) -> ModelIntervals:
    """Returns intervals of the decoder's model, from ``draws`` lists drawn from its posterior.
    These intervals are shorter than the proved ones; benchmarks/results/answers.md states how often
    they hold. Raises a ValueError if the list has no noisy coordinates."""
    if released.coordinates is None:
        raise ValueError("intervals of the model need noisy coordinates, and this list has none")
    bounds = getattr(released.mechanism, "bounds", None)
    arms = Posterior(released.coordinates, bounds).sample(draws)
    return ModelIntervals(
        released, [list_of_coordinates(*coordinates) for coordinates in zip(*arms, strict=True)]
    )


class CoordinateIntervals(ReleaseIntervals):
    """Computes proved intervals from the coordinates that ``FrobeniusMechanism`` drew and the list
    decoded from them, see the module. Values agree with the released list and with one another.
    Where frequencies are smooth, they err up to 18 times less than single noisy coordinates.

    >>> from dp_transforms.mechanisms.partition.frobenius import FrobeniusMechanism
    >>> released = FrobeniusMechanism(1).release(FrequencyList([500, 20, 1], [1, 10, 300]))
    >>> facts = intervals_of(released)
    >>> partitions = facts.number_of_partitions(confidence=1 - 1e-9)
    >>> partitions.low <= 311 <= partitions.high
    True
    """

    def __init__(self, coordinates: NoisyCoordinates, released: FrequencyList):
        self.released = released
        self._arms = {ROWS: coordinates.rows, COLUMNS: coordinates.columns}
        self._rate = coordinates.rate
        self._curves: dict[float, RateCurve] = {}

    def _ends(self, name: str, index: int, value: float, confidence: float) -> tuple[float, float]:
        if name in (ENTROPY, COLLISIONS):
            return curve_ends(name, self._rate_curve(confidence))
        failure = _failure(confidence)
        square = self._square(failure * _OF_SQUARE)
        failure *= 1 - _OF_SQUARE
        if name in (ROWS, COLUMNS):
            return self._line_bounds(name, index, square, failure)
        if name == SUM:
            return self._parts(index, square, failure)[0]
        if name == SHARE:
            return part_of_sum(*self._parts(index, square, failure / 2))
        if name == SMALL:
            return self._small_parts(index, square, failure)[0]
        if name == SMALL_SHARE:
            return part_of_sum(*self._small_parts(index, square, failure / 2))
        first, last = square
        sums = (self._sums[ROWS] + self._sums[COLUMNS])[first : last + 1]
        return self._bounds_of(sums, 2 * last, failure)

    def bands(self, confidence: float = CONFIDENCE) -> tuple[FrequencyList, FrequencyList]:
        failure = _failure(confidence)
        first, last = self._square(failure * _OF_SQUARE)
        index = np.arange(1, last + 1)
        levels = failure * (1 - _OF_SQUARE) / (2 * index * max((1 / index).sum(), 1))
        noise = _largest_noise(self._rate, levels)
        rows, columns = (arm[:last] for arm in self._arms.values())
        return closed((rows - noise, columns - noise), (rows + noise, columns + noise), first, last)

    def _rate_curve(self, confidence: float) -> RateCurve:
        # Several answers of one confidence share the same bounds.
        if confidence not in self._curves:
            self._curves[confidence] = self._new_rate_curve(confidence)
        return self._curves[confidence]

    def _new_rate_curve(self, confidence: float) -> RateCurve:
        failure = _failure(confidence)
        square = self._square(failure * _OF_SQUARE)
        _, count = self._line_bounds(COLUMNS, 1, square, failure * _OF_SQUARE)
        ranks = np.concatenate([[0], GRID[GRID < count], [max(count, 1)]])
        each = failure * (1 - 2 * _OF_SQUARE) / len(GRID)
        low, high = np.zeros(len(ranks)), np.zeros(len(ranks))
        for place, rank in enumerate(ranks[1:-1].tolist(), 1):
            low[place], high[place] = part_of_sum(*self._parts(rank, square, each / 2))
        return RateCurve(ranks, low, high)

    @cached_property
    def _sums(self) -> dict[str, IntArray]:
        """Returns sums of the first 0, 1, ... noisy coordinates of each arm, up to the largest
        possible D. The coordinate of the last row that was drawn is 0, and so is that of the last
        column if D - 1 columns are positive."""
        largest = max(0, min(len(self._arms[ROWS]) - 1, len(self._arms[COLUMNS])))
        return {name: np.append(0, arm[:largest].cumsum()) for name, arm in self._arms.items()}

    @cached_property
    def _refutations(self) -> tuple[FloatArray, FloatArray]:
        """Returns, for each D = 0, 1, ..., the logarithms of the two averages of the module: the
        evidence that the true D is larger, and that it is smaller."""
        count, rate = len(self._sums[ROWS]), self._rate
        longest = math.ceil((60 / rate**2) ** (1 / 3) + math.sqrt(20 / rate)) + 1
        lengths = [2**power for power in range(min(longest, _LONGEST_PATH).bit_length())]
        larger, less = np.full(count, -np.inf), np.full(count, -np.inf)
        heights = [0, *(math.ceil(part / rate) for part in _HEIGHTS)]
        for (name, arm), height in itertools.product(self._arms.items(), heights):
            for length, paths in zip(lengths, _paths(arm, lengths, height), strict=True):
                larger = np.logaddexp(larger, rate * paths[:count])
                if not height:
                    # Windows that end at D, or D - 1 for columns; where none fits, P is 0.
                    ended = np.zeros(count)
                    begin = length + int(name == COLUMNS)
                    ended[begin:] = -rate * paths[: max(count - begin, 0)]
                    less = np.logaddexp(less, ended)
        terms = math.log(2 * len(lengths))
        return larger - terms - math.log(len(heights)), less - terms

    def _square(self, failure: float) -> tuple[int, int]:
        """Returns the least and the largest D that are not refuted. If all are, it is the D with
        the least evidence against it."""
        larger, less = self._refutations
        limit = -math.log(failure * _ROUNDING / 2)
        kept = np.flatnonzero((larger < limit) & (less < limit))
        if not kept.size:
            kept = np.array([np.argmin(np.maximum(larger, less))])
        return int(kept[0]), int(kept[-1])

    def _line_bounds(
        self, name: str, index: int, square: tuple[int, int], failure: float
    ) -> tuple[int, int]:
        """Returns bounds on the length of a row or a column: f_i or c_t of the module. If the noise
        is so large that every value is refuted, its margin is doubled until some are left.

        Args:
          name, index: which row or column.
          square: bounds on D. If they hold, the result fails with at most the probability
            ``failure``.
          failure: see ``square``.
        """
        noise = int(_largest_noise(self._rate, failure))
        while not (lengths := self._line_lengths(name, index, square, noise)):
            noise = 2 * noise + 1
        return min(lengths), max(lengths)

    def _line_lengths(
        self, name: str, index: int, square: tuple[int, int], noise: int
    ) -> list[int]:
        """Returns lengths of a row or a column, with the least and the largest one that are
        possible if no coordinate has more noise than this."""
        first, last = square
        row = int(name == ROWS)
        ends = []
        if index <= last:  # D >= index is possible.
            noisy_length = int(self._arms[name][index - 1])
            low, high = max(noisy_length - noise, row), noisy_length + noise
            if low <= high:
                ends += [low + index - row, high + index - row]
        if index > first:  # D < index is possible.
            other = self._arms[COLUMNS if row else ROWS]
            count = min(last, index - 1) + 1
            answers = np.arange(count)
            noisy = np.append(other[:count], np.zeros(max(count - len(other), 0), np.int64))
            # Line s of the other arm reaches this one, and line s + 1 does not.
            reaches = noisy[:-1] + noise >= index - answers[1:] + 1 - row
            falls_short = noisy - noise <= np.maximum(index - 1 - answers - row, 0)
            ends += np.flatnonzero(np.append(True, reaches) & falls_short).tolist()
        return ends

    def _parts(
        self, rank: int, square: tuple[int, int], failure: float
    ) -> tuple[tuple[int, int], tuple[int, int]]:
        """Returns bounds on the sum of the frequencies at ranks up to ``rank``, and on the sum of
        those after it. Each fails with at most this probability, if D is within ``square``."""
        first, last = square
        rows, columns = self._sums[ROWS], self._sums[COLUMNS]
        # Possible values of both noisy sums, and how many noises they have at most.
        tops, rests = [], []
        noises_of_top = noises_of_rest = 0
        if last >= rank:  # D >= rank is possible.
            sides = np.arange(max(first, rank), last + 1)
            left = rank * (rank - 1) // 2
            tops.append(rows[[rank]] + left)
            rests.append(rows[sides] - rows[rank] + columns[sides] - left)
            noises_of_top, noises_of_rest = rank, 2 * last - rank
        if first < rank:  # D < rank is possible.
            most = min(last, rank - 1)
            low, high = self._line_bounds(ROWS, rank, square, failure * _OF_SQUARE)
            # The frequency at the rank, which is h - 1 in the module.
            frequencies = np.arange(min(low, most), min(high, most) + 1)
            rest = columns[frequencies] - frequencies * rank + frequencies * (frequencies + 1) // 2
            whole = (rows + columns)[first : most + 1]
            tops.append(np.array([whole.min() - rest.max(), whole.max() - rest.min()]))
            rests.append(rest)
            noises_of_top = max(noises_of_top, 2 * most - int(frequencies[0]))
            noises_of_rest = max(noises_of_rest, int(frequencies[-1]))
        failure *= 1 - _OF_SQUARE
        top = self._bounds_of(np.concatenate(tops), noises_of_top, failure)
        return top, self._bounds_of(np.concatenate(rests), noises_of_rest, failure)

    def _small_parts(
        self, limit: int, square: tuple[int, int], failure: float
    ) -> tuple[tuple[int, int], tuple[int, int]]:
        """Returns bounds on the sum of the frequencies below a limit, and on the sum of the others.
        Each fails with at most this probability, if D is within ``square``."""
        first, last = square
        rows, columns = self._sums[ROWS], self._sums[COLUMNS]
        small, rest = [], []
        each = failure * (1 - _OF_SQUARE)
        if last >= limit:  # D >= limit is possible.
            weight = limit - 1
            cut = weight * (int(columns[limit] - columns[weight]) + limit)
            below = int(columns[weight]) + limit * weight // 2 - cut
            noise = _one_weighted(self._rate, weight, weight, each)
            small += [below - noise, below + noise]
            whole = (rows + columns)[max(first, limit) : last + 1] - below
            noise = _one_weighted(self._rate, 2 * last - limit, limit, each)
            rest += [int(whole.min()) - noise, int(whole.max()) + noise]
        if first < limit:  # D < limit is possible.
            most = min(last, limit - 1)
            low, high = self._line_bounds(COLUMNS, limit, square, failure * _OF_SQUARE)
            ranks = np.arange(min(low, most), min(high, most) + 1)
            top = rows[ranks] + ranks * (ranks - 1) // 2
            whole = (rows + columns)[first : most + 1]
            noise = largest_sum(self._rate, 2 * most - int(ranks[0]), each)
            small += [
                int(whole.min() - top.max()) - noise,
                int(whole.max() - top.min()) + noise,
            ]
            noise = largest_sum(self._rate, int(ranks[-1]), each)
            rest += [int(top.min()) - noise, int(top.max()) + noise]
        return _not_negative(small), _not_negative(rest)

    def _bounds_of(self, sums: IntArray, count: int, failure: float) -> tuple[int, int]:
        """Bounds a sum. One of ``sums`` is this sum plus at most ``count`` noises."""
        noise = largest_sum(self._rate, count, failure)
        return max(int(sums.min()) - noise, 0), max(int(sums.max()) + noise, 0)


def _not_negative(ends: list[int]) -> tuple[int, int]:
    """Returns the least and the largest of some ends of intervals, moved to 0 if they are below."""
    return max(min(ends), 0), max(*ends, 0)


def _one_weighted(rate: float, count: int, weight: int, failure: float) -> int:
    """Returns a t with Pr[|S + weight n| > t] <= failure, for the sum S of ``count`` noises and one
    more noise n: the best of three bounds, which do not depend on the noise."""
    if not weight:
        return largest_sum(rate, count, failure)
    if weight == 1:
        return largest_sum(rate, count + 1, failure)
    weights = np.append(np.ones(count), weight)
    apart = (
        largest_sum(rate, count, (1 - part) * failure)
        + weight * largest_sum(rate, 1, part * failure)
        for part in (0.5, 0.9)
    )
    return min(math.ceil(sum_of_noises(rate, weights, failure * _ROUNDING / 2)), *apart)


def part_of_sum(part: tuple[float, float], rest: tuple[float, float]) -> tuple[float, float]:
    """Returns bounds on the share of a part in a sum, from bounds on the part and on the rest."""
    low = part[0] / (part[0] + rest[1]) if part[0] else 0.0
    high = part[1] / (part[1] + rest[0]) if part[1] else 0.0
    return low, high


def _failure(confidence: float) -> float:
    failure = failure_probability(confidence) - _NOT_DRAWN
    if failure <= 0:
        raise ValueError(f"confidence must be below 1 - 2**-35, got {confidence}")
    return failure


def _paths(arm: IntArray, lengths: list[int], height: int) -> list[FloatArray]:
    """Returns P of the module, for each length k, at all d = 0, 1, ... up to the number of
    coordinates that were drawn."""
    longest = lengths[-1]
    drawn = len(arm)
    paths: FloatArray = np.zeros(drawn + longest + 1)
    kept = []
    for step in range(1, longest + 1):
        gains = np.zeros(len(paths) - 1)
        gains[:drawn] = 2 * np.clip(arm, 0, step + height) - (step + height)
        # The path from d on is a first step, and then the path that is shorter by one from d + 1.
        paths = gains + paths[1:]
        if step in lengths:
            kept.append(paths[: drawn + 1])
    return kept


def _largest_noise(rate: float, failure: Any) -> Any:
    """Returns the smallest t with Pr[|n| > t] = 2 q**(t + 1) / (1 + q) <= failure, elementwise."""
    logarithms = np.log(failure * _ROUNDING * (1 + math.exp(-rate)) / 2)
    return np.maximum(np.ceil(-logarithms / rate).astype(np.int64) - 1, 0)


@lru_cache(maxsize=4096)
def largest_sum(rate: float, count: int, failure: float) -> int:
    """Returns a t with Pr[|S| > t] <= failure for the sum S of ``count`` independent noises.

    If the failure is at least 1e-6, it is the smallest such t. The distribution of S modulo M
    follows from the powers of the characteristic function (1 - q)**2 / (1 - 2 q cos x + q**2) at
    x = 2 pi k / M, and Pr[|S| > M / 2] is below 1e-18 by Chernoff's bound. All omissions together
    are below 1e-9. For smaller failures Chernoff's bound itself is taken.

    >>> largest_sum(1.0, 1, 0.05), largest_sum(1.0, 100, 0.05)
    (3, 27)
    """
    if not count:
        return 0
    if count == 1:
        return int(_largest_noise(rate, failure))

    def chernoff(failure: float) -> int:
        return math.ceil(sum_of_noises(rate, np.ones(1), failure / 2, count))

    if failure < 1e-6:
        return chernoff(failure)
    half = chernoff(1e-18)
    size = 2 * half + 1
    q = math.exp(-rate)
    # The series is cut off where the rest is small: each of its terms is below exp(-26) / k.
    widest = math.sqrt(
        min(1.0, math.expm1(min(26 / count, 700)) * (1 - q) ** 2 / (4 * q or 1e-300))
    )
    nodes = np.arange(1, min(half, math.ceil(size * math.asin(widest) / math.pi)) + 1)
    angles = math.pi * nodes / size
    sines = np.sin(angles)
    powers = np.exp(-count * np.log1p(4 * q / (1 - q) ** 2 * sines**2)) / sines

    def beyond(t: int) -> float:
        return 1 - float(2 * t + 1 + 2 * powers @ np.sin(angles * (2 * t + 1))) / size

    allowed = failure * _ROUNDING - 1e-9
    return bisect.bisect_left(range(half), True, key=lambda t: beyond(t) <= allowed)


def sum_of_noises(rate: float, weights: FloatArray, failure: float, count: int = 1) -> float:
    """Returns a t with Pr[S > t] <= failure. S is the sum of w n over weights w >= 0 and
    independent noises n, ``count`` of them for each weight. By Chernoff, t is the least value of
    (ln(1 / failure) + ln E[exp(u S)]) / u.

    E[exp(v n)] = (1 - q)**2 / ((1 - q exp(v)) (1 - q exp(-v))) for v < rate, q = exp(-rate).
    """
    largest = float(np.max(weights, initial=0))
    if not largest:
        return 0.0
    powers = np.linspace(0.005, 0.995, 199)[:, None] * rate / largest
    up, down = -np.expm1(powers * weights - rate), -np.expm1(-powers * weights - rate)
    moments = (2 * math.log(-math.expm1(-rate)) - np.log(up) - np.log(down)).sum(1)
    return float(((count * moments - math.log(failure)) / powers[:, 0]).min())
