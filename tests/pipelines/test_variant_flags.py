"""Releases narrowed by public knowledge, from flags to what the directory says of them."""

import pytest

from dp_transforms.mechanisms import FrequencyList, PartitionBounds
from pipelines import report
from pipelines.release_frequency_list import main
from tests.jobs import job_flags, statement

PRIVATE = FrequencyList([400, 60, 7, 1], [1, 5, 30, 200])
REFERENCE = FrequencyList([390, 70, 6, 1], [1, 5, 30, 210])


@pytest.fixture
def release(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    PRIVATE.to_csv("counts.csv")
    REFERENCE.to_csv("near.csv")

    def run(flags):
        usual = job_flags(tmp_path, "--frequency_list=counts.csv", *flags.split())
        assert main(usual) == 0
        return FrequencyList.from_csv("out/released_frequencies.csv"), statement(tmp_path)

    return run


@pytest.mark.parametrize(
    ("flags", "possible", "total"),
    [
        ("--exact_total=1111", "of a public total", {"total": 1111}),
        ("--max_total=1112", "as declared", {"max_total": 1112}),
        ("--max_total=1112 --epsilon=4", "as declared", {"max_total": 1112}),
        ("--max_total=1112 --mechanism=frobenius", "as declared", {"max_total": 1112}),
    ],
)
def test_public_totals(release, flags, possible, total):
    released, statement = release(flags)
    assert statement["possible_lists"] == possible and total.items() <= statement.items()
    assert released.total == 1111 if "total" in total else released.total <= 1112
    assert (statement["epsilon"], statement["delta"]) == (4 if "epsilon" in flags else 1, 0)


@pytest.mark.parametrize(
    ("flags", "bounds"),
    [
        ("total=1110", PartitionBounds.of_total(1110)),
        ("width=12 --bounds_reference=near.csv", PartitionBounds.around(REFERENCE, 12)),
        ("distance=40 --bounds_reference=near.csv", PartitionBounds.within_distance(REFERENCE, 40)),
    ],
)
def test_public_bounds(release, flags, bounds):
    released, statement = release(f"--bounds_{flags}")
    assert bounds.contain(released)
    assert statement["possible_lists"] == "between public bounds"
    assert (statement["bounds_sha256"], statement["delta"]) == (bounds.digest, 0)


def test_a_report_of_a_narrowed_release_is_refused(release, tmp_path, failure):
    release("--exact_total=1111")
    failure(1, "narrowed by public knowledge", report.main, [str(tmp_path / "out")])


def test_bounds_are_told_apart_by_their_repr_on_every_machine():
    """Random decisions are derived from it."""
    bounds = PartitionBounds.around(REFERENCE, 2)
    again = FrequencyList(REFERENCE.frequencies, REFERENCE.multiplicities)
    assert repr(bounds) == repr(PartitionBounds.around(again, 2))
    variants = [
        PartitionBounds.around(REFERENCE, 3),
        PartitionBounds(bounds.lower, bounds.upper),
        PartitionBounds(bounds.lower, bounds.upper, beyond=1),
        PartitionBounds(bounds.lower, bounds.upper, unbounded_ranks=1, beyond=2),
        PartitionBounds(upper=bounds.upper, beyond=2),
    ]
    assert len({repr(other) for other in [bounds, *variants]}) == 6
