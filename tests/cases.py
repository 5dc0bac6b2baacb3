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


def refused(call, *cases, error=ValueError, hides=()):
    """A test of each case, which is arguments that the call refuses, and at the end what is in its
    message; nothing in there is of what the call ``hides``."""

    @pytest.mark.parametrize("case", cases)
    def test(case):
        *arguments, message = case
        with pytest.raises(error, match=message) as raised:
            call(*arguments)
        assert not any(text in str(raised.value) for text in hides)

    return test
