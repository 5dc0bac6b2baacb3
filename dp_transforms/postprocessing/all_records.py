"""Estimates the frequency list of all records from that of the records that bounding kept.

Bounding keeps kappa of a user's partitions, at random. A user of d partitions keeps each of them
with the probability min(1, kappa / d). So the bounded list is a thinned list of all records. The
survey of degrees (``degree_survey``) tells which part r of all pairs is kept.

Model. Partitions with the mean number of users m have a density w(m). Counts are Poisson: in all
records with the mean m, and in bounded records with the mean r(m) m. EM fits w, on a grid, to the
bounded list. The list of all records follows from w, with the partitions of which nothing was kept
(Efron and Thisted 1976; Good and Toulmin 1956).

The part r(m) rises with m. One reason is that users of few partitions, who keep a larger part, are
among the users of a partition that nearly everybody has. Another is that users of many partitions
have rarer ones (``kept_parts``).

Where the model does not fit the bounded list, the difference is kept: each count of the bounded
list is moved by as much as the model's lists differ at equal rank. So nothing moves where nothing
is dropped. What is added at all ranks together is no more than the dropped pairs, of which the part
r tells the number. If the model adds more, all additions shrink by one factor.
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

LEAST_MEAN = 0.3  # Partitions with a smaller mean number of users hardly ever have one.
SINGLE = 300  # Bounded counts up to this have a bin each.
BIN, SPACING = 0.04, 0.08
"""Relative widths of larger bins, and of the grid of means where counts are small."""
PASSES = 60, 60, 120
"""The iterations of EM in each pass. After each pass, r(m) is computed anew."""
VALUE_SPACING = 0.01  # Relative distance of values at which a model's list is computed.
NEARLY_ALL = 1 - 1e-6  # If this part of all pairs is kept, nothing is estimated.
_LARGE_MEAN = 2_000.0  # From this mean on, Poisson tails are taken for normal ones.
_MOST = MAX_VALUE // 4  # The largest total of an estimate.


def estimate_all_records(
    bounded: FrequencyList,
    kappa: int,
    survey: DegreeSurvey,
    tilt: float = TILT,
) -> FrequencyList:
    """Estimates the list of all records.

    Args:
      bounded: a PUBLIC list of records in which each user had at most kappa partitions.
      kappa: this bound.
      survey: the degrees of users in all records.
      tilt: how much rarer the partitions of users of many partitions are, see ``kept_parts``.

    Returns:
      A list with at least as many partitions as the bounded one, and at least as many users at each
      rank. If nothing was dropped, it is the bounded list itself.

    Raises:
      ValueError: kappa is not a positive integer.
    """
    kappa = positive_integer("kappa", kappa)
    kept = float(np.median(survey.kept_shares(kappa)))
    if kept >= NEARLY_ALL or not len(bounded):
        return FrequencyList(bounded.frequencies, bounded.multiplicities)
    model = ThinnedMixture(bounded, kappa, survey, kept, tilt)
    return _moved(bounded, model, bounded.total / kept)


class ThinnedMixture:
    """The model's density of partitions by their mean number of users, fitted to a bounded list.

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
        """Improves the weights by steps of EM. ``edges`` and ``numbers`` are the bins of bounded
        counts, and how many partitions each has."""
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
        """Returns the expected numbers of partitions with at least so many users, in the bounded
        records or in all records."""
        means = self.means * self.kept if bounded else self.means
        numbers: FloatArray = _tails(values, means) @ self.weights
        return numbers


def _moved(bounded: FrequencyList, model: ThinnedMixture, number_of_pairs: float) -> FrequencyList:
    """Returns the bounded list with its counts moved to all records: a count moves as the counts of
    the model's two lists do at the rank that it has in the model's bounded list. The total of the
    moved list is at most about ``number_of_pairs``, of all records."""
    highest = float(model.means[-1])
    top = int(min(highest * 1.3 + 10 * math.sqrt(highest) + 10, _MOST))
    values = _value_grid(top)
    before = np.log(np.maximum(model.at_least(values, bounded=True), 1e-12))
    after = np.log(np.maximum(model.at_least(values, bounded=False), 1e-12))
    # Both fall with the value. A small slope breaks ties, so that both can be inverted.
    slope = 1e-9 * np.arange(len(values))
    before, after = before - slope, after - slope

    def all_at_rank_of(users: FloatArray) -> FloatArray:
        """Returns counts in all records, at the ranks of these counts in bounded records."""
        rank = np.interp(users, values, before)
        moved: FloatArray = np.interp(-rank, -after, values)
        return np.maximum(moved, users)

    def kept_at_rank_of(users: FloatArray) -> FloatArray:
        """Returns counts in bounded records, at the ranks of these counts in all records."""
        rank = np.interp(users, values, after)
        moved: FloatArray = np.interp(-rank, -before, values)
        return np.minimum(moved, users)

    # Frequencies are computed down to the diagonal of the diagram, and numbers of partitions below
    # it. The side of its square is not known before, so it is doubled until it is large enough.
    side = 2 * FrobeniusCoordinates(bounded).square + 20
    while True:
        ranks = np.arange(1, side + 1)
        frequencies = all_at_rank_of(bounded.at_ranks(ranks).astype(float))
        # Nothing was kept of partitions after the last of the bounded list. They are in the numbers
        # of partitions below.
        frequencies[ranks > bounded.distinct] = 0
        users = np.arange(1, side + 1, dtype=float)
        kept = np.maximum(kept_at_rank_of(users), 1.0)
        # By how much the model misses the bounded list, as the logarithm of a factor.
        excess = _log_at_least(bounded, kept) - np.interp(kept, values, before)
        # Beyond the largest count of the bounded list, there is only the model.
        excess = np.where(kept <= float(bounded.frequencies[0]), excess, 0.0)
        log_number = np.interp(users, values, after) + excess
        numbers = np.exp(np.minimum(log_number, 41.0))
        square = int((np.maximum(frequencies, numbers) >= ranks).sum())
        if square < side or side > 4_000_000:
            break
        side *= 2
    estimate = _list_of(np.rint(frequencies), np.rint(numbers), bounded)
    added, dropped = estimate.total - bounded.total, number_of_pairs - bounded.total
    if added <= dropped:
        return estimate
    part = dropped / added
    kept_rows, kept_columns = bounded.at_ranks(ranks), bounded.at_least(ranks)
    frequencies = kept_rows + part * np.maximum(frequencies - kept_rows, 0)
    numbers = kept_columns + part * np.maximum(numbers - kept_columns, 0)
    return _list_of(np.rint(frequencies), np.rint(numbers), bounded)


def _list_of(frequencies: FloatArray, numbers: FloatArray, bounded: FrequencyList) -> FrequencyList:
    """Returns a list, raised where it would be below the bounded one.

    Args:
      frequencies: the users at ranks 1, 2, ..., which hold down to the diagonal of the diagram.
      numbers: the numbers of partitions with at least 1, 2, ... users, which hold below it.
      bounded: the bounded list.
    """
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
    """Returns the shares of degrees in all pairs. Degrees beyond kappa are scaled by one factor,
    such that a bound of kappa keeps exactly the part ``kept`` of all pairs."""
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
    """Returns a grid of means. Neighbours have nearly a fixed ratio, and are closer to each other
    than the standard deviation of the counts."""
    low = max(0.6 * share, 1e-4)
    top = max(largest / low * 1.1 + 5, 10.0)
    means = [LEAST_MEAN]
    while means[-1] < top:
        step = max(0.5 / math.sqrt(max(means[-1] * low, 1.0)), BIN / 2)
        means.append(means[-1] * (1 + min(SPACING, step)))
    return np.array(means)


def _binned(bounded: FrequencyList) -> tuple[FloatArray, FloatArray]:
    """Returns the edges of bins of bounded counts, of shape (2, bins), and the number of partitions
    in each bin. Empty bins are left out."""
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
    # pdtrc(k, m) is the probability that a Poisson number of mean m exceeds k.
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

    def log_at(integers: FloatArray) -> FloatArray:
        log: FloatArray = np.log(np.maximum(bounded.at_least(integers.astype(np.int64)), 0.5))
        return log

    low = np.floor(users)
    at_low, at_next = log_at(low), log_at(low + 1)
    log_number: FloatArray = at_low + (at_next - at_low) * (np.log(users) - np.log(low)) / np.log1p(
        1 / low
    )
    return log_number
