"""Privacy budgets: amounts, what mechanisms cost, composition, and a ledger that jobs share."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dp_transforms.budget.budget import Cost as Cost
from dp_transforms.budget.budget import PrivacyBudget as PrivacyBudget
from dp_transforms.budget.budget import PrivacyFilter as PrivacyFilter
from dp_transforms.budget.budget import PrivacyUnit as PrivacyUnit
from dp_transforms.budget.ledger import BudgetExceededError as BudgetExceededError
from dp_transforms.budget.ledger import JobExistsError as JobExistsError
from dp_transforms.budget.ledger import Ledger as Ledger
from dp_transforms.budget.ledger import PrivacyUnitError as PrivacyUnitError
from dp_transforms.budget.ledger import Request as Request
from dp_transforms.budget.ledger import Reservation as Reservation
from dp_transforms.budget.ledger_file import CorruptedLedgerError as CorruptedLedgerError
from dp_transforms.budget.ledger_file import LedgerLine as LedgerLine
from dp_transforms.budget.ledger_file import Origin as Origin
from dp_transforms.budget.ledger_file import State as State

if TYPE_CHECKING:
    from dp_transforms.budget.accounting import Composition as Composition
    from dp_transforms.budget.accounting import compose as compose
    from dp_transforms.budget.accounting import largest_epsilon as largest_epsilon
    from dp_transforms.budget.events import ApproximateDpEvent as ApproximateDpEvent
    from dp_transforms.budget.events import BoundedRangeDpEvent as BoundedRangeDpEvent
    from dp_transforms.budget.events import gaussian_threshold_event as gaussian_threshold_event
    from dp_transforms.budget.events import partition_event as partition_event

_ACCOUNTING = ("Composition", "compose", "largest_epsilon")
_EVENTS = (
    "ApproximateDpEvent",
    "BoundedRangeDpEvent",
    "gaussian_threshold_event",
    "partition_event",
)


def __getattr__(name: str) -> Any:
    # Loaded when first used: dp-accounting and scipy take seconds, and few jobs compose.
    for home, names in (("accounting", _ACCOUNTING), ("events", _EVENTS)):
        if name in names:
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *_ACCOUNTING, *_EVENTS]
