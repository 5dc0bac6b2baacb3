"""The fault script's bookkeeping, without a cluster."""

import pytest

from tests.clusters import faults
from tests.clusters.faults import Inputs, Outcome, Scenario
from tests.clusters.runs import ABSENT, COMPLETE, EndedEarly

SCENARIO = Scenario("none")
FINISHED = Outcome(0, COMPLETE, 1.0, {})


@pytest.mark.parametrize(
    ("troubles", "factors", "ended"),
    [
        ([], [1], "finished"),
        # On more records, as often as there are factors.
        ([EndedEarly(0)], [1, 4], "finished"),
        ([EndedEarly(0)] * 3, [1, 4, 16], "NOT TRIED: exit code 0 before the fault"),
        # A failure is none of too few records.
        ([EndedEarly(1)], [1], "NOT TRIED: exit code 1 before the fault"),
        ([TimeoutError("no stage")], [1], "NOT TRIED: TimeoutError"),
        ([ConnectionResetError()], [1], "NOT TRIED: ConnectionResetError"),
    ],
)
def test_a_runs_trouble_is_an_outcome(troubles, factors, ended, monkeypatch, tmp_path):
    tried = []

    def run_once(scenario, inputs, factor):
        tried.append(factor)
        if len(tried) <= len(troubles):
            raise troubles[len(tried) - 1]
        return FINISHED

    monkeypatch.setattr(faults, "run_once", run_once)
    outcome = faults.rehearse(SCENARIO, Inputs(1000, tmp_path))
    assert (tried, outcome.ended, outcome.sound) == (factors, ended, ended == "finished")


@pytest.mark.parametrize(
    ("code", "output", "leaks", "sound", "ended"),
    [
        (0, COMPLETE, {}, True, "finished"),
        (0, ABSENT, {}, False, "finished"),
        (0, COMPLETE, {"job.log": 1}, False, "finished"),
        (1, ABSENT, {}, True, "failed, exit code 1"),
        (1, COMPLETE, {}, True, "failed, exit code 1"),
        (1, "DIFFERENT", {}, False, "failed, exit code 1"),
        (-9, COMPLETE, {}, True, "killed"),
        (None, COMPLETE, {}, False, "HUNG"),
    ],
)
def test_what_is_as_it_must_be(code, output, leaks, sound, ended):
    outcome = Outcome(code, output, 12.3, leaks)
    assert (outcome.sound, outcome.ended) == (sound, ended)
    assert f"| {ended} | {output} | 12 s |" in faults.row(SCENARIO, outcome)
