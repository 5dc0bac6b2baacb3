"""That a test draws the same in each run, whatever ran before it."""

import secrets
from types import SimpleNamespace

import pytest

from tests.same_draws import SameDraws

SHARED = SimpleNamespace(scope="module", baseid="tests/test_x.py", argname="released")
OWN = SimpleNamespace(scope="function", baseid="tests/test_x.py", argname="job")


@pytest.fixture
def draws(monkeypatch):
    monkeypatch.setattr(secrets, "token_bytes", None)
    return SameDraws()


def drawn_by(draws, test, *fixtures):
    """What a test draws twice after each of its fixtures drew once, and what they drew."""
    draws.pytest_runtest_setup(SimpleNamespace(nodeid=test))
    of_fixtures = []
    for fixture in fixtures:
        setup = draws.pytest_fixture_setup(fixture, SimpleNamespace())
        next(setup)
        of_fixtures.append(secrets.token_bytes(8))
        next(setup, None)
    return [secrets.token_bytes(8), secrets.token_bytes(8)], of_fixtures


def test_a_test_draws_what_it_drew_before(draws):
    first, _ = drawn_by(draws, "a")
    other, _ = drawn_by(draws, "b")
    assert first == drawn_by(draws, "a")[0] and len({*first, *other}) == 4


def test_a_shared_fixture_draws_the_same_for_whichever_test_comes_first(draws):
    with_shared, (by_fixture,) = drawn_by(draws, "a", SHARED)
    assert with_shared == drawn_by(draws, "a")[0]
    # A fixture of a test's own goes on with its draws.
    assert drawn_by(draws, "a", OWN)[1] == with_shared[:1]
    # As in another worker, where another test comes first.
    assert [by_fixture] == drawn_by(SameDraws(), "b", SHARED)[1]


def test_a_shared_fixture_that_is_set_up_again_draws_another_secret(draws):
    of_fixtures = [drawn_by(draws, "a", SHARED)[1] for _ in range(3)]
    assert len({draw for (draw,) in of_fixtures}) == 3
