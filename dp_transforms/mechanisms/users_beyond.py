"""Releases how many users have more partitions than a bound keeps, under epsilon-DP.

Privacy. Neighbours: add or remove all records of one user. This user changes the number of users
with more than kappa partitions by at most 1, for each kappa, so the sensitivity is 1. Discrete
Laplace noise of scale 1 / epsilon makes the release epsilon-DP. Kappa must be public, or follow
from what was released before. QED.

A histogram of users by degree contains the same number, as a sum of cells. But each cell has noise
of its own, and a bound from the histogram must hold for all kappas that could have been chosen,
which makes it wider still.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

from dp_transforms.mechanisms.decimals import (
    Number,
    float_above,
    positive_integer,
    positive_rational,
)
from dp_transforms.mechanisms.discrete_noise import DiscreteLaplace
from dp_transforms.mechanisms.randomness import RandomTape
from dp_transforms.mechanisms.tape_contexts import USERS_BEYOND, context_of_numbers

_CHANNEL = "users beyond a bound"


@dataclass(frozen=True)
class UsersBeyond:
    """Holds a noisy number of users with more than kappa partitions.

    Attributes:
      users: the noisy number, which may be negative.
      epsilon: the cost of the release, rounded up; the noise has scale 1 / epsilon.
    """

    users: int
    epsilon: float

    def at_most(self, failure: float) -> int:
        """Returns a number that the true one exceeds with a probability of at most ``failure``.

        The true number is above users + m iff the noise is -k or less, where k = m + 1. For k >= 1
        this has probability q^k / (1 + q), where q = exp(-epsilon). It is at most ``failure`` from
        k = ln(1 / (failure (1 + q))) / epsilon on.

        >>> UsersBeyond(users=2, epsilon=0.1).at_most(0.01)
        41
        """
        q = math.exp(-self.epsilon)
        least = math.log(1 / (failure * (1 + q))) / self.epsilon
        # The factor exceeds all rounding of floats.
        margin = max(math.ceil(least * (1 + 1e-9)), 1) - 1
        return max(self.users + margin, 0)


@dataclass(frozen=True)
class UsersBeyondMechanism:
    """Releases how many users have more than kappa partitions.

    Args:
      epsilon: the privacy loss; a float stands for the decimal that it prints as.
      kappa: the bound; it may depend on records only through earlier releases.

    Raises:
      ValueError: an argument is out of range.

    >>> UsersBeyondMechanism(epsilon=100, kappa=2).release({1: 40, 3: 2, 9: 7})
    UsersBeyond(users=9, epsilon=100.0)
    """

    stable_name: ClassVar[str] = "UsersBeyondMechanism"

    epsilon: Number
    kappa: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive_rational("epsilon", self.epsilon))
        object.__setattr__(self, "kappa", positive_integer("kappa", self.kappa))
        # A scale out of range is refused here, and not at a release.
        _ = self.noise

    @cached_property
    def noise(self) -> DiscreteLaplace:
        """Returns the noise that is added to the number."""
        return DiscreteLaplace(1 / Fraction(self.epsilon))

    def count(self, users_by_degree: Mapping[int, int]) -> int:
        """Returns the PRIVATE number without noise."""
        return sum(users for degree, users in users_by_degree.items() if degree > self.kappa)

    def release(
        self, users_by_degree: Mapping[int, int], tape: RandomTape | None = None
    ) -> UsersBeyond:
        """Returns the private number plus noise.

        Args:
          users_by_degree: {degree: number of users}, private; empty is allowed.
          tape: by default a fresh tape from the operating system.

        Raises:
          ValueError: the tape is claimed.
        """
        claimed = (tape or RandomTape.from_os()).claim(_CHANNEL)
        (noise,) = self.noise.sample(claimed, _CHANNEL, 1).tolist()
        return UsersBeyond(self.count(users_by_degree) + noise, float_above(Fraction(self.epsilon)))

    def release_under(
        self,
        users_by_degree: Mapping[int, int],
        tape_of: Callable[[str], RandomTape],
    ) -> UsersBeyond:
        """Returns a release under a job's secret. A retry repeats it, while other data or another
        kappa give other noise.

        Args:
          users_by_degree: see ``release``.
          tape_of: returns the tape of a context, as ``JobSecret.tape`` does.
        """
        numbers = [self.count(users_by_degree)]
        context = context_of_numbers(USERS_BEYOND, numbers, self)
        return self.release(users_by_degree, tape_of(context))
