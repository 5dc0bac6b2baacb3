"""The two jobs under a test secret, on some engine and in this process."""

import contextlib
import gzip
import json
import pathlib
import random
import subprocess
import sys

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from dp_transforms.runtime.job_secret import JobSecret
from pipelines import release_frequency_list, select_partitions

SECRET = JobSecret.insecure_for_testing(11)
ROOT = pathlib.Path(__file__).parents[2]
FLAGS = ["--user_column=user", "--partition_column=page", "--max_partitions_per_user=2"]
JOBS = {
    "frequency list": (release_frequency_list.main, ["--epsilon=1"], "released_frequencies.csv"),
    "names": (
        select_partitions.main,
        ["--epsilon=4", "--delta=1e-2", "--noisy_counts"],
        "released_partitions.csv",
    ),
}


FORMATS = ("csv", "csv.gz", "jsonl", "avro", "parquet", "dictionary.parquet")


def write_records(path):
    """Writes 2,000 records in the format of a path's name."""
    rng = random.Random(2)
    visits = [
        {"user": f"user{rng.randrange(300)}", "page": f"page{rng.randrange(9) ** 2}"}
        for _ in range(2_000)
    ]
    if path.suffix == ".parquet":
        table = pa.Table.from_pylist(visits)
        if ".dictionary" in path.suffixes:
            table = pa.table({name: table[name].dictionary_encode() for name in table.column_names})
        pq.write_table(table, path, row_group_size=300)
    elif path.suffix == ".avro":
        fields = [{"name": name, "type": "string"} for name in visits[0]]
        with open(path, "wb") as file:
            fastavro.writer(file, {"type": "record", "name": "visit", "fields": fields}, visits)
    else:
        as_json = path.suffix == ".jsonl"
        lines = map(json.dumps, visits) if as_json else (",".join(v.values()) for v in visits)
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "wt") as file:
            file.write("\n".join([*([] if as_json else ["user,page"]), *lines]) + "\n")
    return path


def run(job, records, output, *flags):
    main, own, file_name = JOBS[job]
    assert main([f"--input={records}", f"--output={output}", *FLAGS, *own, *flags]) == 0
    return (output / file_name).read_bytes(), (output / "privacy.json").read_bytes()


@contextlib.contextmanager
def worker_pool(*flags):
    """A pool in a process of its own, as on a cluster's node; gives its address."""
    command = [sys.executable, "-m", "pipelines.worker_pool", *flags]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            said = process.stdout.readline()
            assert "serving workers" in said
            yield said.split()[-1]
        finally:
            process.terminate()


def check_agreement(job, directory, *flags):
    """Under the fixture `same_secret`, an engine's release is that of the in-process runner."""
    records = write_records(directory / "visits.csv")
    released = run(job, records, directory / "engine", *flags)
    assert released == run(job, records, directory / "in_process")
    assert released[0].count(b"\n") > 1


def check_formats(directory, *flags):
    """An engine's release of the same records is that of the in-process runner in each format."""
    engine, in_process = [], []
    for suffix in FORMATS:
        records = write_records(directory / f"visits.{suffix}")
        here = directory / suffix
        engine.append(run("frequency list", records, here / "engine", *flags)[0])
        in_process.append(run("frequency list", records, here / "in_process")[0])
    assert set(engine) == {in_process[0]} == set(in_process)
    assert in_process[0].count(b"\n") > 1
