"""A job's row is in the ledger before any record is read, the first lines of a file included."""

import pytest

from dp_transforms.budget import Ledger
from dp_transforms.files.delimited_text import DelimitedText
from dp_transforms.files.json_lines import JsonLines
from pipelines import (
    release_attributes,
    release_degree_list,
    release_frequency_list,
    release_grouped_lists,
    select_partitions,
)
from pipelines.release_frequency_list import main
from tests.jobs import flags_over, job_flags

KINDS = {
    "lines.jsonl": ([], JsonLines, '{"user": "1", "page": "a"}\n', '{"user": 1.5}\n'),
    "lines.txt": (["--input_format=jsonl"], JsonLines, '{"user": "1", "page": "a"}\n', "[]\n"),
    "lines.csv": (
        ["--no_header", "--user_column=1", "--partition_column=2"], DelimitedText, "1,a\n", "1\n"
    ),
}  # fmt: skip


def lines(ledger):
    return [(line.purpose, line.state.value) for line in Ledger.open(ledger).lines()]


@pytest.mark.parametrize("name", KINDS)
def test_a_row_stands_in_the_ledger_when_first_lines_are_read(tmp_path, monkeypatch, failure, name):
    flags, reader, good, bad = KINDS[name]
    ledger = tmp_path / "ledger"
    Ledger.create(ledger, 1, free_failures=1)
    job = job_flags(
        tmp_path, f"--input={tmp_path}/{name}", *flags, "--epsilon=0.4", f"--ledger={ledger}"
    )
    schema, seen = reader.schema, []

    def noting(self, path, columns):
        seen.append(lines(ledger))
        return schema(self, path, columns)

    monkeypatch.setattr(reader, "schema", noting)
    (tmp_path / name).write_text(good)
    assert main(job) == 0
    first = ("reading of the first lines", "reserved")
    assert seen[0] == [first]
    assert lines(ledger) == [(first[0], "abandoned"), ("frequency list", "committed")]
    (tmp_path / name).write_text(bad)
    again = [*job, f"--output={tmp_path}/again"]
    again.remove(f"--output={tmp_path}/out")
    # An answer by a failure is one of those that the ledger gives for nothing.
    assert main(again) == 1
    assert lines(ledger)[2:] == [(first[0], "failed")]
    (tmp_path / name).write_text(good)
    seen.clear()
    failure(4, "has no free failures left", main, again)
    assert not seen


COLUMNS = [
    (release_frequency_list, ["--user_column=who"]),
    (release_frequency_list, ["--partition_column=what"]),
    (select_partitions, ["--delta=1e-6", "--period=day", "--time_column=when"]),
    (release_degree_list, ["--source_column=1", "--target_column=to"]),
    (release_grouped_lists, ["--epsilon_all=1", "--epsilon_groups=1", "--group_by=3,sex"]),
    (release_attributes, ["--attributes=2,os"]),
    (release_attributes, ["--combination=2,3", "--combination=2,os"]),
]


@pytest.mark.parametrize("job, flags", COLUMNS)
def test_a_name_of_a_column_without_a_header_leaves_no_row(tmp_path, failure, job, flags):
    Ledger.create(tmp_path / "ledger", 1)
    usual = {
        "--input": f"{tmp_path}/records.csv",
        "--user_column": "1",
        "--partition_column": "2",
        "--epsilon": "1",
        "--max_partitions_per_user": "1",
        "--output": f"{tmp_path}/out",
    }
    known = {action.option_strings[0] for action in job.make_parser()._actions}
    usual = {flag: value for flag, value in usual.items() if flag in known}
    (tmp_path / "records.csv").write_text("1,2,3\n")
    flag = flags[-1].partition("=")[0]
    more = ["--no_header", f"--ledger={tmp_path}/ledger"]
    message = f"{flag}: columns must be positions counted from 1"
    failure(2, message, job.main, [*flags_over(usual, *flags), *more])
    assert not lines(tmp_path / "ledger")


def test_only_a_header_is_read_of_other_files(tmp_path):
    (tmp_path / "records.csv").write_text("user,page\n1,a\n")
    Ledger.create(tmp_path / "ledger", 1, free_failures=0)
    assert main(job_flags(tmp_path, f"--ledger={tmp_path}/ledger")) == 0
    assert lines(tmp_path / "ledger") == [("frequency list", "committed")]
