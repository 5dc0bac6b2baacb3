"""A small private look at records, and the population that explains it.

The look holds two lists of noisy numbers:

* users by the number of their distinct partitions, in cells between ``degree_edges``;
* tails: of each user one partition counts, chosen at random. With c(t) for the number of partitions
  that then have at least t users, the k-th tail is the sum of c(t) over 2**k <= t < 2**(k+1), and
  the last one is that of all larger t.

Privacy. Neighbours add or remove all records of one user. That changes one number of users by
one. Which partition counts of a user follows from that user's records alone, so that the count of
one partition changes, from t - 1 to t or back: c(t) changes by one, and so does one tail. Each of
the two lists changes by one in L1, and by two if records are exchanged for another user's. With
discrete Laplace noise of that scale over epsilon' a list is epsilon'-differentially private (Dwork,
McSherry, Nissim, Smith 2006), and by sequential composition the look costs the sum for both lists.

A partition of t users adds to all of c(1), ..., c(t), so that large partitions stand out from the
noise of their tail however few they are.

What follows is computed from the noisy numbers alone. Users by the logarithm of their number of
partitions, and partitions by the logarithm of their users, have smooth densities: where noise hides
one, its slope goes on. A partition with m users on average has a Poisson number of them. All tails
together are all users, since one partition of each counts. Of the tails follows how many users a
partition has of which one counts, and how many users it has in all depends on who they are: see
``ASSOCIATIONS``.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray, IntArray

TAILS = 40
FOR_USERS = Fraction(3, 4)
"""The part of a look's epsilon for the numbers of users: rounds hang on these most of all, and
tails say something even under much noise."""

_KINK = 0.7
"""The standard deviation of changes of a density's slope, by the root of the change of logarithm:
slopes of real lists and degrees differ by about one from their heads to their tails."""
_SIZES_FALL, _DEGREES_FALL = -1.0, -2.0
"""Expected slopes of densities. That of partitions by their users is Zipf's. Users of many
partitions are expected to be fewer where noise hides them: with Zipf's slope there would be as many
records in each doubling of degrees without end. Many users who are not there mislead to plans that
name half as much; a plan for fewer than there are loses little."""
_AROUND = 2.0
"""Slopes are about these, up to this deviation by the root of the change of logarithm."""
_FREEDOM = 3.0
"""Of Student distributions, whose tails allow steps: that all users have three partitions, say."""
_MODEL_ERROR = 0.03
"""The relative deviation of cells from a smooth density, which keeps noise-free cells from forcing
it through each of them."""
_SPACING = 0.35
_AGAIN = 4
"""Half of the number of times that noise is added once more."""
_MOST_STEPS = 80
_RAKED = 30

ASSOCIATIONS = (0.0, 0.2)
"""Who has popular partitions, see ``_shares``. A look does not tell, and plans have to do well in
both cases. At 0 all users like the same partitions. At 0.2 users of ten times as many partitions
have, of a partition ten times as popular, a third of what that would let expect. Authors of git
projects are at 0 to 0.1 with their words, and at 0.1 to 0.2 with their files."""


class Look(NamedTuple):
    """What a look released.

    Attributes:
      degrees: noisy numbers of users.
      tails: noisy tails.
      edges: the largest number of partitions in each cell of users but the last.
      scales: of the noise of numbers of users, and of tails.
    """

    degrees: tuple[int, ...]
    tails: tuple[int, ...]
    edges: tuple[int, ...]
    scales: tuple[float, float]


@functools.lru_cache(maxsize=256)
def degree_edges(max_partitions: int) -> tuple[int, ...]:
    """Returns the largest number of partitions in each cell of users but the last, twice in each
    doubling up to at least 8 kappa: who has more hardly differs from these in any round.

    >>> degree_edges(1)
    (1, 2, 3, 4, 6, 8, 12, 16)
    """
    doubling = range((8 * max_partitions).bit_length())
    return (1, *sorted(edge << i >> 1 for i in doubling for edge in (3, 4) if edge << i > 3))


def degree_cells(partitions: IntArray, edges: Sequence[int]) -> IntArray:
    """Counts users in cells of their numbers of distinct partitions."""
    places = np.searchsorted(np.array(edges), partitions)
    return np.bincount(places, minlength=len(edges) + 1)


def tail_cells(users: IntArray) -> IntArray:
    """Returns the tails of numbers of users of partitions, each of at least one user."""
    first = np.left_shift(np.int64(1), np.arange(TAILS, dtype=np.int64))
    past = np.append(first[1:], np.iinfo(np.int64).max)
    values, partitions = np.unique(users, return_counts=True)
    reached = np.clip(values[:, None], first - 1, past - 1) - (first - 1)
    sums: IntArray = partitions @ reached
    return sums


@dataclass(frozen=True, eq=False)
class Population:
    """Users and partitions in groups.

    Attributes:
      degrees, users: the numbers of partitions that users have, and how many users have them.
      shares: the probability that a user has a partition, users x partitions.
      partitions: how many partitions there are of each group.
    """

    degrees: FloatArray
    users: FloatArray
    shares: FloatArray
    partitions: FloatArray

    @classmethod
    def of_sizes(
        cls, degrees: FloatArray, users: FloatArray, sizes: FloatArray, partitions: FloatArray
    ) -> Population:
        """Returns the population whose partitions have so many users."""
        shares = _shares(degrees, users, sizes, partitions, np.ones(len(degrees)))
        return cls(degrees, users, shares, partitions)

    @classmethod
    def of(cls, look: Look) -> Population:
        """Returns the population that explains a look, if users of few and of many partitions like
        the same ones.

        >>> tails = tuple(tail_cells(np.full(20, 100)).tolist())
        >>> look = Look((1000, 1000) + (0,) * 7, tails, degree_edges(1), (1, 1))
        >>> population = Population.of(look)
        >>> print(population.users.sum().round(-2))
        2000.0
        """
        return _explaining(look)[0]

    @functools.cached_property
    def sizes(self) -> FloatArray:
        """Returns the expected numbers of users of partitions."""
        sizes: FloatArray = self.users @ self.shares
        return sizes

    def thinned(self, share: float) -> Population:
        """Returns the population with this share of each partition's users."""
        return dataclasses.replace(self, shares=self.shares * share)


def populations_behind(look: Look) -> list[tuple[Population, ...]]:
    """Returns populations that may lie behind a look: those that explain it, one with each of
    ``ASSOCIATIONS``, and those that explain it with as much noise added once more, which is the
    same for all looks."""
    cells = len(look.degrees)
    scales = np.repeat(look.scales, (cells, len(look.tails)))
    noise = scales * _fixed_laplace(len(scales))
    seen = np.concatenate([look.degrees, look.tails]) + noise
    noisier = (
        look._replace(degrees=tuple(row[:cells].tolist()), tails=tuple(row[cells:].tolist()))
        for row in seen
    )
    return [_explaining(look), *map(_explaining, noisier)]


def _explaining(look: Look) -> tuple[Population, ...]:
    """Returns the populations that explain a look, one with each of ``ASSOCIATIONS``."""
    low, high = _degree_ranges(look.edges)
    widths = np.log((high + 0.5) / (low - 0.5))
    middles = np.sqrt(low * high)
    seen = np.array(look.degrees, float)
    total = max(float(seen.sum()), look.scales[0])
    falls = np.log(total / 3) + _DEGREES_FALL * np.log(middles)
    # It begins at what stands out from the noise.
    clear = np.where(seen > 2 * look.scales[0], np.log(np.maximum(seen, 1) / widths), falls)
    places = np.log(middles)
    users = _density(np.diag(widths), seen, look.scales[0], places, clear, _DEGREES_FALL) * widths
    some = users >= 0.5
    if not some.any():
        some[0] = True
    degrees, users = middles[some], users[some]
    means = np.exp(np.arange(-3.0, math.log(max(users.sum(), 50.0)), _SPACING))
    falls = np.log(users.sum() / len(means)) - np.log(means)
    # All tails together are all users, of whose number much more is known.
    cells = np.vstack([_poisson_tails(len(means)), means])
    tails = np.append(look.tails, users.sum())
    scales = np.full(len(tails), look.scales[1])
    scales[-1] = look.scales[0] * math.sqrt(len(seen))
    partitions = _density(cells, tails, scales, np.log(means), falls, _SIZES_FALL)
    return tuple(
        Population(
            degrees,
            users,
            _shares(degrees, users, means, partitions, 1 / degrees, association),
            partitions,
        )
        for association in ASSOCIATIONS
    )


def _shares(
    degrees: FloatArray,
    users: FloatArray,
    counts: FloatArray,
    partitions: FloatArray,
    counted: FloatArray,
    association: float = 0.0,
) -> FloatArray:
    """Returns the probability that a user has a partition, users x partitions.

    It is 1 - e**(-rate), and the logarithm of the rate is a term of the user, one of the partition
    and -association * log(degree) * log(count) (Goodman 1979, the model of uniform association). In
    turn the terms of users are fitted to their degrees, and those of partitions to their counts.

    Args:
      counts: how often partitions of each group are counted.
      counted: the part of a user's partitions that count.
    """
    most = np.minimum(counts, 0.999 * float(users @ counted))
    popular = np.log(np.maximum(counts, 1))
    rates = degrees[:, None] * np.exp(-association * np.log(degrees)[:, None] * popular)
    rates *= most / (users * counted @ rates)
    # Both sums are of all that is counted; noise lets them differ.
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


@functools.lru_cache(maxsize=64)
def _fixed_laplace(cells: int) -> FloatArray:
    """Returns Laplace numbers of scale 1 and their negatives, one set in each row. They are public
    and decide nothing about privacy."""
    digest = hashlib.shake_256(b"noise added once more").digest(8 * _AGAIN * cells)
    words = np.frombuffer(digest, "<u8").reshape(_AGAIN, cells)
    uniform = ((words >> np.uint64(12)) + 0.5) / 2.0**52 - 0.5
    laplace = -np.sign(uniform) * np.log1p(-2 * np.abs(uniform))
    return np.concatenate([laplace, -laplace])


def _degree_ranges(edges: Sequence[int]) -> tuple[FloatArray, FloatArray]:
    """Returns the first and about the last number of partitions in each cell."""
    lasts = np.array(edges, float)
    return np.append(1.0, lasts + 1), np.append(lasts, 3 * lasts[-1])


@functools.lru_cache(maxsize=64)
def _poisson_tails(groups: int) -> FloatArray:
    """Returns expected tails of one partition of each mean, tails x means."""
    return np.stack(
        [_expected_tails(math.exp(-3.0 + _SPACING * place)) for place in range(groups)], axis=1
    )


def _expected_tails(mean: float) -> FloatArray:
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


def _density(
    cells: FloatArray,
    seen: FloatArray,
    scale: float | FloatArray,
    places: FloatArray,
    start: FloatArray,
    slope: float,
) -> FloatArray:
    """Returns a likely density that is smooth but for few steps and spikes: e**t at ``places``,
    which are logarithms, so that ``cells @ e**t`` explains the noisy numbers.

    Changes of slope, and slopes around ``slope``, have Student distributions. Damped steps of
    iteratively reweighted least squares lead to a mode of the posterior.
    """
    between = np.diff(places)
    slopes = np.diff(np.eye(len(places)), axis=0) / between[:, None]
    apart = (between[1:] + between[:-1]) / 2
    kinks = np.diff(slopes, axis=0) / np.sqrt(apart)[:, None] / _KINK
    reach = np.sqrt(between) / _AROUND
    expected = np.append(np.zeros(len(kinks)), slope * reach)
    prior = np.vstack([kinks, slopes * reach[:, None]])
    likely = np.maximum(seen, 0)
    variance = 2 * scale**2 + likely + (_MODEL_ERROR * likely) ** 2
    # Quadratic near zero, and as steep as the logarithm of Laplace noise far away.
    far = variance / scale

    def loss(t: FloatArray) -> float:
        off = seen - cells @ np.exp(np.minimum(t, 60))
        from_noise = (2 * variance / scale**2 * (np.sqrt(1 + (off / far) ** 2) - 1)).sum()
        bent = prior @ t - expected
        return float(from_noise + _FREEDOM * np.log1p(bent**2 / _FREEDOM).sum())

    t, damping = start, 1e-2
    least = loss(t)
    for _ in range(_MOST_STEPS):
        density = np.exp(np.minimum(t, 60))
        change = cells * density
        off = seen - cells @ density
        precision = 1 / (variance * np.sqrt(1 + (off / far) ** 2))
        bent = prior @ t - expected
        weighted = prior.T / (1 + bent**2 / _FREEDOM)
        hessian = change.T @ (change * precision[:, None]) + weighted @ prior
        gradient = change.T @ (off * precision) - weighted @ bent
        step = np.linalg.solve(hessian + damping * np.eye(len(t)), gradient)
        there = t + np.clip(step, -2, 2)
        loss_there = loss(there)
        if loss_there > least:
            damping *= 4
            if damping > 1e9:
                break
            continue
        gain, t, least = least - loss_there, there, loss_there
        damping = max(damping / 3, 1e-6)
        if gain < 1e-6:
            break
    density = np.exp(np.minimum(t, 60))
    return density


def cells_text(cells: Sequence[int]) -> str:
    """Returns a name of private cells for a tape, so that others have noise of their own."""
    return ", ".join(map(str, cells))
