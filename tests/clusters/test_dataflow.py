"""The job as Dataflow would get it, without an account: a dry run and the request that it makes."""

import base64
import bz2
import json
import re
import subprocess
import sys
import tarfile
import zlib

import pytest
from apache_beam.options.pipeline_options import SetupOptions
from apache_beam.portability.common_urns import resource_hints

from dp_transforms.runtime.job_secret import JobSecret
from pipelines import release_frequency_list, select_partitions
from tests.clusters.agreement import FLAGS, ROOT, SECRET
from tests.clusters.leaks import needles

apiclient = pytest.importorskip(
    "apache_beam.runners.dataflow.internal.apiclient", reason="needs the extra gcp"
)
dataflow_runner = pytest.importorskip("apache_beam.runners.dataflow.dataflow_runner")

USERS, PARTITIONS = ["zanzibar-user-1", "zanzibar-user-2"], ["zanzibar-page"]
DATAFLOW = [
    f"--config={ROOT}/runner_configs/dataflow/job.yaml",
    "--project=some-project",
    "--region=europe-west1",
    "--temp_location=gs://some-bucket/temp",
    "--dry_run=True",
    "--no_auth",
]
JOBS = {
    "frequency list": (release_frequency_list.main, ["--epsilon=1"]),
    "names": (select_partitions.main, ["--epsilon=1", "--delta=1e-5"]),
}


@pytest.fixture(scope="module", params=JOBS)
def dry_run(request, tmp_path_factory):
    """The job, and what would be staged: files by name."""
    directory = tmp_path_factory.mktemp("dataflow")
    records = directory / "visits.csv"
    records.write_text("user,page\n" + "".join(f"{u},{PARTITIONS[0]}\n" for u in USERS))
    results, staged = [], {}

    def stage(self, location, name, stream, *_, **__):
        content = stream.read() if hasattr(stream, "read") else open(stream, "rb").read()
        staged[name] = content

    run_pipeline = dataflow_runner.DataflowRunner.run_pipeline

    def keep(self, pipeline, options, **more):
        results.append(run_pipeline(self, pipeline, options, **more))
        client = apiclient.DataflowApplicationClient(options, "root")
        # It is only there while the runner runs: the package is built into a temporary directory.
        client.create_job_description(results[-1].job)
        return results[-1]

    main, own = JOBS[request.param]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        patch.setattr(JobSecret, "from_os", lambda: SECRET)
        patch.setattr(dataflow_runner.DataflowRunner, "run_pipeline", keep)
        for name in ("stage_file", "stage_file_with_retry"):
            patch.setattr(apiclient.DataflowApplicationClient, name, stage)
        flags = [f"--input={records}", f"--output={directory / 'release'}", *FLAGS, *own]
        assert main([*flags, *DATAFLOW]) == 0
    assert not (directory / "release").exists()
    return request.param, results[0].job, staged


def steps(job):
    """The steps that run code, by name."""
    transforms = job.proto_pipeline.components.transforms.values()
    return {one.unique_name: one for one in transforms if not one.subtransforms}


def pickles(step):
    """Yields the pickles in a step's payload."""
    for encoded in re.findall(rb"[A-Za-z0-9+/]{40,}=*", step.spec.payload):
        for decompress in (bz2.decompress, zlib.decompress):
            try:
                yield decompress(base64.b64decode(encoded))
            except (ValueError, OSError, zlib.error):
                pass


def test_hints_are_on_the_step_of_one_worker_alone(dry_run):
    title, job, _ = dry_run
    environments = job.proto_pipeline.components.environments
    hinted = {
        name: dict(environments[step.environment_id].resource_hints)
        for name, step in steps(job).items()
        if step.environment_id and environments[step.environment_id].resource_hints
    }
    wanted = {
        resource_hints.MIN_RAM_BYTES.urn: b"16000000000",
        resource_hints.MAX_ACTIVE_BUNDLES_PER_WORKER.urn: b"1",
    }
    assert hinted == ({"FrequencyList/Release/Release": wanted} if "list" in title else {})


def test_the_secret_is_only_where_it_is_used(dry_run):
    title, job, staged = dry_run
    carry = {name for name, step in steps(job).items() for p in pickles(step) if SECRET.secret in p}
    # The others have keys that were derived from it, and do not tell it.
    assert carry == ({"FrequencyList/Release/Release"} if "list" in title else set())
    key = SECRET.key("bound contributions")
    keyed = {name for name, step in steps(job).items() for p in pickles(step) if key in p}
    # Rounds of a selection bound users where they weigh their partitions.
    assert keyed and all("Bound/ByUser" in name or "/Weigh" in name for name in keyed)
    found = needles(SECRET.secret, [re.escape(key), re.escape(key.hex().encode())])
    for text in (
        str(job.proto),
        job.proto.name,
        json.dumps(job.options.get_all_options(), default=str),
    ):
        assert not found.search(text.encode())
    for name, content in staged.items():
        assert name == "pipeline.pb" or not found.search(content)


def test_no_data_are_in_the_job(dry_run):
    _, job, staged = dry_run
    found = needles(SECRET.secret, [b"zanzibar"])
    display_data = [
        one.payload
        for transform in job.proto_pipeline.components.transforms.values()
        for one in transform.display_data
    ]
    assert display_data
    everything = [*display_data, str(job.proto).encode(), *staged.values()]
    pickled = [one for step in steps(job).values() for one in pickles(step)]
    assert len(pickled) > 20
    everything += pickled
    everything = [text.replace(SECRET.secret, b"") for text in everything]
    assert not any(found.search(text) for text in everything)
    assert re.fullmatch(r"beamapp-[a-z0-9-]+", job.proto.name)


def test_the_package_is_staged_and_the_main_session_is_not(dry_run, tmp_path):
    _, job, staged = dry_run
    assert job.options.view_as(SetupOptions).save_main_session is False
    assert not any("main_session" in name for name in staged)
    (name,) = (name for name in staged if name.endswith("workflow.tar.gz"))
    (tmp_path / "workflow.tar.gz").write_bytes(staged[name])
    with tarfile.open(tmp_path / "workflow.tar.gz") as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "setup.py",
        "pipelines/release_frequency_list.py",
        "dp_transforms/transforms/selection.py",
    } <= names


@pytest.mark.slow
def test_the_staged_package_installs_in_a_clean_environment(dry_run, tmp_path):
    title, _, staged = dry_run
    if "list" not in title:
        pytest.skip("the package is the same")
    (content,) = (content for name, content in staged.items() if name.endswith("workflow.tar.gz"))
    (tmp_path / "workflow.tar.gz").write_bytes(content)
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    install = [python, "-m", "pip", "install", "--quiet", tmp_path / "workflow.tar.gz"]
    subprocess.run(install, check=True)
    modules = "dp_transforms, pipelines.release_frequency_list, pipelines.select_partitions, gmpy2"
    where = subprocess.run(
        [python, "-c", f"import {modules}; print(pipelines.__file__)"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    )
    assert str(tmp_path / "venv") in where.stdout
