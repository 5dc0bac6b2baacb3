"""A choice between two strategies by what the data say of users, for a small part of epsilon.

Where most users have many more partitions than kappa, many equal rounds name the most: in each of
them users give to partitions that they have not given to before. Where most have given to all of
theirs after one round, that costs more than it brings, and at kappa = 1 no strategy names more than
the optimal primitive. Public parameters cannot tell which it is. The statistic is

    S = users of more than floor(7 kappa / 4) distinct partitions - other users

and the many rounds are taken if S + X > 0, with discrete Laplace noise X of rate epsilon_1 =
epsilon / 200.

Privacy. All records of one user more or less change S by one at most: by +1 if that user has that
many partitions, by -1 if not. Records exchanged for another user's change it by two at most,
and then the noise has twice the scale. So S + X is epsilon_1-differentially private, and so is its
sign. Given that, the strategy that is taken is (epsilon - epsilon_1, delta)-differentially private,
whichever it is; by adaptive composition all of it is (epsilon, delta)-differentially private. The
other one is not applied to anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dp_transforms.mechanisms.enclosure import Enclosure
from dp_transforms.mechanisms.noise.discrete_noise import DiscreteLaplace
from dp_transforms.mechanisms.partition_selection.count_strategies import OptimalSelection
from dp_transforms.mechanisms.partition_selection.keep_law import KeepLaw
from dp_transforms.mechanisms.partition_selection.renyi_strategies import RenyiRoundsSelection
from dp_transforms.mechanisms.partition_selection.strategy import StrategyRefusal
from dp_transforms.mechanisms.partition_selection.weighted_strategies import (
    Round,
    WeightedStrategy,
)
from dp_transforms.mechanisms.randomness import RandomTape

_SHARE = Fraction(1, 200)
"""Of epsilon, what the statistic spends: noise of about 280 users at epsilon 1."""
_LARGEST_SCALE = 1 << 48
_ROUNDS = 6
"""Of equal budgets, where users have many partitions."""


@dataclass(frozen=True)
class MeasuredSelection(WeightedStrategy):
    """Six equal rounds as of ``renyi_rounds`` if most users have more than 7/4 kappa partitions,
    and if not that strategy itself, or ``optimal`` at kappa = 1.

    >>> strategy = MeasuredSelection(epsilon=1, delta=1e-5)
    >>> strategy.branch(False).describe()["epsilon"]
    0.995
    """

    name: ClassVar[str] = "measured"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self._scale > _LARGEST_SCALE:
            raise StrategyRefusal(
                "the statistic of users would need more noise than there are users at "
                f"epsilon={float(self.epsilon):g}; take a larger epsilon"
            )
        assert self._branches

    @property
    def rounds(self) -> tuple[Round, ...]:
        """Those of ``renyi_rounds``, the most that there can be."""
        return self._branches[True].rounds

    def one_order(self, index: int) -> bool:
        return self._branches[True].one_order(index)

    def branch(self, measured: bool | None) -> WeightedStrategy:
        assert measured is not None
        return self._branches[measured]

    @property
    def few_partitions(self) -> int:
        """The most that a user has who does not speak for many rounds."""
        return 7 * self.max_partitions_per_user // 4

    def has_several(self, few: int, several: int, tape: RandomTape) -> bool:
        """Whether most users seem to have more than ``few_partitions``.

        Args:
          few, several: how many users have at most that many distinct partitions, and more.
          tape: gives the noise.
        """
        # Other users have other noise, even under one secret: the same would cancel.
        tape = tape.branch(f"of {few} and {several}")
        (noise,) = self._noise.sample(tape, "statistic of users", 1).tolist()
        return several - few + int(noise) > 0

    def select(
        self, users: npt.ArrayLike, partitions: npt.ArrayLike, tape: RandomTape
    ) -> npt.NDArray[np.int64]:
        pairs = np.unique(np.column_stack([users, partitions]).astype(np.int64), axis=0)
        _, has = np.unique(pairs[:, 0], return_counts=True)
        few = int((has <= self.few_partitions).sum())
        measured = self.has_several(few, len(has) - few, tape)
        return self.branch(measured).select(users, partitions, tape)

    def keep_enclosure(self, users: int, precision: int) -> Enclosure:
        """That of the strategy for users of few partitions."""
        return self._branches[False].keep_enclosure(users, precision)

    @cached_property
    def _noise(self) -> DiscreteLaplace:
        return DiscreteLaplace(self._scale)

    @property
    def _scale(self) -> Fraction:
        return self._users_changed / (_SHARE * Fraction(self.epsilon))

    @cached_property
    def _branches(self) -> tuple[WeightedStrategy, WeightedStrategy]:
        epsilon, delta = self._budget
        arguments = (
            epsilon * (1 - _SHARE),
            delta,
            self.max_partitions_per_user,
            self.pre_threshold,
            self.neighbours,
        )
        few = _ByCounts if self.max_partitions_per_user == 1 else RenyiRoundsSelection
        return few(*arguments), RenyiRoundsSelection(*arguments, _ROUNDS, growth=1)

    def _parameters(self) -> dict[str, Any]:
        return {
            "statistic": f"users of more than {self.few_partitions} partitions less others",
            "statistic_epsilon": float(_SHARE * Fraction(self.epsilon)),
            "if_not_positive": self._branches[False].describe(),
            "if_positive": self._branches[True].describe(),
        }


@dataclass(frozen=True)
class _CountRound:
    """A round in which every user weighs the same."""

    law: KeepLaw

    def weight(self, partitions: int) -> int:
        return 1

    def describe(self) -> dict[str, float]:
        return {}


@dataclass(frozen=True)
class _ByCounts(WeightedStrategy):
    """``optimal`` as a single round."""

    name: ClassVar[str] = OptimalSelection.name

    @cached_property
    def rounds(self) -> tuple[Round, ...]:
        kappa, neighbours = self.max_partitions_per_user, self.neighbours
        of_counts = OptimalSelection(*self._budget, kappa, neighbours=neighbours)
        return (_CountRound(of_counts.law),)

    def _parameters(self) -> dict[str, Any]:
        return {}
