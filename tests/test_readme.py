"""The README's worked example is run as it is written."""

import pathlib
import re
import shlex
import textwrap

import pyarrow as pa
import pyarrow.parquet as pq

from dp_transforms.mechanisms import FrequencyList
from dp_transforms.mechanisms.partition_selection import STRATEGIES
from pipelines import release_degree_list, release_grouped_lists, select_partitions
from pipelines.grouped_file import read_grouped_lists
from pipelines.release_frequency_list import main

README = (pathlib.Path(__file__).parents[1] / "README.md").read_text()


def test_your_own_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    example = README[README.index("## Your own file") : README.index("### Input")]
    visits = re.search(r"\$ cat visits.csv\n((?: {4}.*\n)+)", example).group(1)
    (tmp_path / "visits.csv").write_text(textwrap.dedent(visits))
    command, printed = re.search(
        r"\$ .venv/bin/python -m pipelines.release_frequency_list ((?:.*\\\n)*.*)\n {4}(.*)\n",
        example,
    ).groups()
    assert main(shlex.split(command.replace("\\\n", " "))) == 0
    assert capsys.readouterr().out == f"{printed}\n"
    FrequencyList.from_csv(tmp_path / printed)


def test_names_of_partitions(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "visits.csv").write_text("visitor,page\n" + "ann,/home\nbob,/home\ncy,/about\n")
    example = README[README.index("## Names of partitions") : README.index("### Both at once")]
    command, printed = re.search(
        r"\$ .venv/bin/python -m pipelines.select_partitions ((?:.*\\\n)*.*)\n {4}(.*)\n", example
    ).groups()
    assert select_partitions.main(shlex.split(command.replace("\\\n", " "))) == 0
    assert capsys.readouterr().out == f"{printed}\n"
    assert (tmp_path / printed).read_text().startswith("partition\n")
    named = re.findall(r"^\| (`[^|]*`) \|", example, re.MULTILINE)
    assert [name for cell in named for name in re.findall("`(.*?)`", cell)] == sorted(
        STRATEGIES, key=example.index
    )


def test_as_a_library(capsys):
    example = README[README.index("## As a library") : README.index("## How it is built")]
    code = "".join(line[4:] for line in example.splitlines(True) if line.startswith("    "))
    names = {}
    exec(code, names)
    assert isinstance(names["released"], FrequencyList)
    # Three pages of 1,000 visitors each are missed with a probability far below 1e-9.
    printed = capsys.readouterr().out.splitlines()
    assert sorted(line for line in printed if line[0] == "/") == ["/0", "/1", "/2"]
    assert any(re.fullmatch(r"\(\d+, \d+\)", line) for line in printed)


def run_example(section, job, capsys):
    """Runs the command of a section as it is written; returns the path that it printed."""
    example = README[README.index(section) :]
    command, printed = re.search(
        rf"\$ .venv/bin/python -m {job.__spec__.name} ((?:.*\\\n)*.*)\n {{4}}(.*)\n", example
    ).groups()
    assert job.main(shlex.split(command.replace("\\\n", " "))) == 0
    assert capsys.readouterr().out == f"{printed}\n"
    return printed


def test_groups_of_users(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "users").mkdir()
    columns = ["account", "password_hash", "gender", "language"]
    rows = [(f"{i}", f"{i % 9:x}", ("female", "male")[i % 2], "no") for i in range(500)]
    table = pa.table([list(column) for column in zip(*rows, strict=True)], names=columns)
    pq.write_table(table, tmp_path / "users" / "1.parquet")
    printed = run_example("### Groups of users", release_grouped_lists, capsys)
    assert {("", ""), ("gender", "female")} <= read_grouped_lists(printed).keys()


def test_degrees_of_a_graph(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    edges = "".join(f"page{i},page{j}\n" for i in range(40) for j in range(i))
    (tmp_path / "links.csv").write_text("from,to\n" + edges)
    FrequencyList.from_csv(run_example("### Degrees of a graph", release_degree_list, capsys))
