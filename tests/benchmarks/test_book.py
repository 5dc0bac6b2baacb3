"""The benchmark book: what it runs exists, and its parts become one page."""

import asyncio
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import sys
import time

import pytest

from benchmarks import __main__ as book

PAGE = book.Benchmark("page", "about", "module", minutes=5)
ENDLESS = "while True: pass"


def python_that_runs(code, directory):
    """A script in the interpreter's place, which runs this code whatever it is asked to run."""
    script = directory / "python"
    script.write_text(f"#!{sys.executable}\n{code}\n")
    script.chmod(0o755)
    return str(script)


def runs(pid):
    """Tells whether a process exists, other than as one that has ended and waits to be reaped."""
    try:
        os.kill(pid, 0)
        return ") Z" not in pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False


@pytest.mark.parametrize("one", book.BENCHMARKS, ids=lambda one: one.page)
def test_what_it_runs_exists(one):
    spec = importlib.util.find_spec(f"benchmarks.{one.module}")
    source = spec.loader.get_source(spec.name)
    assert 'if __name__ == "__main__":' in source
    assert f"{one.page}.md" in source
    assert all(f"--{name}" in source for name in one.options)


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
    [("pass", None), ("raise SystemExit(3)", "exit code 3"), (ENDLESS, "took more")],
)
def test_faults_and_limits_are_told(tmp_path, monkeypatch, code, fault):
    monkeypatch.setattr(book.sys, "executable", python_that_runs(code, tmp_path))
    limited = PAGE._replace(minutes=1 / 60) if code == ENDLESS else PAGE
    found = asyncio.run(book.run(limited, {}))
    assert (found is None) if fault is None else (fault in found)


def test_nothing_of_a_benchmark_outlives_its_limit(tmp_path, monkeypatch):
    told = tmp_path / "started"
    code = (
        "import pathlib, subprocess, time\n"
        "process = subprocess.Popen(['sleep', '60'])\n"
        f"pathlib.Path({str(told)!r}).write_text(str(process.pid))\n"
        "time.sleep(60)"
    )
    monkeypatch.setattr(book.sys, "executable", python_that_runs(code, tmp_path))
    assert "took more" in asyncio.run(book.run(PAGE._replace(minutes=1 / 20), {}))
    started = int(told.read_text())
    for _ in range(100):
        if not runs(started):
            return
        time.sleep(0.05)
    raise AssertionError("a process of the benchmark still runs")


def test_the_option_is_handed_on(tmp_path, monkeypatch):
    told = tmp_path / "arguments"
    code = f"import pathlib, sys\npathlib.Path({str(told)!r}).write_text(' '.join(sys.argv[1:]))"
    monkeypatch.setattr(book.sys, "executable", python_that_runs(code, tmp_path))
    given = {"lists": "DIR", "edges": None, "pairs": "OTHER"}
    both = " --lists=DIR --pairs=OTHER"
    for options, expected in (((), ""), (("lists", "edges", "pairs"), both)):
        assert asyncio.run(book.run(PAGE._replace(options=options), given)) is None
        assert told.read_text() == f"-m benchmarks.module{expected}"


def test_the_book_is_written_with_what_ran(tmp_path, monkeypatch, capsys):
    for name, path in (("RESULTS", tmp_path), ("RUNS", tmp_path / "r"), ("BOOK", tmp_path / "b")):
        monkeypatch.setattr(book, name, path)
    faults = {"startup": None, "engine": "ended with exit code 1"}

    async def run(one, options):
        return faults[one.page]

    monkeypatch.setattr(book, "run", run)
    assert book.main(["--only", *faults]) == 1
    runs = json.loads((tmp_path / "r").read_text())
    assert runs.keys() == {"startup"} and runs["startup"]["seconds"] == 0
    assert "**The last run ended with exit code 1" in (tmp_path / "b").read_text()
    assert book.main(["--assemble"]) == 0
    assert json.loads((tmp_path / "r").read_text()) == runs
    # All but the page of this commit run again.
    made = []

    async def run_again(one, options):
        made.append(one.page)

    monkeypatch.setattr(book, "run", run_again)
    assert book.main(["--resume"]) == 0
    assert sorted(["startup", *made]) == sorted(one.page for one in book.BENCHMARKS)
