"""The exponential mechanism for integer partitions: frequency lists under pure epsilon-DP,
exactly."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.integer_partition import exponential_price
from dp_transforms.mechanisms.integer_partition.mechanism import Draw, PartitionMechanism
from dp_transforms.mechanisms.laws.release_law import ExponentialLaw
from dp_transforms.mechanisms.sampler.levels import Sampler
from dp_transforms.mechanisms.sampler.walk import Blocks


@dataclass(frozen=True)
class IntegerPartitionMechanism(PartitionMechanism):
    """Releases a frequency list x with probability proportional to q**||x - f||_1, over all lists.

    All integer partitions x of all totals are possible outputs: nothing is cut off, so there is no
    delta, and the law does not depend on any public bound. The sampler is exact (see ``walk``).

    Privacy. The Young diagrams of neighbours differ in at most ``sensitivity`` cells
    (``PartitionMechanism``). By the theorem of ``exponential_price`` the probability
    of any x changes by a factor of at most e**(sensitivity * (c + ln R(c))), q = e**-c, and c is
    such that this is at most e**epsilon: pure epsilon-DP. That is never more than the two factors
    of q**-sensitivity, one for the weight of x and one for the total weight of all x, which make it
    (2 * eta * sensitivity)-DP in base 2. The number of times that the sampler raises its precision
    depends on f and can show in the running time: a timing channel. On a list like
    RockYou's, at epsilon = 1, it is raised at all in about one release of a million.

    Args:
      epsilon, sensitivity, eta: see ``PartitionMechanism``.

    Raises:
      ValueError: see ``PartitionMechanism``.

    Source: Blocki, Datta, Bonneau, "Differentially Private Password Frequency Lists" (NDSS 2016),
    whose ``dist`` is half the L1 distance; base 2: Ilvento (2019). The sampler is this project's.

    >>> private = FrequencyList([1000, 300, 1], [1, 2, 5000])
    >>> released = IntegerPartitionMechanism(epsilon=1.0).release(private)
    >>> released.l1_distance(private) < 200
    True
    """

    @property
    def law(self) -> ExponentialLaw:
        return ExponentialLaw(self.rate)

    def _rate(self, epsilon: Fraction) -> Fraction:
        return exponential_price.rate_of(epsilon / self.sensitivity)

    def _unit_cost(self) -> Any:
        return exponential_price.unit_cost(self.decay)

    def _draw(self, frequency_list: FrequencyList) -> Draw:
        return Sampler(Blocks.of(frequency_list), self.decay).release
