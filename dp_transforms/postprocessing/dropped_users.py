"""Bounds the users of one partition in all records, by those of its records that were kept.

Bounding keeps kappa partitions of a user, by an order that is random, of this user alone, and
depends on a secret key. So a user with d partitions keeps a given one with probability
min(1, kappa / d), independently of other users. Let a partition have N users in all records, of
whom n keep it. Then n is a sum of N independent 0-1 variables, and

    P[n <= x] is largest if these users are the N with the most partitions of all,

since the probabilities of a sum of such variables fall, at each x, where one of theirs rises.

The released survey bounds how many users have how many partitions: with g_j users at most in cell j
or later, for all cells j together, the user of rank i has no more partitions than the last cell j
with g_j >= i reaches to. (The last cell has no end: its users are taken to keep nothing.) Let k =
min(N, H) of the N users be among the H who may have more than kappa partitions, and m the sum of
their k probabilities. The other N - k keep the partition. So n <= x takes that at most
x' = x - (N - k) of the k keep it, which for x' < m has probability at most

    exp(x' - m) (m / x')**x'                                                            (Chernoff).

``Bounds.most_users(x)`` is the largest N for which this exceeds the failure probability. It falls
with neither x nor the failure's inverse, and x <= most_users(x) <= x + H.

**Given that the partition is named.** If its probability of being named does not fall with n, then
P[n <= x | named] <= P[n <= x] (Chebyshev's inequality for two monotone functions of n). If counts
are of named partitions alone, a user with d partitions has at most d named ones, and keeps a given
one of them with probability min(1, kappa / d) at least; the order in which they are kept is
independent of what was named.

So where noise says n <= x with failure probability a, given n and that the partition is named, N <=
most_users(x) fails with probability a + b + c at most: b for the random order, c for the survey.
The bounds g_j hold for all cells together, so that kappa may have been chosen by the survey.
"""

from __future__ import annotations

import math

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray, IntArray
from dp_transforms.mechanisms.decimals import positive_integer
from dp_transforms.mechanisms.user_degrees import ReleasedDegrees
from dp_transforms.postprocessing.intervals import sum_of_noises

_ROUNDING = 1 - 1e-9
"""Noise and probabilities are taken to be wider by this: more than all rounding of floats."""


class DroppedUsers:
    """Bounds how many users of a partition bounding may have dropped, see the module.

    Args:
      degrees: a PUBLIC survey of how many users have how many partitions.
      kappa: the number of partitions that bounding kept of each user.
      failure: the probability, over the noise of the survey, that its bounds do not hold.

    Raises:
      ValueError: kappa is not a positive integer.

    >>> degrees = ReleasedDegrees((1, 2, 3, 4, 5), (900, 50, 40, 10, 0), epsilon=100.0)
    >>> bounds = DroppedUsers(degrees, kappa=2, failure=0.01)
    >>> bounds.most_users(np.array([0, 100]), failure=0.01).tolist()
    [9.0, 133.0]
    """

    def __init__(self, degrees: ReleasedDegrees, kappa: int, failure: float):
        kappa = positive_integer("kappa", kappa)
        rate, noisy = degrees.epsilon * _ROUNDING, np.array(degrees.users, float)
        each = failure * _ROUNDING / len(noisy)
        ends = [*(degree - 1 for degree in degrees.lowest[1:]), math.inf]
        # For each cell: at most so many users are in it or later ones, and keep a partition with
        # this probability at least if they are in it.
        users, probabilities, most = [], [], 0.0
        for cell in range(len(noisy) - 1, -1, -1):
            if ends[cell] <= kappa:
                break
            noise = sum_of_noises(rate, np.ones(len(noisy) - cell), each)
            most = max(most, noisy[cell:].sum() + math.floor(noise))
            users.append(most)
            probabilities.append(kappa / ends[cell])
        self._ends: FloatArray = np.array([0.0, *users])
        self._probabilities: FloatArray = np.array(probabilities)

    @property
    def most_dropping(self) -> float:
        """Returns an upper bound on the number of users with more than kappa partitions."""
        return float(self._ends[-1])

    def most_users(self, kept: IntArray, failure: float) -> FloatArray:
        """Returns upper bounds on the users of partitions in all records.

        Args:
          kept: how many of their users' records were kept, at most: non-negative, shape (n,).
          failure: the probability, over the random choice of what is kept, that a bound does not
            hold.
        """
        kept = np.asarray(kept, np.int64)
        distinct, place = np.unique(kept, return_inverse=True)
        if not self.most_dropping:
            return kept.astype(float)
        low = distinct.astype(float)
        high = low + self.most_dropping + 1
        limit = math.log(failure * _ROUNDING)
        while (high - low > 1).any():
            middle = np.floor((low + high) / 2)
            possible = self._log_probability(middle, distinct) > limit
            low, high = np.where(possible, middle, low), np.where(possible, high, middle)
        return low[place]

    def _log_probability(self, users: FloatArray, kept: IntArray) -> FloatArray:
        """Bounds log P[n <= kept] for partitions with so many users."""
        heavy = np.minimum(users, self.most_dropping)
        expected = np.diff(np.minimum(heavy[:, None], self._ends)) @ self._probabilities
        left = kept - (users - heavy)
        few = np.clip(left, 1e-9, None)
        expected = expected * _ROUNDING
        log = few - expected + few * np.log(np.maximum(expected, 1e-300) / few)
        log = np.where(left >= expected, 0.0, log)
        log = np.where((left == 0) & (expected > 0), -expected, log)
        return np.where(left < 0, -np.inf, log)
