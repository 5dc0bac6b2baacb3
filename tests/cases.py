"""Which cases of a long test run in ``make test``, and which in ``make test-long`` only."""

import pytest


def slow_unless(cases, quick):
    """The cases, all marked slow but the quick ones; a case is a value or a tuple of values,
    so that a value that is a tuple itself is in a tuple of one."""
    quick = list(quick)
    unpacked = [(case, case if isinstance(case, tuple) else (case,)) for case in cases]
    return [
        pytest.param(*values, marks=[] if case in quick else pytest.mark.slow)
        for case, values in unpacked
    ]
