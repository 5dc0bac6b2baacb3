"""Ledgers of both kinds, for tests of what they have in common."""

import os
import pathlib
import tempfile

import pytest

from dp_transforms.budget import Ledger


@pytest.fixture
def in_memory():
    """A directory where waiting for the disk takes no time: a killed process is no power cut."""
    memory = "/dev/shm"
    with tempfile.TemporaryDirectory(dir=memory if os.path.isdir(memory) else None) as place:
        yield pathlib.Path(place)


@pytest.fixture(params=["file", "postgresql"])
def path(request, in_memory):
    """The path or the URL of a ledger that is not there yet."""
    if request.param == "file":
        return str(in_memory / "budget.ledger")
    return request.getfixturevalue("url")


@pytest.fixture
def ledger(path):
    return Ledger.create(path, epsilon=1)


def stored(path):
    """All that a ledger stores, as its file or rows have it."""
    if "://" not in path:
        return pathlib.Path(path).read_bytes()
    import psycopg

    address, _, schema = path.partition("#")
    with psycopg.connect(address) as connection:
        tables = ("budget", "reservations")
        return [
            connection.execute(f"SELECT * FROM {schema}.{table}").fetchall() for table in tables
        ]
