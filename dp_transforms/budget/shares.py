"""A budget that the releases of one pipeline draw from, by weights."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from dp_transforms.budget.budget import PrivacyBudget
from dp_transforms.budget.ledger import BudgetExceededError
from dp_transforms.mechanisms.decimals import Number, exact_fraction


class BudgetShares:
    """A budget split between releases about the same users, each of which draws its share once.

    By basic composition all releases together cost no more than the whole. Neighbours are those of
    the releases. For a budget that several jobs share, or that outlives one, see ``Ledger``.

    Args:
      whole: what all releases may cost together.
      weights: by the releases' names, how epsilon is split; positive numbers.
      delta_weights: how delta is split, between those releases that need any; by default equally
        between all. A frequency list needs none.

    Raises:
      ValueError: there are no weights, one is not positive, or a name has no weight of epsilon.

    >>> shares = BudgetShares(PrivacyBudget(1, 1e-6), {"list": 3, "pages": 1}, {"pages": 1})
    >>> print(shares.draw("list"), "and", shares.draw("pages"))
    epsilon 0.75, delta 0 and epsilon 0.25, delta 0.000001
    >>> shares.draw("pages")
    Traceback (most recent call last):
      ...
    dp_transforms.budget.ledger.BudgetExceededError: the share of 'pages' has been drawn: ...
    """

    def __init__(
        self,
        whole: PrivacyBudget,
        weights: Mapping[str, Number],
        delta_weights: Mapping[str, Number] | None = None,
    ):
        if not isinstance(whole, PrivacyBudget):
            raise ValueError(f"whole must be a PrivacyBudget, got {whole!r}")
        epsilons = _parts(weights)
        deltas = _parts(dict.fromkeys(weights, 1) if delta_weights is None else delta_weights)
        for name in deltas:
            if name not in epsilons:
                raise ValueError(f"{name!r} has a weight for delta and none for epsilon")
        self._whole = whole
        self._left = {
            name: PrivacyBudget(whole.epsilon * part, whole.delta * deltas.get(name, 0))
            for name, part in epsilons.items()
        }
        self._names = tuple(epsilons)

    @property
    def whole(self) -> PrivacyBudget:
        """What all releases may cost together."""
        return self._whole

    def draw(self, name: str) -> PrivacyBudget:
        """The share of a release, once.

        Raises:
          BudgetExceededError: it has been drawn.
          ValueError: there is no such share.
        """
        if name not in self._names:
            raise ValueError(f"there is no share {name!r}, only {', '.join(self._names)}")
        if name not in self._left:
            raise BudgetExceededError(
                f"the share of {name!r} has been drawn: give each release one of its own"
            )
        return self._left.pop(name)


def _parts(weights: Mapping[str, Number]) -> dict[str, Fraction]:
    """Weights as parts of their sum."""
    if not isinstance(weights, Mapping):
        raise ValueError(f"weights must be a mapping from names to numbers, got {weights!r}")
    exact = {name: exact_fraction("weight", weight) for name, weight in weights.items()}
    if not exact or min(exact.values()) <= 0:
        raise ValueError(f"weights must be positive numbers, one at least, got {dict(weights)}")
    whole = sum(exact.values(), Fraction(0))
    return {name: weight / whole for name, weight in exact.items()}
