"""The exponential and the geometric mechanism draw a list as a walk: epsilon-DP, exactly.

**The exponential mechanism.** Theorem. Let q = e**-c, phi(q) = prod_{i >= 1} (1 - q**i), and
Pr_f[x] = q**||x - f||_1 / Z(f) over all lists, or over those between two walls. If the Young
diagrams of f and f' differ in kappa cells, the probability of any x differs by a factor of at most
e**(kappa (c + ln R(c))),

    R(c) = e**c - phi(e**-c) (e**c - e**-c) < e**c.

Proof. It is enough to add one cell b to f, or to take it away: a path from f to f' through their
union does so kappa times. The weight of x changes by a factor of e**c if x has b and of e**-c
otherwise, so that with p = Pr_f[b in x]

    Z(f + b) / Z(f) = p e**c + (1 - p) e**-c.

The weights are a product over cells, on a lattice of diagrams closed under union and intersection:
increasing events are positively correlated (Fortuin, Kasteleyn and Ginibre 1971; over all lists, by
walls that go to infinity). So p is at most the probability given that x has all possible cells
outside Q, the quadrant of b and all cells right of it or below. Then the part of x in Q is a
partition v with a weight of q**|v|, since no cell of Q is in f, and p = Pr[v not empty] <= 1 -
phi(q): the sum of q**|v| over all partitions is 1 / phi(q), and walls leave fewer of them. So Z(f +
b) / Z(f) <= (1 - phi) e**c + phi e**-c = R(c). Turned by 180 degrees, let S be the rectangle of b
and all cells left of it or above, which are in f + b. Given that outside S x has only the cells
that it must have, Pr_{f+b}[b not in x] <= 1 - phi, and Z(f) / Z(f + b) <= R(c). The weight itself
is another factor of at most e**c. (If b is not between the walls, no probability changes.) QED.

The bound is attained for kappa = 1: with f empty, p = 1 - phi and x = b has a ratio of e**c R(c).
It needs the lattice: lists of a known total are none.

**The geometric mechanism** has no normalizer to pay for. Theorem. Let X, F be Young diagrams, d(X,
F) = |X xor F|, which is the L1 distance of the two lists, 0 < q < 1 and t = q / (1 + q). A corner
of X is a cell that can be added to X or removed from it; each belongs to a vertex of X's boundary.
For m corners at consecutive vertices let

    I_0 = 1,  I_1 = 1 - t,  I_m = I_{m-1} - t I_{m-2},     w(X) = the product of I_m over the
                                                           maximal chains of corners of X.

Then sum over X of q**d(X, F) w(X) = 1 for every F; and all I_m are positive if q <= 1/3.

Proof. Of two corners at consecutive vertices only one can be flipped (added or removed); a set S of
corners without such neighbours can be flipped in any combination, and the 2**|S| diagrams are a
cube. So w(X) = sum of (-t)**dim C over the cubes C that contain X. In a cube each cell is right or
wrong on its own: with d(F, C) for the distance of its nearest vertex, the sum of q**d(X, F) over
its vertices is (1 + q)**dim C q**d(F, C). (All converges absolutely: a diagram at distance d from F
has at most a multiple of sqrt(d) corners more than F.) Hence the total weight is

    sum over C of (-t (1 + q))**dim C q**d(F, C) = sum over C of (-1)**dim C q**(d(F, C) + dim C).

d(F, C) + dim C is the distance of the vertex V of C that is farthest from F, and the cubes with the
farthest vertex V are the subsets of the corners of V whose flip leads towards F. Among these no two
are neighbours: one of two neighbours is added and the other removed, the added one lies right of
the removed one or below it, so it cannot be a cell of F if the removed one is not. So the sum over
the cubes of V is q**d(F, V) (1 - 1)**n, n the number of such corners, which is 0 unless n = 0, and
n = 0 for V = F alone: a maximal cell of V outside F can be removed, and a minimal cell of F outside
V added. For q <= 1/3, t is at most 1/4, and I_m >= I_{m-1} / 2 by induction: I_m = I_{m-1} - t
I_{m-2} >= (1 - 2 t) I_{m-1}. QED.

The same holds for the diagrams between two others, L <= X <= U, where F lies between them too and
only corners count that may be flipped there: a flip towards F never leaves the interval.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.enclosure import Enclosure, enclosed, rounding_pair
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.partition.distributions import (
    ExponentialDistribution,
    GeometricDistribution,
)
from dp_transforms.mechanisms.partition.mechanism import Draw, WithinBounds
from dp_transforms.mechanisms.partition.walk.geometric_walk import GeometricSampler
from dp_transforms.mechanisms.partition.walk.levels import Sampler
from dp_transforms.mechanisms.partition.walk.walk import Blocks

_PRECISION = 256
_STEPS = 64
# Below this rate R is e**c within 1e-5, and 2 c is said to be the price: then it is the range of
# the loss too, and composes as such.
_SMALL = Fraction(1, 8)
_LARGE = 32  # Above this rate phi >= 1 - q - q**2 says enough: R <= 1 + 2 q + q**2.


@dataclass(frozen=True)
class IntegerPartitionMechanism(WithinBounds):
    """Releases a frequency list x with probability proportional to q**||x - f||_1.

    All lists are possible releases, or all between public bounds. Without bounds no integer
    partition of any total is cut off, so there is no delta. The sampler is exact (see ``walk``).

    Privacy. Neighbours differ in at most ``sensitivity`` cells (``PartitionMechanism``), and c is
    such that the factor of the module's theorem, e**(sensitivity * (c + ln R(c))), is at most
    e**epsilon: pure epsilon-DP. The factor is never above q**(-2 * sensitivity), so with q =
    2**-eta the release is (2 * eta * sensitivity)-DP in base 2. How often the sampler raises its
    precision depends on f and may show in the running time: a timing channel. On a list like
    RockYou's, at epsilon = 1, it does so in about one release of a million.

    Args:
      epsilon, sensitivity, eta: see ``PartitionMechanism``.
      bounds: public bounds on the lists; none by default. See ``WithinBounds``.

    Raises:
      ValueError: see ``PartitionMechanism``; or the bounds are larger than lists can be.

    Source: Blocki, Datta, Bonneau, "Differentially Private Password Frequency Lists" (NDSS 2016),
    whose ``dist`` is half the L1 distance; base 2, and bounds (Mechanism 2): Ilvento,
    "Implementing Differentially Private Integer Partitions via the Exponential Mechanism" (2019).
    The sampler is this project's.

    >>> private = FrequencyList([1000, 300, 1], [1, 2, 5000])
    >>> released = IntegerPartitionMechanism(epsilon=1.0).release(private)
    >>> released.l1_distance(private) < 200
    True
    """

    stable_name: ClassVar[str] = "IntegerPartitionMechanism"
    distribution_type = ExponentialDistribution

    @property
    def distribution(self) -> ExponentialDistribution:
        if self.bounds is not None:
            raise ValueError(
                "the exponential mechanism has no error bars between public bounds: leave the "
                "bounds out, or take the geometric mechanism, from epsilon / sensitivity = ln 3 on"
            )
        return ExponentialDistribution(self.rate)

    def _rate(self, epsilon: Fraction) -> Fraction:
        return rate_of(epsilon / self.sensitivity)

    def _unit_cost(self) -> Enclosure:
        return unit_cost(self.decay)

    def _draw(self, frequency_list: FrequencyList) -> Draw:
        return Sampler(Blocks.of(frequency_list, self.bounds), self.decay).release


def unit_cost(decay: Decay) -> Enclosure:
    """Encloses c + ln R(c) or a number above it: use the upper bound only.

    >>> round(float(unit_cost(Decay(Fraction("0.568526"))).upper), 5)
    1.0
    """
    rate = decay.log_enclosure(_PRECISION).rounded(_PRECISION)
    if rate.upper < _SMALL:
        return rate * 2
    if rate.lower > _LARGE:
        return rate + (-rate).exp() * 3
    growth = rate.exp()
    return rate + (growth - _phi(1 / growth) * (growth - 1 / growth)).log()


@lru_cache(maxsize=256)
def rate_of(cost: Fraction) -> Fraction:
    """Returns nearly the largest rate c whose ``unit_cost`` is certainly at most ``cost``.

    >>> float(rate_of(Fraction(1)))  # doctest: +ELLIPSIS
    0.568526...
    """
    low, high = cost / 2, cost
    if low < _SMALL:
        return low
    # Rates between are multiples of a power of two, so that they stay short.
    bits = low.numerator.bit_length() - low.denominator.bit_length()
    unit = Fraction(2) ** (bits - _STEPS)
    while high - low > 2 * unit:
        middle = (low + high) / 2 // unit * unit
        low, high = (middle, high) if unit_cost(Decay(middle)).upper <= cost else (low, middle)
    return low


def _phi(q: Enclosure) -> Enclosure:
    """Returns a sum not above phi(q), by Euler's pentagonal number theorem. The terms of phi(q) = 1
    + sum over k >= 1 of (-1)**k q**(k (3k-1) / 2) (1 + q**k) alternate and fall, so a sum that ends
    with a negative term is below."""
    total = enclosed(1, _PRECISION)
    for k in itertools.count(1):
        term = q ** (k * (3 * k - 1) // 2) * (1 + q**k)
        total = total - term if k % 2 else total + term
        if k % 2 and term.upper * 2**_PRECISION < 1:
            break
    return total


@dataclass(frozen=True)
class GeometricPartitionMechanism(WithinBounds):
    """Releases x with probability q**||x - f||_1 w(x): the most accurate release for epsilon /
    sensitivity >= ln 3.

    w(x) depends on x alone (see the module), so no normalizer is paid for, and q is e**(-epsilon /
    sensitivity). All lists are possible releases, or all between public bounds.

    Privacy. For neighbours ||f - f'||_1 <= sensitivity (``PartitionMechanism``). By the triangle
    inequality the probability of any x changes by a factor of at most q**-sensitivity = e**epsilon:
    pure epsilon-DP. With q = 2**-eta it is (eta * sensitivity)-DP in base 2. Which decisions exceed
    float64, each with a probability of about 1e-14, depends on f and may show in the running time:
    a timing channel.

    Args:
      epsilon, sensitivity, eta: see ``PartitionMechanism``.
      bounds: public bounds on the lists; none by default.

    Raises:
      ValueError: see ``PartitionMechanism``; epsilon / sensitivity is below ln 3, where w is not
        positive; or the bounds are larger than lists can be.

    Source: this project's.

    >>> private = FrequencyList([1000, 300, 1], [1, 2, 5000])
    >>> released = GeometricPartitionMechanism(epsilon=2.0).release(private)
    >>> released.l1_distance(private) < 50
    True
    """

    stable_name: ClassVar[str] = "GeometricPartitionMechanism"

    title = GeometricDistribution.title
    distribution_type = GeometricDistribution
    factors: ClassVar[int] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.decay.is_at_most_one_third():
            raise ValueError(
                "epsilon / sensitivity must be at least ln 3 = 1.0986..., got "
                f"epsilon={self.epsilon}, eta={self.eta}, sensitivity={self.sensitivity}: raise "
                f"epsilon to {least_epsilon(self.sensitivity)}, or use IntegerPartitionMechanism"
            )

    @property
    def distribution(self) -> GeometricDistribution:
        return GeometricDistribution(self.rate, walled=self.bounds is not None)

    def _draw(self, frequency_list: FrequencyList) -> Draw:
        return GeometricSampler(Blocks.of(frequency_list, self.bounds), self.decay).release


def least_epsilon(sensitivity: int) -> Decimal:
    """Returns the smallest decimal of four places at which the mechanism works."""
    _, up = rounding_pair(64)
    units = up.ceil(up.mul(up.mul(up.log(3), sensitivity), 10_000))
    return Decimal(int(units)) / 10_000
