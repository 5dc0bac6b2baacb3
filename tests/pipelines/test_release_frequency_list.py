import hashlib
import os
import platform
from importlib import metadata

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from dp_transforms import __version__
from dp_transforms.budget import Ledger
from dp_transforms.engines import local_shuffle
from dp_transforms.engines.in_process import InProcess
from dp_transforms.files.record_files import RecordFiles
from dp_transforms.mechanisms import FrequencyList
from dp_transforms.releases import ListSpec
from dp_transforms.runtime.job_secret import JobSecret
from pipelines.release_frequency_list import main
from tests.in_process_engine import NoNoise
from tests.jobs import job_flags, statement


def power_ranks(rng, ranks, exponent):
    """3,000 draws from 0, ..., ranks - 1, where larger ones are rarer by about a power."""
    power = 1 - exponent
    draws = (1 + rng.random(3000) * ((ranks + 1.0) ** power - 1)) ** (1 / power)
    return np.minimum(draws.astype(np.int64), ranks) - 1


def clicks(path):
    """Writes records of skewed users and items, by the suffix as Parquet or as CSV."""
    rng = np.random.default_rng(3000)
    users = power_ranks(rng, 60, 1 / 0.9) * 2654435761 % 999999937
    items = power_ranks(rng, 50_000, 1.07) * 40503 % 99991
    table = pa.table(
        {
            "user": [f"customer-{user:09}" for user in users.tolist()],
            "partition": [f"/shop/item/{item:05}" for item in items.tolist()],
        }
    )
    if path.suffix == ".parquet":
        pq.write_table(table, path, use_dictionary=not path.name.endswith(".plain.parquet"))
    else:
        with pa.output_stream(str(path)) as stream:
            pa.csv.write_csv(table, stream)
    return str(path)


def test_every_format_and_number_of_buckets_has_the_same_counts(tmp_path):
    # 60 users with up to 70 items each, of which 5 are kept. Small records are cut into fewer
    # buckets than 160.
    secret = JobSecret.insecure_for_testing(7)
    num_buckets = {"parquet": 1, "plain.parquet": 2, "csv": 3, "csv.gz": 160}
    for suffix, number in num_buckets.items():
        path = clicks(tmp_path / f"clicks.{suffix}")
        engine = InProcess(RecordFiles(path, "user", ["partition"]), secret, number)
        ((counts,),) = engine.frequency_list(ListSpec(NoNoise()))
        digest = hashlib.sha256(repr(sorted(counts)).encode()).hexdigest()
        assert digest[:16] == "4919cdcd7a187f08"


def test_without_memory_and_disk_nothing_is_spent(tmp_path, capsys, monkeypatch):
    assert (
        0 < local_shuffle.memory_limit() <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    )
    monkeypatch.setattr(local_shuffle, "memory_limit", lambda: 100)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))
    ledger = Ledger.create(str(tmp_path / "budget"), 1)
    assert command(tmp_path, f"--ledger={tmp_path}/budget") == 1
    assert f"cannot be written to {tmp_path}/none (no such file" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert ledger.remaining().epsilon == 1
    monkeypatch.delenv("TMPDIR")
    assert command(tmp_path, f"--ledger={tmp_path}/budget") == 0


# At epsilon = 100 and kappa = 1 a release differs from its input with probability below 1e-15.
ALMOST_EXACT = ["--epsilon=100", "--max_partitions_per_user=1"]


def command(tmp_path, *flags, records="user,page\nann,home\n", privacy=("--epsilon=1",)):
    (tmp_path / "records.csv").write_text(records)
    return main(job_flags(tmp_path, *privacy, *flags))


def released(tmp_path):
    return FrequencyList.from_csv(tmp_path / "out" / "released_frequencies.csv")


def test_every_user_counts_once_per_kept_partition(tmp_path, capsys):
    lines = [f"user{i},page{j}" for i in range(50) for j in range(i % 7 + 1)] * 2
    records = "\n".join(["user,page", *lines, ""])
    assert command(tmp_path, records=records, privacy=ALMOST_EXACT) == 0
    assert released(tmp_path).total == 50
    assert capsys.readouterr() == (f"{tmp_path}/out/released_frequencies.csv\n", "")


def test_partitions_of_several_columns_without_those_of_nulls(tmp_path):
    records = "user,country,device\na,no,tv\nb,no,tv\nc,no,pc\nd,it,tv\n,no,tv\ne,,pc\n"
    flags = ["--partition_column=country", "--partition_column=device", "--drop_nulls"]
    assert command(tmp_path, *flags, records=records, privacy=ALMOST_EXACT) == 0
    assert released(tmp_path) == FrequencyList([2, 1], [1, 2])


def test_counts_that_exist_already(tmp_path, capsys):
    FrequencyList([90, 8], [2, 7]).to_csv(tmp_path / "counts.csv")
    flags = [f"--frequency_list={tmp_path}/counts.csv", "--output_format=parquet"]
    assert command(tmp_path, *flags, privacy=ALMOST_EXACT) == 0
    assert released(tmp_path) == FrequencyList([90, 8], [2, 7])
    table = pq.read_table(tmp_path / "out" / "released_frequencies.parquet")
    assert table.to_pydict() == {"frequency": [90, 8], "multiplicity": [2, 7]}
    assert capsys.readouterr().err == ""


def test_the_statement_says_this_and_no_more(tmp_path):
    assert command(tmp_path, "--max_partitions_per_user=4", privacy=["--epsilon=0.1"]) == 0
    libraries = ("apache-beam", "gmpy2", "numpy", "pyarrow")
    stated = statement(tmp_path)
    assert stated.pop("created").endswith("Z")
    # These follow from the tables, see tests/releases/test_directory.py.
    tables = {"noisy_coordinates.csv", "released_frequencies.csv"}
    assert stated.pop("sha256").keys() == tables
    assert stated == {
        "mechanism": "two-sided geometric noise on Frobenius coordinates of integer partitions",
        "epsilon": 0.1,
        "epsilon_exact": "0.1",
        "delta": 0,
        "neighbours": "add or remove all records of one user",
        "max_partitions_per_user": 4,
        "max_partitions_per_user_is": "enforced",
        "sensitivity": 4,
        "sensitivity_norm": "L1 distance of sorted lists",
        "rate": 0.025,
        "rate_exact": "0.025",
        "noisy_coordinates": {
            "file": "noisy_coordinates.csv",
            "noise": "independent in each coordinate, Pr[n] proportional to exp(-rate |n|)",
        },
        "versions": {
            "dp-frequency-lists": __version__,
            "python": platform.python_version(),
            **{name: metadata.version(name) for name in libraries},
        },
        "partition_columns": ["page"],
    }


def test_the_statement_and_the_price_in_base_2(tmp_path):
    FrequencyList([5], [1]).to_csv(tmp_path / "counts.csv")
    ledger = Ledger.create(str(tmp_path / "budget"), 3)
    flags = [f"--frequency_list={tmp_path}/counts.csv", f"--ledger={tmp_path}/budget"]
    assert command(tmp_path, *flags, "--max_partitions_per_user=3", privacy=["--eta=1,1,1"]) == 0
    stated = statement(tmp_path)
    # 3 ln 2 = 2.0794415416798359..., rounded up.
    assert stated["epsilon"] == 2.07944154167984
    assert [line.to_json()["epsilon"] for line in ledger.lines()] == ["2.07944154167984"]
    assert stated["base_2"] == {"x": 1, "y": 1, "z": 1}
    assert stated["max_partitions_per_user_is"] == "declared"


def test_progress_has_no_totals_and_private_counters_say_that_they_are(tmp_path, capfd):
    records = "user,page\n" + "".join(f"user{i},page{i % 21}\n" for i in range(4321))
    assert command(tmp_path, "--progress", records=records) == 0
    err = capfd.readouterr().err
    assert "reading records" in err and "4321" not in err.replace(",", "")
    assert command(tmp_path, "--show_private_counters", "--overwrite", records=records) == 0
    lines = capfd.readouterr().err.splitlines()
    assert sorted(line.partition(" ")[2] for line in lines) == [
        "PRIVATE, do not publish: 21 partitions",
        "PRIVATE, do not publish: 4,321 contributions kept",
        "PRIVATE, do not publish: 4,321 records",
    ]
