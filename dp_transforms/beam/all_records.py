"""A transform that releases a survey of degrees and a list; the survey can choose kappa."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa

from dp_transforms.beam.batching import ToTables
from dp_transforms.beam.bounds import ReleaseTransform, refuse_bounded
from dp_transforms.beam.contributions import BoundContributions, add_counts
from dp_transforms.beam.pipeline_secret import secret_for
from dp_transforms.beam.records import refuse_windows
from dp_transforms.beam.release import ON_ONE_WORKER, in_order, wanted_names
from dp_transforms.beam.same_choice import (
    MARK,
    histogram_by_choice,
    marked,
    marked_histogram,
    marked_histograms,
)
from dp_transforms.beam.shuffle import on_threads
from dp_transforms.columnar import counting
from dp_transforms.columnar.attributes import LIST
from dp_transforms.columnar.bounding import distinct_pairs
from dp_transforms.columnar.columns import COUNT, PARTITION, single
from dp_transforms.engines.survey_kernels import (
    NamedSurvey,
    bounded_by_surveys,
    degrees_of_lists,
    survey_of_list,
    surveyed_list,
)
from dp_transforms.mechanisms.decimals import Number
from dp_transforms.mechanisms.partition.registry import AUTO
from dp_transforms.mechanisms.tape_contexts import BOUND_CONTRIBUTIONS
from dp_transforms.postprocessing.survey_plan import SURVEY_MAX_DEGREE
from dp_transforms.releases.all_records import AllRecordsSpec
from dp_transforms.releases.surveys import Survey, SurveyedList
from dp_transforms.runtime.job_secret import JobSecret, release_histogram


class ReleaseAllRecords(ReleaseTransform, beam.PTransform):
    """Releases a survey of degrees and a frequency list: takes records, returns a SurveyedList.

    Both together are epsilon-DP, with delta = 0, for adding or removing all records of one user:
    ``releases.all_records`` has the argument. ``AllRecordsRelease.of`` turns the result into a
    value with methods for questions.

    Args:
      epsilon: the cost of both releases.
      max_partitions_per_user: kappa, if it is declared; by default the survey chooses it.
      max_degree: the survey counts users with more partitions as if they had this many. Public:
        choose it without looking at the records.
      survey_share: the survey's part of epsilon, between 0 and 1.
      largest_degree: a public number of partitions that no user is thought to exceed. It is
        enforced: of a user with more partitions, this many are used.
      mechanism: the mechanism of the list, see ``partition_mechanism``.
      secret, num_buckets: see ``BoundContributions``.

    Raises:
      ValueError, TypeError: an argument is out of range; or as ``BoundContributions``.

    >>> with beam.Pipeline() as pipeline:
    ...     records = pipeline | beam.Create([("ann", "jazz"), ("ann", "rock"), ("bob", "jazz")])
    ...     surveyed = records | ReleaseAllRecords(epsilon=200, max_degree=3)
    ...     _ = surveyed | beam.Map(lambda made: print(made.survey.kappa, list(made.released)))
    2 [(2, 1), (1, 1)]
    """

    def __init__(
        self,
        epsilon: Number,
        max_partitions_per_user: int | None = None,
        max_degree: int = SURVEY_MAX_DEGREE,
        *,
        survey_share: Number | None = None,
        largest_degree: int | None = None,
        mechanism: str = AUTO,
        secret: JobSecret | None = None,
        num_buckets: int | None = None,
    ):
        super().__init__()
        self._spec = AllRecordsSpec(
            epsilon=epsilon,
            max_partitions_per_user=max_partitions_per_user,
            survey_share=survey_share,
            mechanism=mechanism,
            max_degree=max_degree,
            largest_degree=largest_degree,
        )
        self._secret = secret
        self._num_buckets = num_buckets

    def expand(self, records: beam.PCollection) -> beam.PCollection:
        refuse_windows(records)
        refuse_bounded(records, "ReleaseAllRecords")
        spec = self._spec
        secret = secret_for(records.pipeline, self._secret)
        secret.claim(records, "survey and frequency list")
        shared: dict[str, Any] = {"secret": secret, "num_buckets": self._num_buckets}
        # Each user's pairs are all in one bounded table.
        pairs = (
            records
            | "ToTables" >> ToTables()
            | "Bound" >> BoundContributions(spec.most_partitions, **shared)
        )
        survey = (
            pairs
            | "Degrees" >> beam.Map(counting.user_degrees)
            | "MergeDegrees" >> beam.CombineGlobally(counting.add_histograms)
            | "Survey" >> beam.Map(spec.survey_under, tape_of=secret.tape)
        )
        bound = functools.partial(distinct_pairs, key=secret.key(BOUND_CONTRIBUTIONS))
        count = functools.partial(_count_kept, bound=bound)
        release = functools.partial(_surveyed, spec=spec, secret=secret)
        return (
            pairs
            | "CountKept" >> on_threads(count, choice=beam.pvalue.AsSingleton(survey))
            | "Batch" >> ToTables((PARTITION, COUNT, MARK))
            | "ByPartition" >> add_counts(secret, self._num_buckets)
            | "Histogram" >> beam.Map(marked_histogram)
            | "Merge" >> beam.CombineGlobally(counting.add_histograms)
            | "Release"
            >> beam.Map(release, survey=beam.pvalue.AsSingleton(survey))
            .with_output_types(SurveyedList)
            .with_resource_hints(**ON_ONE_WORKER)
            # Without a shuffle, later steps could be fused with this one and get its hints.
            | "Bracket" >> beam.Reshuffle()
        )

    def display_data(self) -> dict[str, Any]:
        return {"epsilon": float(self._spec.cost.epsilon)}


def release_surveyed_lists(
    pairs: beam.PCollection,
    public: Iterable[str],
    selected: beam.PCollection | None,
    of_name: Callable[[str], NamedSurvey],
    kind: Any,
    secret: JobSecret,
    num_buckets: int | None,
) -> beam.PCollection:
    """Releases a survey and a list for each wanted name.

    Args:
      pairs: tables of distinct pairs. A user's pairs within a list must be in one table.
      of_name: returns the ``NamedSurvey`` of a name.
      public, selected, kind, secret, num_buckets: see ``release_named_lists``.

    Returns:
      Tuples (*label, SurveyedList), in the order of ``NamedSurvey.place``.
    """
    public = list(public)
    for named in map(of_name, public):
        secret.claim(pairs, f"survey within {named.context}")
    degrees = (
        pairs
        | "Degrees" >> beam.FlatMap(degrees_of_lists)
        | "MergeDegrees" >> beam.CombinePerKey(counting.add_histograms)
    )
    survey = functools.partial(_survey_wanted, of_name=of_name, secret=secret)
    surveys = (
        {"degrees": degrees, "wanted": wanted_names(pairs.pipeline, public, selected)}
        | "DegreesOfWanted" >> beam.CoGroupByKey()
        | "Survey" >> beam.FlatMap(survey)
    )
    # The bounds that the surveys choose reach the pairs as a side input.
    kappas = surveys | "Kappas" >> beam.MapTuple(lambda name, survey: (name, survey.kappa))
    count = functools.partial(_count_kept_in_lists, key=secret.key(BOUND_CONTRIBUTIONS))
    histograms = (
        pairs
        | "CountKept" >> on_threads(count, choice=beam.pvalue.AsDict(kappas))
        | "Batch" >> ToTables((PARTITION, COUNT, MARK))
        | "ByPartition" >> add_counts(secret, num_buckets)
        | "Histograms" >> beam.FlatMap(marked_histograms)
        | "Merge" >> beam.CombinePerKey(counting.add_histograms)
    )
    release = functools.partial(_release_surveyed, of_name=of_name, secret=secret)
    released = (
        {"histograms": histograms, "surveys": surveys}
        | "OfSurveys" >> beam.CoGroupByKey()
        | "Release" >> beam.FlatMap(release).with_resource_hints(**ON_ONE_WORKER)
    )
    return in_order(released, kind)


def _survey_wanted(
    element: tuple[str, Mapping[str, Iterable[Any]]],
    of_name: Callable[[str], NamedSurvey],
    secret: JobSecret,
) -> Iterator[tuple[str, Survey]]:
    name, parts = element
    degrees: dict[int, int] = next(iter(parts["degrees"]), {})
    for _ in parts["wanted"]:
        yield name, survey_of_list(degrees, of_name(name), secret)


def _release_surveyed(
    element: tuple[str, Mapping[str, Iterable[Any]]],
    of_name: Callable[[str], NamedSurvey],
    secret: JobSecret,
) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    name, parts = element
    by_marks: dict[tuple[int, int], int] = next(iter(parts["histograms"]), {})
    for survey in parts["surveys"]:
        named = of_name(name)
        histogram = histogram_by_choice(by_marks, survey.kappa)
        yield named.place, (*named.label, surveyed_list(histogram, survey, named, secret))


# This hashes all pairs again. ``bounding.bounded_again`` would be faster, but it needs tables that
# are grouped by the codes of their users, and a runner may encode a table anew between two steps.
def _count_kept(pairs: pa.Table, bound: Any, choice: Survey) -> pa.Table:
    """Counts the users of each partition, each user in at most kappa partitions. Kappa is also the
    mark of the survey (``same_choice``)."""
    return marked(counting.count_pairs(bound(pairs, at_most=choice.kappa)), choice.kappa)


def _count_kept_in_lists(pairs: pa.Table, key: bytes, choice: Mapping[str, int]) -> pa.Table:
    """Counts the users of each partition of each list, given the kappas of all lists. The kappa of
    a list is also its mark."""
    counts = counting.count_pairs(bounded_by_surveys(pairs, choice, key))
    lists = single(counts[PARTITION]).field(LIST).to_pylist()
    return marked(counts, np.array([choice[name] for name in lists], np.int64))


def _surveyed(
    by_marks: Mapping[tuple[int, int], int],
    spec: AllRecordsSpec,
    secret: JobSecret,
    survey: Survey,
) -> SurveyedList:
    histogram = histogram_by_choice(by_marks, survey.kappa)
    released = release_histogram(histogram, spec.list_mechanism(survey), secret)
    return spec.surveyed(survey, released)
