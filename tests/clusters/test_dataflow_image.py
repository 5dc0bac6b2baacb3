"""The container's description and the Flex Template's, which cannot be built here, fit the job."""

import importlib.metadata
import json
import pathlib
import re

import pytest

from pipelines.release_frequency_list import make_parser
from tests.clusters.agreement import ROOT

DATAFLOW = ROOT / "runner_configs" / "dataflow"
EXAMPLES = {
    "input": (["gs://bucket/visits-*.parquet"], ["visits.csv"]),
    "epsilon": (["1", "0.5", "1e-3", ".25"], ["-1", "one", ""]),
    "max_partitions_per_user": (["10"], ["0", "1.5"]),
    "output": (["gs://bucket/release"], ["gs://bucket/*"]),
}


@pytest.fixture(scope="module")
def parameters():
    described = json.loads((DATAFLOW / "release_frequency_list.json").read_text())
    return {parameter["name"]: parameter for parameter in described["parameters"]}


def test_the_templates_parameters_are_flags_of_the_job(parameters):
    parser = make_parser()
    needed = {
        name: name for name, parameter in parameters.items() if not parameter.get("isOptional")
    }
    values = {**needed, "epsilon": "1", "max_partitions_per_user": "2"}
    flags = parser.parse_job([f"--{name}={value}" for name, value in values.items()]).flags
    assert all(getattr(flags, name) is not None for name in needed)
    assert {action.dest for action in parser._actions} >= set(parameters)


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_templates_expressions(parameters, name):
    good, bad = EXAMPLES[name]
    for expression in parameters[name]["regexes"]:
        assert all(re.fullmatch(expression, value) for value in good)
        assert not any(re.fullmatch(expression, value) for value in bad)


def test_the_image_has_this_beam_and_the_job():
    text = (DATAFLOW / "Dockerfile").read_text()
    assert f"_sdk:{importlib.metadata.version('apache-beam')}\n" in text
    (job,) = re.findall(r"FLEX_TEMPLATE_PYTHON_PY_FILE=/package/(\S+)", text)
    assert (ROOT / job).is_file()
    for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE):
        *sources, _ = line.split()
        assert all(pathlib.Path(ROOT, source).exists() for source in sources)
