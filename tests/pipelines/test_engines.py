"""Each job writes the same files in process as on Beam, under one secret.

``tests/test_engine_conformance.py`` compares the kinds of releases; this is about the jobs around
them, whose files a worker of Beam writes.
"""

import random

import pytest

from dp_transforms import JobSecret
from pipelines.__main__ import main
from tests.cases import thorough_unless

SECRET = JobSecret.insecure_for_testing(5)
LIST = ["--epsilon=1", "--max_partitions_per_user=3"]
NAMES = [*LIST, "--delta=1e-2"]
PERIODS = ["--period=day", "--time_column=day", "--periods=2026-01-01..2026-01-03"]
PERIODS.append("--max_periods_per_user=2")
GROUPS = ["--epsilon_all=1", "--epsilon_groups=2", "--max_partitions_per_user=3"]
TO_SELECT = ["--epsilon_selection=1", "--delta=1e-2"]
COUNTS = ["--strategy=laplace", "--noisy_counts", "--pre_threshold=3", "--others_share=0.3"]
KAPPA = ["--epsilon=2", "--for_epsilon=1", "--max_degree=8"]

JOBS = {
    "lists by period": ("release", [*LIST, *PERIODS]),
    "counts": ("select", [*NAMES, *COUNTS]),
    "groups": ("release-groups", [*GROUPS, *TO_SELECT, "--group_by=sex,day", "--groups=sex=f,m,x"]),
    "degrees": ("degrees", ["--epsilon=2"]),
    "both": ("release-all", [*NAMES, "--strategy=renyi_rounds"]),
    "kappa": ("choose-kappa", KAPPA),
}


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """Records in two files, of which one user may have many, and some are twice."""
    where = tmp_path_factory.mktemp("records")
    rng = random.Random(3)
    rows = [
        f"{rng.randrange(90)},{int(rng.paretovariate(0.6))},{rng.choice('fm')},2026-01-0{day}\n"
        for day in rng.choices(range(1, 5), k=900)
    ]
    for i in range(2):
        (where / f"{i}.csv").write_text("user,page,sex,day\n" + "".join(rows[i::2]))
    return where


@pytest.mark.parametrize("name", thorough_unless(JOBS, JOBS.keys() - {"both", "groups"}))
def test_both_engines_release_the_same(name, records, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(JobSecret, "from_os", lambda: SECRET)
    job, flags = JOBS[name]
    columns = ["--user_column=user", "--partition_column=page"]
    if job == "degrees":
        columns = ["--source_column=user", "--target_column=page"]
    usual = [job, f"--input={records}/*.csv", *columns, *flags]
    written = []
    for engine in ([], ["--runner=FnApiRunner", "--num_buckets=2"]):
        out = tmp_path / str(len(written))
        assert main([*usual, f"--output={out}", *engine]) == 0, capsys.readouterr().err
        files = [path for path in out.rglob("*") if path.is_file()]
        written.append({str(path.relative_to(out)): path.read_bytes() for path in files})
    here, on_beam = written
    assert here == on_beam
    assert any(text.count(b"\n") > 2 for path, text in here.items() if path.endswith(".csv"))
