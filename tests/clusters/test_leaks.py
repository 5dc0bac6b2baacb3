"""The search for leaks finds what it looks for, in every spelling."""

import base64

import pytest

from tests.clusters.faults import _PATTERNS
from tests.clusters.leaks import leaks, logs, needles
from tests.clusters.runs import ABSENT, COMPLETE, look

SECRET = bytes(range(200, 232))


@pytest.mark.parametrize(
    "spelling",
    [
        SECRET,
        SECRET.hex().encode(),
        SECRET.hex().upper().encode(),
        base64.b64encode(SECRET),
        base64.urlsafe_b64encode(SECRET),
        repr(SECRET).encode(),
        str(int.from_bytes(SECRET, "big")).encode(),
        str(list(SECRET)).encode(),
        b"u000000017",
        b'{"partition": "item-4711"}',
    ],
)
def test_each_spelling_is_found(spelling, tmp_path):
    (tmp_path / "engine.log").write_bytes(b"INFO finished\nERROR " + spelling + b"\n")
    (tmp_path / "other.log").write_bytes(b"item, user, u1, 000000017\n")
    assert leaks(needles(SECRET, _PATTERNS), logs(tmp_path)) == {"engine.log": 1}


def test_an_output_is_complete_absent_or_wrong(tmp_path):
    output, whole = tmp_path / "release", {"list.csv": b"1"}
    assert look(output, whole) == ABSENT
    output.mkdir()
    (output / ".list.csv.0123.part").write_bytes(b"1")
    assert look(output, whole) == ABSENT
    (output / "list.csv").write_bytes(b"1")
    assert look(output, whole).startswith("PARTIAL")
    (output / "privacy.json").write_bytes(b"{}")
    assert look(output, whole) == COMPLETE
    assert look(output, {"list.csv": b"2"}) == "DIFFERENT"
