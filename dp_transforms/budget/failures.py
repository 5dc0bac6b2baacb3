"""Decides which failures of a job cost budget.

A failed job has released one thing: that it failed, and the kind of fault. If this depends on the
data, it is an output of the job like any other, but no mechanism has made it private. Four rules
bound how many such outputs there can be:

1. **A failure that depends on the values of records is charged**, as if the release had come out.
   So is one that depends on the noise. Somebody who asks by failures ("is the total at least M?")
   pays for each question, and the questions end with the budget.
2. **Other failures are free, but a ledger has only so many of them**: by default ``FREE_FAILURES``
   reservations are given back. Faults of form, a lack of memory and a killed process may depend on
   the data too, for example if a query makes a null where a condition holds. Each failure tells at
   most which of a few kinds of fault it was. A charged failure uses up a free one too.
3. **Without a free failure left, a job costs at least a hundredth of the budget's epsilon**
   (``check_price``). A charged failure costs the job's own epsilon, which could be tiny. By this
   rule, a budget of pure epsilons pays for at most 100 jobs once the free failures are used up. So
   at most ``free_failures`` + 100 reservations can fail, plus further ones of jobs that ran at the
   time when the last free failure was used up.
4. **A job's row is in the ledger before any record is read.** So a process that fails or is killed
   while it reads records has a row to charge. Planning a query, or finding the types of
   JSON lines, reads records before the price is known: a row without a cost notes it first, and
   neither is begun where no free failure is left.

No rule makes failures differentially private: a failure is an exact answer, whatever was paid for
it. Whoever may choose the parameters of jobs and see how they fail must be trusted with the data
(docs/guarantee.md). An owner who trusts them less sets the number of free failures to 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction

from dp_transforms.budget.budget import Cost, PrivacyBudget
from dp_transforms.errors import NothingDrawnError, UnsuitableListError, ValuesError


class FailuresUsedUpError(ValueError):
    """Raised if a job costs less than a budget without free failures admits; nothing was
    reserved."""


FREE_FAILURES = 20
"""How many reservations of failed jobs a ledger or a session gives back by default."""

LEAST_SHARE = Fraction(1, 100)
"""The part of a budget's epsilon that a job costs at least when no free failure is left."""

# A NothingDrawnError depends on the noise, the others on the values of records.
_CHARGED = (ValuesError, UnsuitableListError, NothingDrawnError)
_CHARGED_IN_WORKER = re.compile(rf"\b(?:{'|'.join(kind.__name__ for kind in _CHARGED)}): ")


def is_charged(error: BaseException) -> bool:
    r"""Tells whether a job that failed by an error is charged, because the error depends on values
    of records or on noise. Runners raise errors of workers as text, which begins with their type.

    >>> is_charged(ValuesError("the --query failed"))
    True
    >>> is_charged(RuntimeError("Traceback ...\nNothingDrawnError: no list"))
    True
    >>> is_charged(ValueError("the file has no column 'user'"))
    False
    """
    return isinstance(error, _CHARGED) or bool(_CHARGED_IN_WORKER.search(str(error)))


def check_price(
    budget: PrivacyBudget, free_failures_left: int, costs: Iterable[Cost], budget_name: str
) -> None:
    """Checks that a job may be charged, although no failure of it may be given back.

    Args:
      budget: the whole budget.
      free_failures_left: how many more reservations of failed jobs it gives back.
      costs: the costs of the job's reservations.
      budget_name: names the budget in the message, such as the path of a ledger.

    Raises:
      FailuresUsedUpError: no free failure is left, and the epsilons of the costs add up to less
        than ``LEAST_SHARE`` of the budget's.

    >>> tiny = [Cost(PrivacyBudget("0.001"))]
    >>> check_price(PrivacyBudget(1), 1, tiny, "the ledger")
    >>> check_price(PrivacyBudget(1), 0, tiny, "the ledger")
    Traceback (most recent call last):
      ...
    dp_transforms.budget.failures.FailuresUsedUpError: the ledger has no free failure left, and ...
    """
    least = budget.epsilon * LEAST_SHARE
    epsilon = sum((cost.budget.epsilon for cost in costs), Fraction(0))
    if free_failures_left <= 0 and epsilon < least:
        raise FailuresUsedUpError(
            f"{budget_name} has no free failure left, and from then on a job costs at least a "
            f"hundredth of its budget: epsilon {PrivacyBudget(least).epsilon}, where this one has "
            f"epsilon {PrivacyBudget(epsilon).epsilon}. Ask for more, or pay from another ledger, "
            "made with more free failures"
        )


def check_free_failures(number: object) -> None:
    """Raises a ValueError unless this may be a ledger's number of free failures."""
    if type(number) is not int or not 0 <= number < 2**31:
        raise ValueError("free_failures must be an integer from 0, such as 20")
