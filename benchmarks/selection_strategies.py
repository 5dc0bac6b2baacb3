"""Published strategies of partition selection that this project does not offer, as peers.

``weighted_gaussian`` and ``sips`` have noise and thresholds. ``renyi`` is the single round of
``renyi_rounds`` in which every user counts alike.

The weighted Gaussian (Gopi, Gulhane, Kulkarni, Shen, Shokouhi, Yekhanin 2020, "Differentially
private set union", arXiv 2002.09745). A user with t partitions adds the weight 1/sqrt(t) to each of
them, so that the vector of weights has L2 norm 1, whatever t is. Normal noise is added to the sum
of each partition, and a partition is kept if the noisy sum exceeds a threshold. Here weights are
integers in units of 2**-24, rounded down. So their squares certainly sum to at most one, and sums
are exact.

The threshold. A partition that only one user has must rarely be selected. If that user has t
partitions, each of them is selected with probability at most p(t) = 1 - e**-(lambda / t). So with
probability at least e**-lambda none of them is selected. The sum of such a partition is w(t), and
therefore

    threshold = max over t <= kappa of w(t) + sigma * Qinv(p(t))

DP-SIPS. Round r adds normal noise to sums of weights, to which one user contributes a vector of L2
norm at most one. Call it an exposure if a partition that only this user has is selected. Given
anything that earlier rounds released, round r has an exposure with probability at most 1 -
e**-lambda_r: earlier rounds decide which partitions remain, and then the round is a fresh weighted
Gaussian. Given that there is no exposure, the rounds with and without the user are an adaptive
composition of Gaussian mechanisms of shifts mu_r, which is no worse than one of squared shift sum
mu_r**2 (Dong, Roth, Su 2022, "Gaussian differential privacy", Corollary 2; the concentrated budget
mu**2 / 2 adds up in the same way). So with G the delta of normal noise and Lambda = sum lambda_r,
in either order of the neighbours,

    delta <= 1 - e**-Lambda (1 - G(sum mu_r**2, epsilon - Lambda)).

In a single round the two kinds of loss can be traded against each other, but not here: an
adversary's user may have partitions in the first round that others have and, once those are
selected, only partitions that nobody else has. So delta is split only once, such that the last
round's threshold is the smallest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import gmpy2

from dp_transforms.mechanisms.decimals import positive_integer
from dp_transforms.mechanisms.enclosure import Enclosure, exactly, rounding_pair
from dp_transforms.mechanisms.selection import CountStrategy, SelectionStrategy, WeightedStrategy
from dp_transforms.mechanisms.selection import rounds as renyi
from dp_transforms.mechanisms.selection.gaussian import (
    GaussianBudget,
    calibrate,
    gaussian_delta,
    largest_dyadic,
    largest_mu2,
    normal_tail,
    relative_threshold,
    upper_quantile,
)
from dp_transforms.mechanisms.selection.keep_distribution import KeepDistribution
from dp_transforms.mechanisms.selection.renyi_distribution import RenyiDistribution

UNIT = 1 << 24
"""A weight of one. Sums of weights fit 64 bits up to 2**39 users of one partition."""

_PRECISION = 192
_NOISE_SHARES = tuple(Fraction(i, 16) for i in range(15, 0, -1))


def weight(partitions: int) -> int:
    """Returns floor(UNIT / sqrt(partitions)), which a user of ``partitions`` partitions adds to
    each of them."""
    return math.isqrt(UNIT * UNIT // partitions)


@dataclass(frozen=True)
class WeightedDistribution(KeepDistribution):
    """The keep probabilities of a weighted Gaussian.

    For s >= 1 they are pi(s) = P[s + sigma N > threshold] = Q((threshold - s) / sigma), with N
    normal. The statistic s is the sum of users' weights, in units of ``UNIT``.

    Attributes:
      budget: what the round may spend.
      max_partitions_per_user: kappa, the most partitions that a user has in the round.
    """

    budget: GaussianBudget
    max_partitions_per_user: int

    @property
    def sigma2(self) -> Fraction:
        return UNIT * UNIT / self.budget.mu2

    @cached_property
    def threshold(self) -> int:
        return _threshold(self.budget, self.sigma2, self.max_partitions_per_user)

    @property
    def sigma(self) -> float:
        """The noise's standard deviation, where a user's weights have L2 norm 1."""
        return 1 / math.sqrt(self.budget.mu2)

    def drop_enclosure(self, statistic: int, precision: int) -> Enclosure:
        if statistic < self.smallest:
            return exactly(1)
        gap = self.threshold - statistic
        tail = normal_tail(gap * gap / self.sigma2, precision)
        return tail if gap <= 0 else 1 - tail.rational()

    def step(self, partitions: int) -> int:
        return weight(partitions)


def _threshold(budget: GaussianBudget, variance: Fraction, most: int) -> int:
    """Returns the threshold of the module's docstring, rounded up, in units of ``UNIT``."""
    _, up = rounding_pair(_PRECISION)
    sigma = up.sqrt(gmpy2.mpq(variance))

    def needed(first: int, last: int) -> int:
        """Returns a bound on w(t) + sigma * Qinv(p(t)) for every t in [first, last]: w falls with
        t, and the quantile grows."""
        quantile = upper_quantile(budget.new_partition_probability(last))
        return int(gmpy2.ceil(up.add(weight(first), up.mul(sigma, gmpy2.mpq(quantile)))))

    # The maximum is nearly always at one of the ends. Then ``needed`` shows at once that no t
    # between them exceeds it.
    threshold = max(needed(1, 1), needed(most, most))
    pending = [(1, most)]
    while pending:
        first, last = pending.pop()
        if needed(first, last) <= threshold:
            continue
        if first == last:
            threshold = needed(first, first)
            continue
        middle = (first + last) // 2
        pending += [(first, middle), (middle + 1, last)]
    return threshold


@dataclass(frozen=True)
class WeightedGaussianSelection(WeightedStrategy):
    """The weighted Gaussian: weights of L2 norm one per user, Gaussian noise, one threshold.

    Gopi, Gulhane, Kulkarni, Shen, Shokouhi, Yekhanin (2020, "Differentially private set union");
    the privacy argument is in ``partition_selection.gaussian``.

    >>> strategy = WeightedGaussianSelection(epsilon=1, delta=1e-5, max_partitions_per_user=10)
    >>> strategy.median_users, round(strategy.rounds[0].sigma, 3)
    (58, 3.731)
    """

    name: ClassVar[str] = "weighted_gaussian"

    @cached_property
    def rounds(self) -> tuple[WeightedDistribution, ...]:
        max_partitions = self.max_partitions_per_user
        budget = calibrate(*self._budget, max_partitions, self._users_changed)
        return (WeightedDistribution(budget, max_partitions),)


@dataclass(frozen=True)
class SipsSelection(WeightedStrategy):
    """DP-SIPS: several rounds of the weighted Gaussian, with less noise in each.

    Swanberg, Desfontaines, Haney (2023, "DP-SIPS: a simpler, more scalable mechanism for
    differentially private partition selection"). Early rounds, at little cost, select the
    partitions that many users have. These are removed from the records, so that their users have
    larger weights in the remaining partitions. It is best if users have many partitions.

    Args:
      number_of_rounds: a positive integer.
      growth: each round's squared shift mu**2, and its part of the threshold's delta, is this many
        times that of the round before.

    >>> strategy = SipsSelection(epsilon=1, delta=1e-5, max_partitions_per_user=10)
    >>> [round(round_.sigma, 2) for round_ in strategy.rounds]
    [32.97, 11.66, 4.12]
    """

    number_of_rounds: int = 3
    growth: int = 8

    name: ClassVar[str] = "sips"

    def __post_init__(self) -> None:
        super().__post_init__()
        for field in ("number_of_rounds", "growth"):
            object.__setattr__(self, field, positive_integer(field, getattr(self, field)))

    @cached_property
    def rounds(self) -> tuple[WeightedDistribution, ...]:
        shares = renyi.growing_shares(self.number_of_rounds, self.growth)
        max_partitions = self.max_partitions_per_user
        budgets = calibrate_rounds(*self._budget, max_partitions, shares, self._users_changed)
        return tuple(WeightedDistribution(budget, max_partitions) for budget in budgets)


@lru_cache(maxsize=256)
def calibrate_rounds(
    epsilon: Fraction,
    delta: Fraction,
    partitions: int,
    shares: tuple[Fraction, ...],
    users_changed: int = 1,
) -> tuple[GaussianBudget, ...]:
    """Returns the budgets of the rounds: shares of the best total within (epsilon, delta).

    Args:
      epsilon, delta, partitions, users_changed: see ``gaussian.calibrate``.
      shares: the share of each round in the total mu**2 and lambda; they sum to 1.
    """
    totals = []
    for share in _NOISE_SHARES:
        mu2 = largest_mu2(epsilon, share * delta) / users_changed

        def fits(exposure: Fraction, mu2: Fraction = mu2) -> bool:
            return rounds_are_private(GaussianBudget(mu2, exposure), epsilon, delta, users_changed)

        totals.append(GaussianBudget(mu2, largest_dyadic(fits, 24)))

    def last_threshold(total: GaussianBudget) -> float:
        last = GaussianBudget(total.mu2 * shares[-1], total.exposure * shares[-1])
        return relative_threshold(last, partitions)

    total = min(totals, key=last_threshold)
    return tuple(GaussianBudget(total.mu2 * part, total.exposure * part) for part in shares)


def rounds_are_private(
    total: GaussianBudget, epsilon: Fraction, delta: Fraction, users_changed: int = 1
) -> bool:
    """Returns whether rounds with these totals of mu**2 and lambda are certainly private, at
    (epsilon, delta)."""
    down, up = rounding_pair(_PRECISION)
    exposed = gmpy2.mpq(users_changed * total.exposure)
    noise = gaussian_delta(users_changed * total.mu2, epsilon - exposed)
    spent = up.sub(1, down.mul(down.exp(-exposed), down.sub(1, noise)))
    return bool(spent <= gmpy2.mpq(delta))


@dataclass(frozen=True)
class RenyiSelection(CountStrategy):
    """Selection with keep probabilities by the number of users, as large as one Renyi order allows.

    ``renyi_distribution`` defines them, ``renyi_calibration`` has the privacy argument.

    >>> RenyiSelection(epsilon=1, delta=1e-5, max_partitions_per_user=10).median_users
    41
    """

    name: ClassVar[str] = "renyi"

    def __post_init__(self) -> None:
        super().__post_init__()
        # This raises errors about arguments now.
        _ = self._calibration.candidates

    @cached_property
    def distribution(self) -> RenyiDistribution:
        (budget,) = self._calibration.best
        return RenyiDistribution(budget, self.max_partitions_per_user)

    @cached_property
    def _calibration(self) -> renyi.Calibration:
        max_partitions = self.max_partitions_per_user
        return renyi.Calibration(*self._budget, max_partitions, users_changed=self._users_changed)

    def _parameters(self) -> dict[str, Any]:
        return {"order": self.distribution.budget.order}


PEER_STRATEGIES: dict[str, type[SelectionStrategy]] = {
    strategy.name: strategy
    for strategy in (WeightedGaussianSelection, SipsSelection, RenyiSelection)
}
"""These strategies by name."""
