"""How DP-SIPS divides its budget over rounds.

Round r adds normal noise to sums of weights of which one user contributes a vector of L2 norm at
most one, and exposes the partitions that only this user has with probability at most 1 -
e**-lambda_r, given anything that earlier rounds released: they decide which partitions remain, and
after that the round is a fresh weighted Gaussian. Given that no such partition was selected, the
rounds with and without the user are an adaptive composition of Gaussian mechanisms of shifts mu_r,
which is no worse than one of squared shift sum mu_r**2 (Dong, Roth, Su 2022, "Gaussian differential
privacy", Corollary 2; the concentrated budget mu**2 / 2 adds up in the same way). The event has,
given any past, conditional probability at most 1 - e**-lambda_r in round r. So with G the delta of
normal noise and Lambda = sum lambda_r, in either order of the neighbours,

    delta <= 1 - e**-Lambda (1 - G(sum mu_r**2, epsilon - Lambda)).

Unlike in a single round, the two kinds of loss cannot be traded against each other here: an
adversary's user may have partitions that others have in the first round and, once those are
selected, only such that nobody else has. So delta is split, once, such that the last round's
threshold is the smallest.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import gmpy2

from dp_transforms.mechanisms.enclosure import rounding_pair
from dp_transforms.mechanisms.partition_selection.gaussian_calibration import (
    GaussianBudget,
    largest_budgets,
    relative_threshold,
)
from dp_transforms.mechanisms.partition_selection.normal import gaussian_delta

_PRECISION = 192
_NOISE_SHARES = tuple(Fraction(i, 16) for i in range(15, 0, -1))


@lru_cache(maxsize=256)
def calibrate_rounds(
    epsilon: Fraction,
    delta: Fraction,
    partitions: int,
    shares: tuple[Fraction, ...],
    users_changed: int = 1,
) -> tuple[GaussianBudget, ...]:
    """The rounds' budgets: shares of one total, the best one within (epsilon, delta).

    Args:
      epsilon, delta, partitions, users_changed: see ``gaussian_calibration.calibrate``.
      shares: of the total mu**2 and lambda, one per round; they sum to 1.
    """
    totals = largest_budgets(_NOISE_SHARES, epsilon, delta, users_changed, rounds_are_private)
    total = min(totals, key=lambda total: relative_threshold(total.share(shares[-1]), partitions))
    return tuple(total.share(share) for share in shares)


def rounds_are_private(
    total: GaussianBudget, epsilon: Fraction, delta: Fraction, users_changed: int = 1
) -> bool:
    """Whether rounds with these totals of mu**2 and lambda are certainly (epsilon, delta)-DP."""
    down, up = rounding_pair(_PRECISION)
    exposed = gmpy2.mpq(users_changed * total.exposure)
    noise = gaussian_delta(users_changed * total.mu2, epsilon - exposed)
    spent = up.sub(1, down.mul(down.exp(-exposed), down.sub(1, noise)))
    return bool(spent <= gmpy2.mpq(delta))
