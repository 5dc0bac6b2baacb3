"""Defines a small private look at the records, and estimates populations that explain it.

A look consists of two lists of noisy numbers:

* the number of users in each cell, where cells are ranges of numbers of distinct partitions,
  between ``degree_edges``;
* tails. Here each user counts in one partition only, chosen at random. Let c(t) be the number of
  partitions that then have at least t users. The k-th tail is the sum of c(t) over 2**k <= t <
  2**(k+1), and the last tail is the sum over all larger t.

Privacy. Neighbours add or remove all records of one user. That changes the number of users in one
cell by one. The partition in which a user counts follows from that user's records alone. So the
count of one partition changes, from t - 1 to t or back: c(t) changes by one, and so does one tail.
Each of the two lists changes by one in L1, and by two if a user's records are replaced by those of
another user. Discrete Laplace noise, whose scale is this change over epsilon', makes a list
epsilon'-differentially private (Dwork, McSherry, Nissim, Smith 2006). By sequential composition the
look costs the sum for both lists.

A partition of t users adds to all of c(1), ..., c(t). So large partitions stand out from the noise
of their tail however few they are.

Populations are estimated from the noisy numbers alone. It is assumed that users have a smooth
density by the logarithm of their number of partitions, and partitions a smooth density by the
logarithm of their number of users. Where noise hides a density, its slope is continued. The number
of users of a partition is a Poisson number around its mean. The sum of all tails is the number of
all users, since each counts in one partition. The tails tell how many users count in a partition.
How many users it has in all depends on who they are: see ``ASSOCIATIONS``.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray, IntArray
from dp_transforms.mechanisms.selection.smooth_density import SmoothDensity

TAILS = 40
FOR_USERS = Fraction(3, 4)
"""The part of a look's epsilon for the numbers of users. The choice of rounds depends mostly on
them, and tails are informative even under much noise."""

_SIZES_FALL, _DEGREES_FALL = -1.0, -2.0
"""Expected slopes of the densities of partitions by their users, and of users by their partitions.
The first is Zipf's. The second is steeper, for users of many partitions whom noise hides: with
Zipf's slope there would be as many records in each further doubling of degrees, without end. If
users are estimated who do not exist, plans may name half as much. If too few are estimated, little
is lost."""
_SPACING = 0.35
_SURELY = 2
"""The number of users is hardly ever below the noisy one, less so many standard deviations."""
_DRAWN = 8
"""The number of readings that are drawn. Twice as many would take twice as long to compare."""
_RAKED = 30

ASSOCIATIONS = (0.0, 0.2)
"""How much users of many partitions prefer less popular ones, see ``_shares``. A look does not
tell, so plans have to do well in both cases. At 0 all users prefer the same partitions. At 0.2
users of ten times as many partitions have a partition of ten times the popularity only a third as
often as both factors suggest. Authors of git projects are at 0 to 0.1 with their words, and at 0.1
to 0.2 with their files."""


class Look(NamedTuple):
    """Holds the noisy numbers that a look released.

    Attributes:
      degrees: the noisy number of users in each cell.
      tails: the noisy tails.
      edges: the largest number of partitions in each cell but the last one.
      scales: the scale of the noise of ``degrees``, and that of ``tails``.
    """

    degrees: tuple[int, ...]
    tails: tuple[int, ...]
    edges: tuple[int, ...]
    scales: tuple[float, float]


@functools.lru_cache(maxsize=256)
def degree_edges(max_partitions: int) -> tuple[int, ...]:
    """Returns the largest number of partitions in each cell but the last one. There are two cells
    for each doubling, up to at least 8 kappa. Users of more partitions hardly differ in any round.

    >>> degree_edges(1)
    (1, 2, 3, 4, 6, 8, 12, 16)
    """
    edges = [1]
    for exponent in range((8 * max_partitions).bit_length()):
        # 3/2 and 2 times a power of two.
        edges += [3 << exponent >> 1, 2 << exponent]
    return tuple(sorted(set(edges)))


def degree_cells(partitions: IntArray, edges: Sequence[int]) -> IntArray:
    """Returns the number of users in each cell, given each user's number of distinct partitions."""
    places = np.searchsorted(np.array(edges), partitions)
    return np.bincount(places, minlength=len(edges) + 1)


def tail_cells(users: IntArray) -> IntArray:
    """Returns the tails, given the number of users of each partition, which is at least one."""
    first = np.left_shift(np.int64(1), np.arange(TAILS, dtype=np.int64))
    past = np.append(first[1:], np.iinfo(np.int64).max)
    values, partitions = np.unique(users, return_counts=True)
    reached = np.clip(values[:, None], first - 1, past - 1) - (first - 1)
    sums: IntArray = partitions @ reached
    return sums


@dataclass(frozen=True, eq=False)
class Population:
    """Holds groups of equal users, and groups of equal partitions.

    Attributes:
      degrees: the number of partitions of a user of each group of users.
      users: the number of users in each group of users.
      shares: the probability that a user has a partition, of shape (groups of users, groups of
        partitions).
      partitions: the number of partitions in each group of partitions.
      sizes_are_known: whether each partition has exactly as many users as expected. Otherwise
        their number is only expected, and every user has the partition by chance.
    """

    degrees: FloatArray
    users: FloatArray
    shares: FloatArray
    partitions: FloatArray
    sizes_are_known: bool = False

    @classmethod
    def of_sizes(
        cls, degrees: FloatArray, users: FloatArray, sizes: FloatArray, partitions: FloatArray
    ) -> Population:
        """Returns the population whose partitions have these numbers of users, ``sizes``."""
        shares = _shares(degrees, users, sizes, partitions, np.ones(len(degrees)))
        return cls(degrees, users, shares, partitions, sizes_are_known=True)

    @functools.cached_property
    def sizes(self) -> FloatArray:
        """Returns the expected number of users of a partition of each group."""
        sizes: FloatArray = self.users @ self.shares
        return sizes

    def thinned(self, share: float) -> Population:
        """Returns the population in which each partition has only this share of its users."""
        return dataclasses.replace(self, shares=self.shares * share)


def users_in_deviations(look: Look) -> float:
    """Returns the noisy number of users, in standard deviations of its noise."""
    return sum(look.degrees) / _deviation(look)


def surely_users(look: Look) -> float:
    """Returns a number that the number of users is hardly ever below: the noisy number, less
    ``_SURELY`` standard deviations of its noise. It may be negative."""
    return sum(look.degrees) - _SURELY * _deviation(look)


def _deviation(look: Look) -> float:
    """Returns the standard deviation of the noise in the number of all users."""
    return look.scales[0] * math.sqrt(2 * len(look.degrees))


def populations_behind(look: Look) -> list[tuple[Population, ...]]:
    """Returns populations that may lie behind a look, in groups of one population for each of
    ``ASSOCIATIONS``.

    Each group is a reading of the look: a density of users and one of partitions. The first reading
    has the most likely densities. All others are drawn from their posterior distributions given the
    noisy numbers. Public numbers decide what is drawn, so the populations are a function of the
    look.

    >>> tails = tuple(tail_cells(np.full(20, 100)).tolist())
    >>> look = Look((1000, 1000) + (0,) * 7, tails, degree_edges(1), (1, 1))
    >>> population = populations_behind(look)[0][0]
    >>> print(population.users.sum().round(-2))
    2000.0
    """
    of_users = _users_behind(look)
    widths = of_users.cells.diagonal()
    drawn = of_users.draws(np.tile(of_users.seen, (_DRAWN, 1)))
    users = widths * np.vstack([np.exp(of_users.mode), drawn])
    totals = users.sum(1)
    of_partitions = _partitions_behind(look, float(totals[0]))
    seen = np.tile(of_partitions.seen, (_DRAWN, 1))
    seen[:, -1] = totals[1:]
    partitions = np.vstack([np.exp(of_partitions.mode), of_partitions.draws(seen)])
    return [
        _associated(of_users.places, of_partitions.places, *reading)
        for reading in zip(users, partitions, strict=True)
    ]


def _associated(
    log_degrees: FloatArray, log_counts: FloatArray, users: FloatArray, partitions: FloatArray
) -> tuple[Population, ...]:
    """Returns populations of these users and partitions, one with each of ``ASSOCIATIONS``.

    Args:
      log_degrees: the logarithm of the number of partitions of a user of each group of users.
      log_counts: the logarithm of the mean number of users who count in a partition of each group
        of partitions.
      users, partitions: the numbers of users and of partitions in each group.
    """
    likely = users >= 0.5
    if not likely.any():
        likely[0] = True
    degrees, users = np.exp(log_degrees[likely]), users[likely]
    return tuple(
        Population(
            degrees,
            users,
            _shares(degrees, users, np.exp(log_counts), partitions, 1 / degrees, association),
            partitions,
        )
        for association in ASSOCIATIONS
    )


def _users_behind(look: Look) -> SmoothDensity:
    """Returns what a look tells of the density of users by the logarithm of their number of
    partitions."""
    low, high = _degree_ranges(look.edges)
    widths = np.log((high + 0.5) / (low - 0.5))
    places = np.log(low * high) / 2
    seen = np.array(look.degrees, float)
    scales = np.full(len(seen), look.scales[0])
    total = max(float(seen.sum()), look.scales[0])
    falls = np.log(total / 3) + _DEGREES_FALL * places
    # The search begins at the cells that stand out from the noise.
    clear = np.where(seen > 2 * scales, np.log(np.maximum(seen, 1) / widths), falls)
    # Each cell alone may be noise where all of them together are not.
    least = max(1.0, surely_users(look))
    return SmoothDensity(np.diag(widths), seen, scales, places, _DEGREES_FALL, clear, least)


def _partitions_behind(look: Look, users: float) -> SmoothDensity:
    """Returns what a look, and the number of users, tell of the density of partitions by the
    logarithm of the mean number of users who count in them. The last number is that of all
    users."""
    places = np.arange(-3.0, math.log(max(users, 50.0)), _SPACING)
    falls = np.log(users / len(places)) - places
    # The sum of all tails is the number of all users, which is known much better.
    cells = np.vstack([_poisson_tails(len(places)), np.exp(places)])
    tails = np.append(look.tails, users)
    scales = np.full(len(tails), look.scales[1])
    scales[-1] = look.scales[0] * math.sqrt(len(look.degrees))
    return SmoothDensity(cells, tails, scales, places, _SIZES_FALL, falls, least=1.0)


def _shares(
    degrees: FloatArray,
    users: FloatArray,
    counts: FloatArray,
    partitions: FloatArray,
    counted: FloatArray,
    association: float = 0.0,
) -> FloatArray:
    """Returns the probability that a user has a partition, of shape (users, partitions).

    It is 1 - e**(-rate). The logarithm of the rate is the sum of a term of the user, a term of the
    partition, and -association * log(degree) * log(count) (Goodman 1979, the model of uniform
    association). The terms of users are fitted to their degrees, and those of partitions to their
    counts, in turns.

    Args:
      degrees, users, partitions: see ``Population``.
      counts: the number of users who count in a partition of each group.
      counted: the part of a user's partitions in which the user counts.
      association: see ``ASSOCIATIONS``.
    """
    most = np.minimum(counts, 0.999 * float(users @ counted))
    popular = np.log(np.maximum(counts, 1))
    rates = degrees[:, None] * np.exp(-association * np.log(degrees)[:, None] * popular)
    rates *= most / (users * counted @ rates)
    # Both sums are the number of all counted pairs (user, partition). They differ by noise.
    all_counted = float(partitions @ most) / float(users @ (counted * degrees))
    for _ in range(_RAKED):
        has = -np.expm1(-rates) @ partitions
        rates *= (degrees * all_counted / np.maximum(has, 1e-300))[:, None]
        rates *= most / np.maximum(users * counted @ -np.expm1(-rates), 1e-300)
    low, high = np.zeros(len(most)), np.full(len(most), 64.0)
    for _ in range(50):
        times = (low + high) / 2
        short = users * counted @ -np.expm1(-rates * times) < most
        low, high = np.where(short, times, low), np.where(short, high, times)
    shares: FloatArray = -np.expm1(-rates * low)
    return shares


def _degree_ranges(edges: Sequence[int]) -> tuple[FloatArray, FloatArray]:
    """Returns the smallest number of partitions in each cell, and about the largest one."""
    lasts = np.array(edges, float)
    return np.append(1.0, lasts + 1), np.append(lasts, 3 * lasts[-1])


@functools.lru_cache(maxsize=64)
def _poisson_tails(groups: int) -> FloatArray:
    """Returns the expected tails of one partition of each group, of shape (tails, groups). The
    means of the groups are ``_SPACING`` apart in logarithm."""
    return np.stack(
        [_expected_tails(math.exp(-3.0 + _SPACING * place)) for place in range(groups)], axis=1
    )


def _expected_tails(mean: float) -> FloatArray:
    """Returns the expected tails of a partition with a Poisson number of users of this mean."""
    first = 2.0 ** np.arange(TAILS)
    past = np.append(first[1:], np.inf)
    if mean > 400:
        reached: FloatArray = np.clip(mean, first - 1, past - 1) - (first - 1)
        return reached
    numbers = np.arange(int(mean + 12 * math.sqrt(mean) + 30), dtype=float)
    logs = numbers * math.log(mean) - mean
    logs -= np.concatenate([[0.0], np.cumsum(np.log(numbers[1:]))])
    of_each = np.clip(numbers[:, None], first - 1, past - 1) - (first - 1)
    expected: FloatArray = np.exp(logs) @ of_each
    return expected


def cells_text(cells: Sequence[int]) -> str:
    """Returns the text of private cells. As part of a tape's context it gives other cells other
    noise."""
    return ", ".join(map(str, cells))
