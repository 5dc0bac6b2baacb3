"""Holds amounts of differential privacy, and decides whether one more mechanism fits a budget.

Most composition theorems assume that privacy parameters are fixed in advance. Under a shared budget
they are not: whether a job asks, and for how much, may depend on earlier releases. So
``PrivacyFilter`` refuses every request that could bring the whole above the budget. It admits a
request if either of two rules holds:

  * basic: the epsilons add up to at most epsilon (Rogers, Roth, Ullman and Vadhan 2016);
  * zCDP: the rhos add up to at most ``rho_limit``, the largest rho for which rho-zCDP gives
    (epsilon, composition_delta)-DP (Whitehouse, Ramdas, Rogers and Wu 2023, "Fully-Adaptive
    Composition in Differential Privacy"; Feldman and Zrnic 2021).

Under both rules, the mechanisms' own deltas add up to at most delta - composition_delta.

Theorem. The admitted mechanisms together are (epsilon, delta)-DP.

Proof. Set aside failures, whose probabilities add up to at most delta - composition_delta (see
``accounting``). Take two neighbours, with the distributions P and Q of all releases, and let L be
the total privacy loss. It must be shown that E_P[max(0, 1 - e**(epsilon - L))] <=
composition_delta. A run whose epsilons add up to at most epsilon has L <= epsilon, and contributes
nothing. In every other run the rhos add up to at most rho_limit at every step. Now stop every run
before the request that would exceed rho_limit. The stopped process is that of a zCDP filter, so its
expectation is at most composition_delta. It agrees with the real process on all runs that were not
stopped, and no other run contributes. QED.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import gmpy2
import numpy as np

from dp_transforms.mechanisms.arguments import shown
from dp_transforms.mechanisms.decimals import (
    ExactNumber,
    Number,
    exact_fraction,
    positive_rational,
    round_down,
)

_PRECISION = 128
_DIGITS = 12


class PrivacyUnit(enum.Enum):
    """A unit is what neighbouring data differ by: it is added, removed or replaced. Losses about
    different units do not add up. The values are the names in flags and files."""

    USER = "user"
    REPLACED_USER = "replaced-user"
    EDGE = "edge"
    NODE = "node"

    @classmethod
    def _missing_(cls, value: object) -> None:
        raise ValueError(
            f"unit must be one of {', '.join(unit.value for unit in cls)}, got {shown(value)}"
        )

    @property
    def neighbours(self) -> str:
        """Returns the neighbours in words, for statements."""
        return {
            PrivacyUnit.USER: "add or remove all records of one user",
            PrivacyUnit.REPLACED_USER: "replace all records of one user by another's",
            PrivacyUnit.EDGE: "add or remove all records of one edge",
            PrivacyUnit.NODE: "add or remove one node with all its edges",
        }[self]


@dataclass(frozen=True)
class PrivacyBudget:
    """A budget is an amount of (epsilon, delta)-differential privacy, in exact numbers.

    A ``PrivacyUnit`` says what neighbours differ by. Numbers are taken at their decimal value (0.1
    is one tenth) and held as fractions, so that ten tenths are one.

    Args:
      epsilon: not negative, in natural units.
      delta: in [0, 1).

    Raises:
      ValueError: a number is out of its range.

    >>> budget = PrivacyBudget(epsilon=1, delta="1e-6")
    >>> sum([PrivacyBudget(0.1)] * 10, PrivacyBudget(0)) == PrivacyBudget(1)
    True
    >>> print(budget - PrivacyBudget(0.25, 1e-7))
    epsilon 0.75, delta 0.0000009
    """

    epsilon: ExactNumber
    delta: ExactNumber

    def __init__(self, epsilon: Number, delta: Number = 0):
        exact_epsilon = exact_fraction("epsilon", epsilon)
        exact_delta = exact_fraction("delta", delta)
        if exact_epsilon < 0:
            raise ValueError(f"epsilon must not be negative, got {epsilon}")
        if not 0 <= exact_delta < 1:
            raise ValueError(f"delta must be at least 0 and below 1, got {delta}")
        object.__setattr__(self, "epsilon", exact_epsilon)
        object.__setattr__(self, "delta", exact_delta)

    def split(self, parts: int) -> PrivacyBudget:
        """Returns one of ``parts`` equal shares, which add up to the whole by basic composition.

        >>> PrivacyBudget(1).split(3).epsilon
        Fraction(1, 3)
        """
        if parts < 1:
            raise ValueError(f"parts must be positive, got {parts}")
        return PrivacyBudget(self.epsilon / parts, self.delta / parts)

    def split_by(
        self, weights: Mapping[str, Number], delta_weights: Mapping[str, Number] | None = None
    ) -> dict[str, PrivacyBudget]:
        """Returns shares by name, which add up to the whole by basic composition.

        Take each share out of the dictionary by ``pop``, so that only one release uses it.

        Args:
          weights: positive shares of epsilon.
          delta_weights: positive shares of delta, for the names that need any; by default all get
            an equal part.

        Raises:
          ValueError: there are no weights, one is not positive, or a name has a weight of delta
            alone.

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
        """Adds budgets by basic composition; raises a ValueError if delta reaches 1."""
        return PrivacyBudget(self.epsilon + other.epsilon, self.delta + other.delta)

    def __sub__(self, other: PrivacyBudget) -> PrivacyBudget:
        """Returns the remaining budget; raises a ValueError if it is negative."""
        return PrivacyBudget(self.epsilon - other.epsilon, self.delta - other.delta)

    def __str__(self) -> str:
        return f"epsilon {self.epsilon}, delta {self.delta}"


def _parts(weights: Mapping[str, Number]) -> dict[str, Fraction]:
    exact = {name: exact_fraction("weight", weight) for name, weight in weights.items()}
    if not exact or min(exact.values()) <= 0:
        raise ValueError(f"weights must be positive numbers, one at least, got {dict(weights)}")
    whole = sum(exact.values(), Fraction(0))
    return {name: weight / whole for name, weight in exact.items()}


@dataclass(frozen=True)
class Cost:
    """A cost is the (epsilon, delta) and the range of the privacy loss of one mechanism.

    Args:
      budget: the mechanism's epsilon and delta.
      loss_range: the length of an interval that contains the privacy loss of every output, apart
        from failures of probability delta (see ``accounting.BoundedRangeDpEvent``). The default,
        and the largest number that is used, is 2 epsilon, which always holds.

    Raises:
      ValueError: loss_range is below epsilon; since the interval contains 0, a mechanism with such
        a range is DP for an epsilon equal to it.
    """

    budget: PrivacyBudget
    loss_range: ExactNumber

    def __init__(self, budget: PrivacyBudget, loss_range: Number | None = None):
        _check_budget(budget)
        largest = 2 * budget.epsilon
        given = largest if loss_range is None else exact_fraction("loss_range", loss_range)
        if given < budget.epsilon:
            raise ValueError(
                f"loss_range must not be below epsilon={budget.epsilon}, got {loss_range}: a "
                "mechanism of that range is epsilon-DP for an epsilon of that"
            )
        object.__setattr__(self, "budget", budget)
        object.__setattr__(self, "loss_range", ExactNumber(min(given, largest)))

    @property
    def rho(self) -> Fraction:
        """Returns the rho of zCDP, apart from failures: r**2 / 8 for a range of r."""
        return self.loss_range**2 / 8


@dataclass(frozen=True)
class PrivacyFilter:
    """A filter admits mechanisms one after the other, as long as all stay within one budget.

    The module has the rules and their proof.

    Args:
      budget: epsilon and delta for everything together; epsilon is positive, since there is no
        release that costs none.
      composition_delta: the part of delta that the zCDP rule may use; 0 leaves only the basic rule.

    Raises:
      ValueError: epsilon is 0, or composition_delta is not between 0 and delta.

    >>> shared = PrivacyFilter(PrivacyBudget(1, 1e-6), composition_delta=1e-6)
    >>> one_list = Cost(PrivacyBudget(0.1), loss_range=0.1)
    >>> shared.admits([one_list] * 18, one_list), shared.admits([one_list] * 19, one_list)
    (True, False)
    """

    budget: PrivacyBudget
    composition_delta: ExactNumber

    def __init__(self, budget: PrivacyBudget, composition_delta: Number = 0):
        _check_budget(budget)
        positive_rational("epsilon", budget.epsilon)
        share = exact_fraction("composition_delta", composition_delta)
        if not 0 <= share <= budget.delta:
            raise ValueError(
                f"composition_delta must be between 0 and delta={budget.delta}, "
                f"got {composition_delta}"
            )
        object.__setattr__(self, "budget", budget)
        object.__setattr__(self, "composition_delta", share)

    @cached_property
    def rho_limit(self) -> Fraction:
        """Returns the rho of zCDP that gives (epsilon, composition_delta)-DP, rounded down."""
        if not self.composition_delta:
            return Fraction(0)
        return zcdp_of(self.budget.epsilon, self.composition_delta)

    def admits(self, spent: Iterable[Cost], cost: Cost) -> bool:
        """Tells whether a mechanism of this cost may run after the admitted ones."""
        costs = [*spent, cost]
        if sum(c.budget.delta for c in costs) > self.budget.delta - self.composition_delta:
            return False
        if sum(c.budget.epsilon for c in costs) <= self.budget.epsilon:
            return True
        return sum(c.rho for c in costs) <= self.rho_limit

    def remaining(self, spent: Iterable[Cost], ranges: Number = 2) -> PrivacyBudget:
        """Returns the most that one more mechanism may cost; epsilon is rounded down to 12 places.

        Args:
          spent: the costs of the admitted mechanisms.
          ranges: the mechanism's loss_range as a multiple of its epsilon, from 1 to 2.

        Raises:
          ValueError: ranges is not from 1 to 2.
        """
        multiple = exact_fraction("ranges", ranges)
        if not 1 <= multiple <= 2:
            raise ValueError(f"ranges must be between 1 and 2, got {ranges}")
        costs = list(spent)
        epsilon = self.budget.epsilon - sum(c.budget.epsilon for c in costs)
        rho = self.rho_limit - sum(c.rho for c in costs)
        if rho > 0:
            root = math.isqrt(math.floor(8 * rho / multiple**2 * 10 ** (2 * _DIGITS)))
            epsilon = max(epsilon, Fraction(root, 10**_DIGITS))
        delta = self.budget.delta - self.composition_delta - sum(c.budget.delta for c in costs)
        return PrivacyBudget(max(epsilon, Fraction(0)), max(delta, Fraction(0)))


def _check_budget(budget: PrivacyBudget) -> None:
    if not isinstance(budget, PrivacyBudget):
        raise ValueError(f"budget must be a PrivacyBudget, got {budget!r}")


def zcdp_of(epsilon: Number, delta: Number) -> Fraction:
    """Returns a rho, within a millionth of the best known, such that rho-zCDP implies
    (epsilon, delta)-DP.

    For every order a > 1, rho-zCDP implies (epsilon, delta)-DP with

        ln delta = (a - 1) (a rho - epsilon) + (a - 1) ln(1 - 1/a) - ln a

    (Canonne, Kamath and Steinke 2020, "The Discrete Gaussian for Differential Privacy", Proposition
    12 for Renyi divergence a rho). Since any order gives a valid rho, floats find the best one,
    whose rho is computed precisely and rounded down.
    """
    exact_epsilon, exact_delta = exact_fraction("epsilon", epsilon), exact_fraction("delta", delta)
    orders = 1 + np.geomspace(1e-3, 1e9, 100_000)
    rough = float(exact_epsilon) + (math.log(exact_delta) + np.log(orders)) / (orders - 1)
    rough = (rough - np.log1p(-1 / orders)) / orders
    with gmpy2.context(precision=_PRECISION):
        a = gmpy2.mpfr(float(orders[np.argmax(rough)]))
        log_delta = gmpy2.log(gmpy2.mpfr(gmpy2.mpq(exact_delta)))
        per_order = (log_delta + gmpy2.log(a)) / (a - 1) - gmpy2.log1p(-1 / a)
        rho = Fraction(*((gmpy2.mpq(exact_epsilon) + per_order) / a).as_integer_ratio())
    # No intermediate result exceeds 2**30, so the rounding errors are far below 2**-80.
    return round_down(max(Fraction(0), rho - Fraction(1, 2**80)), _DIGITS)
