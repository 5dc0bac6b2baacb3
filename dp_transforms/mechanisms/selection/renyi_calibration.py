"""Calibrates the Renyi divergence and the exposure that a selection may spend in its rounds.

Neighbours: D' consists of D and all records of one more user u. In each round, given earlier
releases, u has a set of d <= kappa partitions. Other users' sets follow from their own records and
earlier releases, so they are equal in D and D'. Decisions about partitions are independent, and
their probabilities in D and D' differ for u's d partitions only. A round's budget (order a,
divergence R, exposure lambda) is fixed beforehand, while its steps may depend on earlier releases.
The round ensures (``renyi_distribution``) that

* a partition that others have too is kept with probabilities p in D and p' in D', and the Renyi
  divergences of order a between the two Bernoulli distributions are at most R / d, in both
  directions (the first kind);
* a partition that u alone has is kept with probability p' <= min(lambda / d, 1 - e**-(R / d)) in
  D', and never in D (the second kind).

Let E be the event that some round selects a partition of the second kind. Let Z be the ratio of the
probabilities of all rounds' outcomes outside E, and c(R) = (1 - 1/a)**(a-1) / a * e**((a-1) (R -
epsilon)). Then (z - e**epsilon)+ <= c(R) e**-((a-1) R) z**a for every z >= 0.

D' against D. P'[S] <= P'[E] + P'[S without E]. By the union bound P'[E] is at most the sum of the
rounds' lambdas. Outside E, with Z = P' / P, each partition of the first kind multiplies E_P[Z**a],
given earlier releases, by at most e**((a-1) R / d), and one of the second kind by (1 - p')**a <= 1.
So over all rounds E_P[Z**a] <= e**((a-1) sum R), however u's partitions depend on earlier releases.

D against D'. P[E] = 0, and outside E, with Z = P / P' under P', a partition of the first kind
multiplies E_P'[Z**a] by at most e**((a-1) R / d), and one of the second kind by (1 - p')**(1-a) <=
e**((a-1) R / d).

Hence delta <= sum lambda + c(sum R) (by the conversion of Canonne, Kamath, Steinke 2020, "The
discrete Gaussian for differential privacy", Proposition 12, at one order).

The last round hardly spends both its divergence and its exposure. Let f be the share of u's
partitions in it that are of the second kind, lambda and r its budget, q the other rounds' sum of R,
and z their ratio Z. Given their releases, the last round adds at most f lambda z + c(0) z**a
e**((a-1) (1-f) r). This is convex in f, and so at most c(0) z**a + max(lambda z, c(r) z**a). For
any eta > 0 and

    lambda <= (c(r) / u)**u (eta / v)**v,        u = a / (2a-1),  v = (a-1) / (2a-1)

the inequality of weighted means says that lambda z <= c(r) z**a + eta z**(1-a). The right side is
also at least c(r) z**a. E_P[z**a] is at most e**((a-1) q), and so is E_P[z**(1-a)], by the bounds
on a round in the other direction. Hence

    delta <= sum of the other rounds' lambda + c(q) + c(q + r) + eta e**((a-1) q)

A single round has z = 1 and no rounds before it. There the whole delta may be spent twice, as c(r)
and as c(0) + lambda.

Pre-threshold. With a pre-threshold of t users, the largest sum that t - 1 users could add is
subtracted from the statistic, and below t users the statistic is 0. If it is 0 without u, then with
u it is at most u's step: such a partition counts as one of the second kind.

Replacement. If neighbours replace one user's records by those of another, two users change: c
counts R twice, also in q, and lambda once in each direction, for the user who is present. With f =
1 the other user's r is left, so that c(q) becomes c(q + r / 2), where q and r are sums over both
users. A partition that only the absent user had is selected with probability p in D and never in
D'. If it is not selected, it multiplies the moments by (1-p)**(1-a) <= e**((a-1) R / d) or by
(1-p)**a. The statistic of a partition that both users have moves by the difference of their steps.
This costs less than the longer step from the same point on, since the distribution does not fall,
and only one user is charged for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import gmpy2

from dp_transforms.mechanisms.enclosure import Enclosure, as_fraction, enclosed

_PRECISION = 128
_NOISE_SHARE = Fraction(7, 10)
"""The share of delta for c(sum R) of several rounds. Any share is private; this one keeps the
most."""


@dataclass(frozen=True)
class RenyiBudget:
    """Limits the change that one user may make in a round.

    Attributes:
      order: the order of the Renyi divergence, an integer above 1.
      divergence: the largest Renyi divergence of this order, over all of the user's partitions.
      exposure: the largest sum of the keep-probabilities of partitions that only this user has.
    """

    order: int
    divergence: Fraction
    exposure: Fraction

    def share(self, divergence: Fraction, exposure: Fraction) -> RenyiBudget:
        """Returns a budget with these shares of the divergence and of the exposure."""
        return RenyiBudget(self.order, self.divergence * divergence, self.exposure * exposure)


def converted_delta(order: int, divergence: Fraction, epsilon: Fraction) -> Enclosure:
    """Encloses c(divergence), with c as in the module."""
    exponent = enclosed(gmpy2.mpq(order - 1, order), _PRECISION).log() + divergence - epsilon
    return ((order - 1) * exponent).exp() / order


def largest_divergence(order: int, epsilon: Fraction, delta: Fraction) -> Fraction:
    """Returns the R with c(R) = delta, rounded down; not positive if there is none."""
    per_order = enclosed(delta * order, _PRECISION).log() / (order - 1)
    exact = per_order - enclosed(gmpy2.mpq(order - 1, order), _PRECISION).log() + epsilon
    return as_fraction(exact.lower)


def total_budget(
    order: int,
    epsilon: Fraction,
    delta: Fraction,
    last: tuple[Fraction, Fraction],
    users_changed: int = 1,
) -> RenyiBudget:
    """Returns the budget of all rounds together, at this order.

    Args:
      order: the order of the Renyi divergence.
      epsilon, delta: the budget of the selection.
      last: the last round's shares of the divergence and of the exposure; (1, 1) for a single
      round.
      users_changed: 1, or 2 if neighbours replace one user by another.
    """
    single = last[0] == 1
    noise = delta if single else delta * _NOISE_SHARE
    divergence = largest_divergence(order, epsilon, noise) / users_changed
    if divergence <= 0:
        return RenyiBudget(order, divergence, Fraction(0))
    late = users_changed * divergence * last[0]
    early = users_changed * divergence - late
    left = converted_delta(order, early + late * (users_changed - 1) / 2, epsilon)
    if single:
        return RenyiBudget(order, divergence, as_fraction((delta - left).lower))
    exposure = delta - noise
    eta = exposure - left - delta * (1 - last[1])
    if eta.lower > 0:
        eta = eta / enclosed((order - 1) * early, _PRECISION).exp()
        u = gmpy2.mpq(order, 2 * order - 1)
        most = converted_delta(order, late, epsilon) / u
        bound = (u * most.log() + (1 - u) * (eta / (1 - u)).log()).exp()
        exposure = max(exposure, as_fraction(bound.lower))
    return RenyiBudget(order, divergence, exposure)
