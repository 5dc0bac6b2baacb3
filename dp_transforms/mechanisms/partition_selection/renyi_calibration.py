"""How much Renyi divergence, and how much exposure, a selection may spend in its rounds.

Neighbours: D' is D and all records of one more user u. In each round, given what earlier rounds
released, u has a set of d <= kappa partitions; those of other users follow from their own records
and from the past, so that they are the same in D and D'. Decisions about partitions are independent
of each other, and only those about u's d partitions have other probabilities in D' than in D. A
round's budget (order a, divergence R, exposure lambda) is fixed beforehand, and its steps may
depend on what earlier rounds released. The round sees to it (``renyi_law``) that

* a partition that others have too is kept with probabilities p in D and p' in D' whose Bernoulli
  laws have Renyi divergences of order a of at most R / d, in both directions;
* one that u alone has is kept with probability p' <= min(lambda / d, 1 - e**-(R / d)), in D never.

Let E be the event that some partition is selected which u alone had in that round, Z the ratio of
the probabilities of all rounds' outcomes outside E, and c(R) = (1 - 1/a)**(a-1) / a *
e**((a-1) (R - epsilon)), for which (z - e**epsilon)+ <= c(R) e**-((a-1) R) z**a for every z >= 0.

D' against D. P'[S] <= P'[E] + P'[S without E]. By the union bound P'[E] is at most the sum of the
rounds' lambdas. Outside E, with Z = P' / P, each partition of the first kind multiplies E_P[Z**a],
given the past, by at most e**((a-1) R / d), and one of the second kind by (1 - p')**a <= 1. So over
all rounds, however u's partitions depend on what was released, E_P[Z**a] <= e**((a-1) sum R).

D against D'. P[E] = 0, and outside E, with Z = P / P' under P', a partition of the first kind
multiplies E_P'[Z**a] by at most e**((a-1) R / d), and one of the second kind by (1 - p')**(1-a) <=
e**((a-1) R / d).

Hence delta <= sum lambda + c(sum R) (the conversion is that of Canonne, Kamath, Steinke 2020, "The
discrete Gaussian for differential privacy", Proposition 12, at one order).

In a single round a share f of u's partitions is of the second kind, whence delta <= f lambda +
c((1 - f) R), which is convex in f and so at most its value at f = 0 or f = 1: there the whole delta
may be spent twice, as c(R) and as lambda + c(0).

With a pre-threshold of t users, the most that t - 1 users could add is taken off the statistic,
which is 0 below t users. Where it was 0 without u, with u it is at most u's step: such a partition
counts as one of the second kind.

An epsilon_0-differentially private statistic may come first, and choose the rounds' number, steps
and shares of budgets, but neither the order a nor their sums R and lambda. Its Z is within
e**epsilon_0 of one, in both directions, and has mean one, so that by convexity E_P[Z**a] is at most
its value where Z is e**epsilon_0 or e**-epsilon_0, that is, e**((a-1) R_0) with

    R_0 = log((e**(a epsilon_0) + e**((1-a) epsilon_0)) / (1 + e**epsilon_0)) / (a-1)

As one more factor of Z it leaves c(R_0 + sum R) in place of c(sum R).

Neighbours that replace one user's records by another's have two such users: c counts R twice, and
lambda once in each direction, that of the user who is there. A partition that both have moves by
the difference of their steps, which costs less than the longer of these from the same point on,
since the law does not fall; this charges one user only.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import gmpy2

from dp_transforms.mechanisms.enclosure import as_fraction, rounding_pair

_PRECISION = 128
_NOISE_SHARE = Fraction(7, 10)
"""Of delta, what several rounds spend as c(sum R); any is private, this one keeps the most."""


@dataclass(frozen=True)
class RenyiBudget:
    """What one user may change in a round.

    Attributes:
      order: an integer above 1.
      divergence: Renyi divergence of that order over all of the user's partitions.
      exposure: the sum over partitions that only this user has of the probabilities of being kept.
    """

    order: int
    divergence: Fraction
    exposure: Fraction

    def share(self, divergence: Fraction, exposure: Fraction) -> RenyiBudget:
        """These shares of the divergence and of the exposure."""
        return RenyiBudget(self.order, self.divergence * divergence, self.exposure * exposure)


def converted_delta(order: int, divergence: Fraction, epsilon: Fraction) -> Any:
    """c(divergence) above, rounded up."""
    _, up = rounding_pair(_PRECISION)
    exponent = up.add(gmpy2.mpq(divergence - epsilon), up.log1p(gmpy2.mpq(-1, order)))
    return up.div(up.exp(up.mul(order - 1, exponent)), order)


def largest_divergence(order: int, epsilon: Fraction, delta: Fraction) -> Fraction:
    """The R with c(R) = delta, rounded down; not positive if there is none."""
    down, up = rounding_pair(_PRECISION)
    log_delta = down.div(down.log(gmpy2.mpq(delta * order)), order - 1)
    exact = down.sub(down.add(gmpy2.mpq(epsilon), log_delta), up.log1p(gmpy2.mpq(-1, order)))
    return as_fraction(exact)


def statistic_divergence(order: int, epsilon: Fraction) -> Fraction:
    """R_0 above, of an ``epsilon``-differentially private statistic; rounded up.

    >>> round(float(statistic_divergence(15, Fraction(1, 50))), 5)
    0.00296
    """
    down, up = rounding_pair(_PRECISION)
    powers = [up.exp(gmpy2.mpq(times * epsilon)) for times in (order, 1 - order)]
    moment = up.div(up.add(*powers), down.add(1, down.exp(gmpy2.mpq(epsilon))))
    return as_fraction(up.div(up.log(moment), order - 1))


def total_budget(
    order: int,
    epsilon: Fraction,
    delta: Fraction,
    single_round: bool,
    users_changed: int = 1,
    statistic: Fraction = Fraction(0),
) -> RenyiBudget:
    """All that rounds may spend together at this order.

    Args:
      order: an integer above 1.
      epsilon, delta: positive, and delta below 1.
      single_round: there is only one round, in which the whole delta may be spent twice.
      users_changed: 1 for neighbours that add or remove one user, 2 for those that replace one.
      statistic: the epsilon of a statistic that came before, if there are several rounds.
    """
    noise = delta if single_round else delta * _NOISE_SHARE
    divergence = largest_divergence(order, epsilon, noise)
    if statistic:
        assert not single_round
        divergence -= statistic_divergence(order, statistic)
    divergence /= users_changed
    if not single_round:
        return RenyiBudget(order, divergence, delta - noise)
    down, _ = rounding_pair(_PRECISION)
    rest = converted_delta(order, (users_changed - 1) * divergence, epsilon)
    return RenyiBudget(order, divergence, as_fraction(down.sub(gmpy2.mpq(delta), rest)))
