"""The DAG's mapping of exit codes. Airflow itself is not among the test's packages."""

import runpy
import sys
import types

import pytest

import pipelines


class Retried(Exception):
    pass


class Failed(Retried):
    pass


@pytest.fixture
def outcome(repository, monkeypatch):
    """The DAG's ``outcome``, with a stand-in for Airflow: in it too, one error is the other's."""
    names = {"airflow": {}, "airflow.sdk": {}, "airflow.sdk.exceptions": {}}
    names["airflow.sdk"] = {
        "dag": lambda **_: lambda function: function,
        "task": lambda **_: lambda function: lambda: None,
    }
    names["airflow.sdk.exceptions"] = {"AirflowException": Retried, "AirflowFailException": Failed}
    for name, content in names.items():
        module = types.ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    return runpy.run_path(str(repository / "examples" / "airflow_dag.py"))["outcome"]


@pytest.mark.parametrize("code", [pipelines.SUCCESS, pipelines.DONE_BEFORE])
def test_a_release_that_is_there_is_success(outcome, code):
    outcome(code)


@pytest.mark.parametrize("code", [pipelines.USAGE_ERROR, pipelines.NO_BUDGET])
def test_what_ends_alike_each_time_is_not_retried(outcome, code):
    with pytest.raises(Failed):
        outcome(code)


@pytest.mark.parametrize(
    "code",
    [pipelines.FAILURE, pipelines.UNDER_WAY, pipelines.TERMINATED, -9, 137],
)
def test_other_failures_are_retried(outcome, code):
    with pytest.raises(Retried) as raised:
        outcome(code)
    assert raised.type is Retried
