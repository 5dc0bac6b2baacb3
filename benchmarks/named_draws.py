"""Draws that follow from a name: the same in each run, and others for each name.

Releases draw their secrets by ``secrets.token_bytes``, from the operating system. ``follow`` puts
another function in its place, for one process. So a page of benchmarks is the same each time, and
so is a test (see ``tests/same_draws.py``). The product has no such switch. Anyone can repeat these
draws: they protect nobody, and serve no release of real data.

The places of a sequence differ, and no name serves two parts of a page. So releases that a page
averages have secrets of their own, as if they had been drawn. A process that is started, and a task
of a pool of processes, gets a name of its own, which its parent makes.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import secrets
from collections.abc import Callable
from typing import TypeVar

FRESH = "fresh"
"""In place of a seed: other draws in each run."""

Value = TypeVar("Value")


class NamedDraws:
    """A sequence of draws that follows from a name."""

    def __init__(self, name: str):
        self._name, self._calls = name, itertools.count()

    def token_bytes(self, nbytes: int | None = None) -> bytes:
        """Returns the next draw, as ``secrets.token_bytes`` does."""
        size = secrets.DEFAULT_ENTROPY if nbytes is None else nbytes
        return hashlib.shake_256(f"{self._name} {next(self._calls)}".encode()).digest(size)


def follow(name: str) -> None:
    """Makes all draws of this process follow from a name, from the first draw of its sequence.

    A fork of this process, which would draw the same, gets a RuntimeError instead.
    """
    draws, process = NamedDraws(name), os.getpid()

    def token_bytes(nbytes: int | None = None) -> bytes:
        if os.getpid() != process:
            raise RuntimeError("a fork must follow a name of its own")
        return draws.token_bytes(nbytes)

    secrets.token_bytes = token_bytes


def begin(page: str, seed: str) -> None:
    """Makes all draws of this process follow from the name of a page and a seed, or be others in
    each run if the seed is ``FRESH``."""
    follow(f"{page} {secrets.token_hex() if seed == FRESH else seed}")


def following(name: str, work: Callable[..., Value], *arguments: object) -> Value:
    """Returns the value of a function whose draws follow from a name: a task of a pool."""
    follow(name)
    return work(*arguments)
