"""Bounds for the integer-partition mechanism that look at the data, with a budget of their own.

Both cost epsilon, for adding or removing all records of one user, on top of what the release
between them costs; all that follows on the noisy numbers is post-processing. The published table
algorithms need them, for their cost grows with the distance of the bounds. That of the walk depends
on how many runs the bounds have, and ``IntegerPartitionMechanism`` needs none.
"""

from __future__ import annotations

import numpy as np

from dp_transforms.mechanisms.decimals import Number, positive_rational
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.noise.discrete_noise import discrete_laplace
from dp_transforms.mechanisms.partition_bounds import NO_BOUND, PartitionBounds
from dp_transforms.mechanisms.randomness import RandomTape


def checkpoint_bounds(
    frequency_list: FrequencyList,
    *,
    every: int,
    count: int,
    width: int,
    epsilon: Number,
    sensitivity: int = 1,
    tape: RandomTape | None = None,
) -> PartitionBounds:
    """Bounds around noisy values of every ``every``-th entry of a private list (Ilvento).

    The entries at the ranks every, 2 * every, ..., count * every are released with discrete Laplace
    noise of scale sensitivity / epsilon. A rank's upper bound is the noisy entry before it plus the
    width, its lower bound the one behind it minus the width. Ranks before the first have no upper
    bound, ranks behind the last no lower one.

    Privacy: epsilon-DP. A user changes the sorted list by at most ``sensitivity`` in L1, and so
    some of its entries. Which ranks are looked at is public.

    Args:
      frequency_list: the private list.
      every: the distance between the entries, public.
      count: how many there are, public.
      width: how far the bounds are from the noisy entries; public. With width = w all noise is
        within the bounds with probability at least 1 - count * e**(-epsilon * w / sensitivity).
      epsilon: what these bounds cost.
      sensitivity: the most partitions that one user contributes to.
      tape: where the randomness comes from; by default a fresh one from the operating system.

    Raises:
      ValueError: a number is not positive, or width negative; the tape has served such bounds.
    """
    _check("every", every, 1)
    _check("count", count, 1)
    _check("width", width, 0)
    _check("sensitivity", sensitivity, 1)
    scale = sensitivity / positive_rational("epsilon", epsilon)
    ranks = every * np.arange(1, count + 1)
    served = (tape or RandomTape.from_os()).serve("checkpoints")
    noisy = frequency_list.at_ranks(ranks) + discrete_laplace(scale, served, "checkpoints", count)
    upper = np.minimum.accumulate(np.clip(noisy + width, 0, NO_BOUND))
    lower = np.maximum.accumulate(np.clip(noisy - width, 0, NO_BOUND)[::-1])[::-1]
    # Where noise is larger than the width they may cross.
    lower = np.minimum(lower, upper)
    return PartitionBounds(
        lower=FrequencyList.from_runs(lower, np.full(count, every)),
        upper=FrequencyList.from_runs(upper[:-1], np.full(count - 1, every)),
        unbounded_ranks=every - 1,
        beyond=int(upper[-1]),
    )


def truncated_bounds(
    frequency_list: FrequencyList,
    *,
    margin: int,
    epsilon: Number,
    sensitivity: int = 1,
    tape: RandomTape | None = None,
) -> PartitionBounds:
    """No more items than a private list has, give or take noise; for sparse lists (Ilvento).

    The number of items is released with discrete Laplace noise of scale sensitivity / epsilon;
    ranks beyond it plus the margin are zero.

    Privacy: epsilon-DP. A user changes whether an item occurs at all for at most ``sensitivity``
    items.

    Args:
      margin: added to the noisy number; public. With margin = w nothing of the list is cut off
        with probability at least 1 - e**(-epsilon * w / sensitivity).
      frequency_list, epsilon, sensitivity, tape: see ``checkpoint_bounds``.

    Raises:
      ValueError: as there, or the margin is negative.
    """
    _check("margin", margin, 0)
    _check("sensitivity", sensitivity, 1)
    scale = sensitivity / positive_rational("epsilon", epsilon)
    served = (tape or RandomTape.from_os()).serve("truncation")
    noise = discrete_laplace(scale, served, "truncation", 1)
    items = frequency_list.distinct + int(noise[0]) + margin
    return PartitionBounds(unbounded_ranks=min(max(items, 0), NO_BOUND - 1))


def _check(name: str, number: object, least: int) -> None:
    if type(number) is not int or number < least:
        raise ValueError(f"{name} must be an integer of at least {least}, got {number!r}")
