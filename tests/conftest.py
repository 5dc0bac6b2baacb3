"""Options: ``--part=K/N``, the K-th of N parts of the tests, so that CI can take them in turns;
``--fresh``, new draws and examples, where each run has the same otherwise."""

import contextlib
import gc
import itertools
import pathlib
import zlib

import pytest
from hypothesis import settings

from tests.budget.postgresql import Unavailable, server
from tests.same_draws import SameDraws

# A busy machine, or an import in the first example, is no fault of a property.
settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("fresh", deadline=None)


# Modules and collected tests live until the end: the collector of garbage need not visit them.
gc.disable()


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


def pytest_addoption(parser):
    parser.addoption("--part", metavar="K/N", help="only this part of the tests, K from 1")
    parser.addoption("--fresh", action="store_true", help="draws and examples that are new")


def pytest_configure(config):
    fresh = config.getoption("--fresh")
    settings.load_profile("fresh" if fresh else "same")
    if not fresh:
        config.pluginmanager.register(SameDraws())
    # The process that hands out tests runs none, and needs no Beam, which is slow to load.
    if not config.getoption("numprocesses", None):
        from tests.quick_beam import keep_what_beam_looks_up, run_in_process

        run_in_process()
        keep_what_beam_looks_up()


def pytest_collection_modifyitems(config, items):
    if part := config.getoption("--part"):
        number, parts = map(int, part.split("/"))
        chosen = [item for item in items if zlib.crc32(item.nodeid.encode()) % parts == number - 1]
        config.hook.pytest_deselected(items=[item for item in items if item not in set(chosen)])
        items[:] = chosen


@pytest.fixture
def repository():
    """The root of the checkout."""
    return pathlib.Path(__file__).parents[1]


@pytest.fixture
def failure(capsys):
    """Runs a command that must fail with this exit code and one line on stderr, in which there are
    these words; gives the line."""

    def of(code, words, run, *arguments, **options):
        capsys.readouterr()
        try:
            exit_code = run(*arguments, **options)
        except SystemExit as stop:
            exit_code = stop.code
        out, err = capsys.readouterr()
        assert out == "" and err.startswith("error: ") and err.count("\n") == 1
        assert exit_code == code and words in err
        return err

    return of


SCHEMAS = itertools.count()


@pytest.fixture(scope="session")
def postgresql():
    """A PostgreSQL server."""
    with contextlib.ExitStack() as stack:
        try:
            yield stack.enter_context(server())
        except Unavailable as reason:
            pytest.skip(f"no PostgreSQL server: {reason}")


@pytest.fixture
def url(postgresql):
    """The URL of a ledger that is not there yet."""
    return f"{postgresql.url}#of_test_{next(SCHEMAS)}"


@pytest.fixture
def without_buckets(monkeypatch):
    """Beam checks no option of a bucket. With the extra gcp it would ask Google for credentials,
    which takes minutes without a network."""
    from apache_beam.options.pipeline_options import GoogleCloudOptions

    name = "_warn_if_soft_delete_policy_enabled"
    monkeypatch.setattr(GoogleCloudOptions, name, lambda self, argument: None, raising=False)
