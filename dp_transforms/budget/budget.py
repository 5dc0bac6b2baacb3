"""Privacy budgets: how much (epsilon, delta)-differential privacy may be spent, or was, and what
about: whose records two neighbouring inputs differ in."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from dp_transforms.mechanisms.decimals import ExactNumber, Real, exact_fraction


class PrivacyUnit(enum.Enum):
    """The neighbours that a guarantee compares. Losses of different units do not add up.

    Each has a name for flags and files, and says what neighbours are.
    """

    USER = "user"
    REPLACED_USER = "replaced-user"
    EDGE = "edge"
    NODE = "node"

    @property
    def neighbours(self) -> str:
        """The neighbours in words, for statements.

        >>> PrivacyUnit.USER.neighbours
        'add or remove all records of one user'
        """
        return _NEIGHBOURS[self]


_NEIGHBOURS = {
    PrivacyUnit.USER: "add or remove all records of one user",
    PrivacyUnit.REPLACED_USER: "replace all records of one user by another's",
    PrivacyUnit.EDGE: "add or remove all records of one edge",
    PrivacyUnit.NODE: "add or remove one node with all its edges",
}


@dataclass(frozen=True)
class PrivacyBudget:
    """An amount of (epsilon, delta)-differential privacy, in exact numbers.

    Neighbours: add or remove all records of one user. The numbers are taken at their decimal value
    (0.1 is one tenth) and held as fractions, so that ten tenths are one. Mechanisms read theirs in
    the same way.

    Args:
      epsilon: not negative, in natural units.
      delta: in [0, 1).

    Raises:
      ValueError: a number is out of its range.

    >>> budget = PrivacyBudget(epsilon=1, delta="1e-6")
    >>> sum([PrivacyBudget(0.1)] * 10, PrivacyBudget(0)) == PrivacyBudget(1)
    True
    >>> budget.covers(PrivacyBudget(0.5)), budget.covers(PrivacyBudget("1.000000001"))
    (True, False)
    >>> print(budget - PrivacyBudget(0.25, 1e-7))
    epsilon 0.75, delta 0.0000009
    """

    epsilon: ExactNumber
    delta: ExactNumber

    def __init__(self, epsilon: Real, delta: Real = 0):
        exact_epsilon = exact_fraction("epsilon", epsilon)
        exact_delta = exact_fraction("delta", delta)
        if exact_epsilon < 0:
            raise ValueError(f"epsilon must not be negative, got {epsilon}")
        if not 0 <= exact_delta < 1:
            raise ValueError(f"delta must be at least 0 and below 1, got {delta}")
        object.__setattr__(self, "epsilon", exact_epsilon)
        object.__setattr__(self, "delta", exact_delta)

    def covers(self, cost: PrivacyBudget) -> bool:
        """Tells whether neither epsilon nor delta of ``cost`` is larger."""
        return cost.epsilon <= self.epsilon and cost.delta <= self.delta

    def split(self, parts: int) -> PrivacyBudget:
        """An equal share, by basic composition: ``parts`` of it make up the whole.

        >>> PrivacyBudget(1).split(3).epsilon
        Fraction(1, 3)
        """
        if parts < 1:
            raise ValueError(f"parts must be positive, got {parts}")
        return PrivacyBudget(self.epsilon / parts, self.delta / parts)

    def split_by(
        self, weights: Mapping[str, Real], delta_weights: Mapping[str, Real] | None = None
    ) -> dict[str, PrivacyBudget]:
        """Shares by name, which make up the whole by basic composition: ``pop`` each for one
        release.

        Args:
          weights: how epsilon is split; positive numbers.
          delta_weights: how delta is split, between those shares that need any; by default equally
            between all. A frequency list needs none.

        Raises:
          ValueError: there are no weights, one is not positive, or a name has no weight of epsilon.

        >>> shares = PrivacyBudget(1, 1e-6).split_by({"list": 3, "pages": 1}, {"pages": 1})
        >>> print(shares.pop("list"), "and", shares.pop("pages"))
        epsilon 0.75, delta 0 and epsilon 0.25, delta 0.000001
        """
        epsilons = _parts(weights)
        deltas = _parts(dict.fromkeys(weights, 1) if delta_weights is None else delta_weights)
        for name in deltas:
            if name not in epsilons:
                raise ValueError(f"{name!r} has a weight for delta and none for epsilon")
        return {
            name: PrivacyBudget(self.epsilon * part, self.delta * deltas.get(name, 0))
            for name, part in epsilons.items()
        }

    def __add__(self, other: PrivacyBudget) -> PrivacyBudget:
        """Basic composition: both are spent on the same users.

        Raises:
          ValueError: delta adds up to 1 or more.
        """
        return PrivacyBudget(self.epsilon + other.epsilon, self.delta + other.delta)

    def __sub__(self, other: PrivacyBudget) -> PrivacyBudget:
        """Returns the budget that is left. ValueError if it is less than nothing."""
        return PrivacyBudget(self.epsilon - other.epsilon, self.delta - other.delta)

    def __str__(self) -> str:
        return f"epsilon {self.epsilon}, delta {self.delta}"


def _parts(weights: Mapping[str, Real]) -> dict[str, Fraction]:
    """Weights as parts of their sum."""
    exact = {name: exact_fraction("weight", weight) for name, weight in weights.items()}
    if not exact or min(exact.values()) <= 0:
        raise ValueError(f"weights must be positive numbers, one at least, got {dict(weights)}")
    whole = sum(exact.values(), Fraction(0))
    return {name: weight / whole for name, weight in exact.items()}
