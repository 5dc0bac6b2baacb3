"""Bounds the users of one partition in all records, by how many of its users' records were kept.

Bounding keeps kappa partitions of a user, by a random order that depends on a secret key and on
this user alone. So a user with d partitions keeps a given one with probability min(1, kappa / d),
independently of other users. Let a partition have N users in all records, and let n of them keep
it. Then n is a sum of N independent 0-1 variables, and

    P[n <= x] is largest if these users are the N with the most partitions of all,

since P[n <= x] falls, at each x, if the probability of one of these variables rises.

The released survey bounds how many users have how many partitions. Let there be at most g_j users
in cell j or later, for all cells j together. Then the user of rank i, from the most partitions on,
has no more partitions than the last degree of the last cell j with g_j >= i. (The last cell has no
end: its users are taken to keep nothing.) Let H be the bound on the users with more than kappa
partitions. Of the N users, let k = min(N, H) be among these, and let m be the sum of their k
probabilities. The other N - k users keep the partition. So n <= x happens only if at most x' = x -
(N - k) of the k users keep it. For x' < m this has a probability of at most

    exp(x' - m) (m / x')**x'                                                            (Chernoff).

``DroppedUsers.most_users(x)`` is the largest N for which this exceeds the failure probability. It
does not fall if x rises, or if the failure probability falls, and x <= most_users(x) <= x + H.

**Given that the partition is named.** If its probability of being named does not fall with n, then
P[n <= x | named] <= P[n <= x] (Chebyshev's inequality for two monotone functions of n). If counts
are of named partitions alone, a user with d partitions has at most d named ones, and keeps a given
one of them with a probability of at least min(1, kappa / d). The order in which they are kept is
independent of what was named.

Let the noise imply n <= x with failure probability a, given n and that the partition is named. Then
N <= most_users(x) fails with probability a + b + c at most: b for the random order, c for the
survey. The bounds g_j hold for all cells together, so that kappa may have been chosen by the
survey. They also hold for all rounds of the survey together, since c is divided by the number of
rounds: given that a round was the last one, its noise is not discrete Laplace.
"""

from __future__ import annotations

import math

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray, IntArray
from dp_transforms.mechanisms.decimals import positive_integer
from dp_transforms.mechanisms.user_degrees import ReleasedDegrees
from dp_transforms.postprocessing.intervals import sum_of_noises

_ROUNDING = 1 - 1e-9
"""Rates, failure probabilities and expected numbers are made smaller by this factor: by more than
all rounding of floats."""


class DroppedUsers:
    """Bounds how many users of a partition may have been dropped by bounding, see the module.

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
        each = failure * _ROUNDING / (len(noisy) * degrees.rounds)
        ends = [*(degree - 1 for degree in degrees.lowest[1:]), math.inf]
        # For each cell, from the last one on: the most users in it or later ones, and the least
        # probability with which a user in it keeps a partition.
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
        """Returns upper bounds on log P[n <= kept], for partitions with so many users."""
        heavy = np.minimum(users, self.most_dropping)
        expected = np.diff(np.minimum(heavy[:, None], self._ends)) @ self._probabilities
        left = kept - (users - heavy)
        few = np.clip(left, 1e-9, None)  # x' of the module
        expected = expected * _ROUNDING
        log = few - expected + few * np.log(np.maximum(expected, 1e-300) / few)
        log = np.where(left >= expected, 0.0, log)
        log = np.where((left == 0) & (expected > 0), -expected, log)
        return np.where(left < 0, -np.inf, log)
