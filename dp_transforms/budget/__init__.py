"""Privacy budgets: amounts, what mechanisms cost, composition, and a ledger that jobs share."""

from dp_transforms.budget.accounting import Composition as Composition
from dp_transforms.budget.accounting import compose as compose
from dp_transforms.budget.accounting import largest_epsilon as largest_epsilon
from dp_transforms.budget.budget import PrivacyBudget as PrivacyBudget
from dp_transforms.budget.events import ApproximateDpEvent as ApproximateDpEvent
from dp_transforms.budget.events import BoundedRangeDpEvent as BoundedRangeDpEvent
from dp_transforms.budget.events import gaussian_threshold_event as gaussian_threshold_event
from dp_transforms.budget.journal import CorruptedJournalError as CorruptedJournalError
from dp_transforms.budget.ledger import BudgetExceededError as BudgetExceededError
from dp_transforms.budget.ledger import Ledger as Ledger
from dp_transforms.budget.ledger import LedgerLine as LedgerLine
from dp_transforms.budget.ledger import Reservation as Reservation
