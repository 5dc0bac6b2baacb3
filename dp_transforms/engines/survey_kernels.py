"""Surveys and bounds several lists of the same records: those of periods, or of groups of users.

Both engines call these kernels. Each list has a survey of its own, and so a kappa of its own. A
table of listed pairs has the columns ``user`` and ``partition`` of ``list_kernels.listed``, and all
pairs that a user has in a list are in one table.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from dp_transforms.columnar.attributes import LIST
from dp_transforms.columnar.columns import PARTITION, USER, concat, decoded, single
from dp_transforms.columnar.counting import count_pairs
from dp_transforms.engines.list_kernels import (
    bounded_in_lists,
    histograms,
    label_of_group,
    listed,
)
from dp_transforms.mechanisms.tape_contexts import (
    purpose_of_period,
    purpose_of_users,
    tape_within,
)
from dp_transforms.releases.all_records import AllRecordsSpec
from dp_transforms.releases.lists import ALL_USERS
from dp_transforms.releases.surveys import Survey, SurveyedList
from dp_transforms.runtime.job_secret import release_histogram

if TYPE_CHECKING:
    from dp_transforms.releases import GroupAllRecordsSpec, PeriodAllRecordsSpec
    from dp_transforms.runtime.job_secret import JobSecret


class NamedSurvey(NamedTuple):
    """One of several lists that are released together, each with a survey.

    Attributes:
      place: lists are released in the order of their places.
      label: what the list is called in the release.
      spec: the specification of its survey and list.
      context: the purpose of their random numbers.
    """

    place: Any
    label: tuple[str, ...]
    spec: AllRecordsSpec
    context: str


def surveys_of_periods(spec: PeriodAllRecordsSpec) -> dict[str, NamedSurvey]:
    """Returns the survey and list of each period, by the name of the period."""
    return {
        name: NamedSurvey(place, (name,), spec.of_each, purpose_of_period(name))
        for place, name in enumerate(spec.periods)
    }


def survey_of_group(name: str, spec: GroupAllRecordsSpec) -> NamedSurvey:
    """Returns the survey and list of a group, or of all users, by the name of its list."""
    label = label_of_group(name, spec)
    of_list = spec.for_all if name == ALL_USERS else spec.for_group
    return NamedSurvey(label, label, of_list, purpose_of_users(*label))


def degrees_of_lists(pairs: pa.Table) -> Iterable[tuple[str, Mapping[int, int]]]:
    """Returns (list, {degree: number of users}) of each list, from listed pairs. The degree of a
    user in a list is the number of the user's pairs in it.

    >>> listed_pairs = pa.array([{"list": "a", "partition": i} for i in range(3)])
    >>> list(degrees_of_lists(pa.table({"user": [7, 7, 8], "partition": listed_pairs})))
    [('a', {2: 1, 1: 1})]
    """
    pairs = decoded(pairs)
    columns = [single(pairs[PARTITION]).field(LIST), single(pairs[USER])]
    owners = pa.StructArray.from_arrays(columns, names=[LIST, PARTITION])
    return histograms(count_pairs(pa.table({PARTITION: owners})))


def survey_of_list(degrees: Mapping[int, int], named: NamedSurvey, secret: JobSecret) -> Survey:
    """Returns the survey of one list, from its PRIVATE {degree: number of users}."""
    tape_of = functools.partial(tape_within, named.context, secret.tape)
    return named.spec.survey_under(degrees, tape_of)


def bounded_by_surveys(pairs: pa.Table, kappas: Mapping[str, int], key: bytes) -> pa.Table:
    """Returns the listed pairs that remain when each user counts in at most kappa partitions of
    each list.

    A user's kept pairs are those of ``bounded_in_lists``, and depend on that user's pairs and on
    the kappas alone.

    Args:
      pairs: listed pairs.
      kappas: the bound of each list. Pairs of other lists are left out.
      key: 32 secret bytes.
    """
    pairs = decoded(pairs)
    in_lists = single(pairs[PARTITION])
    table = pa.table(
        {
            USER: single(pairs[USER]),
            LIST: in_lists.field(LIST),
            PARTITION: in_lists.field(PARTITION),
        }
    )
    kept = [table.slice(0, 0)]
    for kappa in sorted({*kappas.values()}):
        names = [name for name, kappa_of_list in kappas.items() if kappa_of_list == kappa]
        is_in = pc.is_in(single(table[LIST]), value_set=pa.array(names, pa.string()))
        kept.append(bounded_in_lists(table.filter(is_in), kappa, key))
    bounded = concat(kept)
    return listed(bounded, single(bounded[LIST]))


def surveyed_list(
    histogram: Mapping[int, int], survey: Survey, named: NamedSurvey, secret: JobSecret
) -> SurveyedList:
    """Returns the survey with its list, from the list's PRIVATE {count: number of partitions}."""
    mechanism = named.spec.list_mechanism(survey)
    released = release_histogram(histogram, mechanism, secret, named.context)
    return named.spec.surveyed(survey, released)
