"""Defines the exponential and the geometric mechanism, whose lists are drawn as walks.

Both are exactly epsilon-DP. Neighbours: add or remove all records of one user, who is in at most
kappa partitions. The Young diagrams F and F' of the lists of neighbours are nested and differ in at
most kappa cells (``PartitionMechanism``).

**The exponential mechanism.** Theorem. Let q = e**-c, phi(q) = prod_{i >= 1} (1 - q**i), and
Pr_f[x] = q**||x - f||_1 / Z(f) over all lists, or over the lists between two walls. If the Young
diagrams of f and f' differ in kappa cells, the probability of any x differs by a factor of at most
e**(kappa (c + ln R(c))),

    R(c) = e**c - phi(e**-c) (e**c - e**-c) < e**c.

Proof. It is enough to add one cell b to f, or to remove it: a path from f to f' through their union
does so kappa times. If b is added, the weight of x changes by a factor of e**c if x contains b, and
of e**-c otherwise. So with p = Pr_f[b in x]

    Z(f + b) / Z(f) = p e**c + (1 - p) e**-c.

The weights are a product over cells, on a lattice of diagrams closed under union and intersection.
So increasing events are positively correlated (Fortuin, Kasteleyn and Ginibre 1971; over all lists,
by walls that go to infinity). Let Q be the quadrant of b and all cells right of it or below. Then p
is at most the probability of b, given that x contains all cells outside Q that it may contain. In
this case the part of x in Q is a partition v with a weight of q**|v|, since no cell of Q is in f.
So p <= Pr[v not empty] <= 1 - phi(q): the sum of q**|v| over all partitions is 1 / phi(q), and
walls leave fewer of them. So Z(f + b) / Z(f) <= (1 - phi) e**c + phi e**-c = R(c).

The other direction is the same, turned by 180 degrees. Let S be the rectangle of b and all cells
left of it or above, which are in f + b. Given that x contains only the cells outside S that it must
contain, Pr_{f+b}[b not in x] <= 1 - phi. So Z(f) / Z(f + b) <= R(c). The weight of x itself is
another factor of at most e**c. (If b is not between the walls, no probability changes.) QED.

The bound is attained for kappa = 1: with f empty, p = 1 - phi, and the probability of x = b has a
ratio of e**c R(c). The theorem needs the lattice: the lists of a known total are none.

**The geometric mechanism** has no normalizer to pay for. Theorem. Let X, F be Young diagrams, let
d(X, F) = |X xor F|, which is the L1 distance of the two lists, and let 0 < q < 1 and t = q / (1 +
q). A corner of X is a cell that can be added to X or removed from it; each belongs to a vertex of
X's boundary. A chain is a set of corners at consecutive vertices. For a chain of m corners let

    I_0 = 1,  I_1 = 1 - t,  I_m = I_{m-1} - t I_{m-2},     w(X) = the product of I_m over the
                                                           maximal chains of corners of X.

Then sum over X of q**d(X, F) w(X) = 1 for every F; and all I_m are positive if q <= 1/3.

Proof. To flip a corner is to add or to remove its cell. Of two corners at consecutive vertices only
one can be flipped. A set S of corners without such neighbours can be flipped in any combination;
call the 2**|S| diagrams a cube C of dimension |S|. So w(X) is the sum of (-t)**dim C over the cubes
C that contain X. Let d(F, C) be the distance from F of the nearest diagram of C. The diagrams of C
differ in dim C cells, and each of these adds 0 or 1 to the distance independently. So the sum of
q**d(X, F) over them is (1 + q)**dim C q**d(F, C). (All sums converge absolutely: a diagram at
distance d from F has at most a multiple of sqrt(d) corners more than F.) Hence the total weight is

    sum over C of (-t (1 + q))**dim C q**d(F, C) = sum over C of (-1)**dim C q**(d(F, C) + dim C).

d(F, C) + dim C is the distance of the diagram V of C that is farthest from F. The cubes with the
farthest diagram V are given by the sets of corners of V whose flips lead towards F. No two of these
corners are neighbours. For of two neighbours one is added and the other removed, and the added one
lies right of the removed one or below it, so it cannot be a cell of F if the removed one is none.
Let n be the number of such corners. The sum over the cubes of V is q**d(F, V) (1 - 1)**n, which is
0 unless n = 0. And n = 0 for V = F alone: otherwise a maximal cell of V outside F can be removed,
or a minimal cell of F outside V added. So the total is 1.

For q <= 1/3, t is at most 1/4, and I_m >= I_{m-1} / 2 by induction: I_m = I_{m-1} - t I_{m-2} >=
(1 - 2 t) I_{m-1}. QED.

The same holds for the diagrams between two others, L <= X <= U, if F lies between them too and only
corners count that may be flipped there. For a flip towards F never leaves the interval.
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
# Below this rate R is e**c within 1e-5, and the price is stated as 2 c. Then it is also the range
# of the privacy loss, and composes as such.
_SMALL = Fraction(1, 8)
_LARGE = 32  # Above this rate phi >= 1 - q - q**2 suffices: R <= 1 + 2 q + q**2.


@dataclass(frozen=True)
class IntegerPartitionMechanism(WithinBounds):
    """Releases a frequency list x with probability proportional to q**||x - f||_1.

    All lists are possible releases, or all lists between public bounds. Without bounds no list of
    any total is cut off, so there is no delta. The sampler is exact (see ``walk``).

    Privacy. The lists of neighbours differ in at most ``sensitivity`` cells
    (``PartitionMechanism``). The rate c is such that the factor of the module's theorem,
    e**(sensitivity * (c + ln R(c))), is at most e**epsilon, so this is pure epsilon-DP. The factor
    is never above q**(-2 * sensitivity), so with q = 2**-eta the release is (2 * eta *
    sensitivity)-DP in base 2. How often the sampler raises its precision depends on f and may show
    in the running time: a timing channel. On a list like RockYou's, at epsilon = 1, it does so in
    about one release of a million.

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
    """Encloses c + ln R(c) or a larger number, so only its upper bound may be used.

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
    # Rates between the two are multiples of a power of two, so that their fractions stay short.
    bits = low.numerator.bit_length() - low.denominator.bit_length()
    unit = Fraction(2) ** (bits - _STEPS)
    while high - low > 2 * unit:
        middle = (low + high) / 2 // unit * unit
        if unit_cost(Decay(middle)).upper <= cost:
            low = middle
        else:
            high = middle
    return low


def _phi(q: Enclosure) -> Enclosure:
    """Encloses a number that is not above phi(q), by Euler's pentagonal number theorem: phi(q) = 1
    + sum over k >= 1 of (-1)**k q**(k (3k-1) / 2) (1 + q**k). The terms alternate and fall, so a
    partial sum that ends with a negative term is below phi(q)."""
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
    sensitivity). All lists are possible releases, or all lists between public bounds.

    Privacy. For neighbours ||f - f'||_1 <= sensitivity (``PartitionMechanism``). By the triangle
    inequality the probability of any x changes by a factor of at most q**-sensitivity = e**epsilon.
    So this is pure epsilon-DP, and with q = 2**-eta (eta * sensitivity)-DP in base 2. A decision
    needs more than float64 with a probability of about 1e-14. Which decisions do depends on f and
    may show in the running time: a timing channel.

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
    """Returns the smallest epsilon of four decimal places at which ``GeometricPartitionMechanism``
    works."""
    _, up = rounding_pair(64)
    units = up.ceil(up.mul(up.mul(up.log(3), sensitivity), 10_000))
    return Decimal(int(units)) / 10_000
