"""Estimates the frequency list of all records from that of the records that bounding kept.

Bounding keeps kappa of a user's partitions, at random. So each of a partition's n users keeps it
with the probability min(1, kappa / d), for a user of d partitions: the bounded list is a thinned
one. The survey of degrees (``degree_survey``) tells what part r of all pairs is kept.

Model. The number of partitions whose expected number of users is m is a density w(m), and counts
are Poisson: of all records with mean m, of bounded ones with mean r(m) m. EM fits w, on a grid, to
the bounded list; so that the list of all records, with partitions of which nothing was kept,
follows (Efron and Thisted 1976; Good and Toulmin 1956).

The part r(m) rises with m: partitions that nearly everybody has are not mostly those of users of
many things, and users of many things have rarer things beyond that (``kept_parts``).

What the model does not explain of the bounded list is kept: counts are moved from the bounded list
to that of all records at equal rank under the model, so that where nothing is dropped nothing
moves.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln, ndtr, pdtrc

from dp_transforms.mechanisms.arrays import FloatArray
from dp_transforms.mechanisms.decimals import positive_integer
from dp_transforms.mechanisms.frequency_list import MAX_VALUE, FrequencyList
from dp_transforms.mechanisms.noisy_coordinates import FrobeniusCoordinates
from dp_transforms.postprocessing.degree_survey import DegreeSurvey
from dp_transforms.postprocessing.kept_parts import TILT, KeptParts

LEAST_MEAN = 0.3  # Partitions with fewer expected users are hardly ever there.
SINGLE = 300  # Bounded counts up to this have a bin each.
BIN, SPACING = 0.04, 0.08
"""Relative widths of larger bins, and of the grid of means where counts are small."""
PASSES = 60, 60, 120
"""Iterations of EM, after each of which r(m) is computed anew."""
VALUE_SPACING = 0.01  # Relative distance of values at which a model's list is computed.
NEARLY_ALL = 1 - 1e-6
_LARGE_MEAN = 2_000.0  # Poisson tails are normal ones from here on.
_MOST = MAX_VALUE // 4  # The largest total of an estimate.


def estimate_all_records(
    bounded: FrequencyList,
    kappa: int,
    survey: DegreeSurvey,
    tilt: float = TILT,
) -> FrequencyList:
    """Estimates the list of all records.

    Args:
      bounded: a PUBLIC list, released about records of which each user had kappa partitions.
      kappa: this bound.
      survey: the degrees of users in all records.
      tilt: how much rarer the things are that users of many things have, see ``kept_parts``.

    Returns:
      A list with at least as many partitions, and as many users at each rank, as the bounded one;
      the bounded one itself if nothing was dropped.

    Raises:
      ValueError: kappa is not a positive integer.
    """
    kappa = positive_integer("kappa", kappa)
    kept = float(np.median(survey.kept_shares(kappa)))
    if kept >= NEARLY_ALL or not len(bounded):
        return FrequencyList(bounded.frequencies, bounded.multiplicities)
    model = ThinnedMixture(bounded, kappa, survey, kept, tilt)
    return _moved(bounded, model)


class ThinnedMixture:
    """Partitions by their mean number of users, fitted to a bounded list.

    Attributes:
      means: the grid of means of all records.
      kept: the part of the pairs of partitions with these means that was kept.
      weights: the number of partitions with these means.
    """

    def __init__(
        self, bounded: FrequencyList, kappa: int, survey: DegreeSurvey, share: float, tilt: float
    ):
        degrees = survey.degrees
        pairs = _with_kept_share(survey.pair_shares, degrees, kappa, share)
        users = pairs * float(bounded.total) / share / degrees
        self._parts = KeptParts(users, degrees, np.minimum(1, kappa / degrees), tilt)
        largest = float(bounded.frequencies[0])
        self.means = _grid_of_means(largest, share)
        edges, numbers = _binned(bounded)
        self.kept = np.full(len(self.means), share)
        start = float(numbers.sum())
        self.weights = np.full(len(self.means), start / len(self.means))
        for iterations in PASSES:
            self._fit(edges, numbers, iterations)
            centre = self._parts.centre(self.means, self.weights * self.means, share)
            self.kept = self._parts.at(self.means, centre)

    def _fit(self, edges: FloatArray, numbers: FloatArray, iterations: int) -> None:
        """Takes steps of EM, given the numbers of partitions in bins of bounded counts."""
        thinned = self.kept * self.means
        likelihood = _bin_probabilities(edges, thinned)
        seen = np.maximum(-np.expm1(-thinned), 1e-12)
        weights = self.weights
        for _ in range(iterations):
            expected = likelihood @ weights
            weights = weights * ((numbers / (expected + 1e-300)) @ likelihood) / seen
            weights = np.maximum(weights, 1e-12)
        self.weights = weights

    def at_least(self, values: FloatArray, bounded: bool) -> FloatArray:
        """Returns the expected numbers of partitions with at least so many users."""
        means = self.means * self.kept if bounded else self.means
        numbers: FloatArray = _tails(values, means) @ self.weights
        return numbers


def _moved(bounded: FrequencyList, model: ThinnedMixture) -> FrequencyList:
    """Moves the counts of the bounded list to those of all records at equal ranks of the model."""
    highest = float(model.means[-1])
    top = int(min(highest * 1.3 + 10 * math.sqrt(highest) + 10, _MOST))
    values = _value_grid(top)
    before = np.log(np.maximum(model.at_least(values, bounded=True), 1e-12))
    after = np.log(np.maximum(model.at_least(values, bounded=False), 1e-12))
    # Both fall; ties at the floor are broken so that they can be inverted.
    slope = 1e-9 * np.arange(len(values))
    before, after = before - slope, after - slope

    def all_at_rank_of(users: FloatArray) -> FloatArray:
        rank = np.interp(users, values, before)
        moved: FloatArray = np.interp(-rank, -after, values)
        return np.maximum(moved, users)

    def kept_at_rank_of(users: FloatArray) -> FloatArray:
        rank = np.interp(users, values, after)
        moved: FloatArray = np.interp(-rank, -before, values)
        return np.minimum(moved, users)

    side = 2 * FrobeniusCoordinates(bounded).square + 20
    while True:
        ranks = np.arange(1, side + 1)
        frequencies = all_at_rank_of(bounded.at_ranks(ranks).astype(float))
        # Behind the last of the bounded list there are partitions of which nothing was kept.
        frequencies[ranks > bounded.distinct] = 0
        users = np.arange(1, side + 1, dtype=float)
        kept = np.maximum(kept_at_rank_of(users), 1.0)
        excess = _log_at_least(bounded, kept) - np.interp(kept, values, before)
        # Beyond the largest count of the bounded list, only the model knows anything.
        excess = np.where(kept <= float(bounded.frequencies[0]), excess, 0.0)
        log_number = np.interp(users, values, after) + excess
        numbers = np.exp(np.minimum(log_number, 41.0))
        square = int((np.maximum(frequencies, numbers) >= ranks).sum())
        if square < side or side > 4_000_000:
            break
        side *= 2
    return _list_of(np.rint(frequencies), np.rint(numbers), bounded)


def _list_of(frequencies: FloatArray, numbers: FloatArray, bounded: FrequencyList) -> FrequencyList:
    """Returns the list that has these frequencies at ranks 1, 2, ..., down to the diagonal, and
    these numbers of partitions with at least 1, 2, ... users, below it; no less than the bounded
    one."""
    side = len(frequencies)
    index = np.arange(1, side + 1)
    rows = np.maximum.accumulate(np.minimum(frequencies, float(_MOST))[::-1])[::-1]
    columns = np.maximum.accumulate(np.minimum(numbers, float(_MOST))[::-1])[::-1]
    rows, columns = rows.astype(np.int64), columns.astype(np.int64)
    columns = np.maximum(columns, bounded.at_least(index))
    rows = np.maximum(rows, bounded.at_ranks(index))
    below = np.searchsorted(-columns, -index, side="right")
    rows = np.maximum(rows, np.minimum(below, side))
    square = int((rows >= index).sum())
    rows = rows[:square]
    columns = np.maximum(columns[:square], square)
    steps = -np.diff(np.append(columns, square))
    return FrequencyList.from_runs(
        np.append(rows, index[:square][::-1]),
        np.append(np.ones(square, np.int64), steps[::-1]),
    )


def _with_kept_share(
    shares: FloatArray, degrees: FloatArray, kappa: int, kept: float
) -> FloatArray:
    """Returns shares of degrees in all pairs, with those beyond kappa scaled so that a bound of
    kappa keeps this part."""
    beyond = degrees > kappa
    within, dropped = shares[~beyond].sum(), shares[beyond].sum()
    partly = shares[beyond] @ (kappa / degrees[beyond])
    divisor = kept * dropped - partly
    if not beyond.any() or dropped <= 0 or divisor <= 0 or within <= 0:
        unchanged: FloatArray = shares / shares.sum()
        return unchanged
    scaled = np.where(beyond, shares * within * (1 - kept) / divisor, shares)
    normalised: FloatArray = scaled / scaled.sum()
    return normalised


def _grid_of_means(largest: float, share: float) -> FloatArray:
    """Returns means: a geometric sequence, denser than the deviation of the counts."""
    low = max(0.6 * share, 1e-4)
    top = max(largest / low * 1.1 + 5, 10.0)
    means = [LEAST_MEAN]
    while means[-1] < top:
        step = max(0.5 / math.sqrt(max(means[-1] * low, 1.0)), BIN / 2)
        means.append(means[-1] * (1 + min(SPACING, step)))
    return np.array(means)


def _binned(bounded: FrequencyList) -> tuple[FloatArray, FloatArray]:
    """Returns edges of bins of bounded counts, and the number of partitions in each bin."""
    largest = float(bounded.frequencies[0])
    edges = np.arange(1.0, min(largest, SINGLE) + 2)
    if largest > SINGLE:
        count = math.ceil(math.log((largest + 1) / edges[-1]) / BIN) + 1
        far = np.ceil(np.geomspace(edges[-1], (largest + 1) * (1 + BIN), count + 1))
        edges = np.unique(np.append(edges, far))
    place = np.searchsorted(edges, bounded.frequencies, side="right") - 1
    numbers = np.bincount(place, bounded.multiplicities.astype(float), len(edges) - 1)
    used = numbers > 0
    return np.stack([edges[:-1][used], edges[1:][used]]), numbers[used].astype(float)


def _bin_probabilities(edges: FloatArray, means: FloatArray) -> FloatArray:
    """Returns Pr[edges[0] <= a Poisson number < edges[1]]: bins x means."""
    low, high = edges
    single = high - low < 1.5
    probabilities = np.empty((len(low), len(means)))
    value = low[single][:, None]
    probabilities[single] = np.exp(value * np.log(means) - means - gammaln(value + 1.0))
    if not single.all():
        probabilities[~single] = _tails(low[~single], means) - _tails(high[~single], means)
    return np.maximum(probabilities, 0.0)


def _tails(values: FloatArray, means: FloatArray) -> FloatArray:
    """Returns Pr[a Poisson number >= value]: values x means."""
    deviation = np.sqrt(means)
    off = (values[:, None] - 0.5 - means) / deviation
    tails: FloatArray = ndtr(-off)
    near = (np.abs(off) < 9) & (means < _LARGE_MEAN)
    # pdtrc(k, m) is the probability of more than k.
    rows, columns = np.nonzero(near)
    tails[rows, columns] = pdtrc(values[rows] - 1, means[columns])
    return tails


def _value_grid(top: int) -> FloatArray:
    """Returns integers from 1 up to ``top`` at least: all of them, then a geometric sequence."""
    single = np.arange(1, min(top, SINGLE) + 1)
    end = max(top, SINGLE + 1)
    count = max(2, round(math.log(end / SINGLE) / VALUE_SPACING))
    far = np.rint(np.geomspace(SINGLE, end, count))
    return np.unique(np.append(single, far)).astype(float)


def _log_at_least(bounded: FrequencyList, users: FloatArray) -> FloatArray:
    """Returns the logarithm of the number of partitions with at least so many users, interpolated
    between integers."""
    low = np.floor(users)
    here, behind = (
        np.log(np.maximum(bounded.at_least(x.astype(np.int64)), 0.5)) for x in (low, low + 1)
    )
    log_number: FloatArray = here + (behind - here) * (np.log(users) - np.log(low)) / np.log1p(
        1 / low
    )
    return log_number
