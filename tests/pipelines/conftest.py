import pathlib

import pytest


@pytest.fixture
def repository():
    """The root of the checkout."""
    return pathlib.Path(__file__).parents[2]


@pytest.fixture
def failure(capsys):
    """Runs a command that must fail with one line on stderr; gives (its exit code, the line)."""

    def of(run, *arguments, **options):
        try:
            code = run(*arguments, **options)
        except SystemExit as stop:
            code = stop.code
        out, err = capsys.readouterr()
        assert out == "" and err.startswith("error: ") and err.count("\n") == 1
        return code, err

    return of
