"""Carries a budget into publication: what a privacy.json states of it, and the ledger's note."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dp_transforms.budget.budget import PrivacyBudget, PrivacyUnit
from dp_transforms.budget.ledger import Ledger
from dp_transforms.budget.ledger_rows import LedgerLine, State
from dp_transforms.errors import InputError


@dataclass(frozen=True)
class BudgetEntry:
    """The budget of one release. On Beam it is pickled, and a worker calls ``begin``.

    Attributes:
      content: the value of ``budget`` in a privacy.json; empty for a release without a budget.
      ledger: the path or URL of a ledger that must note when writing begins, or None.
      reservations: the ids of this release's rows in that ledger.
    """

    content: Mapping[str, Any] = field(default_factory=dict)
    ledger: str | None = None
    reservations: tuple[int, ...] = ()

    @classmethod
    def of(
        cls,
        budget: PrivacyBudget,
        unit: PrivacyUnit,
        lines: Iterable[LedgerLine],
    ) -> BudgetEntry:
        """Returns the entry of a whole budget, with the lines of its ledger that count as spent.

        All of them are stated as committed. A privacy.json is public, and whether an earlier job
        failed may depend on the data. So lines of failed jobs are left out if they were given back,
        and look like all others if they were charged or stay reserved."""
        stated = [line.closed(State.COMMITTED) for line in lines if line.counts]
        return cls(
            {
                "epsilon": str(budget.epsilon),
                "delta": str(budget.delta),
                "neighbours": unit.neighbours,
                "ledger": [line.to_json() for line in stated],
            }
        )

    def in_shared_ledger(self, ledger: Ledger, reservations: tuple[int, ...]) -> BudgetEntry:
        """Returns an entry that names the ledger and this release's reservations in it, where
        ``begin`` notes that it is written."""
        names = {"ledger_id": ledger.identity, "reservations": list(reservations)}
        return BudgetEntry({**self.content, **names}, ledger.path, reservations)

    def for_workers_without_ledger(self) -> BudgetEntry:
        """Returns the entry for workers that do not reach the ledger, after the process that starts
        them has called ``begin``."""
        return replace(self, ledger=None)

    @property
    def statement(self) -> dict[str, Any]:
        """Returns the budget's part of a privacy.json; it is empty without a budget."""
        return {"budget": dict(self.content)} if self.content else {}

    def begin(self) -> None:
        """Notes in the ledger, if one is to know, that something may come out from now on.

        Raises:
          InputError: the reservations are not open any more, or the ledger cannot be written. Then
            nothing may be released.
        """
        if self.ledger is None:
            return
        try:
            ledger = Ledger.open(self.ledger)
            if ledger.identity != self.content["ledger_id"]:
                # As where a worker's machine has another file of this name.
                raise ValueError(f"{self.ledger} is another ledger here than where the job started")
            ledger.begin(self.reservations)
        except OSError as error:
            reason = (error.strerror or "the filesystem refused").lower()
            raise InputError(
                f"nothing was released: the ledger cannot be written: {reason}"
            ) from None
        except ValueError as error:
            raise InputError(f"nothing was released: {error}") from None


NO_BUDGET = BudgetEntry()
"""Of a release that no budget limits, or that was paid for when it was made."""
