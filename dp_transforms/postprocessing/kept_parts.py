"""Models which part of a partition's records bounding keeps, by how many users the partition has.

A user of d partitions keeps a part k(d) of them. So the part of a partition's records that is kept
depends on who its users are. In the model, a user of d partitions has a partition of intensity l
with probability 1 - exp(-h), independently, where

    h = l d**(1 - tilt (log l - centre)).

If l is small, the users of a partition are a random draw of pairs (user, partition). If nearly
everybody has the partition, they are a random draw of users: these have fewer partitions, and keep
a larger part. Beyond this effect, users of many partitions may have rarer ones (a positive tilt) or
share frequent ones (a negative tilt). The centre is chosen so that the pairs that are kept, of all
partitions together, are the right part of all pairs.
"""

from __future__ import annotations

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray

TILT = 0.05
"""How much rarer the partitions are that users of many partitions have; 0 if they are not. Without
noise, 0.05 to 0.1 was best on most of the sets that were tried, and about 0 on two."""
_INTENSITIES = 240
_STEPS = 25


class KeptParts:
    """Predicts which part of the records of partitions is kept, see the module.

    Args:
      users: how many users have these degrees; shape (n,).
      degrees: numbers of partitions, ascending; shape (n,).
      parts: the part of their partitions that these users keep (0 to 1); shape (n,).
      tilt: see the module.

    >>> users, degrees = np.array([900.0, 100.0]), np.array([1.0, 20.0])
    >>> kept = KeptParts(users, degrees, np.array([1, 0.1]), tilt=0)
    >>> kept.at(np.array([1, 10, 300, 900]), centre=0).round(2).tolist()
    [0.38, 0.39, 0.7, 0.9]
    """

    def __init__(self, users: FloatArray, degrees: FloatArray, parts: FloatArray, tilt: float):
        populated = users > 0
        self._users, self._parts = users[populated], np.asarray(parts, float)[populated]
        self._log_degrees = np.log(degrees[populated])
        self._tilt = tilt
        pairs = self._users * degrees[populated]
        self._pairs = max(float(pairs.sum()), 1e-300)
        # Log degrees are taken from their mean over pairs.
        self._lean = tilt * (self._log_degrees - self._log_degrees @ pairs / self._pairs)
        # From partitions of hardly any user to those that everybody has.
        self._log_intensities = np.linspace(-np.log(self._pairs) - 5, 8, _INTENSITIES)

    def at(self, means: FloatArray, centre: float) -> FloatArray:
        """Returns the parts that are kept of partitions with these mean numbers of users."""
        if not len(self._users):
            return np.ones(len(means))
        intensity = self._log_intensities[:, None]
        log = intensity + self._log_degrees - self._lean * (intensity - centre)
        has = -np.expm1(-np.exp(np.minimum(log, 50)))
        number = has @ self._users
        kept = has @ (self._users * self._parts) / np.maximum(number, 1e-300)
        logs = np.maximum.accumulate(np.log(np.maximum(number, 1e-300)))
        parts: FloatArray = np.interp(np.log(means), logs, kept)
        return np.clip(parts, 1e-9, 1.0)

    def centre(self, means: FloatArray, pairs: FloatArray, share: float) -> float:
        """Returns the centre of the model at which this share of all pairs is kept; 0 without a
        tilt.

        Args:
          means: mean numbers of users of partitions.
          pairs: how many pairs the partitions with each of these means have together.
          share: the part of all pairs that is kept.
        """
        if self._tilt == 0:
            return 0.0
        shares = pairs / pairs.sum()
        low, high = -60.0, 40.0
        for _ in range(_STEPS):
            middle = (low + high) / 2
            # With a higher centre fewer pairs are kept, or more if the tilt is negative.
            excess = shares @ self.at(means, middle) - share
            if excess * self._tilt > 0:
                low = middle
            else:
                high = middle
        return (low + high) / 2
