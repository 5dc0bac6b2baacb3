"""A privacy budget on disk that several jobs share, spend once, and never forget.

The protocol of a job:

  1. ``reserve``: under the file's lock, check that the cost fits, write the reservation, and wait
     until it is on the disk. Only then may anything be computed for release.
  2. Release.
  3. ``commit``: note that the release was made. Or ``abandon``: the caller vouches that nothing
     that depends on the data got out, and the reservation is free again.

A reservation counts as spent from step 1 on, whether it is committed or not. So a job that crashes
anywhere leaves its budget spent, a release is on record before it exists, and two jobs cannot
spend the same budget. What is spent is added up in exact fractions.

A ledger has one privacy unit, which says what neighbours are: losses about users, edges and nodes
do not add up. It is in the file's first line and in that of each reservation, and a reservation for
another is refused. The guarantee for everything that was ever released under a ledger is (epsilon,
delta)-DP for its budget and its unit, even if jobs are started, or their epsilons chosen, depending
on earlier outputs (see ``filter``).

A ledger of format 1 has no unit, and its reservations may be of several. It can be read; nothing
more can be reserved in it. Start another one with what is left. Formats 1 and 2 say of a
reservation only whether its range is its epsilon; otherwise it is taken to be 2 epsilon, which
holds. What is added to a ledger of format 2 has its range, as in format 3.
"""

from __future__ import annotations

import dataclasses
import enum
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dp_transforms.budget.budget import PrivacyBudget, PrivacyUnit
from dp_transforms.budget.filter import Cost, PrivacyFilter
from dp_transforms.budget.journal import CorruptedJournalError, Entry, Journal
from dp_transforms.mechanisms.decimals import Real

_FORMAT = "dp-frequency-lists privacy ledger 3"
_HAS_UNIT = {
    _FORMAT: True,
    "dp-frequency-lists privacy ledger 2": True,
    "dp-frequency-lists privacy ledger 1": False,
}
_MAX_PURPOSE = 200


class BudgetExceededError(ValueError):
    """The reservation does not fit in what is left of the budget. Nothing was reserved."""


class PrivacyUnitError(ValueError):
    """The reservation is for neighbours that are not the ledger's. Nothing was reserved."""


class State(enum.Enum):
    """What became of a reservation. All but ABANDONED count as spent."""

    RESERVED = "reserved"
    COMMITTED = "committed"
    ABANDONED = "abandoned"


@dataclass(frozen=True)
class LedgerLine:
    """One reservation.

    Attributes:
      number: its line in the file; the first one is 2, after the budget.
      purpose: what it is for, as given.
      cost: what it costs.
      state: what became of it.
      unit: what neighbours are; None in a ledger of format 1.
    """

    number: int
    purpose: str
    cost: Cost
    state: State
    unit: PrivacyUnit | None

    def to_json(self) -> dict[str, Any]:
        """For a statement such as privacy.json; holds nothing that depends on the data."""
        return {"line": self.number, "state": self.state.value, **_reservation(self)}


class Ledger:
    """A budget file. Make one with ``create`` or ``open``.

    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "budget.jsonl")
    >>> ledger = Ledger.create(path, epsilon=1, delta=1e-6)
    >>> with ledger.reserve(0.25, purpose="passwords, all users"):
    ...     pass  # compute and publish
    >>> print(ledger.spent())
    epsilon 0.25, delta 0
    >>> Ledger.open(path).reserve(0.8, purpose="again")
    Traceback (most recent call last):
      ...
    dp_transforms.budget.ledger.BudgetExceededError: epsilon 0.8, delta 0 asked for, but ...
    """

    def __init__(self, journal: Journal, privacy_filter: PrivacyFilter, unit: PrivacyUnit | None):
        self._journal = journal
        self._filter = privacy_filter
        self._unit = unit

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        epsilon: Real,
        delta: Real = 0,
        composition_delta: Real = 0,
        unit: PrivacyUnit = PrivacyUnit.USER,
    ) -> Ledger:
        """Starts a ledger. The file appears whole or not at all.

        Args:
          path: of a file that does not exist. On a file system that locks (see ``journal``).
          epsilon: the whole budget's.
          delta: the whole budget's.
          composition_delta: the part of delta to spend on composition. Many small reservations then
            cost less than the sum of their epsilons, but only delta - composition_delta is left for
            mechanisms that need a delta of their own.
          unit: what neighbours are, for all that is reserved.

        Raises:
          FileExistsError: there is something at the path; a ledger is never replaced.
          ValueError: a parameter is out of its range.
          OSError: the file cannot be written.
        """
        privacy_filter = PrivacyFilter(PrivacyBudget(epsilon, delta), composition_delta)
        header = {
            "format": _FORMAT,
            "epsilon": str(privacy_filter.budget.epsilon),
            "delta": str(privacy_filter.budget.delta),
            "composition_delta": str(privacy_filter.composition_delta),
            "unit": unit.value,
        }
        return cls(Journal.create(path, header), privacy_filter, unit)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Ledger:
        """A ledger that exists.

        Raises:
          FileNotFoundError: there is none.
          CorruptedJournalError: the file is damaged; the message names the line.
        """
        journal = Journal(path)
        entries = journal.read()
        privacy_filter, unit = _header_of(journal.path, entries[0])
        _lines_of(journal.path, entries, privacy_filter, unit)
        return cls(journal, privacy_filter, unit)

    @property
    def budget(self) -> PrivacyBudget:
        """The whole budget."""
        return self._filter.budget

    @property
    def unit(self) -> PrivacyUnit | None:
        """What neighbours are; None for a ledger of format 1, which does not say."""
        return self._unit

    @property
    def composition_delta(self) -> Fraction:
        """The part of delta that is set aside for composition."""
        return self._filter.composition_delta

    def lines(self) -> tuple[LedgerLine, ...]:
        """All reservations, the first one first.

        Raises:
          CorruptedJournalError: the file is damaged.
        """
        return self._lines(self._journal.read())

    def spent(self) -> PrivacyBudget:
        """The epsilons and deltas of all reservations that were not abandoned, added up."""
        return sum((cost.budget for cost in _spent(self.lines())), PrivacyBudget(0))

    def remaining(self, ranges: Real = 2) -> PrivacyBudget:
        """The largest epsilon, and the largest delta, that one more reservation may have.

        Args:
          ranges: its loss_range as a multiple of its epsilon, from 1 to 2.
        """
        return self._filter.remaining(_spent(self.lines()), ranges)

    def reserve(
        self,
        epsilon: Real,
        delta: Real = 0,
        *,
        purpose: str,
        unit: PrivacyUnit = PrivacyUnit.USER,
        loss_range: Real | None = None,
    ) -> Reservation:
        """Spends a part of the budget, before anything is computed for release.

        When this returns, the reservation is on the disk.

        Args:
          epsilon: the mechanism's.
          delta: the mechanism's.
          purpose: what it is for, in a line of printable text that holds nothing private.
          unit: what the mechanism's neighbours are.
          loss_range: the length of an interval that holds the privacy loss of every output, where
            it is known to be below 2 epsilon: a partition mechanism's ``loss_range``, or the
            epsilon of an exponential mechanism (see ``events.BoundedRangeDpEvent``). Counts where
            the ledger has a composition_delta.

        Returns:
          A context manager: leaving its block commits, unless an exception is the reason. Then the
          reservation stays as it is, which is spent, unless the block has abandoned it.

        Raises:
          BudgetExceededError: it does not fit. Nothing is reserved.
          PrivacyUnitError: the unit is not the ledger's, or the ledger has none.
          CorruptedJournalError: the file is damaged.
          OSError: the reservation could not be written, for a full disk say. Release nothing.
          ValueError: a parameter is out of its range.
        """
        cost = Cost(PrivacyBudget(epsilon, delta), loss_range)
        self._check(unit)
        if not purpose or not purpose.isprintable() or len(purpose) > _MAX_PURPOSE:
            raise ValueError(
                f"purpose must be 1 to {_MAX_PURPOSE} printable characters, got {purpose!r}"
            )
        with self._journal.appending() as appender:
            spent = _spent(self._lines(appender.entries))
            if not self._filter.admits(spent, cost):
                ranges = cost.loss_range / cost.budget.epsilon if cost.budget.epsilon else 2
                raise BudgetExceededError(
                    f"{cost.budget} asked for, but of the budget in {self._journal.path} "
                    f"({self.budget}) only {self._filter.remaining(spent, ranges)} is left"
                )
            number = len(appender.entries) + 1
            line = LedgerLine(number, purpose, cost, State.RESERVED, unit)
            appender.append(_reservation(line))
        return Reservation(self, number)

    def admits(self, costs: Sequence[Cost]) -> bool:
        """Whether all of these could be reserved now, together. Nothing is reserved."""
        return self._filter.admits([*_spent(self.lines()), *costs[:-1]], costs[-1])

    def commit(self, number: int) -> None:
        """Notes that the release of reservation ``number`` was made.

        Raises:
          ValueError: it is not an open reservation.
          OSError: the note could not be written. The reservation stays, and stays spent.
        """
        self._close(number, State.COMMITTED)

    def abandon(self, number: int) -> None:
        """Gives the budget of reservation ``number`` back.

        Call this only if nothing that depends on the data has left the job under it: no output, log
        line, error message or decision that anyone can see. A job that failed because of what is in
        the data has told something about the data.

        Raises:
          ValueError: it is not an open reservation.
          OSError: the note could not be written. The reservation stays, and stays spent.
        """
        self._close(number, State.ABANDONED)

    def _check(self, unit: PrivacyUnit) -> None:
        if self._unit is None:
            raise PrivacyUnitError(
                f"{self._journal.path} is of a format that does not say what its neighbours are: "
                "nothing more can be reserved in it; start a ledger with what is left"
            )
        if unit is not self._unit:
            raise PrivacyUnitError(
                f"{self._journal.path} is a ledger for neighbours that {self._unit.neighbours}, "
                f"and this release is for those that {unit.neighbours}: losses of the two do not "
                "add up; take another ledger"
            )

    def _close(self, number: int, state: State) -> None:
        with self._journal.appending() as appender:
            found = [line for line in self._lines(appender.entries) if line.number == number]
            if not found or found[0].state is not State.RESERVED:
                what = f"already {found[0].state.value}" if found else "not a reservation"
                raise ValueError(f"line {number} of {self._journal.path} is {what}")
            appender.append({state.value: number})

    def _lines(self, entries: list[Entry]) -> tuple[LedgerLine, ...]:
        if _header_of(self._journal.path, entries[0]) != (self._filter, self._unit):
            raise CorruptedJournalError(
                f"{self._journal.path}, line 1: another budget than when it was opened"
            )
        return _lines_of(self._journal.path, entries, self._filter, self._unit)


class Reservation:
    """A part of a ledger's budget that is spent, for a release that may be under way."""

    def __init__(self, ledger: Ledger, number: int):
        self._ledger = ledger
        self._open = True
        self.number = number

    def commit(self) -> None:
        """See ``Ledger.commit``."""
        self._ledger.commit(self.number)
        self._open = False

    def abandon(self) -> None:
        """See ``Ledger.abandon``."""
        self._ledger.abandon(self.number)
        self._open = False

    def __enter__(self) -> Reservation:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._open and kind is None:
            self.commit()


def _spent(lines: Iterable[LedgerLine]) -> list[Cost]:
    return [line.cost for line in lines if line.state is not State.ABANDONED]


def _reservation(line: LedgerLine) -> Entry:
    unit = {} if line.unit is None else {"unit": line.unit.value}
    return unit | {
        "purpose": line.purpose,
        "epsilon": str(line.cost.budget.epsilon),
        "delta": str(line.cost.budget.delta),
        "loss_range": str(line.cost.loss_range),
    }


def _header_of(path: str, header: Entry) -> tuple[PrivacyFilter, PrivacyUnit | None]:
    try:
        unit = PrivacyUnit(header["unit"]) if _HAS_UNIT[header.get("format", "")] else None
    except (KeyError, TypeError, ValueError):
        raise CorruptedJournalError(
            f"{path}, line 1: not a privacy ledger of a known format"
        ) from None
    budget = PrivacyBudget(header["epsilon"], header["delta"])
    return PrivacyFilter(budget, header["composition_delta"]), unit


def _lines_of(
    path: str, entries: list[Entry], privacy_filter: PrivacyFilter, unit: PrivacyUnit | None
) -> tuple[LedgerLine, ...]:
    """The reservations, if the entries are what ``Ledger`` could have written."""
    lines: dict[int, LedgerLine] = {}
    for number, entry in enumerate(entries[1:], start=2):
        try:
            line = _line_of(number, entry, lines)
            if line.unit is not unit:
                raise ValueError("a reservation of another unit")
        except (KeyError, TypeError, ValueError):
            raise CorruptedJournalError(
                f"{path}, line {number}: not an entry that belongs here"
            ) from None
        lines[line.number] = line
    ordered = tuple(lines.values())
    if not privacy_filter.admits(_spent(ordered), Cost(PrivacyBudget(0))):
        raise CorruptedJournalError(f"{path}: its reservations exceed its budget")
    return ordered


def _line_of(number: int, entry: Entry, lines: dict[int, LedgerLine]) -> LedgerLine:
    """The reservation that an entry makes or changes."""
    if "purpose" in entry:
        budget = PrivacyBudget(entry["epsilon"], entry["delta"])
        if "loss_range" in entry:
            cost = Cost(budget, entry["loss_range"])
        else:
            cost = Cost(budget, budget.epsilon if entry["bounded_range"] else None)
        unit = PrivacyUnit(entry["unit"]) if "unit" in entry else None
        return LedgerLine(number, entry["purpose"], cost, State.RESERVED, unit)
    ((state, closed),) = entry.items()
    after = State(state)
    if lines[closed].state is not State.RESERVED or after is State.RESERVED:
        raise ValueError("a reservation is closed once")
    return dataclasses.replace(lines[closed], state=after)
