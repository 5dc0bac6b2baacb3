"""Privacy budgets: how much (epsilon, delta)-differential privacy may be spent, or was, and what
about: whose records two neighbouring inputs differ in."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from fractions import Fraction

import gmpy2

from dp_transforms.mechanisms.decimals import (
    ExactNumber,
    Real,
    exact_fraction,
    round_down,
    round_up,
)
from dp_transforms.mechanisms.eta import Eta

_DIGITS = 15


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
        """In words, for statements.

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

    @classmethod
    def from_base2(cls, epsilon: Real, delta: Real = 0) -> PrivacyBudget:
        """From base 2, where probabilities change by at most 2**epsilon between neighbours.

        A factor of 2 is ln 2 in natural units; the product is rounded up to 15 digits.

        >>> print(PrivacyBudget.from_base2(1))
        epsilon 0.693147180559946, delta 0
        """
        return cls(
            round_up(exact_fraction("epsilon", epsilon) * _ln2(gmpy2.RoundUp), _DIGITS), delta
        )

    @classmethod
    def from_eta(cls, eta: Eta, sensitivity: int = 1) -> PrivacyBudget:
        """What an exponential mechanism with the weights 2**(-eta * distance) costs at most.

        It is (2 * sensitivity * eta)-DP in base 2. Rounded up. What a mechanism for integer
        partitions costs, which may be less, is its ``epsilon_cost``.

        >>> PrivacyBudget.from_eta(Eta(1, 1, 1)) == PrivacyBudget.from_base2(2)
        True
        """
        if sensitivity < 1:
            raise ValueError(f"sensitivity must be positive, got {sensitivity}")
        upper = Fraction(*eta.log_enclosure(128)[1].as_integer_ratio())
        return cls(round_up(2 * sensitivity * upper, _DIGITS))

    @property
    def base2_epsilon(self) -> Fraction:
        """The epsilon of base 2 that this budget grants: epsilon / ln 2, rounded down to 15 digits.

        >>> float(PrivacyBudget(1).base2_epsilon)
        1.44269504088896
        """
        return round_down(self.epsilon / _ln2(gmpy2.RoundUp), _DIGITS)

    def covers(self, cost: PrivacyBudget) -> bool:
        """Whether neither epsilon nor delta of ``cost`` is larger."""
        return cost.epsilon <= self.epsilon and cost.delta <= self.delta

    def split(self, parts: int) -> PrivacyBudget:
        """An equal share, by basic composition: ``parts`` of it make up the whole.

        >>> PrivacyBudget(1).split(3).epsilon
        Fraction(1, 3)
        """
        if parts < 1:
            raise ValueError(f"parts must be positive, got {parts}")
        return PrivacyBudget(self.epsilon / parts, self.delta / parts)

    def __add__(self, other: PrivacyBudget) -> PrivacyBudget:
        """Basic composition: both are spent on the same users.

        Raises:
          ValueError: delta adds up to 1 or more.
        """
        return PrivacyBudget(self.epsilon + other.epsilon, self.delta + other.delta)

    def __sub__(self, other: PrivacyBudget) -> PrivacyBudget:
        """What is left. ValueError if less than nothing."""
        return PrivacyBudget(self.epsilon - other.epsilon, self.delta - other.delta)

    def __str__(self) -> str:
        return f"epsilon {self.epsilon}, delta {self.delta}"


def _ln2(rounding: int) -> Fraction:
    with gmpy2.context(precision=128, round=rounding):
        return Fraction(*gmpy2.const_log2().as_integer_ratio())
