"""Writes into a statement how a look selected names. Reads from a statement how names were
selected, and what this proves about partitions that were not."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from dp_transforms.files.filenames import NAMED_USERS_FILE
from dp_transforms.mechanisms.decimals import exact_fraction
from dp_transforms.mechanisms.selection import (
    MeasuredSelection,
    SelectionStrategy,
    make_strategy,
)
from dp_transforms.mechanisms.selection.measured import MOST_PARTITIONS, Choice
from dp_transforms.mechanisms.selection.rounds import RoundPlan
from dp_transforms.mechanisms.selection.strategy import ADD_OR_REMOVE, REPLACE
from dp_transforms.postprocessing.estimates import CONFIDENCE
from dp_transforms.postprocessing.unnamed import UnnamedBound, most_unnamed_users
from dp_transforms.releases.base import amount_entries
from dp_transforms.reports.entries import CHOSEN_BY_LOOK, ESTIMATES, is_enforced_in_rounds

COUNT_NOISE = "count_noise"
"""The entry of a statement about the noise of counts that were made after the selection."""
USERS_OF_OTHERS = "users_of_other_partitions"
"""The entry of a statement with the noisy number of users of partitions that are not named."""
NOT_NAMED = "not_named"
"""The entry of a statement about partitions that were not named."""
ALL_RECORDS, COUNTED_RECORDS = "all records", "the records that count"
"""The values of ``about`` in the entry about estimates."""
SLOW_STRATEGIES = ("renyi_rounds", "measured")
"""Strategies that take seconds to make from a statement. About partitions that they did not name,
pages say only what the statement itself says."""


def entries_of(choice: Choice, strategy: MeasuredSelection) -> dict[str, Any]:
    """Returns the entries of a statement that follow from the choice of a look. They are public
    numbers."""
    plan, branch = choice.plan, strategy.branch(choice)
    entries: dict[str, Any] = {
        **strategy.choice_entries(choice),
        "choice": choice.describe(),
        "plan": plan._asdict() | {"counts_share": str(plan.counts_share)},
    }
    if not strategy.declared:
        entries |= {
            "max_partitions_per_user": plan.partitions,
            "max_partitions_per_user_is": CHOSEN_BY_LOOK,
        }
    counted_of = "users, each in at most {} partitions, chosen at random"
    if branch.counting is not None:
        entries |= branch.counting.parameters()
        entries["noisy_counts_are_of"] = counted_of.format(plan.partitions)
    if branch.later_counts is not None:
        entries[COUNT_NOISE] = branch.later_counts.describe()
        entries["noisy_counts_are_of"] = counted_of.format(f"{plan.counted} named")
        entries["count_intervals"] = {"confidence": CONFIDENCE, "of": "each count"}
    return entries


def estimates_entry(
    names: Mapping[str, Any], *others: Mapping[str, Any], of_all_records: bool
) -> dict[str, Any]:
    """Returns the entry of a statement about what is shown beside names: estimates of their users,
    and of what is not named. These follow from the names and from other releases of the same
    records. So a file or a page that has them costs as much as all of these together.

    Args:
      names: the statement of the names.
      others: the statements of a list, of degrees, or of both.
      of_all_records: whether the estimates are about all records, and not about those that count.

    >>> cost = {"epsilon": 1.0, "epsilon_exact": "1", "neighbours": "users"}
    >>> names = cost | {"delta": 1e-6, "delta_exact": "0.000001", "noisy_counts": True}
    >>> estimates_entry(names, cost, of_all_records=False)["estimates"]["epsilon"]
    2.0
    """
    epsilon = _exact_epsilon(names)
    for other in others:
        # To replace a user is to remove one and to add one, so it moves other releases twice.
        times = 1 if names["neighbours"] == other["neighbours"] else 2
        epsilon += times * _exact_epsilon(other)
    entry = {
        "of": "users of names, and what is not named",
        **({"file": NAMED_USERS_FILE} if names["noisy_counts"] else {}),
        "about": ALL_RECORDS if of_all_records else COUNTED_RECORDS,
        "follow_from": "these names, and other releases about the same records",
        **amount_entries("epsilon", epsilon),
        **{name: names[name] for name in ("delta", "delta_exact") if name in names},
        "neighbours": names["neighbours"],
    }
    return {ESTIMATES: entry}


def _exact_epsilon(statement: Mapping[str, Any]) -> Fraction:
    return exact_fraction("epsilon", statement.get("epsilon_exact", statement["epsilon"]))


def strategy_of(statement: Mapping[str, Any]) -> SelectionStrategy | None:
    """Returns the strategy that a privacy.json describes. None if this version of the library makes
    no strategy with the same description: then its probabilities are not known."""
    replaces = statement.get("neighbours", "").startswith("replace")
    options: dict[str, Any] = {
        "max_partitions_per_user": statement["max_partitions_per_user"],
        "pre_threshold": statement["pre_threshold"],
        "neighbours": REPLACE if replaces else ADD_OR_REMOVE,
    }
    plan = statement.get("plan")
    kappa_is_chosen = statement["max_partitions_per_user_is"] == CHOSEN_BY_LOOK
    if kappa_is_chosen:
        options |= {"max_partitions_per_user": MOST_PARTITIONS, "declared": False}
    if "composition" in statement and plan is None:
        options["composition"] = statement["composition"]
    epsilon, delta = (Fraction(statement[f"{name}_exact"]) for name in ("epsilon", "delta"))
    with contextlib.suppress(ValueError, TypeError, KeyError):
        strategy = make_strategy(statement["strategy"], epsilon, delta, **options)
        described = strategy.describe()
        described.pop("neighbours")
        if kappa_is_chosen:
            described.pop("max_partitions_per_user")
        if isinstance(strategy, MeasuredSelection) and plan is not None:
            parts = {name: plan[name] for name in RoundPlan._fields}
            parts["counts_share"] = Fraction(plan["counts_share"])
            strategy = strategy.planned(RoundPlan(**parts))
            if statement["noisy_counts"] and strategy.counting is not None:
                described |= strategy.counting.parameters()
        if all(statement.get(name) == value for name, value in described.items()):
            return strategy
    return None


def unnamed_entries(strategy: SelectionStrategy, bounded_before: bool) -> Mapping[str, Any]:
    """Returns the entries of a statement about partitions that the strategy does not name."""
    bound = most_unnamed_users(strategy, bounded_before=bounded_before)
    if bound.users is None:
        return {}
    entry: dict[str, Any] = {"users_at_most": bound.users, "confidence": CONFIDENCE}
    if bound.of_at_most is not None:
        entry["of_users_with_at_most"] = bound.of_at_most
    return {NOT_NAMED: entry}


def unnamed_bound(statement: Mapping[str, Any], confidence: float) -> UnnamedBound:
    """Returns a bound on the users of a partition that is not named, by what the statement says
    about the selection."""
    entry = statement.get(NOT_NAMED)
    if entry is not None and entry["confidence"] == confidence:
        return UnnamedBound(entry["users_at_most"], entry.get("of_users_with_at_most"))
    strategy = strategy_of(statement)
    if strategy is None:
        return UnnamedBound(None)
    # The plan of a look may let fewer partitions count than users were bounded to.
    same_bound = strategy.max_partitions_per_user == statement["max_partitions_per_user"]
    bounded_before = same_bound and not is_enforced_in_rounds(statement)
    return most_unnamed_users(strategy, confidence, bounded_before=bounded_before)
