"""The exponential mechanism for integer partitions: frequency lists under pure epsilon-DP,
exactly."""

from __future__ import annotations

from dataclasses import dataclass

from dp_transforms.mechanisms import evaluation
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.partition_mechanism import Draw, PartitionMechanism
from dp_transforms.mechanisms.sampler import Level, Sampler
from dp_transforms.mechanisms.walk import Blocks
from dp_transforms.mechanisms.walk_sums import window_for


@dataclass(frozen=True)
class IntegerPartitionMechanism(PartitionMechanism):
    """Releases a frequency list x with probability proportional to q**||x - f||_1, over all lists.

    All integer partitions x of all totals are possible outputs: nothing is cut off, so there is no
    delta, and the law does not depend on any public bound. The sampler is exact (see ``walk``).

    Privacy. Neighbours: add or remove all records of one user, who contributes to at most
    ``sensitivity`` partitions. That changes at most ``sensitivity`` counts by one each; sorting
    does not increase the L1 distance between the lists, so ||f - f'||_1 <= sensitivity. By the
    triangle inequality the weight of any x changes by a factor of at most q**-sensitivity, and so
    does the total weight of all x. With q = e**(-epsilon / (2 * sensitivity)) every output's
    probability changes by at most e**epsilon: pure epsilon-DP. With q = 2**-eta the same argument
    gives (2 * eta * sensitivity)-DP in base 2. The number of times that the sampler raises its
    precision depends on f and can show in the running time: a timing channel. On a list like
    RockYou's, at epsilon = 1, it is raised at all in about one release of a million.

    Args:
      epsilon: the privacy parameter, in natural units; a float stands for exactly the number it is.
        Give this or eta.
      sensitivity: the most partitions that one user contributes to (max_partitions_per_user).
      eta: the parameter of the weights in base 2.

    Raises:
      ValueError: see ``PartitionMechanism``.

    Source: Blocki, Datta, Bonneau, "Differentially Private Password Frequency Lists" (NDSS 2016),
    whose ``dist`` is half the L1 distance; base 2: Ilvento (2019). The sampler is this project's.

    >>> private = FrequencyList([1000, 300, 1], [1, 2, 5000])
    >>> released = IntegerPartitionMechanism(epsilon=1.0).release(private)
    >>> released.l1_distance(private) < 200
    True
    """

    def expected_l1(self, frequency_list: FrequencyList) -> float:
        """The exact mean of ||x - f||_1, for evaluation only: it depends on the private list.

        ``dist`` of Blocki et al. (2016) is half of it. By ``evaluation``, independently of any
        draws.
        """
        rate = float(self.decay.log_enclosure(64)[0])
        window = max(2 * Level.first(self.decay).window, window_for(rate))
        return evaluation.expected_l1(frequency_list, rate, window)

    def _draw(self, frequency_list: FrequencyList) -> Draw:
        return Sampler(Blocks.of(frequency_list), self.decay).release
