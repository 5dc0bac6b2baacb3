"""Which cases run in ``make test``, and which in ``make test-thorough`` or ``make test-slow``."""

import pytest


def slow_unless(cases, quick):
    """The cases, all marked slow but the quick ones; a case is a value or a tuple of values,
    so that a value that is a tuple itself is in a tuple of one."""
    return _marked_unless(pytest.mark.slow, cases, quick)


def thorough_unless(cases, quick):
    """The cases, all marked thorough but the quick ones: see ``slow_unless``."""
    return _marked_unless(pytest.mark.thorough, cases, quick)


def _marked_unless(mark, cases, quick):
    quick = list(quick)
    unpacked = [(case, case if isinstance(case, tuple) else (case,)) for case in cases]
    return [pytest.param(*values, marks=[] if case in quick else mark) for case, values in unpacked]


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
