"""Shares a budget between several releases, in memory or in a ledger's file."""

from __future__ import annotations

import contextlib
import os
import threading
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from dp_transforms.budget import (
    BudgetExceededError,
    CorruptedLedgerError,
    Ledger,
    LedgerLine,
    Origin,
    PrivacyBudget,
    PrivacyUnit,
    PrivacyUnitError,
    Request,
    State,
)
from dp_transforms.budget.budget import Cost, PrivacyFilter
from dp_transforms.budget.entry import BudgetEntry
from dp_transforms.budget.failures import FREE_FAILURES, check_free_failures, is_charged
from dp_transforms.errors import without_originals
from dp_transforms.frames import api, hierarchy
from dp_transforms.mechanisms.decimals import Number
from dp_transforms.releases import (
    GroupReleases,
    HierarchyReleases,
    ListRelease,
    NamesRelease,
    Releases,
)

if TYPE_CHECKING:
    from dp_transforms.postprocessing.kappa_choice import KappaChoice


class Session:
    """A session makes releases about the same users, which together cost no more than a budget.

    The cost of a release is spent before any record is read; more than is left is refused.
    Epsilons may be chosen after seeing earlier releases (see ``budget.budget``).

    The cost of a release that fails is given back, unless the error depends on values of the data:
    the release is handed out only after its cost is committed, so that nothing but the fact of the
    error has come out. That fact may depend on the data, and so only ``free_failures`` costs are
    given back (see ``budget.failures``). If a process is killed, the next reservation on its ledger
    gives its cost back, and this counts as a failure.

    Several processes share a ledger's file, by ``open``. A session in memory serves only the
    process that made it: a fork of it is refused with a TypeError.

    Args:
      epsilon, delta: the whole budget.
      composition_delta: the part of delta for composition, see ``budget.Ledger.create``.
      unit: the unit that neighbours add, remove or replace: "user" (by default), "replaced-user",
        "edge" or "node".
      free_failures: how many costs of failed releases are given back.

    Raises:
      ValueError: an argument is out of its range.

    >>> visits = {"who": [1, 1, 2], "page": ["home", "news", "home"]}
    >>> session = Session(epsilon=2)
    >>> columns = {"user": "who", "partition": "page", "max_partitions_per_user": 2}
    >>> _ = session.release(visits, **columns, epsilon=0.5)
    >>> print(session.remaining)
    epsilon 1.5, delta 0
    >>> session.release(visits, **columns, epsilon=1.6)
    Traceback (most recent call last):
      ...
    dp_transforms.budget.ledger.BudgetExceededError: epsilon 1.6, delta 0 asked for, but ...
    """

    @without_originals()
    def __init__(
        self,
        epsilon: Number,
        delta: Number = 0,
        *,
        composition_delta: Number = 0,
        unit: str | PrivacyUnit = PrivacyUnit.USER,
        free_failures: int = FREE_FAILURES,
    ):
        check_free_failures(free_failures)
        self._filter = PrivacyFilter(PrivacyBudget(epsilon, delta), composition_delta)
        if not isinstance(unit, (str, PrivacyUnit)):
            raise TypeError(f"unit must be a name, got {type(unit).__name__}")
        self._unit = PrivacyUnit(unit)
        self._spent: list[Request] = []
        self._free_failures = free_failures
        self._calls: list[tuple[Any, ...]] = []
        self._lock = threading.Lock()
        self._ledger: Ledger | None = None
        self._process = os.getpid()

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Session:
        """Opens a session on a ledger's file, which jobs and other sessions may share.

        Make the file with ``dp-frequency-lists ledger create`` or ``budget.Ledger.create``.

        Raises:
          FileNotFoundError: there is no such file.
          ValueError: the file is damaged, or no ledger.
        """
        ledger = Ledger.open(path)
        epsilon, delta, share = ledger.budget.epsilon, ledger.budget.delta, ledger.composition_delta
        session = cls(epsilon, delta, composition_delta=share, unit=ledger.unit)
        session._ledger = ledger
        return session

    @property
    def budget(self) -> PrivacyBudget:
        """Returns the whole budget."""
        return self._filter.budget

    @property
    def remaining(self) -> PrivacyBudget:
        """Returns the largest epsilon, and the largest delta, that one more release may cost."""
        return self._filter.remaining(self._costs())

    @property
    def spent(self) -> PrivacyBudget:
        """Returns the sums of the epsilons and deltas that are spent so far."""
        return sum((cost.budget for cost in self._costs()), PrivacyBudget(0))

    def note_release(self, *call: Any) -> None:
        """Notes that a release was made, by the specification, the arguments and the identity of
        the data of its call; warns if this session has noted the same before."""
        with self._lock:
            is_second = call in self._calls
            self._calls.append(call)
        if is_second:
            warnings.warn(
                "this is a second release of the same data under the same arguments, and the "
                "session has paid for it again: keep the first one in a variable",
                stacklevel=5,
            )

    def release(self, data: Any, **options: Any) -> ListRelease:
        """Releases a frequency list: see ``dp_transforms.release``."""
        return api.release(data, **options, session=self)

    def select(self, data: Any, **options: Any) -> NamesRelease:
        """Selects names: see ``dp_transforms.select``."""
        return api.select(data, **options, session=self)

    def release_by_period(self, data: Any, **options: Any) -> Releases:
        """Releases a list for each period: see ``dp_transforms.release_by_period``."""
        return api.release_by_period(data, **options, session=self)

    def release_counts(self, counts: Any, **options: Any) -> ListRelease:
        """Releases counts that were made elsewhere: see ``dp_transforms.release_counts``."""
        return api.release_counts(counts, **options, session=self)

    def degrees(self, edges: Any, **options: Any) -> ListRelease:
        """Releases the degrees of a graph: see ``dp_transforms.degrees``."""
        return api.degrees(edges, **options, session=self)

    def release_groups(self, data: Any, **options: Any) -> GroupReleases:
        """Releases lists of groups: see ``dp_transforms.release_groups``."""
        return api.release_groups(data, **options, session=self)

    def release_hierarchy(self, data: Any, **options: Any) -> HierarchyReleases:
        """Releases the lists of a hierarchy: see ``dp_transforms.release_hierarchy``."""
        return hierarchy.release_hierarchy(data, **options, session=self)

    def choose_kappa(self, data: Any, **options: Any) -> KappaChoice:
        """Compares values of kappa: see ``dp_transforms.choose_kappa``."""
        return api.choose_kappa(data, **options, session=self)

    def check(self, requests: Sequence[Request]) -> None:
        """Checks, without spending, that a release could be paid for now; raises a
        BudgetExceededError, or a PrivacyUnitError if the budget is for other neighbours."""
        for request in requests:
            if request.unit is not self._unit:
                raise PrivacyUnitError(
                    f"this session is for neighbours that {self._unit.neighbours}, and this "
                    f"release is for those that {request.unit.neighbours}: losses of the two do "
                    "not add up"
                )
        costs = [request.cost for request in requests]
        if not self._filter.admits([*self._costs(), *costs[:-1]], costs[-1]):
            asked = sum((cost.budget for cost in costs), PrivacyBudget(0))
            raise BudgetExceededError(
                f"{asked} asked for, but of the session's budget ({self.budget}) only "
                f"{self.remaining} is left"
            )

    def _costs(self) -> list[Cost]:
        if self._ledger is None:
            if os.getpid() != self._process:
                raise TypeError(
                    "this session is another process's, of which this one is a fork, and each "
                    "could spend the budget once more: share a ledger's file, by Session.open"
                )
            return [request.cost for request in self._spent]
        return [line.cost for line in self._ledger.lines() if line.counts]

    @contextlib.contextmanager
    def spending(self, requests: Sequence[Request]) -> Iterator[BudgetEntry]:
        """Spends the requests before its block is entered, or raises as ``check``; yields its
        entry for a privacy.json. An error in the block may give the cost back, so hand out nothing
        before the block has ended."""
        spend = self._in_memory if self._ledger is None else self._on_disk
        with spend(requests) as (lines, own):
            yield BudgetEntry.of(self.budget, self._unit, lines, own)

    @contextlib.contextmanager
    def _on_disk(
        self, requests: Sequence[Request]
    ) -> Iterator[tuple[Sequence[LedgerLine], list[int]]]:
        """Spends in a ledger's file; yields its lines, and the ids of those that are reserved."""
        ledger = self._ledger
        assert ledger is not None, "the session has a file"
        ids = [entry.id for entry in ledger.reserve_all(requests, announces=True)]
        try:
            yield ledger.lines(), ids
        except BaseException as error:
            # If the ledger cannot be written now, the next reservation gives the cost back.
            with contextlib.suppress(CorruptedLedgerError, OSError):
                if is_charged(error):
                    ledger.commit(*ids)
                else:
                    ledger.give_back(ids)
            raise
        ledger.commit(*ids)

    @contextlib.contextmanager
    def _in_memory(
        self, requests: Sequence[Request]
    ) -> Iterator[tuple[Sequence[LedgerLine], tuple[int, ...]]]:
        """Spends in this session; yields a line for each part spent so far, all committed."""
        with self._lock:
            self.check(requests)
            self._spent += requests
            lines = [
                LedgerLine(number, *request, Origin(), True, State.COMMITTED)
                for number, request in enumerate(self._spent, 1)
            ]
        try:
            yield lines, ()
        except BaseException as error:
            with self._lock:
                if not is_charged(error) and len(requests) <= self._free_failures:
                    self._free_failures -= len(requests)
                    for request in requests:
                        self._spent.remove(request)
            raise

    def __reduce__(self) -> Any:
        raise TypeError("a session cannot be copied: each copy could spend the budget once more")

    def __repr__(self) -> str:
        return f"<Session: {self.spent} spent so far, {self.remaining} left of {self.budget}>"
