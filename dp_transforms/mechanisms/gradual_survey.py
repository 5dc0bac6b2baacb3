"""Releases numbers of users by degree in rounds, each with less noise, until one is good enough.

How much a survey of degrees should cost depends on the degrees. If nobody has more than one
partition, a rough survey suffices. If few users have most of the records, an exact one is worth its
cost. If a rough survey were followed by an independent fine one, both would have to be paid for.
Here the rough noise contains the fine one, so that a round replaces the one before, and the cost is
that of the last round alone (Koufogiannis, Han, Pappas 2015, "Gradual release of sensitive data
under differential privacy").

Rounds. Let x be the true numbers of users, one in each cell, and epsilon_j = 2 epsilon_(j-1). Round
j shows X_j = x + noise of epsilon_j in each cell, and X_(j-1) is X_j plus noise that does not
depend on data (``gradual_noise``).

Privacy. Neighbours differ by one user, who is in one cell. Whether round j is the last depends on
X_1, ..., X_j. Given X_j, rounds 1 to j - 1 are functions of it and of random numbers that do not
depend on data. So if an outcome ends with round j, its probabilities for two neighbours have the
same ratio as those of X_j = x_j, which is at most exp(epsilon_j). What follows may cost the rest of
a budget: if it is (epsilon - epsilon_j)-DP for each X_j, then everything together is epsilon-DP.
QED.

Given that a round was the last one, its noise is NOT discrete Laplace. So a statement about the
last round is made for every round that may be the last, such that all of them hold together.
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
"""Tells whether a round is accurate enough, from its release alone."""


@dataclass(frozen=True)
class GradualSurvey:
    """Releases how many users have how many partitions, in rounds.

    Args:
      epsilon: the cost if the first round is enough; a float stands for the decimal that it prints
        as.
      rounds: the largest number of rounds. Ending with a round costs twice as much as ending with
        the one before.
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
        # A scale out of range is refused here, and not at a release.
        _ = self.noises

    @property
    def epsilons(self) -> tuple[Fraction, ...]:
        """Returns, for each round, the cost of a release that ends with it."""
        return tuple(Fraction(self.epsilon) * 2**earlier for earlier in range(self.rounds))

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
        """Returns the histogram of the first round that is enough, or of the last round.

        Args:
          users_by_degree: {degree: number of users}, private; empty is allowed.
          enough: tells whether a round is enough. It is not asked about the last one.
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
        """Returns a release under a job's secret. A retry repeats it, while other data or another
        context give other noise.

        Args:
          users_by_degree, enough: see ``release``.
          tape_of: returns the tape of a context, as ``JobSecret.tape`` does.
          context: the purpose of the release, in words that no other release of the job uses.
        """
        tape = tape_of(context_of_numbers(context, self.cells(users_by_degree), self))
        return self.release(users_by_degree, enough, tape)

    def cells(self, users_by_degree: Mapping[int, int]) -> list[int]:
        """Returns the PRIVATE histogram without noise. Raises as ``release``."""
        return cells_of(users_by_degree, self.lowest)

    def _rounds(
        self, users_by_degree: Mapping[int, int], tape: RandomTape
    ) -> Iterator[ReleasedDegrees]:
        """Yields all rounds, the first one first. They are PRIVATE, as ``gradual_noise`` is."""
        cells = np.array(self.cells(users_by_degree), dtype=object)
        noises = gradual_noise(self.noises, tape.claim(_CHANNEL), _CHANNEL, len(cells))
        for epsilon, noise in zip(self.epsilons, noises, strict=True):
            users = cells + noise
            noisy = tuple(map(int, users))
            yield ReleasedDegrees(self.lowest, noisy, float_above(epsilon), self.rounds)


def survey_bounds(max_degree: int) -> tuple[int, ...]:
    """Returns the smallest degree of each cell of a survey; that of the last one is ``max_degree``.
    There are two cells for each doubling. Fewer cells would have less noise in a sum over large
    degrees, and with more cells the mean degree in each would be better known.

    >>> survey_bounds(40)
    (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 40)
    """
    bounds = [1, 2, 3, 4, 5]
    for power in range(max_degree.bit_length()):
        bounds += [6 << power, 8 << power]
    return (*(bound for bound in bounds if bound < max_degree), max_degree)
