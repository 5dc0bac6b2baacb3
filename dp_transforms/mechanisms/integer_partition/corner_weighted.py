"""The corner-weighted mechanism for integer partitions: the most accurate release below ln 3."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.integer_partition.bounded import WithinBounds
from dp_transforms.mechanisms.integer_partition.corner_price import rate_of
from dp_transforms.mechanisms.integer_partition.mechanism import Draw
from dp_transforms.mechanisms.labelled_walk.sampler import CornerSampler
from dp_transforms.mechanisms.laws.corner_law import CornerWeightedLaw

LEAST_RATIO = Fraction(11, 20)
"""The smallest epsilon / sensitivity. At 0.5 the exponential mechanism at its exact price is as
accurate on lists of passwords, and at 0.55 this one is 1.5% more so."""


@dataclass(frozen=True)
class CornerWeightedPartitionMechanism(WithinBounds):
    """Releases x with probability proportional to q**||x - f||_1 w(x): the most accurate release
    for epsilon / sensitivity from 0.55 up to ln 3.

    w(x) depends on x alone: the product of (m + 2) / 2**(m+1) over the maximal chains of m corners
    at consecutive vertices of its Young diagram. It makes the total weight depend less on f, and
    so leaves more of epsilon to the distance than the exponential mechanism can: at epsilon = 1 q
    is e**-0.893 where that has e**-0.569. All lists are possible releases, or all between public
    bounds.

    Privacy. The Young diagrams of neighbours differ in at most ``sensitivity`` cells
    (``PartitionMechanism``). By the theorem of ``corner_price`` the
    probability of any x changes by a factor of at most e**(sensitivity (c + ln R(c))), and c is
    the largest rate at which that is certainly at most e**epsilon: pure epsilon-DP. Bounds are
    public (see ``WithinBounds``). Which decisions need more than float64 depends on f and can show
    in the running time: a timing channel. On a list like RockYou's, at epsilon = 1, one does in
    about one release of a million.

    Args:
      epsilon, sensitivity: see ``PartitionMechanism``.
      bounds: public bounds on the lists; none by default.

    Raises:
      ValueError: see ``PartitionMechanism``; eta is given, as the price of a power of 2 is not one;
        or epsilon / sensitivity is not between 0.55 and ln 3, where another mechanism is better.

    Source: this project's; the proof is in docs/proofs/corner_weighted.md.

    >>> private = FrequencyList([1000, 300, 1], [1, 2, 5000])
    >>> released = CornerWeightedPartitionMechanism(epsilon=1.0).release(private)
    >>> released.l1_distance(private) < 100
    True
    """

    words = CornerWeightedLaw.words

    def __post_init__(self) -> None:
        if self.eta is not None:
            raise ValueError(f"give epsilon and not eta to this mechanism, got {self.eta!r}")
        super().__post_init__()

    @property
    def law(self) -> CornerWeightedLaw:
        return CornerWeightedLaw(self.rate, walled=self.bounds is not None)

    def _rate(self, epsilon: Fraction) -> Fraction:
        ratio = epsilon / self.sensitivity
        given = f"got epsilon={self.epsilon}, sensitivity={self.sensitivity}"
        if Decay(ratio).is_at_most_one_third():
            raise ValueError(
                f"epsilon / sensitivity must be below ln 3 = 1.0986..., {given}: use "
                "GeometricPartitionMechanism, which is more accurate there"
            )
        if ratio < LEAST_RATIO:
            raise ValueError(
                f"epsilon / sensitivity must be at least {float(LEAST_RATIO)}, {given}: use "
                "IntegerPartitionMechanism, which is as accurate there"
            )
        return rate_of(ratio)

    def _draw(self, frequency_list: FrequencyList) -> Draw:
        return CornerSampler(self._blocks(frequency_list), self.decay).release
