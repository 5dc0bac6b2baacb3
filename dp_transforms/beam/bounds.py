"""Finds the bound on one user's contributions to a PCollection, when the pipeline is built.

A release is as private as it says only if each user counts in at most kappa partitions.
``bound_of`` derives this number from the steps that made a PCollection. A step that is not listed
here loses the bound, and a release after it needs ``DeclareBounded``. If the input of such a step
was counts, its output is treated as counts too, and never as records of users.

Neighbours add or remove all records of one user (or one edge, or one node: ``Bound.unit``). A
PCollection has the bound k if, for neighbours, its contents have property P. For records, P says
that the two contents differ in at most k distinct (user, partition) pairs, all of that user. For
counts, P says that the counts of all partitions together differ by at most k in L1.

* ``BoundContributions`` and ``DeclareBounded`` establish P for their kappa.
* ``CountDistinctUsers`` carries P over from records to counts, since each pair adds one to one
  count. A cap on counts does not increase differences.
* ``CountDegrees`` and ``CountProjectedDegrees`` establish P for the degrees of a graph.
* ``Flatten`` adds up the k of its inputs.
* ``Reshuffle`` changes no element.
* ``Filter`` without side inputs decides about each record by itself. So a record that is in both
  contents is kept in both or in neither, and P remains. Any other filter loses the bound. A filter
  of counts can change a difference of 1 into a whole count, where the count passes a threshold.
  Elements that are only declared to be bounded may be counts. A table holds records of several
  users.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PValue

from dp_transforms.beam.records import RecordKind, is_filter, require_one_collection
from dp_transforms.budget.budget import PrivacyUnit


@dataclass(frozen=True)
class Bound:
    """What is known about the elements of a PCollection; None where it is unknown.

    Attributes:
      partitions: the number k of the module's docstring.
      counted: whether the elements are counts (True) or records (False).
      distinct: whether each (user, partition) pair, or each counted partition, occurs once (True)
        or may occur more often (False).
      unit: the unit that neighbours add or remove.
      largest_count: a public number that no count exceeds, whatever the records are. It is a cap
        on counts, or the bound to which a graph is projected.
    """

    partitions: int | None = None
    counted: bool | None = None
    distinct: bool | None = None
    unit: PrivacyUnit = PrivacyUnit.USER
    largest_count: int | None = None


class BoundAware:
    """A mixin for transforms that know the bound of their output."""

    def bound(self, before: Bound) -> Bound:
        """Returns the bound of the output, given that of all inputs together; here the same."""
        return before


class ReleaseTransform(BoundAware):
    """A mixin for transforms whose output is a release, which needs no bound."""

    def bound(self, before: Bound) -> Bound:
        return Bound()


def bound_of(pcoll: PValue) -> Bound:
    """Returns the bound of a PCollection from the steps that it came through."""
    return _bound_of(pcoll, {})


def _bound_of(pcoll: Any, known: dict[Any, Bound]) -> Bound:
    """Returns the bound of a PCollection, given those that are found already, to which it adds."""
    if pcoll in known:
        return known[pcoll]
    bound_after, step = Bound(), pcoll.producer
    while step is not None and (step is pcoll.producer or pcoll in step.outputs.values()):
        # The producer is visited first and then the composites that it is a part of. The last one
        # decides, as a composite knows more about its output than its parts do.
        before = _sum([_bound_of(pcoll, known) for pcoll in step.main_inputs.values()])
        if isinstance(step.transform, BoundAware):
            bound_after = step.transform.bound(before)
        elif type(step.transform) in (beam.Flatten, beam.Reshuffle):
            # A subclass may change elements.
            bound_after = before
        elif (
            is_filter(step.transform)
            and before.counted is False
            and RecordKind.of(pcoll) != RecordKind.TABLES
        ):
            bound_after = before
        elif step is pcoll.producer:
            # An unlisted step loses the bound, but does not make users' records of counts.
            bound_after = Bound(counted=True if before.counted else None)
        step = step.parent
    known[pcoll] = bound_after
    return bound_after


def refuse_counts(records: beam.PCollection, transform: str) -> Bound:
    """Returns the bound of records; raises a ValueError if they are counts, and a TypeError if they
    are no PCollection."""
    require_one_collection(records)
    bound = bound_of(records)
    if bound.counted:
        raise ValueError(
            f"{transform} takes records of users, but these are counts: apply it before they are "
            "counted"
        )
    return bound


def refuse_bounded(records: beam.PCollection, transform: str) -> None:
    """Raises a ValueError if records are counts, or if a bound on them is known. Then some may have
    been dropped, and what is released about all records would be about the others."""
    if refuse_counts(records, transform).partitions is not None:
        raise ValueError(
            f"{transform} takes all records of each user, but these were bounded: leave "
            "BoundContributions or DeclareBounded out"
        )


def known_bound(pcoll: beam.PCollection, claimed: int | None, transform: str) -> int:
    """Returns the kappa of a release of counts: the claimed number if there is one, or else the
    known bound.

    Args:
      pcoll: the input of the release.
      claimed: kappa, as the caller of the release declares it.
      transform: the name of the release, for messages.

    Raises:
      ValueError: the elements are records instead of counts; the bound is not known, or is larger
        than claimed.
    """
    bound = bound_of(pcoll)
    if bound.counted is False:
        raise ValueError(f"{transform} takes counts, but these are records: count them first")
    if bound.counted is None and bound.partitions is not None:
        raise ValueError(
            f"it is not known whether {transform} gets counts: give DeclareBounded counted=True, "
            "or count records first"
        )
    if bound.partitions is None:
        raise ValueError(
            f"it is not known how many partitions of each user {transform} gets: apply "
            "BoundContributions before CountDistinctUsers, or DeclareBounded if they are bounded "
            "already"
        )
    if claimed is None:
        return bound.partitions
    if bound.partitions > claimed:
        raise ValueError(
            f"{transform} has max_partitions_per_user={claimed}, but it gets up to "
            f"{bound.partitions} of each {bound.unit.value}: bound contributions to {claimed} "
            "before counting, or give no number here"
        )
    return claimed


def _sum(bounds: Sequence[Bound]) -> Bound:
    """Returns the bound of all inputs of a step together, given the bound of each."""
    if len(bounds) == 1:
        return bounds[0]
    kinds = {bound.counted for bound in bounds}
    units = {bound.unit for bound in bounds}
    known = [bound.partitions for bound in bounds if bound.partitions is not None]
    largest = [bound.largest_count for bound in bounds if bound.largest_count is not None]
    alike = len(kinds - {None}) <= 1 and len(units) == 1 and len(known) == len(bounds)
    counted = None
    if True in kinds:
        # If any input is known to be counts, the whole is no collection of records.
        counted = True
    elif kinds == {False}:
        # Elements that are only declared to be bounded may be counts.
        counted = False
    return Bound(
        partitions=sum(known) if alike else None,
        counted=counted,
        distinct=False,
        unit=units.pop() if len(units) == 1 else PrivacyUnit.USER,
        largest_count=max(largest) if largest and len(largest) == len(bounds) else None,
    )
