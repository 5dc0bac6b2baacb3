"""Predicts the answers of lists of attributes, before any data are read.

Everything is computed from public numbers. A public list, or a made-up one in its place, is
released once under the part of epsilon that one attribute gets. Then it is asked the same questions
as the release will be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dp_transforms.mechanisms.decimals import Number, exact_fraction, positive_integer
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.partition.registry import partition_mechanism
from dp_transforms.mechanisms.randomness import RandomTape
from dp_transforms.postprocessing.estimates import Estimate
from dp_transforms.postprocessing.intervals import intervals_of


@dataclass(frozen=True)
class AttributePlan:
    """Predicts the answers of the list of one of several attributes at one budget.

    Attributes:
      epsilon: the cost of all attributes together.
      epsilon_of_each: the cost of one attribute's list.
      entropy: the Shannon entropy of the reference list, in bits, from one release of it.
      unique: the share of its unique users, likewise.
    """

    epsilon: float
    epsilon_of_each: float
    entropy: Estimate
    unique: Estimate


def epsilons_of_one_attribute(epsilons: Sequence[Number], attributes: int) -> list[Fraction]:
    """Returns for each epsilon the part that one attribute gets, if so many share it equally. A
    number out of range is a ValueError."""
    count = positive_integer("attributes", attributes)
    return [exact_fraction("epsilon", epsilon) / count for epsilon in epsilons]


def plan_attributes(
    reference: FrequencyList, epsilons: Sequence[Number], attributes: int
) -> tuple[AttributePlan, ...]:
    """Returns a plan of one attribute's list for each epsilon.

    Args:
      reference: a PUBLIC list like that of an attribute; never the one to release.
      epsilons: the budgets to compare, each for all attributes together.
      attributes: how many attributes share epsilon equally, combinations included.

    Raises:
      ValueError: a number is out of range.

    >>> (plan,) = plan_attributes(FrequencyList([900, 1], [10, 1000]), [2], attributes=10)
    >>> plan.epsilon_of_each, plan.entropy.low < 4.455 < plan.entropy.high
    (0.2, True)
    """
    plans = []
    for epsilon, part in zip(
        epsilons, epsilons_of_one_attribute(epsilons, attributes), strict=True
    ):
        tape = RandomTape.from_secret(bytes(32), "release of a public list")
        answers = intervals_of(partition_mechanism(part).release(reference, tape))
        entropy, unique = answers.shannon_entropy(), answers.share_unique()
        plans.append(AttributePlan(float(epsilon), float(part), entropy, unique))
    return tuple(plans)
