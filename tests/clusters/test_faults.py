import pytest

from tests.clusters import faults
from tests.clusters.faults import Outcome, Scenario
from tests.clusters.runs import ABSENT, COMPLETE, EndedEarly

SCENARIO = Scenario("none")
FINISHED = Outcome(0, COMPLETE, 1.0, {})


@pytest.mark.parametrize(
    ("troubles", "sizes", "ended"),
    [
        ([], [10], "finished"),
        # On more records, as often as there are factors.
        ([EndedEarly(0)], [10, 40], "finished"),
        ([EndedEarly(0)] * 3, [10, 40, 160], "NOT TRIED: exit code 0 before the fault"),
        # A failure is none of too few records.
        ([EndedEarly(1)], [10], "NOT TRIED: exit code 1 before the fault"),
        ([TimeoutError("no stage")], [10], "NOT TRIED: TimeoutError"),
        ([ConnectionResetError()], [10], "NOT TRIED: ConnectionResetError"),
    ],
)
def test_a_runs_trouble_is_an_outcome(troubles, sizes, ended, monkeypatch):
    tried = []

    def run_once(scenario, rows):
        tried.append(rows)
        if len(tried) <= len(troubles):
            raise troubles[len(tried) - 1]
        return FINISHED

    monkeypatch.setattr(faults, "run_once", run_once)
    outcome = faults.rehearse(SCENARIO, 10)
    assert (tried, outcome.ended, outcome.sound) == (sizes, ended, ended == "finished")


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
