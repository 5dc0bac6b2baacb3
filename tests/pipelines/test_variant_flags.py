"""Releases narrowed by public knowledge, from flags to what the directory says of them."""

import pytest

from dp_transforms.mechanisms import FrequencyList, PartitionBounds
from pipelines import report
from pipelines.release_frequency_list import main
from tests.jobs import job_flags, statement

PRIVATE = FrequencyList([400, 60, 7, 1], [1, 5, 30, 200])
REFERENCE = FrequencyList([390, 70, 6, 1], [1, 5, 30, 210])


@pytest.fixture
def release(tmp_path):
    PRIVATE.to_csv(tmp_path / "counts.csv")
    REFERENCE.to_csv(tmp_path / "reference.csv")

    def run(*flags):
        counts = f"--frequency_list={tmp_path}/counts.csv"
        usual = [flag for flag in job_flags(tmp_path, counts) if "max_partitions" not in flag]
        reference = str(tmp_path / "reference.csv")
        assert main([*usual, *(flag.replace("REFERENCE", reference) for flag in flags)]) == 0
        released = FrequencyList.from_csv(tmp_path / "out" / "released_frequencies.csv")
        return released, statement(tmp_path)

    return run


def test_an_exact_total(release):
    released, statement = release("--exact_total=1111")
    assert released.total == 1111
    assert (statement["possible_lists"], statement["total"]) == ("of a public total", 1111)
    assert (statement["epsilon"], statement["delta"]) == (1, 0)


def test_a_maximum_total(release):
    released, statement = release("--max_total=1112")
    assert released.total <= 1112
    assert (statement["possible_lists"], statement["max_total"]) == ("as declared", 1112)
    released, statement = release("--max_total=1112", "--mechanism=exponential", "--overwrite")
    assert released.total <= 1112
    assert (statement["possible_lists"], statement["max_total"]) == ("up to a public total", 1112)


def test_bounds_from_a_total(release):
    released, statement = release("--bounds_total=1110")
    bounds = PartitionBounds.of_total(1110)
    assert bounds.contain(released)
    assert statement["possible_lists"] == "between public bounds"
    assert statement["bounds_sha256"] == bounds.digest
    assert statement["delta"] == 0


@pytest.mark.parametrize("flag", ["--bounds_width=12", "--bounds_distance=40"])
def test_bounds_from_a_reference(release, flag):
    released, statement = release("--bounds_reference=REFERENCE", flag)
    size = int(flag.split("=")[1])
    make = PartitionBounds.around if "width" in flag else PartitionBounds.within_distance
    assert make(REFERENCE, size).contain(released)
    assert statement["bounds_sha256"] == make(REFERENCE, size).digest


def test_a_report_of_a_narrowed_release_is_refused(release, tmp_path, capsys):
    release("--max_total=1200", "--mechanism=exponential")
    assert report.main([str(tmp_path / "out")]) == 1
    assert "narrowed by public knowledge" in capsys.readouterr().err


def test_bounds_are_told_apart_by_their_repr_on_every_machine():
    """Random decisions are derived from it."""
    bounds = PartitionBounds.around(REFERENCE, 2)
    again = FrequencyList(REFERENCE.frequencies, REFERENCE.multiplicities)
    assert repr(bounds) == repr(PartitionBounds.around(again, 2))
    others = [
        PartitionBounds.around(REFERENCE, 3),
        PartitionBounds(bounds.lower, bounds.upper),
        PartitionBounds(bounds.lower, bounds.upper, beyond=1),
        PartitionBounds(bounds.lower, bounds.upper, unbounded_ranks=1, beyond=2),
        PartitionBounds(upper=bounds.upper, beyond=2),
    ]
    assert len({repr(other) for other in [bounds, *others]}) == 6
