"""What a command loads before it works: nothing that takes seconds and is not used."""

import json
import subprocess
import sys

import pytest

from tests.cases import slow_unless

SLOW = ("apache_beam", "dp_accounting", "matplotlib", "pandas", "pyarrow", "scipy")
JOBS = (
    "release_all",
    "release_degree_list",
    "release_frequency_list",
    "release_grouped_lists",
    "select_partitions",
)

LOADED = """
import contextlib, importlib, io, json, sys
module = importlib.import_module(f"pipelines.{sys.argv[1]}")
codes = []
for arguments in json.loads(sys.argv[2]):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            codes.append(module.main(arguments) or 0)
        except SystemExit as stop:
            codes.append(stop.code or 0)
print(json.dumps([codes, sorted({name.partition(".")[0] for name in sys.modules})]))
"""


def loaded(module, *arguments, code=0):
    return loaded_by(module, (arguments, code))


def loaded_by(module, *commands):
    """The slow modules that a process has loaded after commands, tuples (arguments, code)."""
    lines = json.dumps([[str(part) for part in arguments] for arguments, _ in commands])
    run = [sys.executable, "-c", LOADED, module, lines]
    printed = subprocess.run(run, capture_output=True, check=True, text=True).stdout
    codes, modules = json.loads(printed)
    assert codes == [code for _, code in commands]
    return set(modules) & set(SLOW)


@pytest.mark.parametrize("job", slow_unless(JOBS, ["release_all", "select_partitions"]))
def test_a_job_s_help_and_a_misspelt_flag_load_no_beam(job):
    misspelt = [(["--outputt=nowhere", "--input=nowhere"], 2), (["--drop-null", "--input=a"], 2)]
    assert not loaded_by(job, (["--help"], 0), *misspelt)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("__main__", "--help"), 0),
        (("__main__", "release", "--help"), 0),
        (("ledger", "--help"), 0),
        (("ledger", "show", "nowhere"), 1),
        (("plan", "--users=1000", "--epsilon=1", "--delta=1e-5"), 0),
        (("evaluate", "--original=nowhere", "--released=nowhere"), 1),
        (("report", "nowhere"), 1),
        (
            (
                "select_partitions",
                "--explain",
                "--epsilon=1",
                "--delta=1e-5",
                "--max_partitions_per_user=1",
            ),
            0,
        ),
    ],
    ids=str,
)
def test_commands_that_run_no_pipeline_load_no_beam(arguments, code):
    assert not loaded(*arguments, code=code)


def test_a_list_of_counts_is_released_without_beam(tmp_path):
    counts, output = tmp_path / "counts.csv", tmp_path / "release"
    counts.write_text("frequency,multiplicity\n5,1\n1,3\n")
    job = ("release_frequency_list", f"--frequency_list={counts}", f"--output={output}")
    assert not loaded(*job, "--epsilon=1")
    assert (output / "released_frequencies.csv").exists()
    assert "apache_beam" in loaded(*job, "--epsilon=1", "--overwrite", "--experiments=a")


def test_a_job_of_records_loads_no_composition_and_no_report(tmp_path):
    records, output = tmp_path / "records.csv", tmp_path / "release"
    records.write_text("user,page\na,x\nb,x\na,y\n")
    columns = ("--user_column=user", "--partition_column=page", "--max_partitions_per_user=2")
    job = ("release_frequency_list", f"--input={records}", f"--output={output}", *columns)
    assert loaded(*job, "--epsilon=1") == {"pyarrow"}
