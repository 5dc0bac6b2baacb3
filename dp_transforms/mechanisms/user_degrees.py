"""Releases how many users have how many partitions: a small release from which to choose kappa.

A user's degree is the user's number of distinct partitions, or ``max_degree`` if that is less. The
histogram counts the users in each cell. A cell is a public range of degrees: there is one for each
degree from 1 to 6, and three for each doubling from there.

Privacy. Neighbours: add or remove all records of one user. Each user is in exactly one cell, so one
entry of the histogram changes, by one: its L1 sensitivity is 1, whatever the degrees are. Discrete
Laplace noise of scale 1 / epsilon on every cell, empty ones too, makes the release epsilon-DP, with
delta = 0 (Ghosh, Roughgarden, Sundararajan 2009; Dwork et al. 2006 for the histogram). Later
releases about the same users add to its cost.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
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
from dp_transforms.mechanisms.tape_contexts import USER_DEGREES, context_of_numbers

MAX_DEGREE = 1_000  # the largest degree with a cell, by default

_CHANNEL = "user degrees"
_LARGEST_DEGREE = 10**6  # A selection takes no larger kappa, and choosing one looks at each degree.


@dataclass(frozen=True)
class ReleasedDegrees:
    """Holds a public histogram of degrees.

    Attributes:
      lowest: the smallest degree of each cell, ascending from 1; the last cell has no end.
      users: noisy numbers of users, which may be negative.
      epsilon: the cost of the release.
      rounds: the number of rounds of which the release may have been the last one, see
        ``gradual_survey``. Given that a round was the last one, its noise is not discrete Laplace.
        So a statement about the noise must hold for all of these rounds together.

    Raises:
      ValueError: the degrees do not ascend from 1, there are not as many numbers of users, or
        rounds is not a positive integer.
    """

    lowest: tuple[int, ...]
    users: tuple[int, ...]
    epsilon: float
    rounds: int = field(default=1, repr=False)

    def __post_init__(self) -> None:
        positive_integer("rounds", self.rounds)
        ascending = sorted({1, *self.lowest})
        if list(self.lowest) != ascending or len(self.users) != len(ascending):
            raise ValueError("lowest must ascend from 1, and users must have as many entries")


@dataclass(frozen=True)
class UserDegreeMechanism:
    """Releases how many users have how many partitions, under epsilon-DP.

    Args:
      epsilon: the privacy loss; a float stands for the decimal that it prints as.
      max_degree: larger degrees count as this one. Public: choose it without looking at the data.

    Raises:
      ValueError: an argument is out of range.

    >>> mechanism = UserDegreeMechanism(epsilon=100, max_degree=9)
    >>> mechanism.release({1: 40, 3: 2, 9: 7})
    ReleasedDegrees(lowest=(1, 2, 3, 4, 5, 6, 8, 9), users=(40, 0, 2, 0, 0, 0, 0, 7), epsilon=100.0)
    """

    stable_name: ClassVar[str] = "UserDegreeMechanism"

    epsilon: Number
    max_degree: int = MAX_DEGREE

    def __post_init__(self) -> None:
        epsilon = positive_rational("epsilon", self.epsilon)
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "max_degree", checked_max_degree(self.max_degree))
        # A scale out of range is refused here, and not at a release.
        _ = self.noise

    @property
    def epsilon_cost(self) -> float:
        """Returns epsilon, rounded up unless it is a decimal that a float prints."""
        return float_above(Fraction(self.epsilon))

    @cached_property
    def noise(self) -> DiscreteLaplace:
        """Returns the noise that is added to each cell."""
        return DiscreteLaplace(1 / Fraction(self.epsilon))

    @property
    def lowest(self) -> tuple[int, ...]:
        """Returns the smallest degree of each cell."""
        return cell_bounds(self.max_degree)

    def release(
        self, users_by_degree: Mapping[int, int], tape: RandomTape | None = None
    ) -> ReleasedDegrees:
        """Returns the private histogram plus noise.

        Args:
          users_by_degree: {degree: number of users}, private; empty is allowed.
          tape: by default a fresh tape from the operating system.

        Raises:
          ValueError: a degree or a number is not a positive integer; the tape is claimed.
        """
        cells = self.cells(users_by_degree)
        claimed = (tape or RandomTape.from_os()).claim(_CHANNEL)
        noise = self.noise.sample(claimed, _CHANNEL, len(cells)).tolist()
        noisy = tuple(count + added for count, added in zip(cells, noise, strict=True))
        return ReleasedDegrees(self.lowest, noisy, self.epsilon_cost)

    def release_under(
        self,
        users_by_degree: Mapping[int, int],
        tape_of: Callable[[str], RandomTape],
        context: str = USER_DEGREES,
    ) -> ReleasedDegrees:
        """Returns a release under a job's secret. A retry repeats it, while other data or another
        context give other noise.

        Args:
          users_by_degree: see ``release``.
          tape_of: returns the tape of a context, as ``JobSecret.tape`` does.
          context: the purpose of the release, in words that no other release of the job uses.
        """
        tape = tape_of(context_of_numbers(context, self.cells(users_by_degree), self))
        return self.release(users_by_degree, tape)

    def cells(self, users_by_degree: Mapping[int, int]) -> list[int]:
        """Returns the PRIVATE histogram without noise. Raises as ``release``."""
        return cells_of(users_by_degree, self.lowest)


def checked_max_degree(max_degree: int) -> int:
    """Returns a largest degree as an integer. Raises a ValueError if it is out of range."""
    checked = positive_integer("max_degree", max_degree)
    if checked > _LARGEST_DEGREE:
        raise ValueError(
            f"max_degree must be at most {_LARGEST_DEGREE:,}, got {checked:,}: users with more "
            "partitions count as those with that many"
        )
    return checked


def cells_of(users_by_degree: Mapping[int, int], lowest: Sequence[int]) -> list[int]:
    """Returns the PRIVATE number of users in each cell.

    Args:
      users_by_degree: {degree: number of users}.
      lowest: the smallest degree of each cell, ascending from 1.

    Raises:
      ValueError: a degree or a number of users is below 1.
    """
    cells = [0] * len(lowest)
    for degree, users in users_by_degree.items():
        if degree < 1 or users < 1:
            raise ValueError("degrees and numbers of users must be positive integers")
        cells[bisect.bisect_right(lowest, degree) - 1] += users
    return cells


def cell_bounds(max_degree: int) -> tuple[int, ...]:
    """Returns the smallest degree of each cell; that of the last one is ``max_degree``.

    >>> cell_bounds(30)
    (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 30)
    """
    bounds: list[int] = [1, 2, 3]
    for power in range(max_degree.bit_length()):
        bounds += [4 << power, 5 << power, 6 << power]
    return (*(bound for bound in bounds if bound < max_degree), max_degree)
