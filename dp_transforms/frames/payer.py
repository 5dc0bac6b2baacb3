"""Defines what functions need of a session that pays for their releases. So they need not import
the session, which imports them."""

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
        """Returns a context that spends the requests before its block is entered. It yields the
        entry about this for statements."""

    def note_release(self, data: Any, *arguments: Any) -> None:
        """Notes a release of these data under these arguments, and warns if it is the second
        one."""
