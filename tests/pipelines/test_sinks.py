"""Files of jobs beside the CSV file, their order, and answers without reading."""

import collections
import io
import itertools
import json
import re
import sys
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_transforms.budget import Ledger
from dp_transforms.engines import progress
from dp_transforms.mechanisms import FrequencyList
from pipelines import FAILURE, NO_BUDGET, SUCCESS
from pipelines.__main__ import main
from tests.jobs import instead, job_flags


@pytest.fixture
def flags(tmp_path):
    pages = {"0": 40, '"a, ""b"""': 80, "ü": 120}
    lines = [f"{user},{page}" for page, users in pages.items() for user in range(users)]
    (tmp_path / "records.csv").write_text("\n".join(["user,page", *lines]))
    return job_flags(tmp_path, "--epsilon=30", "--max_partitions_per_user=3")


def test_other_formats_hold_the_same(tmp_path, flags, capsys):
    out = tmp_path / "out"
    formats = ["--output_format=parquet", "--output_format=jsonl"]
    select = [*flags, "--delta=1e-3", "--noisy_counts", "--strategy=laplace"]
    assert main(["select", *select, *formats]) == SUCCESS
    names = [f"released_partitions.{name}" for name in ("csv", "parquet", "jsonl")]
    assert capsys.readouterr().out.split() == [f"{out}/{name}" for name in names]
    rows = pq.read_table(out / names[1]).to_pylist()
    assert [json.loads(line) for line in (out / names[2]).read_text().splitlines()] == rows
    # The largest count comes first.
    assert [row["page"] for row in rows] == ["ü", 'a, "b"', "0"]
    counts = [row["noisy_count"] for row in rows]
    assert counts == sorted(counts, reverse=True)
    header, *lines = (out / names[0]).read_text().splitlines()
    ends = f"{rows[1]['low']},{rows[1]['high']}"
    assert header == "page,noisy_count,low,high"
    assert lines[1] == f'"a, ""b""",{counts[1]},{ends}'
    # What was made of a release does not outlive it.
    assert main(["select", *instead(select, "--epsilon=29", "--overwrite")]) == SUCCESS
    assert not (out / names[1]).exists() and not (out / names[2]).exists()


@pytest.mark.parametrize("epsilon", [40, 20])
def test_a_dry_run_prices_and_changes_nothing(tmp_path, flags, capsys, epsilon):
    book = tmp_path / "book.jsonl"
    Ledger.create(book, epsilon)
    before = book.read_bytes()
    (tmp_path / "records.csv").write_text('user,page\n1,"a broken record\n')
    code = main(["release", *flags, "--dry_run", f"--ledger={book}"])
    printed = capsys.readouterr()
    assert book.read_bytes() == before and not (tmp_path / "out").exists()
    if epsilon < 30:
        assert code == NO_BUDGET and "this does not fit into" in printed.err
    else:
        assert code == SUCCESS
        assert "frequency list: epsilon 30" in printed.out and "epsilon 40" in printed.out
    assert main(["release", *instead(flags, "--dry_run", "--user_column=usr")]) == FAILURE


def test_json_for_programs(tmp_path, capsys):
    counts = str(tmp_path / "counts.csv")
    FrequencyList([9, 1], [1, 5]).to_csv(counts)
    book = str(tmp_path / "book.jsonl")
    Ledger.create(book, 1).reserve(0.25, purpose="a list").commit()

    def printed(*arguments):
        assert main([*arguments, "--json"]) == SUCCESS
        return json.loads(capsys.readouterr().out)

    answer = printed("ledger", "show", book)
    assert answer["left"] == {"epsilon": "0.75", "delta": "0"}
    assert [line["state"] for line in answer["reservations"]] == ["committed"]
    answer = printed("evaluate", f"--original={counts}", f"--released={counts}")
    assert answer["partitions"] == [6, 6] and answer["dist"] == 0
    answer = printed("plan", "--users=1000", "--epsilon=1,2", "--delta=1e-6")
    assert [plan["epsilon"] for plan in answer["plans"]] == [1, 2]
    same = [f"--frequency_list={counts}", f"--neighbour={counts}", "--epsilon=2", "--draws=10"]
    answer = printed("audit", "--mechanism=frequency_list", *same)
    assert answer["certified"] == 0 and answer["broken"] is False


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("screen", [Terminal(), io.StringIO()])
def test_progress_is_one_line_on_a_terminal(monkeypatch, screen):
    monkeypatch.setattr(sys, "__stderr__", screen)
    monkeypatch.setattr(progress, "_rows", collections.Counter())
    monkeypatch.setattr(progress, "_begun", {})
    clock = itertools.count(0, 10)
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    tables = [pa.table({"a": range(100)})] * 3
    watch = progress.Watch(shows_progress=True, shows_counters=False)
    assert list(watch(tables, "reading", "records", 400)) == tables
    shown = re.sub(r"\d\d:\d\d:\d\d ", "", screen.getvalue())
    parts = ["reading", "reading: 25%, 10 a second, 30 seconds left",
             "reading: 50%, 10 a second, 20 seconds left"]  # fmt: skip
    between = "\r\033[K" if screen.isatty() else "\n"
    assert shown.rstrip("\n") == between.join(parts)


@pytest.mark.parametrize("screen", [Terminal(), io.StringIO()])
def test_a_terminal_hears_of_what_takes_long(monkeypatch, screen):
    monkeypatch.setattr(sys, "__stderr__", screen)
    monkeypatch.setattr(progress, "_begun", {})
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", 0.001)
    line = "plan has been working for 0 seconds\n"
    with progress.patience("plan"):
        while screen.isatty() and screen.getvalue().count(line) < 3:
            threading.Event().wait(0.001)
    assert (line in screen.getvalue()) == screen.isatty()


@pytest.mark.thorough
def test_names_of_any_length(tmp_path):
    name = 200_000 * "n"
    lines = (f"{user},{name},2026-01-05" for user in range(80))
    (tmp_path / "records.csv").write_text("\n".join(["user,page,at", *lines]))
    (tmp_path / "public.csv").write_text(f"{name}\n")
    select = ["select", *job_flags(tmp_path, "--epsilon=30", "--delta=1e-3")]
    formats = ["--output_format=parquet", "--output_format=jsonl"]
    days = "--period=day --time_column=at --periods=2026-01-05..2026-01-05".split()
    for file, *more in (
        ("released_partitions.csv", *formats),
        ("released_partitions.csv", f"--public_partitions={tmp_path}/public.csv"),
        ("all_periods.csv", *days, "--max_periods_per_user=1"),
    ):
        assert main([*instead(select, f"--output={tmp_path}/{len(more)}"), *more]) == SUCCESS
        assert main(["show", f"{tmp_path}/{len(more)}"]) == SUCCESS
        assert name in (tmp_path / str(len(more)) / file).read_text()
