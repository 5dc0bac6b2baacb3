"""Releases users by degree in rounds, each with less noise, until there is enough to know.

How much a survey of degrees should cost depends on the degrees. Where nobody has more than one
partition, a rough one suffices; where few users have most of the pairs, an exact one pays. A rough
release followed by an independent fine one would cost both. Here the rough noise contains the fine
one, so that a round replaces the one before, and the cost is that of the last round alone
(Koufogiannis, Han, Pappas 2015, "Gradual release of sensitive data under differential privacy").

Rounds. Round j has epsilon_j, twice that of round j - 1; x are the true numbers of users by cell.
Round j shows X_j = x + noise of epsilon_j in each cell, and X_(j-1) is X_j plus noise that does not
depend on data (``gradual_noise``).

Privacy. Neighbours differ by one user, who is in one cell. Whether round j is the last depends on
X_1, ..., X_j. Given X_j, rounds 1 to j - 1 are functions of it and of random numbers that do not
depend on data. So an outcome that ends with round j has, for neighbours, probabilities whose ratio
is that of X_j = x_j: at most exp(epsilon_j). What follows may cost the rest of a budget: if it is
(epsilon - epsilon_j)-DP for each X_j, all of it is epsilon-DP. QED.

The noise of the last round made is NOT discrete Laplace given that it was the last one. Statements
that shall hold for it are made for each round that there may be, so that all hold together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from dp_transforms.mechanisms.decimals import (
    Number,
    float_above,
    positive_integer,
    positive_rational,
)
from dp_transforms.mechanisms.discrete_noise import DiscreteLaplace
from dp_transforms.mechanisms.gradual_noise import gradual_noise
from dp_transforms.mechanisms.randomness import RandomTape
from dp_transforms.mechanisms.tape_contexts import USER_DEGREES, context_of_numbers
from dp_transforms.mechanisms.user_degrees import ReleasedDegrees, cells_of, checked_max_degree

_CHANNEL = "gradual survey"

Enough = Callable[[ReleasedDegrees], bool]
"""Says whether a round is enough, from what it released alone."""


@dataclass(frozen=True)
class GradualSurvey:
    """Releases how many users have how many partitions, in rounds.

    Args:
      epsilon: the cost if the first round is enough; a float stands for the decimal that it prints.
      rounds: how many there may be. Each costs twice as much as the one before, and contains it.
      max_degree: larger degrees count as this one. Public: choose it without looking at the data.

    Raises:
      ValueError: an argument is out of range.

    >>> survey = GradualSurvey(epsilon=100, rounds=2, max_degree=9)
    >>> survey.release({1: 40, 3: 2, 9: 7}, enough=lambda released: True)
    ReleasedDegrees(lowest=(1, 2, 3, 4, 5, 6, 8, 9), users=(40, 0, 2, 0, 0, 0, 0, 7), epsilon=100.0)
    """

    stable_name: ClassVar[str] = "GradualSurvey"

    epsilon: Number
    rounds: int
    max_degree: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive_rational("epsilon", self.epsilon))
        object.__setattr__(self, "rounds", positive_integer("rounds", self.rounds))
        object.__setattr__(self, "max_degree", checked_max_degree(self.max_degree))
        # This refuses a scale out of range now.
        _ = self.noises

    @property
    def epsilons(self) -> tuple[Fraction, ...]:
        """Returns the cost of stopping after each round."""
        return tuple(Fraction(self.epsilon) * 2**done for done in range(self.rounds))

    @cached_property
    def noises(self) -> tuple[DiscreteLaplace, ...]:
        """Returns the noise of each round."""
        return tuple(DiscreteLaplace(1 / epsilon) for epsilon in self.epsilons)

    @property
    def lowest(self) -> tuple[int, ...]:
        """Returns the smallest degree of each cell."""
        return survey_bounds(self.max_degree)

    def release(
        self,
        users_by_degree: Mapping[int, int],
        enough: Enough,
        tape: RandomTape | None = None,
    ) -> ReleasedDegrees:
        """Releases one private histogram: that of the first round that is enough, or of the last.

        Args:
          users_by_degree: {degree: number of users}, private; empty is allowed.
          enough: is asked about each round but the last.
          tape: by default a fresh tape from the operating system.

        Raises:
          ValueError: a degree or a number is not a positive integer; the tape is claimed.
        """
        *earlier, last = self._rounds(users_by_degree, tape or RandomTape.from_os())
        return next((released for released in earlier if enough(released)), last)

    def release_under(
        self,
        users_by_degree: Mapping[int, int],
        tape_of: Callable[[str], RandomTape],
        enough: Enough,
        context: str = USER_DEGREES,
    ) -> ReleasedDegrees:
        """Releases under a job's secret, by ``JobSecret.tape``: a retry repeats the release, while
        other data or another context give other noise."""
        tape = tape_of(context_of_numbers(context, self.cells(users_by_degree), self))
        return self.release(users_by_degree, enough, tape)

    def cells(self, users_by_degree: Mapping[int, int]) -> list[int]:
        """Returns the histogram without noise: PRIVATE. Raises as ``release``."""
        return cells_of(users_by_degree, self.lowest)

    def _rounds(
        self, users_by_degree: Mapping[int, int], tape: RandomTape
    ) -> Iterator[ReleasedDegrees]:
        """Yields all rounds, the first one first: PRIVATE, as ``gradual_noise`` is."""
        cells = np.array(self.cells(users_by_degree), dtype=object)
        noises = gradual_noise(self.noises, tape.claim(_CHANNEL), _CHANNEL, len(cells))
        for epsilon, noise in zip(self.epsilons, noises, strict=True):
            users = cells + noise
            noisy = tuple(map(int, users))
            yield ReleasedDegrees(self.lowest, noisy, float_above(epsilon), self.rounds)


def survey_bounds(max_degree: int) -> tuple[int, ...]:
    """Returns the smallest degree of each cell of a survey; that of the last one is ``max_degree``.
    There are two cells for each doubling: with fewer, less noise hides tails, and with more, the
    mean degree in each is better known.

    >>> survey_bounds(40)
    (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 40)
    """
    bounds = [1, 2, 3, 4, 5]
    for power in range(max_degree.bit_length()):
        bounds += [6 << power, 8 << power]
    return (*(bound for bound in bounds if bound < max_degree), max_degree)
