"""Estimates the users of named partitions, from releases alone.

``postprocessing.name_counts`` estimates them, ``postprocessing.dropped_users`` proves intervals.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dp_transforms.files.filenames import COUNTS
from dp_transforms.mechanisms.arrays import FloatArray, IntArray
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.selection import NoisyCountStrategy
from dp_transforms.mechanisms.selection.gaussian import RoundedGaussian
from dp_transforms.mechanisms.selection.rounds import WeightedStrategy
from dp_transforms.mechanisms.user_degrees import ReleasedDegrees
from dp_transforms.postprocessing.decoded_surveys import decoded_survey
from dp_transforms.postprocessing.dropped_users import DroppedUsers
from dp_transforms.postprocessing.estimates import CONFIDENCE, failure_probability
from dp_transforms.releases.all_records import AllRecordsRelease
from dp_transforms.releases.frequency_list import ListRelease
from dp_transforms.releases.name_statements import ALL_RECORDS, COUNT_NOISE, strategy_of
from dp_transforms.releases.names_files import estimates_of_table
from dp_transforms.reports.entries import ESTIMATES
from dp_transforms.reports.phrases import drops_records

if TYPE_CHECKING:
    import pyarrow as pa

    from dp_transforms.postprocessing.name_counts import CountModel, CountNoise


def estimates_are_of_all_records(
    names: Mapping[str, Any],
    frequency_list: ListRelease | None,
    degrees: ReleasedDegrees | None = None,
) -> bool:
    """Returns whether estimates of users are about all records, and not only about those that count
    after bounding.

    Args:
      names: the statement of the names.
      frequency_list: the list beside them, if there is one.
      degrees: a survey of the same users, if there is one beside the list.
    """
    has_survey = degrees is not None or isinstance(frequency_list, AllRecordsRelease)
    return has_survey or not drops_records(names)


class NameEstimates:
    """Estimates of the users of named partitions, see ``NamesRelease``."""

    names: pa.Table
    statement: Mapping[str, Any]
    frequency_list: ListRelease | None
    degrees: ReleasedDegrees | None
    is_of_one_job: bool
    saved_estimates: pa.Table | None

    # Which records the numbers are about.

    @property
    def _drops(self) -> bool:
        """Returns whether bounding may have dropped records, by what the statement says."""
        return drops_records(self.statement)

    @property
    def _survey(self) -> ReleasedDegrees | None:
        """Returns the released degrees of users in all records, if there are any."""
        if self.degrees is not None:
            return self.degrees
        if isinstance(self.frequency_list, AllRecordsRelease):
            return self.frequency_list.degrees
        return None

    @property
    def is_about_all_records(self) -> bool:
        """Returns whether estimates are about the users in all records, and not only about those
        whose records count after bounding."""
        if self.saved_estimates is not None:
            return bool(self.statement[ESTIMATES]["about"] == ALL_RECORDS)
        return estimates_are_of_all_records(self.statement, self.frequency_list, self.degrees)

    @cached_property
    def _counted(self) -> Mapping[str, Any] | None:
        """Returns the statement's entry about counts that were made after the selection; None if
        there are no such counts."""
        entry: Mapping[str, Any] | None = self.statement.get(COUNT_NOISE)
        return entry

    @property
    def _bound_of_counts(self) -> int:
        """Returns how many partitions of a user count in the noisy counts."""
        if self._counted is not None:
            return int(self._counted["max_partitions_per_user"])
        plan = self.statement.get("plan")
        if plan is not None:
            # A look may have found that more is named if fewer partitions of a user count.
            return int(plan["partitions"])
        return int(self.statement["max_partitions_per_user"])

    # The users of named partitions.

    @cached_property
    def _noise(self) -> CountNoise | None:
        """Returns how the noisy counts were made; None if this is not known."""
        if not self.statement["noisy_counts"] or "public_partitions" in self.statement:
            return None
        from dp_transforms.postprocessing.name_counts import (
            CountsAfterSelection,
            ThresholdedCounts,
        )

        if self._counted is not None:
            noise = RoundedGaussian(Fraction(self._counted["sigma2_exact"]))
            return CountsAfterSelection(noise)
        strategy = strategy_of(self.statement)
        if isinstance(strategy, WeightedStrategy):
            strategy = strategy.counting
        return ThresholdedCounts(strategy) if isinstance(strategy, NoisyCountStrategy) else None

    @cached_property
    def _model(self) -> CountModel | None:
        """Returns the model of the true numbers of users; None if nothing is known besides the
        noisy counts."""
        from dp_transforms.postprocessing.name_counts import CountModel, Thinning

        released, survey = self.frequency_list, self._survey
        thins = self._drops and survey is not None
        if released is None:
            # Counts after the selection are of a part of the records that depends on what else was
            # named, and this is known from a list alone.
            if not thins or self._counted is not None:
                return None
            thinning = Thinning(decoded_survey(survey), self._bound_of_counts)
            return CountModel.without_list(float(self._noisy.max(initial=0)), thinning)
        bounded = released.bounded if isinstance(released, AllRecordsRelease) else released
        if not len(bounded.released):
            # Noise may leave a list empty. Then it says nothing about the numbers of users.
            return None
        list_kappa = int(released.statement["max_partitions_per_user"])
        are_of_same_records = list_kappa == self._bound_of_counts and self._counted is None
        if not thins:
            if not are_of_same_records:
                return None
            return CountModel.of_list(bounded.released, list_kappa)
        decoded, named = decoded_survey(survey), None
        if are_of_same_records:
            return CountModel.of_list(bounded.released, list_kappa, decoded)
        if self._counted is not None:
            # The named partitions are about the largest.
            named = self._list_of_counts.at_ranks(np.arange(1, self.names.num_rows + 1))
        thinning = Thinning(decoded, self._bound_of_counts, named)
        model = CountModel.of_list(bounded.released, list_kappa, decoded, thinning)
        if self._counted is None or self._noise is None:
            return model
        from dp_transforms.postprocessing.naming import of_named

        return of_named(model, self._noisy, self._noise)

    @property
    def _noisy(self) -> IntArray:
        from dp_transforms.columnar.columns import single
        from dp_transforms.columnar.hashing import to_numpy

        noisy: IntArray = to_numpy(single(self.names[COUNTS[0]])).astype(np.int64)
        return noisy

    @property
    def has_estimates(self) -> bool:
        """Returns whether there are estimates of the users of each name, besides noisy counts."""
        return self._table is not None

    def _proved(self, confidence: float) -> tuple[IntArray, FloatArray]:
        """Returns the ends of proved intervals, each with this confidence given that its partition
        is named."""
        noise = self._noise
        assert noise is not None
        failure = failure_probability(confidence)
        low, high = noise.intervals(self._noisy, confidence)
        if self._drops and self._survey is not None:
            # The upper end may fail with probability failure / 2. Half of this is for the noise of
            # the counts, a quarter for the noise of the survey, and a quarter for the random choice
            # of records that count.
            _, high = noise.intervals(self._noisy, 1 - failure / 2)
            dropped = DroppedUsers(self._survey, self._bound_of_counts, failure / 8)
            return np.maximum(low, 1), np.maximum(dropped.most_users(high, failure / 8), 1)
        return np.maximum(low, 1), np.maximum(high, 1).astype(float)

    @cached_property
    def _table(self) -> tuple[IntArray, IntArray, FloatArray] | None:
        """Returns the estimates and both ends of their intervals; None if there are none."""
        if self.saved_estimates is not None:
            return estimates_of_table(self.saved_estimates)
        if self._noise is None or self._model is None:
            return None
        from dp_transforms.postprocessing.name_counts import (
            NameCounts,
            agreeing,
            noise_deviation,
        )

        means = NameCounts(self._noisy, self._noise, self._model).means()
        low, high = self._proved(CONFIDENCE)
        if self.frequency_list is None:
            users = np.clip(np.rint(means), low, np.minimum(high, 2.0**53)).astype(np.int64)
        else:
            better = self._model.deviation < noise_deviation(self._noise.noise)
            users, _ = agreeing(means, low, high, self._list_of_counts, better)
        return users, low, high

    @cached_property
    def _list_of_counts(self) -> FrequencyList:
        """Returns the list of the records that the estimates are about."""
        released, survey = self.frequency_list, self._survey
        assert released is not None
        if isinstance(released, AllRecordsRelease):
            return released.released if self._drops else released.bounded.released
        if not self._drops or survey is None:
            return released.released
        from dp_transforms.postprocessing.all_records import estimate_all_records

        kappa = int(released.statement["max_partitions_per_user"])
        return estimate_all_records(released.released, kappa, decoded_survey(survey))

    def model_intervals(self, confidence: float = CONFIDENCE) -> tuple[FloatArray, FloatArray]:
        """Returns the ends of the model's intervals for the users of each name, in the order of the
        table. They are shorter than the proved intervals, and only as good as the model.

        Raises:
          ValueError: there are no estimates, see ``has_estimates``.
        """
        if self._noise is None or self._model is None:
            raise ValueError(
                "there are no estimates of users: they need noisy counts, and a list or a survey "
                "of the same records"
            )
        from dp_transforms.postprocessing.name_counts import NameCounts

        return NameCounts(self._noisy, self._noise, self._model).model_intervals(confidence)
