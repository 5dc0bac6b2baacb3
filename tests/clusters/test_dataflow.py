"""The job as Dataflow would get it, without an account: a dry run and the request that it makes."""

import base64
import bz2
import io
import json
import re
import tarfile
import zlib

import pytest
from apache_beam.options.pipeline_options import SetupOptions

from dp_transforms.runtime.job_secret import JobSecret
from pipelines import release_frequency_list, select_partitions
from tests.clusters.agreement import FLAGS, ROOT, SECRET
from tests.clusters.leaks import needles

apiclient = pytest.importorskip(
    "apache_beam.runners.dataflow.internal.apiclient", reason="needs the extra gcp"
)
dataflow_runner = pytest.importorskip("apache_beam.runners.dataflow.dataflow_runner")

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
    records.write_text("user,page\nzanzibar-user-1,zanzibar-page\nzanzibar-user-2,zanzibar-page\n")
    results, staged = [], {}

    def stage(self, location, name, stream, *_, **__):
        staged[name] = stream.read() if hasattr(stream, "read") else open(stream, "rb").read()

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


def pickles(job):
    """(name of the step, content) of each pickle in the payload of a step that runs code."""
    for step in job.proto_pipeline.components.transforms.values():
        payload = b"" if step.subtransforms else step.spec.payload
        for encoded in re.findall(rb"[A-Za-z0-9+/]{40,}=*", payload):
            for decompress in (bz2.decompress, zlib.decompress):
                try:
                    yield step.unique_name, decompress(base64.b64decode(encoded))
                except (ValueError, OSError, zlib.error):
                    pass


def test_the_secret_is_only_where_it_is_used(dry_run):
    title, job, staged = dry_run
    carry = {name for name, content in pickles(job) if SECRET.secret in content}
    # The others have keys that were derived from it, and do not tell it.
    assert carry == ({"FrequencyList/Release/Release"} if "list" in title else set())
    key = SECRET.key("bound contributions")
    keyed = {name for name, content in pickles(job) if key in content}
    # Rounds of a selection bound users where they weigh their partitions.
    assert keyed and all("Bound/ByUser" in name or "/Weigh" in name for name in keyed)
    pattern = needles(SECRET.secret, [re.escape(key), re.escape(key.hex().encode())])
    options = json.dumps(job.options.get_all_options(), default=str)
    assert not any(pattern.search(text.encode()) for text in (str(job.proto), options))
    for name, content in staged.items():
        assert name == "pipeline.pb" or not pattern.search(content)


def test_no_data_are_in_the_job(dry_run):
    _, job, staged = dry_run
    transforms = job.proto_pipeline.components.transforms.values()
    display_data = [item.payload for transform in transforms for item in transform.display_data]
    pickled = [content.replace(SECRET.secret, b"") for _, content in pickles(job)]
    assert display_data and len(pickled) > 20
    everything = [*display_data, *pickled, str(job.proto).encode()]
    everything += [content.replace(SECRET.secret, b"") for content in staged.values()]
    pattern = needles(SECRET.secret, [b"zanzibar"])
    assert not any(pattern.search(text) for text in everything)
    assert re.fullmatch(r"beamapp-[a-z0-9-]+", job.proto.name)


def test_the_package_is_staged_and_the_main_session_is_not(dry_run):
    _, job, staged = dry_run
    assert job.options.view_as(SetupOptions).save_main_session is False
    assert not any("main_session" in name for name in staged)
    (content,) = (staged[name] for name in staged if name.endswith("workflow.tar.gz"))
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    modules = {"pipelines/release_frequency_list.py", "dp_transforms/beam/selection.py"}
    assert modules | {"setup.py"} <= names
