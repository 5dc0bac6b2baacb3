"""Computes how identifying the values of a frequency list are, and bounds entropies.

Partition i of a list of N users has probability p_i = f_i / N. For an attribute of browsers, such
as their fonts, the Shannon entropy is the mean number of bits that the attribute's value reveals
about which user it is (Eckersley, "How unique is your web browser?", PETS 2010). The entropy is at
most log2 N, if all users are unique. Divided by this, data of different sizes can be compared
(Laperdrix, Rudametkin and Baudry, "Beauty and the beast", IEEE S&P 2016). The collision probability
is the probability that two random users have the same value. The Tsallis entropy of order 2 is one
minus the collision probability.

Bounds. Let lambda(x) be the share of the x largest partitions, linear between integers. It rises
from 0 to 1, is concave, and has the slopes p_1 >= p_2 >= ... So the sum of phi(p_i) is the integral
of phi(lambda'(x)), written Phi(lambda). Here phi is concave, with phi(0) = 0.

Theorem (Hardy, Littlewood and Polya, 1929). If lambda <= mu are both concave and rise from 0 to 1,
then Phi(lambda) >= Phi(mu). Proof. phi lies below its tangents, so that phi(mu') <= phi(lambda') +
w (mu' - lambda') with w(x) = phi'(lambda'(x)). Integrate up to where lambda, and with it mu, is 1:
by parts the integral of w (mu' - lambda') is minus that of (mu - lambda) dw, since mu - lambda is 0
at both ends. It is not positive, because lambda' falls, so that w rises. QED.

``RateCurve`` has bounds u and l on lambda that hold together. The least concave function U above u
is above lambda. The least concave function L above l is below lambda, because lambda is concave and
above l. Hence

    Phi(U) <= Phi(lambda) <= Phi(L).

With phi(p) = -p log2 p this bounds the Shannon entropy, and with phi(p) = -p**2 the collision
probability. If slopes need not be integers over N, there are lists at both ends. So from the bounds
on lambda alone, nothing narrower can be said about all lists.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray
from dp_transforms.mechanisms.decimals import positive_integer
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.postprocessing.guessing_metrics import rank_sums

Points = tuple[FloatArray, FloatArray]
"""Ranks and shares at the corners of a function that is linear between them."""
_ROUNDING = 1e-9
"""Ends of bounds are moved outwards by this part of them, and by this much: more than the rounding
of floats."""


def shannon_entropy(frequency_list: FrequencyList) -> float:
    """Returns the Shannon entropy, in bits. Raises a ValueError for an empty list.

    >>> shannon_entropy(FrequencyList([4], [16]))  # uniform over 16 values
    4.0
    """
    total = rank_sums(frequency_list).total
    weighted = math.fsum(
        multiplicity * frequency * math.log2(frequency)
        for frequency, multiplicity in frequency_list
    )
    return max(math.log2(total) - weighted / total, 0.0)


def normalized_entropy(frequency_list: FrequencyList) -> float:
    """Returns the Shannon entropy divided by the logarithm of the number of users. It is 1 if all
    users are unique, and 0 if all share one value or there is one user. Raises a ValueError for an
    empty list.

    >>> normalized_entropy(FrequencyList([4], [16]))
    0.6666666666666666
    """
    total = rank_sums(frequency_list).total
    return shannon_entropy(frequency_list) / math.log2(total) if total > 1 else 0.0


def collision_probability(frequency_list: FrequencyList) -> float:
    """Returns the probability that two users, drawn with replacement, have the same value. Raises a
    ValueError for an empty list.

    >>> collision_probability(FrequencyList([4], [16]))
    0.0625
    """
    total = rank_sums(frequency_list).total
    squares = sum(multiplicity * frequency**2 for frequency, multiplicity in frequency_list)
    return float(Fraction(squares, total**2))


def tsallis_entropy(frequency_list: FrequencyList) -> float:
    """Returns the Tsallis entropy of order 2: one minus ``collision_probability``.

    >>> tsallis_entropy(FrequencyList([4], [16]))
    0.9375
    """
    return 1 - collision_probability(frequency_list)


def users_in_small_partitions(frequency_list: FrequencyList, fewer_than: int) -> int:
    """Counts the users whose partition has fewer users than this. With 2, these are the unique
    users.

    >>> users_in_small_partitions(FrequencyList([5, 2, 1], [1, 1, 3]), fewer_than=3)
    5
    """
    limit = positive_integer("fewer_than", fewer_than)
    return sum(
        frequency * multiplicity for frequency, multiplicity in frequency_list if frequency < limit
    )


def entropy_bounds(below: Points, above: Points) -> tuple[float, float]:
    """Returns bounds on the Shannon entropy, in bits, given functions that bound lambda, the share
    of the largest partitions, from below and from above."""
    low, high = (_integral(_bits, _least_concave(*points)) for points in (above, below))
    return _outwards(low, high)


def collision_bounds(below: Points, above: Points) -> tuple[float, float]:
    """Returns bounds on the collision probability, given functions as in ``entropy_bounds``."""
    low, high = (_integral(np.square, _least_concave(*points)) for points in (below, above))
    low, high = _outwards(low, high)
    return low, min(high, 1.0)


def _bits(slopes: FloatArray) -> FloatArray:
    positive = np.where(slopes > 0, slopes, 1.0)
    bits: FloatArray = -positive * np.log2(positive)
    return bits


def _integral(phi: Callable[[FloatArray], FloatArray], points: Points) -> float:
    ranks, shares = points
    widths = np.diff(ranks)
    slopes = np.maximum(np.diff(shares) / widths, 0)
    return math.fsum((widths * phi(slopes)).tolist())


def _outwards(low: float, high: float) -> tuple[float, float]:
    return max(low * (1 - _ROUNDING) - _ROUNDING, 0.0), high * (1 + _ROUNDING) + _ROUNDING


def _least_concave(ranks: FloatArray, shares: FloatArray) -> Points:
    """Returns the corners of the least concave function above some points, which are in the order
    of ranks. The first point is a corner. If several points have the same rank, only the highest of
    them can be a corner."""
    corners: list[tuple[float, float]] = []
    for x, y in zip(ranks.tolist(), shares.tolist(), strict=True):
        if corners and x <= corners[-1][0]:
            if y <= corners[-1][1]:
                continue
            corners.pop()
        while len(corners) > 1:
            (before, low), (middle, high) = corners[-2:]
            if (high - low) * (x - before) > (y - low) * (middle - before):
                break
            corners.pop()
        corners.append((x, y))
    kept = np.array(corners)
    return kept[:, 0], kept[:, 1]
