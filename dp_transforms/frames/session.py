"""Shares a budget between several releases, in memory or in a ledger's file."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, TypeVar

from dp_transforms.budget import (
    BudgetExceededError,
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
from dp_transforms.budget.failures import (
    FREE_FAILURES,
    check_free_failures,
    check_price,
    is_charged,
)
from dp_transforms.budget.ledger import LEASE_SECONDS
from dp_transforms.errors import without_originals
from dp_transforms.frames import graphs, groups, kappa, lists, names
from dp_transforms.frames.run import callers_level
from dp_transforms.frames.same_data import mark_of
from dp_transforms.mechanisms.decimals import Number
from dp_transforms.releases.tables import Table

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def _paid_by_session(
    function: Callable[_Arguments, _Result],
) -> Callable[Concatenate[Session, _Arguments], _Result]:
    """Returns a method that calls a function with its own object as the argument ``session``. The
    method has the other parameters of the function."""

    @functools.wraps(function)
    def method(self: Session, *arguments: Any, **options: Any) -> Any:
        if "session" in options:
            raise TypeError("a method of a session is paid for by it: leave out session")
        return function(*arguments, **{**options, "session": self})

    signature = inspect.signature(function)
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    others = [given for name, given in signature.parameters.items() if name != "session"]
    method.__signature__ = signature.replace(parameters=[own, *others])  # type: ignore[attr-defined]
    method.__qualname__ = f"Session.{function.__name__}"
    return method


@dataclass(frozen=True, repr=False)
class History(Table):
    """A history shows what a session, or everybody who uses its ledger, has spent so far, in order.

    Attributes:
      lines: a line for each part of a release, see ``LedgerLine``. Lines that are reserved,
        committed or charged count. A line that a failed job gave back does not.
    """

    lines: tuple[LedgerLine, ...]

    def __len__(self) -> int:
        return len(self.lines)

    def __iter__(self) -> Iterator[LedgerLine]:
        return iter(self.lines)

    def _columns(self) -> dict[str, Any]:
        return {
            "what": [line.purpose for line in self.lines],
            "epsilon": [str(line.cost.budget.epsilon) for line in self.lines],
            "delta": [str(line.cost.budget.delta) for line in self.lines],
            "state": [(line.state if line.counts else State.FAILED).value for line in self.lines],
            "time (UTC)": [line.reserved_at for line in self.lines],
        }


class Session:
    """A session makes releases about the same users, which together cost no more than a budget.

    The cost of a release is spent before any record is read. A release that costs more than is left
    is refused. Epsilons may be chosen after seeing earlier releases (see ``budget.budget``).

    The cost of a failed release is given back, unless the error depends on values of the data. This
    is safe, because a release is handed out only after its cost is committed: a failed one has
    revealed only its error. The error may depend on the data too. So at most ``free_failures``
    costs are given back. After that, a release costs at least a hundredth of the budget's epsilon
    (see ``budget.failures``). If a process is killed, the next reservation on its ledger gives its
    cost back, and this counts as a failure.

    Several processes can share a ledger, by ``open``. A session in memory serves only the process
    that made it: in a fork of this process it raises a TypeError.

    Args:
      epsilon, delta: the whole budget.
      composition_delta: the part of delta for composition, see ``budget.Ledger.create``.
      unit: the unit that neighbours add, remove or replace: "user" (by default), "replaced-user",
        "edge" or "node".
      free_failures: how many costs of failed releases are given back; a charged failure uses up
        one too.

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
        self._unit = _unit(unit)
        self._lines: list[LedgerLine] = []
        self._free_failures = free_failures
        self._calls: list[tuple[Any, ...]] = []
        self._lock = threading.Lock()
        self._ledger: Ledger | None = None
        self._process = os.getpid()

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Session:
        """Opens a session on a ledger, by its path or URL, which jobs and other sessions may share.

        Make it with ``dp-frequency-lists ledger create`` or ``budget.Ledger.create``.

        Raises:
          FileNotFoundError: there is no such file.
          ValueError: the file is damaged, or no ledger.
        """
        ledger = Ledger.open(path)
        epsilon, delta, share = ledger.budget.epsilon, ledger.budget.delta, ledger.composition_delta
        session = cls(epsilon, delta, composition_delta=share, unit=ledger.unit)
        session._ledger = ledger
        return session

    @classmethod
    @without_originals()
    def create(
        cls,
        path: str | os.PathLike[str],
        epsilon: Number,
        delta: Number = 0,
        *,
        composition_delta: Number = 0,
        unit: str | PrivacyUnit = PrivacyUnit.USER,
        free_failures: int = FREE_FAILURES,
    ) -> Session:
        """Makes a ledger's file, which outlives this process, and returns a session on it.

        Args:
          path: of a file that does not exist.
          epsilon, delta, composition_delta, unit, free_failures: see ``Session``.

        Raises:
          FileExistsError: the path exists; a ledger is never replaced.
          ValueError: an argument is out of its range.
        """
        Ledger.create(path, epsilon, delta, composition_delta, _unit(unit), free_failures)
        return cls.open(path)

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

    @property
    def history(self) -> History:
        """Returns what was spent so far, line by line. On a ledger, this includes what jobs and
        other sessions have spent.

        >>> session = Session(epsilon=1)
        >>> _ = session.release_counts([7, 1, 1], epsilon=0.5, max_partitions_per_user=1)
        >>> session.history.to_arrow().select(["what", "epsilon", "state"]).to_pylist()
        [{'what': 'frequency list', 'epsilon': '0.5', 'state': 'committed'}]
        """
        return History(tuple(self._all_lines()))

    def note_release(self, data: Any, *arguments: Any) -> None:
        """Notes that a release of these data was made, with the specification and the arguments of
        its call. Warns if this session has noted the same before."""
        call = mark_of(data), *arguments
        with self._lock:
            is_second = call in self._calls
            self._calls.append(call)
        if is_second:
            warnings.warn(
                "this is a second release of the same data under the same arguments, and the "
                "session has paid for it again: keep the first one in a variable",
                stacklevel=callers_level(),
            )

    release = _paid_by_session(lists.release)
    """Releases a frequency list: see ``dp_transforms.release``."""
    select = _paid_by_session(names.select)
    """Selects names: see ``dp_transforms.select``."""
    release_and_select = _paid_by_session(names.release_and_select)
    """Releases a list and names: see ``dp_transforms.release_and_select``."""
    release_by_period = _paid_by_session(lists.release_by_period)
    """Releases a list for each period: see ``dp_transforms.release_by_period``."""
    select_by_period = _paid_by_session(names.select_by_period)
    """Selects names in each period: see ``dp_transforms.select_by_period``."""
    release_counts = _paid_by_session(lists.release_counts)
    """Releases counts that were made elsewhere: see ``dp_transforms.release_counts``."""
    degrees = _paid_by_session(graphs.degrees)
    """Releases the degrees of a graph: see ``dp_transforms.degrees``."""
    release_groups = _paid_by_session(groups.release_groups)
    """Releases lists of groups: see ``dp_transforms.release_groups``."""
    release_attributes = _paid_by_session(groups.release_attributes)
    """Releases lists of attributes: see ``dp_transforms.release_attributes``."""
    release_hierarchy = _paid_by_session(groups.release_hierarchy)
    """Releases lists that add up: see ``dp_transforms.release_hierarchy``."""
    choose_kappa = _paid_by_session(kappa.choose_kappa)
    """Compares values of kappa: see ``dp_transforms.choose_kappa``."""

    def check(self, requests: Sequence[Request]) -> None:
        """Checks, without spending, that a release could be paid for now. Raises a
        BudgetExceededError if it could not, a PrivacyUnitError if the budget is for other
        neighbours, and a FailuresUsedUpError if no free failure is left and the release costs too
        little."""
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
        if self._ledger is None:
            check_price(self.budget, self._free_failures, costs, "the session")
        else:
            self._ledger.check_price(costs)

    def _costs(self) -> list[Cost]:
        return [line.cost for line in self._all_lines() if line.counts]

    def _all_lines(self) -> Sequence[LedgerLine]:
        if self._ledger is None:
            if os.getpid() != self._process:
                raise TypeError(
                    "this session is another process's, of which this one is a fork, and each "
                    "could spend the budget once more: share a ledger's file, by Session.open"
                )
            return self._lines
        return self._ledger.lines()

    @contextlib.contextmanager
    def spending(self, requests: Sequence[Request]) -> Iterator[BudgetEntry]:
        """Returns a context that spends the requests before its block is entered, or raises an
        error as ``check`` does. It yields the entry about this for a privacy.json. An error in the
        block may give the cost back, so hand out nothing before the block has ended."""
        spend = self._in_memory if self._ledger is None else self._on_disk
        with spend(requests) as lines:
            yield BudgetEntry.of(self.budget, self._unit, lines)

    @contextlib.contextmanager
    def _on_disk(self, requests: Sequence[Request]) -> Iterator[Sequence[LedgerLine]]:
        """Spends from a ledger. Yields its lines."""
        ledger = self._ledger
        assert ledger is not None, "the session has a file"
        reserved = ledger.reserve_all(requests, announces=True, lease_seconds=LEASE_SECONDS)
        ids = [reservation.id for reservation in reserved]
        try:
            # Nothing is handed out before it is committed. So there is no ``begin``, by which jobs
            # announce their releases.
            with ledger.held(ids):
                yield ledger.lines()
        except BaseException as error:
            # If the ledger cannot be written now, the next reservation gives the cost back.
            with contextlib.suppress(ValueError, OSError):
                if is_charged(error):
                    ledger.charge(*ids)
                else:
                    ledger.give_back(ids)
            raise
        ledger.commit(*ids)

    @contextlib.contextmanager
    def _in_memory(self, requests: Sequence[Request]) -> Iterator[Sequence[LedgerLine]]:
        """Spends from the budget in memory. Yields a line for each part spent so far."""
        with self._lock:
            self.check(requests)
            first = len(self._lines) + 1
            new = [
                LedgerLine(number, *request, Origin(), True, State.COMMITTED)
                for number, request in enumerate(requests, first)
            ]
            self._lines += new
            lines = list(self._lines)
        try:
            yield lines
        except BaseException as error:
            with self._lock:
                is_free = not is_charged(error) and len(requests) <= self._free_failures
                self._free_failures = max(0, self._free_failures - len(requests))
                for line in new:
                    state = State.FAILED if is_free else State.CHARGED
                    self._lines[line.id - 1] = line.closed(state)
            raise

    def __reduce__(self) -> Any:
        raise TypeError("a session cannot be copied: each copy could spend the budget once more")

    def __repr__(self) -> str:
        return f"<Session: {self.spent} spent so far, {self.remaining} left of {self.budget}>"


def _unit(unit: str | PrivacyUnit) -> PrivacyUnit:
    if not isinstance(unit, (str, PrivacyUnit)):
        raise TypeError(f"unit must be a name, got {type(unit).__name__}")
    return PrivacyUnit(unit)
