"""The two jobs under a test secret, on some engine and in this process."""

import contextlib
import pathlib
import random
import subprocess
import sys

import fastavro
import grpc
import pandas as pd
from apache_beam.portability.api import beam_job_api_pb2, beam_job_api_pb2_grpc

from dp_transforms.runtime.job_secret import JobSecret
from pipelines import release_frequency_list, select_partitions
from tests.secret_search import with_unpacked

SECRET = JobSecret.insecure_for_testing(11)
ROOT = pathlib.Path(__file__).parents[2]
FLAGS = ["--user_column=user", "--partition_column=page", "--max_partitions_per_user=2"]
JOBS = {
    "frequency list": (release_frequency_list.main, ["--epsilon=1"]),
    "names": (select_partitions.main, ["--epsilon=4", "--delta=1e-2", "--noisy_counts"]),
}


def write_records(path):
    """Writes 2,000 records in the format of a path's name."""
    rng = random.Random(2)
    rows = [(f"user{rng.randrange(300)}", f"page{rng.randrange(9) ** 2}") for _ in range(2_000)]
    visits = pd.DataFrame(rows, columns=["user", "page"])
    if path.suffix == ".parquet":
        coded = ".dictionary" in path.suffixes
        visits.astype("category" if coded else object).to_parquet(path, row_group_size=300)
    elif path.suffix == ".avro":
        fields = [{"name": name, "type": "string"} for name in visits]
        schema = {"type": "record", "name": "visit", "fields": fields}
        with open(path, "wb") as file:
            fastavro.writer(file, schema, visits.to_dict("records"))
    elif path.suffix == ".jsonl":
        visits.to_json(path, orient="records", lines=True)
    else:
        visits.to_csv(path, index=False)
    return path


def run(job, records, output, *flags):
    main, own = JOBS[job]
    assert main([f"--input={records}", f"--output={output}", *FLAGS, *own, *flags]) == 0
    (released,) = output.glob("released_*.csv")
    return released.read_bytes(), (output / "privacy.json").read_bytes()


@contextlib.contextmanager
def worker_pool_process(*flags):
    """A pool in a process of its own, as on a cluster's node; gives that and its address."""
    command = [sys.executable, "-m", "pipelines.worker_pool", *flags]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline()
            assert "serving workers" in line
            yield process, line.split()[-1]
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
    released = []
    for suffix in ("csv", "csv.gz", "jsonl", "avro", "parquet", "dictionary.parquet"):
        records = write_records(directory / f"visits.{suffix}")
        for engine, more in (("engine", flags), ("in_process", ())):
            released.append(run("frequency list", records, directory / suffix / engine, *more)[0])
    assert set(released) == {released[0]}
    assert released[0].count(b"\n") > 1


def stored_pipelines(endpoint):
    """Returns what a job server hands out to whoever asks: the descriptions of its jobs by id."""
    with grpc.insecure_channel(endpoint, options=[("grpc.max_receive_message_length", -1)]) as to:
        service = beam_job_api_pb2_grpc.JobServiceStub(to)
        jobs = service.GetJobs(beam_job_api_pb2.GetJobsRequest()).job_info
        requests = [beam_job_api_pb2.GetJobPipelineRequest(job_id=job.job_id) for job in jobs]
        return {
            request.job_id: service.GetPipeline(request).pipeline.SerializeToString()
            for request in requests
        }


def check_stored_pipeline(endpoint, keys, directory, *flags):
    """A job server stores no secret of the jobs with these flags, and no key derived from it, of
    which ``secret_search.collect_keys`` gave the set."""
    for job in JOBS:
        earlier = stored_pipelines(endpoint)
        directory.mkdir(exist_ok=True)
        run(job, write_records(directory / "visits.csv"), directory / job, *flags)
        later = stored_pipelines(endpoint)
        (stored,) = (later[name] for name in later.keys() - earlier.keys())
        # The search sees the steps, and would see their keys.
        described = with_unpacked(stored)
        assert b"open_sealed" in described
        assert len(keys) > 1
        assert not [key for key in {*keys, SECRET.secret} if key in described]


def check_failure(directory, capfd, *flags):
    """A record without a partition fails the job with one line, which is returned."""
    records, output = write_records(directory / "visits.csv"), directory / "release"
    with open(records, "a") as file:
        file.write("user4711,\n")
    flags = [f"--input={records}", f"--output={output}", "--epsilon=1", *FLAGS, *flags]
    assert release_frequency_list.main(flags) == 1
    printed = "".join(capfd.readouterr())
    assert printed.startswith(f"error: {records} has records without a user or without a partition")
    assert printed.count("\n") == 1 and not output.exists()
    return printed
