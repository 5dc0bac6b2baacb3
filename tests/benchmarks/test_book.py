import importlib.metadata
import importlib.util
import json

import pytest

from benchmarks import __main__ as book


@pytest.mark.parametrize("benchmark", book.BENCHMARKS, ids=lambda benchmark: benchmark.page)
def test_what_it_runs_exists(benchmark):
    spec = importlib.util.find_spec(f"benchmarks.{benchmark.page}")
    source = spec.loader.get_source(spec.name)
    assert 'if __name__ == "__main__":' in source
    assert f"{benchmark.page}.md" in source
    assert all(f"--{name}" in source for name in benchmark.options)


def test_pages_become_parts(tmp_path):
    path = tmp_path / "page.md"
    path.write_text("# Title\n\nSee [a](a.md), [b](https://b)\n\n## Part\n\n![plot](b.png)\n")
    shown = "\nSee [a](results/a.md), [b](https://b)\n\n### Part\n\n![plot](results/b.png)"
    assert "\n".join(book.page(path)) == shown
    assert list(book.page(tmp_path / "none.md")) == ["No results yet."]


def test_the_book_is_written_with_what_ran(tmp_path, monkeypatch, capsys):
    for name, path in (("RESULTS", tmp_path), ("RUNS", tmp_path / "r"), ("BOOK", tmp_path / "b")):
        monkeypatch.setattr(book, name, path)
    made, faults = [], {"startup": None, "engine": "ended with exit code 1"}

    async def run(benchmark, options):
        made.append(benchmark.page)
        return faults.pop(benchmark.page, None)

    monkeypatch.setattr(book, "run", run)
    assert book.main(["--only", "startup", "--only", "engine"]) == 1
    runs = json.loads((tmp_path / "r").read_text())
    assert runs.keys() == {"startup"} and runs["startup"]["seconds"] == 0
    assert "**The last run ended with exit code 1" in (tmp_path / "b").read_text()
    assert book.main(["--assemble"]) == 0
    assert json.loads((tmp_path / "r").read_text()) == runs
    # All but the page of this commit run again.
    assert book.main(["--resume"]) == 0
    assert sorted(["startup", *made[2:]]) == sorted(benchmark.page for benchmark in book.BENCHMARKS)
