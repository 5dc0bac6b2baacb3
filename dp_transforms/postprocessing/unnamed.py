"""Bounds the users that a partition may have if a selection did not name it.

A selection names a partition with a known probability. So if a partition that you have in mind is
not in the table, it hardly has many users. Let t be the largest number of users n with

    P[not named | n users] > failure.

Then n <= t has the confidence 1 - failure for every partition, whether it exists or not, over the
randomness of the selection alone.

**Counts.** A strategy that decides by the number n of users whose records count names with the
probability pi(n), exactly, and pi does not fall.

**Rounds.** Let m partitions of a user count in a round. In round j, a partition that was not named
before is dropped with a probability that does not rise with s_j, the sum of its users' weights. A
user with at most m partitions gives a weight to each of them in each round, and the weight falls
with the number of the user's partitions that are left. So if n users of the partition have at most
m partitions each, s_j >= n w_j(m) in every round, whatever the other partitions are, and whichever
of them were named. A partition's random numbers are fresh in every round, and independent of those
of other partitions. So

    P[not named] <= product over rounds of the drop probability at n w_j(m),

where each factor is that of the worst distribution that the round may have. This bounds n, the
number of users with at most m partitions. If all users were bounded to m partitions before, these
are all users that count. Otherwise users with more partitions come on top.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import gmpy2

from dp_transforms.mechanisms.decimals import Number, exact_fraction
from dp_transforms.mechanisms.enclosure import smallest_where
from dp_transforms.mechanisms.selection import (
    CountStrategy,
    MeasuredSelection,
    SelectionStrategy,
    WeightedStrategy,
)
from dp_transforms.mechanisms.selection.keep_distribution import KeepDistribution
from dp_transforms.postprocessing.estimates import CONFIDENCE

_PRECISION = 96
_MANY = 10**18  # More names than any selection has.
_MOST_USERS = 10**12


class UnnamedBound(NamedTuple):
    """A bound on the users of a partition that was not named.

    Attributes:
      users: the largest number of users; None if nothing is known, since partitions of all sizes
        may be missing.
      of_at_most: the bound is about users with at most so many partitions; None if it is about all
        users that count.
    """

    users: int | None
    of_at_most: int | None = None


def most_unnamed_users(
    strategy: SelectionStrategy, confidence: Number = CONFIDENCE, *, bounded_before: bool = True
) -> UnnamedBound:
    """Returns a bound on the users of a partition that a strategy did not name, see the module.

    Args:
      strategy: the strategy. If it begins with a measurement, give the ``branch`` of the plan that
        was taken: without the plan, nothing is known.
      confidence: between 0 and 1.
      bounded_before: whether each user had at most kappa partitions before the selection. Otherwise
        each round chooses some of them anew.

    Raises:
      ValueError: the confidence is out of range.

    >>> from dp_transforms.mechanisms.selection import OptimalSelection
    >>> strategy = OptimalSelection(1, 1e-5)
    >>> most_unnamed_users(strategy)
    UnnamedBound(users=13, of_at_most=None)
    >>> strategy.keep_probability(13) < 0.95 <= strategy.keep_probability(14)
    True
    """
    exact = exact_fraction("confidence", confidence)
    if not 0 < exact < 1:
        raise ValueError(f"confidence must be between 0 and 1, got {confidence!r}")
    failure = gmpy2.mpq(1 - exact)
    if isinstance(strategy, MeasuredSelection):
        return UnnamedBound(None)
    counted = None
    if isinstance(strategy, WeightedStrategy) and not bounded_before:
        counted = strategy.max_partitions_per_user

    def is_named(users: int) -> bool:
        return users >= _MOST_USERS or bool(_most_dropped(strategy, users) <= failure)

    least = smallest_where(is_named, 1)
    return UnnamedBound(None if least >= _MOST_USERS else least - 1, counted)


def _most_dropped(strategy: SelectionStrategy, users: int) -> Any:
    """Returns an upper bound, as an exact rational, on the probability that a partition with so
    many users is not named."""
    if isinstance(strategy, CountStrategy):
        return 1 - strategy.keep_enclosure(users, _PRECISION).rational().lower
    assert isinstance(strategy, WeightedStrategy)
    if users < strategy.pre_threshold:
        return gmpy2.mpq(1)
    dropped = gmpy2.mpq(1)
    for distributions in _rounds(strategy):
        dropped *= max(
            _dropped_in_round(strategy, distribution, users) for distribution in distributions
        )
    return dropped


def _rounds(strategy: WeightedStrategy) -> Iterator[set[KeepDistribution]]:
    """Yields, for each round, the distributions that it may have. Which it has depends on how many
    partitions were named before."""
    for index in range(strategy.most_rounds):
        yield {strategy.round_after(index, named) for named in (0, _MANY)}


def _dropped_in_round(
    strategy: WeightedStrategy, distribution: KeepDistribution, users: int
) -> Any:
    least = users * distribution.step(strategy.max_partitions_per_user)
    least -= strategy.taken_off(distribution)
    return distribution.drop_enclosure(max(0, least), _PRECISION).rational().upper
