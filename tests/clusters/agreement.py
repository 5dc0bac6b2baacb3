"""The two jobs under a test secret, on some engine and in this process."""

import pathlib
import random

from dp_transforms.job_secret import JobSecret
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


def write_records(path):
    rng = random.Random(2)
    lines = [f"user{rng.randrange(300)},page{rng.randrange(9) ** 2}" for _ in range(2_000)]
    path.write_text("\n".join(["user,page", *lines]) + "\n")
    return path


def run(job, records, output, *flags):
    main, own, file_name = JOBS[job]
    assert main([f"--input={records}", f"--output={output}", *FLAGS, *own, *flags]) == 0
    return (output / file_name).read_bytes(), (output / "privacy.json").read_bytes()


def check_agreement(job, directory, *flags):
    """Under the fixture `same_secret`, an engine's release is that of the in-process runner."""
    records = write_records(directory / "visits.csv")
    released = run(job, records, directory / "engine", *flags)
    assert released == run(job, records, directory / "in_process")
    assert released[0].count(b"\n") > 1
