"""What fails before a record can have been read is told whole; what fails later is not."""

import base64

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from dp_transforms.beam import submission
from dp_transforms.errors import InputError, before_any_record
from pipelines import release_frequency_list
from tests.clusters.agreement import FLAGS, write_records

EMBEDDED = ["--runner=PortableRunner", "--job_endpoint=embed", "--environment_type=LOOPBACK"]


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ([*EMBEDDED, "--setup_file=MISSING/setup.py"], "MISSING/setup.py cannot be found"),
        ([*EMBEDDED, "--requirements_file=MISSING/list.txt"], "MISSING/list.txt"),
        (
            [
                "--runner=FlinkRunner",
                "--flink_master=[local]",
                "--flink_job_server_jar=MISSING/x.jar",
                "--environment_type=LOOPBACK",
            ],
            "MISSING/x.jar",
        ),
    ],
)
def test_a_fault_of_set_up_is_told_whole(flags, says, tmp_path, failure):
    missing = str(tmp_path / "missing")
    records, output = write_records(tmp_path / "visits.csv"), tmp_path / "release"
    flags = [flag.replace("MISSING", missing) for flag in flags]
    job = [f"--input={records}", f"--output={output}", "--epsilon=1", *FLAGS, *flags]
    line = failure(1, says.replace("MISSING", missing), release_frequency_list.main, job)
    assert line.startswith("error: the job could not be started: ")
    assert not output.exists()


def test_a_runner_that_cannot_be_had_is_told_whole(tmp_path, failure, monkeypatch):
    def unavailable(*_):
        raise ImportError("please install\napache_beam[gcp]")

    monkeypatch.setattr("pipelines.worker_pool.create_runner", unavailable)
    records, output = write_records(tmp_path / "visits.csv"), tmp_path / "release"
    job = [f"--input={records}", f"--output={output}", "--epsilon=1", *FLAGS]
    line = failure(
        1, "please install apache_beam[gcp]", release_frequency_list.main, [*job, "--runner=X"]
    )
    assert "ImportError" in line


@pytest.mark.parametrize("make_runner", [FnApiRunner, beam.runners.DirectRunner])
def test_runners_that_read_records_while_they_run_tell_nothing(make_runner):
    assert not submission.submits(make_runner())


def test_what_may_quote_a_description_is_not_told():
    quoted = base64.b64encode(bytes(range(60))).decode()
    with pytest.raises(RuntimeError), before_any_record():
        raise RuntimeError(f"cannot translate {quoted}")
    with pytest.raises(InputError, match="started: RuntimeError: no text"), before_any_record():
        raise RuntimeError
    with pytest.raises(KeyError), before_any_record(but=LookupError):
        raise KeyError("a")
    with pytest.raises(InputError, match=r"^as it is$"), before_any_record():
        raise InputError("as it is")
