"""Proves intervals about all records, from a list of bounded records and the users' degrees.

Bounding keeps kappa partitions of each user. Let y_p be the number of users of partition p whose
record is kept, n_p the number in all records, d_u the number of partitions of user u (the degree),
and

    H = number of users with d_u > kappa          M = sum of max(d_u - kappa, 0) over all users,

so that M pairs (user, partition) are dropped, all of them of the H users. Let f_i be the i-th
largest frequency, c_t the number of partitions with at least t users, S_k the sum of the k largest
frequencies and N the total. They are followed by (y) for the list of bounded records, which was
released with noise, and by (n) for the list of all records.

1.  y_p <= n_p <= y_p + H. A user who has p and does not count in y_p is one of the H. QED.
2.  f_i(y) <= f_i(n) <= f_i(y) + H. The i-th largest entry does not fall if entries rise, and rises
    by H if all do. QED. For the same reason S_k(y) <= S_k(n) <= S_k(y) + min(M, k H): the k
    partitions on the right have at most M dropped pairs, and at most H each. QED.
3.  c_t(y) <= c_t(n), and c_t(n) <= c_(t-H)(y) if H < t, by 1.
4.  Let k = c_t(n). These k partitions have at least t users each, so at least max(t - y_p, 0) of
    the dropped pairs are of p. Any k partitions need at least what the k largest of y need, so

        max(t - f_1(y), 0) + ... + max(t - f_k(y), 0) <= M,       f_i(y) = 0 behind the last.

    The left side falls if f rises, so that it may be computed from a list above y. It grows with k,
    so the largest k that satisfies the inequality bounds c_t(n). It grows with t, too. Since f_i(n)
    >= t exactly if c_t(n) >= i, the largest t that satisfies it for k = i bounds f_i(n). QED.
5.  N(n) = N(y) + M. With s = S_k(y) / N(y), by 2 the share of the k largest is between

        s N / (N + M)  <=  S_k(n) / N(n)  <=  (s N + min(M, k H)) / (N + M),     N = N(y).

    The left side rises with s and N and falls with M. The right side rises with s and H. In M it
    rises up to k H and falls from there on, and in N it is monotone, as a quotient of two linear
    functions. So over intervals for s, N and M it is largest at an end for N, and for M at k H or
    at the end of M's interval that is nearest to k H. QED.

H and M are sums over users of a function of the degree that does not fall. In a cell of the
released histogram such a function is between its values at the cell's ends. So weighted sums of the
true cells bound H and M. The last cell has no end unless a largest degree is public. M is bounded
from below by the largest of four sums. Each counts the lost pairs of a user only up to a public
number: the smaller this number, the less noise. Each weighted sum of noise exceeds
``sum_of_noises`` with the stated probability at most (Chernoff).

Errors. An answer of confidence 1 - a fails with probability at most a. Half of a is for the
degrees:

* A sixth of a is for H from above, a sixth for M from below (a quarter of this for each of the four
  sums), and a sixth for M from above.
* If the number of users beyond kappa was released too, there are two bounds on H. Each gets half of
  H's sixth, and the smaller bound is taken.
* If kappa was chosen by the same noisy degrees, the parts are divided by the number of kappas that
  could have been chosen. These are the lower ends of cells, or the degrees before them. Then the
  bounds for all kappas hold together, whichever was chosen.
* For the same reason the parts are divided by the number of rounds that the survey may have had:
  the noise of each round is discrete Laplace, but given that the round was the last one it is not.
* The bound by the released number of users beyond kappa is not divided, since its noise is
  independent of the degrees.

The other half of a is for the list, in equal parts for the statements about y that an answer uses.
Which statements these are depends on the degrees, and so may kappa. The noise of the list, and of
the number of users beyond kappa, is independent of both. So each statement holds with its
probability given the degrees.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dp_transforms.mechanisms import noisy_coordinates
from dp_transforms.mechanisms.decimals import positive_integer
from dp_transforms.mechanisms.frequency_list import MAX_VALUE, FrequencyList
from dp_transforms.mechanisms.user_degrees import ReleasedDegrees
from dp_transforms.mechanisms.users_beyond import UsersBeyond
from dp_transforms.postprocessing import estimates
from dp_transforms.postprocessing.estimates import (
    CONFIDENCE,
    Estimate,
    RateCurve,
    ReleaseIntervals,
    clamped_estimate,
    failure_probability,
)
from dp_transforms.postprocessing.intervals import sum_of_noises

_OF_DEGREES = 1 / 2
_STATEMENTS_OF_DEGREES = 3
_MOST_LOST = (1, 4, 16, 10**6)
"""For each lower bound of M: the most lost pairs of a user that it counts, in units of kappa."""
_ROUNDING = 1 - 1e-9
"""Noise and shares are taken to be wider by this: more than all rounding of floats."""


@dataclass(frozen=True)
class Bounds:
    """An interval for a number of all records, such as the number of partitions.

    Attributes:
      low, high: the ends, which belong to the interval. ``high`` is infinite if only a public bound
        on degrees could limit the number, and there is none.
      confidence: the interval holds the number with at least this probability, over the noise of
        both releases, for every data set.
    """

    low: float
    high: float
    confidence: float

    def around(self, value: float) -> Estimate:
        """Returns an estimate with this interval. A value outside is moved to the nearest end."""
        return clamped_estimate(value, self.low, self.high, self.confidence)


@dataclass(frozen=True)
class DroppedRecords:
    """Bounds what bounding dropped; see the module.

    Attributes:
      most_users: an upper bound on H, the number of users with more than kappa partitions.
      fewest_pairs, most_pairs: bounds on M, the number of dropped pairs (user, partition).
        ``most_pairs`` is infinite if degrees have no public bound.
    """

    most_users: int
    fewest_pairs: int
    most_pairs: float


class AllRecordsBounds:
    """Answers questions about all records by proved intervals.

    The list and the degrees must be releases of the same records, with independent noise. The list
    must be of all partitions, with exactly min(degree, kappa) partitions of each user.

    Args:
      intervals: proved intervals of the released list, see ``intervals.intervals_of``.
      degrees: the released degrees.
      kappa: the number of partitions that bounding kept of each user.
      largest_degree: a public number of partitions that no user exceeds, declared without looking
        at the data; None if there is none.
      kappa_from_degrees: whether kappa was chosen by these degrees, as ``choose_kappa`` does.
      users_beyond: the number of users with more than kappa partitions, if it was released, with
        noise of its own.

    Raises:
      ValueError: kappa or largest_degree is not a positive integer, or kappa cannot have been
        chosen by these degrees, since no cell begins with it.

    >>> from dp_transforms.mechanisms import FrequencyList, FrobeniusMechanism
    >>> from dp_transforms.postprocessing.intervals import intervals_of
    >>> bounded = FrobeniusMechanism(100, 2).release(FrequencyList([500, 20, 1], [1, 10, 300]))
    >>> degrees = ReleasedDegrees((1, 2, 3, 4), (400, 150, 5, 5), epsilon=100.0)
    >>> bounds = AllRecordsBounds(intervals_of(bounded), degrees, kappa=2, largest_degree=9)
    >>> bounds.frequency_at(1), bounds.total()
    (Bounds(low=500, high=510, confidence=0.95), Bounds(low=1015, high=1040, confidence=0.95))
    """

    def __init__(
        self,
        intervals: ReleaseIntervals,
        degrees: ReleasedDegrees,
        kappa: int,
        *,
        largest_degree: int | None = None,
        kappa_from_degrees: bool = False,
        users_beyond: UsersBeyond | None = None,
    ):
        self._intervals = intervals
        self._degrees = degrees
        self._users_beyond = users_beyond
        self._kappa = positive_integer("kappa", kappa)
        if largest_degree is not None:
            largest_degree = positive_integer("largest_degree", largest_degree)
        self._largest_degree = largest_degree
        # Bounds that were asked for, by the probability that one of them fails.
        self._dropped_at: dict[float, DroppedRecords] = {}
        self._possibilities = degrees.rounds
        if kappa_from_degrees:
            if not {kappa, kappa + 1} & {*degrees.lowest, 2}:
                raise ValueError(
                    f"kappa = {kappa} was not chosen by these degrees: no cell begins with it, or "
                    "after it"
                )
            self._possibilities *= len(degrees.lowest)

    def dropped(self, confidence: float = CONFIDENCE) -> DroppedRecords:
        """Bounds what bounding dropped. All bounds hold together with the confidence."""
        failure = failure_probability(confidence)
        return self._dropped(failure / _STATEMENTS_OF_DEGREES)

    def number_of_partitions(self, confidence: float = CONFIDENCE) -> Bounds:
        """Bounds the number of partitions."""
        return self.partitions_with_at_least(1, confidence)

    def partitions_with_at_least(self, users: int, confidence: float = CONFIDENCE) -> Bounds:
        """Bounds the number of partitions with at least so many users, by 3 and 4 of the module."""
        users = positive_integer("users", users)
        dropped, failure = self._split(confidence)
        by_users = 0 < dropped.most_users < users
        by_pairs = dropped.most_users > 0 and users > 1 and math.isfinite(dropped.most_pairs)
        each = 1 - failure / (1 + int(by_users) + int(by_pairs))
        bounded = self._intervals.partitions_with_at_least(users, each)
        highest = math.inf
        if users == 1 or dropped.most_users == 0:
            # A partition without a record in the bounded list has a dropped pair at least.
            highest = bounded.high + dropped.most_pairs
        if by_users:
            fewer = users - dropped.most_users
            highest = min(highest, self._intervals.partitions_with_at_least(fewer, each).high)
        if by_pairs:
            above = self._intervals.bands(each)[1]
            highest = min(highest, _most_partitions(above, users, int(dropped.most_pairs)))
        return Bounds(bounded.low, max(bounded.low, highest), float(confidence))

    def frequency_at(self, rank: int, confidence: float = CONFIDENCE) -> Bounds:
        """Bounds the users of the partition of a rank, counted from 1, by 2 and 4 of the module."""
        rank = positive_integer("rank", rank)
        dropped, failure = self._split(confidence)
        by_pairs = dropped.most_users > 0 and math.isfinite(dropped.most_pairs)
        each = 1 - failure / (1 + int(by_pairs))
        bounded = self._intervals.frequency_at(rank, each)
        highest = bounded.high + dropped.most_users
        if by_pairs:
            above = self._intervals.bands(each)[1]
            highest = min(highest, _most_users(above, rank, int(dropped.most_pairs)))
        return Bounds(bounded.low, max(bounded.low, highest), float(confidence))

    def total(self, confidence: float = CONFIDENCE) -> Bounds:
        """Bounds the number of pairs (user, partition), by 5 of the module."""
        dropped, failure = self._split(confidence)
        bounded = self._intervals.total(1 - failure)
        low, high = bounded.low + dropped.fewest_pairs, bounded.high + dropped.most_pairs
        return Bounds(low, high, float(confidence))

    def share_of_top(self, partitions: int, confidence: float = CONFIDENCE) -> Bounds:
        """Bounds the share of the total (0 to 1) of the ``partitions`` largest frequencies, by 5 of
        the module. Raises a ValueError if the released list is empty."""
        partitions = positive_integer("partitions", partitions)
        dropped, failure = self._split(confidence)
        share = self._intervals.share_of_top(partitions, 1 - failure / 2)
        total = self._intervals.total(1 - failure / 2)
        if math.isinf(dropped.most_pairs):
            lowest = 0.0
        else:
            lowest = _quotient(share.low * total.low, total.low + dropped.most_pairs, empty=0)
        most_of_top = partitions * dropped.most_users
        pairs = min(max(most_of_top, dropped.fewest_pairs), dropped.most_pairs)
        highest = max(
            _quotient(share.high * users + min(pairs, most_of_top), users + pairs, empty=1)
            for users in (total.low, total.high)
        )
        # Ends are moved outwards by more than the rounding of floats.
        lowest, highest = lowest * _ROUNDING, min(highest / _ROUNDING, 1.0)
        return Bounds(lowest, max(lowest, highest), float(confidence))

    def sum_of_top(self, partitions: int, confidence: float = CONFIDENCE) -> Bounds:
        """Bounds the sum of the ``partitions`` largest frequencies. By 2 of the module, each of
        them is larger by at most H in all records, and all together by at most M."""
        partitions = positive_integer("partitions", partitions)
        dropped, failure = self._split(confidence)
        bounded = self._intervals.sum_of_top(partitions, 1 - failure)
        added = min(partitions * dropped.most_users, dropped.most_pairs)
        return Bounds(bounded.low, bounded.high + added, float(confidence))

    def bands(
        self, ranks: int, confidence: float = CONFIDENCE
    ) -> tuple[FrequencyList, FrequencyList]:
        """Returns two lists. At the first ranks together, they are below and above the list of all
        records, by 2 of the module. The upper one ends after these ranks."""
        dropped, failure = self._split(confidence)
        low, high = self._intervals.bands(1 - failure)
        if dropped.most_users == 0:
            return low, high
        # The upper list, with zeros behind its last partition, is raised at each rank.
        runs = [*high, (0, MAX_VALUE)]
        frequencies, multiplicities, left = [], [], ranks
        for frequency, multiplicity in runs:
            taken = min(multiplicity, left)
            if taken > 0:
                frequencies.append(frequency + dropped.most_users)
                multiplicities.append(taken)
                left -= taken
        return low, FrequencyList(frequencies, multiplicities)

    def _split(self, confidence: float) -> tuple[DroppedRecords, float]:
        """Returns bounds from the degrees, and the failure probability that is left for the
        list."""
        failure = failure_probability(confidence)
        each = _failure_of_each_sum(confidence)
        return self._dropped(each), failure * (1 - _OF_DEGREES)

    def _dropped(self, failure: float) -> DroppedRecords:
        """Bounds what was dropped. Each bound fails with at most this probability, whichever kappa
        and number of rounds the survey chose."""
        if failure not in self._dropped_at:
            self._dropped_at[failure] = self._bound_dropped(failure)
        return self._dropped_at[failure]

    def _bound_dropped(self, failure: float) -> DroppedRecords:
        """Computes the bounds of ``_dropped``."""
        of_cells = failure / self._possibilities
        kappa, declared = self._kappa, self._largest_degree
        if declared is not None and declared <= kappa:
            return DroppedRecords(0, 0, 0)
        # The smallest and the largest degree of each cell that may have users.
        lowest: list[int] = list(self._degrees.lowest)
        if declared is not None:
            lowest = [degree for degree in lowest if degree <= declared]
        ends: list[float] = [degree - 1 for degree in self._degrees.lowest[1 : len(lowest)]]
        ends.append(math.inf if declared is None else declared)
        beyond = [int(end > kappa) for end in ends]
        if self._users_beyond is None:
            most_users = self._sum(beyond, of_cells, 1)
        else:
            by_cells = self._sum(beyond, of_cells / 2, 1)
            most_users = min(by_cells, self._users_beyond.at_most(failure / 2))
        fewest_pairs = 0
        for most in _MOST_LOST:
            lost = [min(max(degree - kappa, 0), most * kappa) for degree in lowest]
            by_sum = self._sum(lost, of_cells / len(_MOST_LOST), -1)
            fewest_pairs = max(fewest_pairs, by_sum)
        most_pairs = math.inf
        if declared is not None:
            most_pairs = self._sum([max(int(end) - kappa, 0) for end in ends], of_cells, 1)
        if most_users == 0:
            return DroppedRecords(0, 0, 0)
        return DroppedRecords(most_users, fewest_pairs, max(most_pairs, fewest_pairs))

    def _sum(self, weights: list[int], failure: float, sign: int) -> int:
        """Bounds the sum of weights times the true numbers of users, from above (sign 1) or from
        below (sign -1), by the noisy numbers. The bound is at least 0."""
        noisy = zip(weights, self._degrees.users, strict=False)
        rate = self._degrees.epsilon * _ROUNDING
        noise = sum_of_noises(rate, np.array(weights, np.float64), failure * _ROUNDING)
        return max(sum(weight * users for weight, users in noisy) + sign * math.floor(noise), 0)


def margin_of_survey(
    lowest: Sequence[int], epsilon: float, kappa: int, choices: int, confidence: float = CONFIDENCE
) -> float:
    """Returns the margin, in users, of the number of users with more than kappa partitions in an
    interval about all records, if this number is known from a survey alone.

    Args:
      lowest: the smallest degree of each cell.
      epsilon: of the survey.
      kappa: the bound.
      choices: the number of values of kappa times the number of rounds that the survey may have
        chosen.
      confidence: of the interval.
    """
    # The sum begins with the cell of the degree kappa + 1.
    cells = len(lowest) + 1 - bisect.bisect_right(lowest, kappa + 1)
    failure = _failure_of_each_sum(confidence) / choices
    return sum_of_noises(epsilon, np.ones(cells), failure)


def margin_of_count(epsilon: float, confidence: float = CONFIDENCE) -> float:
    """Returns the margin of the same number if it is released alone, at this epsilon."""
    return float(UsersBeyond(0, epsilon).at_most(_failure_of_each_sum(confidence) / 2))


def _failure_of_each_sum(confidence: float) -> float:
    """Returns the failure probability of each statement about degrees in an answer."""
    return failure_probability(confidence) * _OF_DEGREES / _STATEMENTS_OF_DEGREES


class AllRecordsIntervals(ReleaseIntervals):
    """Answers about all records by estimates of a list, moved into proved intervals.

    Args:
      released: the estimated list of all records.
      bounds: the intervals.
    """

    def __init__(self, released: FrequencyList, bounds: AllRecordsBounds):
        self.released = released
        self._bounds = bounds

    def bands(self, confidence: float = CONFIDENCE) -> tuple[FrequencyList, FrequencyList]:
        """Returns two lists, below and above that of all records at the ranks of the estimate."""
        return self._bounds.bands(self.released.distinct, confidence)

    def _ends(self, name: str, index: int, value: float, confidence: float) -> tuple[float, float]:
        match name:
            case estimates.TOTAL:
                bounds = self._bounds.total(confidence)
            case estimates.SUM:
                bounds = self._bounds.sum_of_top(index, confidence)
            case estimates.SHARE:
                bounds = self._bounds.share_of_top(index, confidence)
            case noisy_coordinates.ROWS:
                bounds = self._bounds.frequency_at(index, confidence)
            case estimates.ENTROPY | estimates.COLLISIONS | estimates.SMALL | estimates.SMALL_SHARE:
                raise _of_bounded_lists()
            case _:
                bounds = self._bounds.partitions_with_at_least(index, confidence)
        return bounds.low, bounds.high

    def _rate_curve(self, confidence: float) -> RateCurve:
        raise _of_bounded_lists()


def _of_bounded_lists() -> ValueError:
    return ValueError(
        "guessing metrics, entropies and small partitions are for lists of which nothing was "
        "dropped: ask the bounded list"
    )


def _most_partitions(above: FrequencyList, users: int, pairs: int) -> int:
    """Returns the most partitions that can have so many users, if some pairs are added to a list
    that is at most ``above``: the largest k of 4 in the module."""
    reached = 0
    for frequency, multiplicity in above:
        needed = max(users - frequency, 0)
        lifted = multiplicity if needed == 0 else min(multiplicity, pairs // needed)
        reached += lifted
        pairs -= lifted * needed
        if lifted < multiplicity:
            return reached
    return reached + pairs // users


def _most_users(above: FrequencyList, rank: int, pairs: int) -> int:
    """Returns the most users at a rank, if some pairs are added to a list that is at most
    ``above``: the largest t of 4 in the module."""
    rank = min(rank, MAX_VALUE)

    def is_too_high(users: int) -> bool:
        left, needed = rank, 0
        for frequency, multiplicity in above:
            taken = min(left, multiplicity)
            needed += taken * max(users - frequency, 0)
            left -= taken
        return needed + left * users > pairs

    # No list holds a larger number than MAX_VALUE.
    highest = min(int(above.frequencies.max(initial=0)) + pairs, MAX_VALUE - 1)
    return bisect.bisect_left(range(highest + 1), True, key=lambda users: is_too_high(users + 1))


def _quotient(part: float, whole: float, *, empty: float) -> float:
    return part / whole if whole else empty
