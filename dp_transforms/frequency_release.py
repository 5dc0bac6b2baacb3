"""Releasing the frequency list of counts with the integer-partition mechanism, on one worker."""

from __future__ import annotations

import collections
import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import apache_beam as beam

from dp_transforms.columnar import counting
from dp_transforms.columnar.columns import plain_table
from dp_transforms.job_secret import JobSecret, refuse_templates
from dp_transforms.mechanisms.base2 import positive_integer
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.integer_partition import IntegerPartitionMechanism
from dp_transforms.mechanisms.partition_mechanism import PartitionMechanism
from dp_transforms.records import COUNT, Kind, refuse_windows


def release_frequency_list(
    frequency_list: FrequencyList,
    mechanism: PartitionMechanism,
    secret: JobSecret,
    purpose: str = "frequency list",
) -> FrequencyList:
    """Releases one list under a job's secret; the function of the transform of this name.

    The mechanism's tape is derived from the secret, the purpose, the mechanism and the list itself.
    The same release repeated is the same, and releases of other lists or by other mechanisms under
    the same secret are independent of it, as composition assumes: neither can noise on changed data
    cancel.

    Args:
      frequency_list: the private input.
      mechanism: what releases it; its repr must say all its parameters.
      secret: the job's secret.
      purpose: tells several lists under one secret apart. Two that are equal would otherwise have
        equal releases, which would tell that they are.
    """
    content = hashlib.sha256()
    for array in (frequency_list.frequencies, frequency_list.multiplicities):
        content.update(array.astype("<i8").tobytes())
    tape = secret.tape(f"{purpose} {content.hexdigest()} by {mechanism!r}")
    return mechanism.release(frequency_list, tape=tape)


class ReleaseFrequencyList(beam.PTransform):
    """Releases how often partitions occur, without saying which: counts in, one FrequencyList out.

    Neighbours: add or remove all records of one user, whose partitions are at most
    ``max_partitions_per_user``. That moves the sorted list of counts by at most so much in L1,
    which is the mechanism's sensitivity, and the release is epsilon-differentially private, with
    delta = 0 unless the mechanism says otherwise (Blocki, Datta and Bonneau, NDSS 2016). The bound
    is the caller's to keep, for example with ``BoundContributions``; it is not checked here.

    Counts become a histogram, of which one worker gets at most sqrt(2 N) pairs for N records. No
    counts are an empty list, which is released like any other.

    Args:
      epsilon: the privacy loss of this release; positive.
      max_partitions_per_user: kappa, how many partitions a user was bounded to.
      mechanism: instead of epsilon, a mechanism of your own making, such as one with ``eta`` or a
        ``BoundedPartitionMechanism``. Its sensitivity must be at least ``max_partitions_per_user``.
      secret: the job's secret; a fresh one when the transform is applied, by default.
      purpose: tells several lists under one secret apart, see ``release_frequency_list``.

    Raises:
      ValueError: an argument is out of range, neither or both of epsilon and mechanism are given,
        the input is unbounded or windowed, the job is a classic template; at run time, a count is
        not a positive integer.
    """

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        max_partitions_per_user: int,
        mechanism: PartitionMechanism | None = None,
        secret: JobSecret | None = None,
        purpose: str = "frequency list",
    ):
        super().__init__()
        self._kappa = positive_integer("max_partitions_per_user", max_partitions_per_user)
        if (epsilon is None) == (mechanism is None):
            raise ValueError("give either epsilon or mechanism")
        if mechanism is None:
            mechanism = IntegerPartitionMechanism(epsilon=epsilon, sensitivity=self._kappa)
        elif mechanism.sensitivity < self._kappa:
            raise ValueError(
                "the mechanism's sensitivity must be at least max_partitions_per_user = "
                f"{self._kappa}, got {mechanism.sensitivity}"
            )
        self._mechanism = mechanism
        self._secret = secret
        self._purpose = purpose

    def expand(self, counts: beam.PCollection) -> beam.PCollection:
        refuse_templates(counts.pipeline.options)
        refuse_windows(counts)
        kind = Kind.of(counts)
        histograms = counts | "Histogram" >> beam.Map(_histogram, kind)
        # Without any counts there is still one list to release.
        nothing = counts.pipeline | "Nothing" >> beam.Create([{}], reshuffle=False)
        return (
            (histograms, nothing)
            | beam.Flatten()
            | "Merge" >> beam.CombineGlobally(MergeHistograms()).without_defaults()
            | "Release"
            >> beam.Map(
                release_histogram,
                self._mechanism,
                self._secret or JobSecret.from_os(),
                self._purpose,
            )
            .with_output_types(FrequencyList)
            .with_resource_hints(min_ram="16GB", max_active_bundles_per_worker="1")
            # The hints above are for one step: what follows is not fused to it.
            | "Bracket" >> beam.Reshuffle()
        )

    def display_data(self) -> dict[str, Any]:
        return {
            "mechanism": type(self._mechanism).__name__,
            "epsilon": self._mechanism.epsilon_cost,
            "delta": self._mechanism.failure_probability,
            "max_partitions_per_user": self._kappa,
        }


class MergeHistograms(beam.CombineFn):
    """Adds histograms {count: number of partitions}."""

    def create_accumulator(self) -> collections.Counter[int]:
        return collections.Counter()

    def add_input(
        self, accumulator: collections.Counter[int], element: Mapping[int, int]
    ) -> collections.Counter[int]:
        accumulator.update(element)
        return accumulator

    def merge_accumulators(
        self, accumulators: Iterable[collections.Counter[int]]
    ) -> collections.Counter[int]:
        merged = self.create_accumulator()
        for accumulator in accumulators:
            merged.update(accumulator)
        return merged

    def extract_output(self, accumulator: collections.Counter[int]) -> dict[int, int]:
        return dict(accumulator)


def _histogram(counts: Any, kind: Kind) -> Mapping[int, int]:
    if kind is Kind.TABLES:
        return counting.histogram(plain_table(counts, [COUNT]))
    return {counts.count if kind is Kind.ROWS else counts[1]: 1}


def release_histogram(
    histogram: Mapping[int, int],
    mechanism: PartitionMechanism,
    secret: JobSecret,
    purpose: str,
) -> FrequencyList:
    """``release_frequency_list`` of the list that has these counts: {count: partitions}.

    Raises:
      ValueError: a count is not a positive integer.
    """
    counts = sorted(histogram, reverse=True)
    try:
        frequency_list = FrequencyList(counts, [histogram[count] for count in counts])
    except ValueError:
        # The original message names the entry.
        raise ValueError("counts must be positive integers, and partitions be counted") from None
    return release_frequency_list(frequency_list, mechanism, secret, purpose)
