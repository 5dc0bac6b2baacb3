"""Counts releases that need a higher level of precision, and compares with the prediction."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmarks.harness import numbered_tapes
from dp_transforms.mechanisms import FrequencyList, IntegerPartitionMechanism
from dp_transforms.mechanisms.enclosure import Undecided
from dp_transforms.mechanisms.partition.walk.levels import Level, Sampler
from dp_transforms.mechanisms.partition.walk.transfer import UNIT_ROUNDOFF
from dp_transforms.mechanisms.partition.walk.walk import Blocks
from dp_transforms.mechanisms.randomness import RandomTape
from dp_transforms.sample_data import rockyou

PREDICTING = 200
"""The number of releases over which the prediction is averaged."""


@dataclass(frozen=True)
class Escalations:
    """The number of releases that a level could not decide, and the number that was predicted.

    The prediction for a release is the sum of the widths of all enclosures along its chain of
    states. It bounds the probability that any of its uniform numbers falls into an enclosure.
    """

    releases: int
    observed: int
    predicted: float


class FloatsAlone(Level):
    """A level that gives up where float64 does not settle a question."""

    def looked_ahead(self, tape: RandomTape, index: int, state: int) -> int:
        raise Undecided


def count_escalations(
    private: FrequencyList, epsilon: float, window: int | None, tapes: Iterable[RandomTape]
) -> Escalations:
    """Counts the releases that one float64 level leaves undecided.

    Args:
      private: the list.
      epsilon: the mechanism's epsilon.
      window: the window of the level; None for that of the mechanism's first level.
      tapes: a tape for each release.
    """
    mechanism = IntegerPartitionMechanism(epsilon=epsilon)
    sampler = Sampler(Blocks.of(private), mechanism.decay)
    floats = FloatsAlone(sampler.blocks, mechanism.decay, window or sampler.window)
    releases = observed = 0
    widths: list[float] = []
    for tape in tapes:
        try:
            states = floats.states(tape)
        except Undecided:
            observed += 1
            states = sampler.states(tape)
        releases += 1
        if len(widths) < PREDICTING:
            # After a state outside of the window, the level is asked no more questions.
            outside = np.flatnonzero(np.abs(states) > floats.window)
            asked = states[: outside[0] + 1] if len(outside) else states
            widths.append(undecided_probability(floats, asked))
    return Escalations(releases, observed, releases * sum(widths) / max(1, len(widths)))


def undecided_probability(floats: Level, states: npt.NDArray[np.int64]) -> float:
    """Returns the sum of the widths of all enclosures along a chain of states."""
    with np.errstate(all="ignore"):
        asked = [(-1, 0), *enumerate(states[:-1].tolist())]
        thresholds = [floats.thresholds(at, state) for at, state in asked]
    widths = 0.0
    for lo, hi in thresholds:
        inside = [(a, min(b, 1.0)) for a, b in zip(lo, hi, strict=True) if a < 1]
        widths += sum(b - a + UNIT_ROUNDOFF for a, b in inside)
    return widths


def escalation_rows(releases: int) -> Iterator[str]:
    """Yields a table on RockYou by the exponential mechanism at epsilon = 1, at its first level."""
    escalations = count_escalations(
        rockyou(), 1.0, None, itertools.islice(numbered_tapes(), releases)
    )
    yield "RockYou by the exponential mechanism at epsilon = 1:\n"
    yield "| releases | not settled by the first level | predicted of one |"
    yield "| ---: | ---: | ---: |"
    predicted_of_one = escalations.predicted / escalations.releases
    yield f"| {escalations.releases:,} | {escalations.observed} | {predicted_of_one:.2g} |"
