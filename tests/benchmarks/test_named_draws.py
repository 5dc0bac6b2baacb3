"""That a page of benchmarks is the same each time, and that its parts draw independently."""

import os
import secrets
import sys

import pytest

from benchmarks import yahoo_retelling
from benchmarks.harness import in_new_process, numbered_tapes, page_parser
from benchmarks.named_draws import FRESH, begin, following


@pytest.fixture(autouse=True)
def draws_end(monkeypatch):
    """Lets the draws of the tests go on after a test that has replaced them."""
    monkeypatch.setattr(secrets, "token_bytes", secrets.token_bytes)


@pytest.mark.thorough
def test_a_page_is_the_same_each_time(tmp_path, monkeypatch):
    small = ["--users=3000", "--attributes=1", "--epsilon_groups", "0.5", "0.2"]

    def page(directory, *draws):
        arguments = ["yahoo_retelling", *small, f"--output={tmp_path / directory}", *draws]
        monkeypatch.setattr(sys, "argv", arguments)
        yahoo_retelling.run()
        return (tmp_path / directory / "yahoo_retelling.md").read_bytes()

    assert page("first") == page("second") != page("other", "--draws=1")


def drawn(seed):
    """What a page draws itself, in tapes, in processes and in tasks of pools."""
    begin("page", seed)
    keys = [next(tapes).words("x", 1).tolist() for tapes in (numbered_tapes(), numbered_tapes())]
    processes = [in_new_process(secrets.token_hex, 32) for _ in range(2)]
    own = secrets.token_hex()
    tasks = [following(f"{own} {name}", secrets.token_hex) for name in ("a", "b")]
    return [secrets.token_hex(), own, *processes, *tasks, *map(str, keys)]


def test_parts_of_a_page_draw_independently_and_the_same_each_time():
    first = drawn("0")
    assert first == drawn("0")
    everything = [*first, *drawn("1"), *drawn(FRESH), *drawn(FRESH)]
    assert len(set(everything)) == len(everything)


def test_pages_have_names_of_their_own():
    values = []
    for name in ("answers", "looks"):
        page_parser(name, "").parse_args([])
        values.append(secrets.token_hex())
    assert values[0] != values[1]


def test_a_fork_does_not_repeat_draws(monkeypatch):
    begin("page", "0")
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(RuntimeError, match="name of its own"):
        secrets.token_bytes()
