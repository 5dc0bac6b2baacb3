"""What the sweep of kills looks for is found, where it is planted."""

import pytest

from dp_transforms.budget import Ledger
from tests.clusters.kills import KINDS, Found, new_place, write_inputs

KIND = KINDS[0]
WHOLE = {"released_frequencies.csv": b"frequency,multiplicity\n7,1\n"}


@pytest.fixture
def place(tmp_path):
    made = new_place(KIND, tmp_path, 1)
    (made / "release").mkdir()
    (made / "release/released_frequencies.csv").write_bytes(WHOLE["released_frequencies.csv"])
    (made / "release/privacy.json").write_text("{}")
    return made


def faults(place, reserved=1):
    for _ in range(reserved):
        Ledger.open(place / "budget").reserve(1, purpose="frequency list")
    found = Found()
    found.look(KIND, place, WHOLE)
    return found.faults


def test_a_whole_release_has_no_fault(place):
    assert faults(place) == []


def test_nothing_at_all_has_no_fault(tmp_path):
    assert faults(new_place(KIND, tmp_path, 2), reserved=0) == []


def test_planted_faults_are_found(place, tmp_path):
    assert faults(place, reserved=0) == ["a release without a reservation"]
    (place / "release/released_frequencies.csv").write_bytes(b"frequency,mult")
    assert faults(place) == ["released_frequencies.csv is not that of a run that nobody kills"]
    (place / "release/privacy.json").unlink()
    (place / "release/released_frequencies.csv").write_bytes(WHOLE["released_frequencies.csv"])
    assert faults(place, 0) == ["released_frequencies.csv without its privacy.json"]
    (place / "release/privacy.json").write_text("{}")
    write_inputs(place / "release")
    assert sorted(fault.split()[-1] for fault in faults(place, 0)) == [
        "release/edges.csv",
        "release/records.csv",
    ]
