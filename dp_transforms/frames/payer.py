"""States what pays for releases: a session, which this module's users need not import."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from dp_transforms.budget import Request
from dp_transforms.budget.entry import BudgetEntry


class Payer(Protocol):
    """A payer is a ``Session``: it pays for a release from its budget."""

    def check(self, requests: Sequence[Request]) -> None:
        """Checks, without spending, that a release could be paid for now."""

    def spending(self, requests: Sequence[Request]) -> AbstractContextManager[BudgetEntry]:
        """Spends the requests before its block is entered; yields what statements say of it."""

    def note_release(self, data: Any, *arguments: Any) -> None:
        """Notes a call with these data, and warns if it is the second one."""
