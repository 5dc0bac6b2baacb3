"""The geometric mechanism for integer partitions: frequency lists at the price of their weights.

Theorem. Let X, F be Young diagrams, d(X, F) = |X xor F|, which is the L1 distance of the two lists,
0 < q < 1 and t = q / (1 + q). A corner of X is a cell that can be added to X or removed from it;
each belongs to a vertex of X's boundary. For m corners at consecutive vertices let

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

from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar

from dp_transforms.mechanisms.enclosure import rounding_pair
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.partition.distributions import (
    GeometricDistribution,
)
from dp_transforms.mechanisms.partition.mechanism import Draw, WithinBounds
from dp_transforms.mechanisms.partition.walk.geometric_walk import (
    GeometricSampler,
    GeometricWeights,
)


@dataclass(frozen=True)
class GeometricPartitionMechanism(WithinBounds):
    """Releases x with probability q**||x - f||_1 w(x): the most accurate release for epsilon /
    sensitivity >= ln 3.

    w(x) depends on x alone (see the module), so that there is no normalizer that depends on f, and
    epsilon pays for the weight only: q = e**(-epsilon / sensitivity), where the exponential
    mechanism has about e**(-epsilon / (2 * sensitivity)). All lists are possible releases, or all
    between public bounds.

    Privacy. For neighbours ||f - f'||_1 <= sensitivity (``PartitionMechanism``). By the triangle
    inequality the probability of any x changes by a factor of at most q**-sensitivity = e**epsilon:
    pure epsilon-DP. With q = 2**-eta it is (eta * sensitivity)-DP in base 2. Bounds are
    public (see ``WithinBounds``). Which decisions need more than float64 depends on f and can show
    in the running time: a timing channel. Each does with a probability of about 1e-14.

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

    title = GeometricDistribution.title
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
        return GeometricSampler(self._blocks(frequency_list), GeometricWeights(self.decay)).release


def least_epsilon(sensitivity: int) -> Decimal:
    """The smallest decimal of four places from which on the mechanism works."""
    _, up = rounding_pair(64)
    units = up.ceil(up.mul(up.mul(up.log(3), sensitivity), 10_000))
    return Decimal(int(units)) / 10_000
