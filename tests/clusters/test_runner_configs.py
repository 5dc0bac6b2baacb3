"""The option files are options that the jobs and Beam know, and their pages name them."""

import pytest
from apache_beam.options.pipeline_options import PortableOptions, StandardOptions
from apache_beam.runners.runner import create_runner

from pipelines import release_frequency_list, select_partitions
from tests.clusters.agreement import ROOT

# config.yaml is of Flink itself.
CONFIGS = sorted(path for path in ROOT.glob("runner_configs/*/*.yaml") if path.stem != "config")
# Options of the engine's side, which this one passes on.
ENGINE_OPTIONS = {"execution_mode_for_batch"}


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: f"{path.parent.name}/{path.stem}")
@pytest.mark.parametrize("job", [release_frequency_list, select_partitions])
def test_is_read_by_the_jobs(job, path):
    context = job.make_parser().parse_job([f"--config={path}", "--input=x"])
    flags, options = context.flags, context.options
    assert flags.input == ["x"]
    runner = options().view_as(StandardOptions).runner
    create_runner(runner)
    known = options().get_all_options().keys()
    unknown = options().get_all_options(retain_unknown_options=True).keys() - known
    assert unknown <= ENGINE_OPTIONS
    if runner == "PortableRunner":
        # Beam's default is Docker.
        assert options().view_as(PortableOptions).environment_type
    options = job.make_parser().parse_job([f"--config={path}", "--runner=SparkRunner"]).options
    assert options().view_as(StandardOptions).runner == "SparkRunner"


def test_each_is_on_its_page():
    assert {path.parent.name for path in CONFIGS} >= {"direct", "flink", "portable"}
    for path in CONFIGS:
        assert path.name in (path.parent / "README.md").read_text()
