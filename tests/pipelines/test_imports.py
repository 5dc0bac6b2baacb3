"""Commands load nothing that takes seconds and is not used."""

import json
import os
from importlib import metadata

import pytest

from pipelines import numpy_settings
from tests.jobs import JOBS, job_flags, python

SLOW = ("apache_beam", "dp_accounting", "matplotlib", "pandas", "pyarrow", "scipy")

LOADED = """
import contextlib, importlib, io, json, sys
codes = []
for name, *arguments in json.loads(sys.argv[1]):
    module = importlib.import_module(f"pipelines.{name}")
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            codes.append(module.main(arguments) or 0)
        except SystemExit as stop:
            codes.append(stop.code or 0)
print(json.dumps([codes, sorted({name.partition(".")[0] for name in sys.modules})]))
"""


def loaded(*commands):
    """The slow modules that a process has loaded after commands, which are (arguments, code)."""
    lines = json.dumps([arguments for arguments, _ in commands])
    codes, modules = json.loads(python("-c", LOADED, lines, check=True).stdout)
    assert codes == [code for _, code in commands]
    return set(modules) & set(SLOW)


def test_what_runs_no_pipeline_loads_no_beam():
    commands = [
        ("__main__ --help", 0),
        ("__main__ release --help", 0),
        ("ledger --help", 0),
        ("ledger show nowhere", 1),
        ("plan --help", 0),
        ("plan --users=1000 --epsilon=1 --delta=1e-5", 0),
        ("evaluate --original=nowhere --released=nowhere", 1),
        ("report nowhere", 1),
        ("show nowhere", 1),
        ("select_partitions --explain --epsilon=1 --delta=1e-5 --max_partitions_per_user=1", 0),
    ]
    for job in JOBS:
        commands += [
            (f"{job} --help", 0),
            (f"{job} --outputt=nowhere --input=nowhere", 2),
            (f"{job} --drop-null --input=a", 2),
        ]
    assert not loaded(*((command.split(), code) for command, code in commands))


def test_a_release_loads_no_beam_no_composition_and_no_report(tmp_path):
    counts, lines = tmp_path / "counts.csv", tmp_path / "records.jsonl"
    counts.write_text("frequency,multiplicity\n5,1\n1,3\n")
    lines.write_text('{"user": 1, "page": "x"}\n{"user": 2, "page": null}\n')
    (tmp_path / "records.csv").write_text("user,page\na,x\nb,x\na,y\n")

    def job(*flags):
        every = job_flags(tmp_path, "--max_partitions_per_user=2", "--overwrite", *flags)
        return ["release_frequency_list", *every], 0

    assert loaded(job(f"--frequency_list={counts}")) == set()
    from_records = (["--epsilon=4"], ["--epsilon=1"], [f"--input={lines}", "--drop_nulls"])
    assert loaded(*(job(*flags) for flags in from_records)) == {"pyarrow"}


@pytest.mark.thorough
def test_a_selection_of_names_loads_no_pandas(tmp_path):
    # Arrow loads it, where it is installed, for some functions that have nothing to do with it.
    rows = (f"{user},{user % 3}\n" for user in range(99))
    (tmp_path / "records.csv").write_text("user,page\n" + "".join(rows))
    usual = job_flags(tmp_path, "--delta=1e-3", "--overwrite", "--noisy_counts")
    unbounded = [flag for flag in usual if not flag.startswith("--max_partitions_per_user")]
    commands = [usual, unbounded, [*usual, "--strategy=gaussian"]]
    assert loaded(*((["select_partitions", *flags], 0) for flags in commands)) == {"pyarrow"}


@pytest.mark.parametrize(
    ("vendor", "family", "flags", "zen_4"),
    [
        ("AuthenticAMD", 25, "sse2 avx512f", True),
        ("AuthenticAMD", 26, "sse2 avx512f", False),
        ("AuthenticAMD", 25, "sse2 avx2", False),
        ("GenuineIntel", 25, "sse2 avx512f", False),
    ],
)
def test_sorts_on_zen_4_alone_go_without_avx_512(tmp_path, vendor, family, flags, zen_4):
    (tmp_path / "cpuinfo").write_text(
        f"processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nflags\t\t: {flags}\n\n"
        "processor\t: 1\nvendor_id\t: another\n"
    )
    settings = numpy_settings(str(tmp_path / "cpuinfo"))
    # A numpy that was built here may need what the settings take away.
    wheel = "manylinux" in (metadata.distribution("numpy").read_text("WHEEL") or "")
    assert ("NPY_DISABLE_CPU_FEATURES" in settings) == (zen_4 and wheel)
    assert "NPY_DISABLE_CPU_FEATURES" not in numpy_settings(str(tmp_path / "missing"))
    run = python("-c", "import numpy; print(numpy.sort([3, 1, 2]))", env=os.environ | settings)
    assert (run.stdout, run.returncode) == ("[1 2 3]\n", 0)
