"""The benchmark book: what it runs exists, and its parts become one page."""

import importlib.util
import sys

import pytest

from benchmarks import __main__ as book
from benchmarks.frequency_lists import accuracy
from dp_transforms.mechanisms import FrequencyList


@pytest.mark.parametrize("one", book.BENCHMARKS, ids=lambda one: one.page)
def test_what_it_runs_exists(one):
    spec = importlib.util.find_spec(f"benchmarks.{one.module}")
    source = spec.loader.get_source(spec.name)
    assert 'if __name__ == "__main__":' in source
    assert f"{one.page}.md" in source
    for flag, taken in (("--lists", one.lists), ("--peers_python", one.peers)):
        assert not taken or flag in source


def test_pages_become_parts(tmp_path):
    path = tmp_path / "page.md"
    path.write_text("# Title\n\nSee [a](a.md), [b](https://b)\n\n## Part\n\n![plot](b.png)\n")
    assert list(book.page(path)) == [
        "",
        "See [a](results/a.md), [b](https://b)",
        "",
        "### Part",
        "",
        "![plot](results/b.png)",
    ]
    assert list(book.page(tmp_path / "none.md")) == ["No results yet."]


@pytest.mark.parametrize(
    ("code", "fault"),
    [("pass", None), ("raise SystemExit(3)", "exit code 3"), ("while True: pass", "took more")],
)
def test_faults_and_limits_are_told(tmp_path, monkeypatch, code, fault):
    script = tmp_path / "python"
    script.write_text(f"#!{sys.executable}\n{code}\n")
    script.chmod(0o755)
    monkeypatch.setattr(book.sys, "executable", str(script))
    found = book.run(book.Benchmark("page", "about", "module", 1 / 60), None, None)
    assert (found is None) if fault is None else (fault in found)


def test_a_fault_is_told_in_the_book():
    lines = list(book.book({"baselines": "took more than 20 minutes"}))
    assert (
        sum("took more than 20 minutes: what follows is of an earlier run" in x for x in lines) == 1
    )
    for one in book.BENCHMARKS:
        assert f"## {one.about}" in lines
        assert f"* [{one.about}](#{book.anchor(one.about)})" in lines


def test_measured_and_exact_means_are_of_the_same():
    found = accuracy(FrequencyList([40, 7, 1], [1, 5, 30]), 0.5, 400)
    assert abs(found.mean - found.exact) < 6 * found.error
    assert found.l2 > 0
