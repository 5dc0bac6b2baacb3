# The public names and their homes: see public_names.

from .accounting import ApproximateDpEvent as ApproximateDpEvent
from .accounting import BoundedRangeDpEvent as BoundedRangeDpEvent
from .accounting import Composition as Composition
from .accounting import compose as compose
from .accounting import gaussian_threshold_event as gaussian_threshold_event
from .accounting import largest_epsilon as largest_epsilon
from .accounting import partition_event as partition_event
from .budget import Cost as Cost
from .budget import PrivacyBudget as PrivacyBudget
from .budget import PrivacyFilter as PrivacyFilter
from .budget import PrivacyUnit as PrivacyUnit
from .failures import FailuresUsedUpError as FailuresUsedUpError
from .ledger import BudgetExceededError as BudgetExceededError
from .ledger import JobExistsError as JobExistsError
from .ledger import Ledger as Ledger
from .ledger import PrivacyUnitError as PrivacyUnitError
from .ledger import Request as Request
from .ledger import Reservation as Reservation
from .ledger_rows import CorruptedLedgerError as CorruptedLedgerError
from .ledger_rows import LedgerLine as LedgerLine
from .ledger_rows import Origin as Origin
from .ledger_rows import State as State
