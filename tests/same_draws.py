"""Draws that are the same in every run of a test, so that what passed once passes again.

A release draws from the operating system. A test of such a release fails now and then if it asserts
what is only likely, and its author may not see it. Here each test, and each fixture that several
tests share, has a sequence of its own instead, which follows from its name. ``--fresh`` leaves the
draws, and the examples of Hypothesis, to chance: so the long runs find what is only likely.
Processes that a test starts draw from the operating system in any case.

A worker that leaves a module and comes back sets its fixtures up again. Then they have another
sequence, since a secret that was drawn before serves nothing else.
"""

import collections
import secrets

import pytest

from benchmarks.named_draws import NamedDraws


class SameDraws:
    """A plugin of pytest."""

    def __init__(self):
        self._draws = NamedDraws("")
        self._set_up = collections.Counter()
        secrets.token_bytes = self._token_bytes

    def _token_bytes(self, nbytes=None):
        return self._draws.token_bytes(nbytes)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item):
        self._draws = NamedDraws(item.nodeid)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(self, fixturedef, request):
        before = self._draws
        if fixturedef.scope != "function":
            parameter = getattr(request, "param_index", 0)
            name = f"{fixturedef.baseid} {fixturedef.argname} {parameter}"
            times_before = self._set_up[name]
            self._set_up[name] += 1
            if times_before:
                name += f" again {times_before}"
            self._draws = NamedDraws(name)
        yield
        self._draws = before
