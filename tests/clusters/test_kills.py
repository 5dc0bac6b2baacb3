"""What the sweep of kills looks for is found, where it is planted."""

from dp_transforms.budget import Ledger
from tests.clusters.kills import KINDS, look, new_place, write_inputs

NAME, LIST = "released_frequencies.csv", b"frequency,multiplicity\n7,1\n"


def test_planted_faults_are_found_and_no_others(tmp_path):
    place = new_place(KINDS[0], tmp_path, 1)
    release = place / "release"

    def faults():
        return [*look(place, {NAME: LIST})]

    assert faults() == []
    release.mkdir()
    (release / NAME).write_bytes(LIST)
    (release / "privacy.json").write_text("{}")
    assert faults() == ["a release without a reservation"]
    Ledger.open(place / "budget").reserve(1, purpose="frequency list")
    assert faults() == []
    (release / NAME).write_bytes(LIST[:14])
    assert faults() == [f"{NAME} is not that of a run that nobody kills"]
    (release / NAME).write_bytes(LIST)
    (release / "privacy.json").unlink()
    assert faults() == [f"{NAME} without its privacy.json"]
    (release / "privacy.json").write_text("{}")
    write_inputs(release)
    assert sorted(fault.split()[-1] for fault in faults()) == [
        "release/edges.csv",
        "release/records.csv",
    ]
