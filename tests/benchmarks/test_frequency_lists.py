"""The table of accuracies: means, their standard errors, and what is said about them."""

import gzip
import itertools
import math

import pytest

from benchmarks.baselines import PEERS, PublicBounds
from benchmarks.frequency_lists import (
    Accuracy,
    Input,
    Mean,
    distances,
    measured,
    report,
    tables,
)
from dp_transforms import evaluation
from dp_transforms.mechanisms import FrequencyList, partition_mechanism

PRIVATE = FrequencyList([40, 7, 1], [1, 5, 30])


def test_measured_and_exact_means_are_of_the_same():
    mechanism = partition_mechanism(0.5, mechanism="exponential")
    exact = evaluation.expected_l1(mechanism, PRIVATE) / 2
    found = measured(distances(mechanism, PRIVATE), precision=0.02, seconds=1)
    # Its tapes are seeded: the same each time.
    assert abs(found.value - exact) < 5 * found.error


@pytest.mark.parametrize(("spread", "count"), [(0, 4000), (0.1, 176), (0.001, 8)])
def test_a_mean_is_of_as_many_releases_as_its_precision_needs(spread, count):
    asked = []

    def drawn():
        for k in itertools.count():
            asked.append(100 * (1 + spread * (-1) ** k))
            yield asked[-1]

    mean = measured(drawn(), precision=0.01, seconds=60)
    assert len(asked) == pytest.approx(count, abs=5)
    assert mean.value == pytest.approx(100) and mean.error <= 0.01 * 100


def test_degrees_of_a_graph(tmp_path):
    with gzip.open(tmp_path / "star_edges.csv.gz", "wt") as file:
        file.write("src,dst\n1,2\n1,3\n1,4\n2,3\n")
    case = Input.degrees(tmp_path / "star_edges.csv.gz")
    assert case.private == FrequencyList([3, 2, 1], [1, 2, 1])
    assert (case.name, case.max_partitions) == ("degrees of star", 2)
    assert case.bounds == PublicBounds(4, 3)


def test_the_page_tells_means_ratios_and_where_a_peer_is_better():
    def one(ours, best):
        peers = {name: Mean(40.0, 1.0) for name in PEERS} | {"PrivHist": Mean(best, 0.3)}
        return Accuracy(Mean(ours, 0.4), peers, 12.25, 0.031)

    case = Input("rockyou", PRIVATE, 1, PublicBounds(105, 105))
    found = {("rockyou", 1): one(10.0, 15.0), ("rockyou", 0.5): one(20.0, 12.0)}
    lines = list(report([case], [1, 0.5], found))
    assert "105 users, 36 partitions, kappa = 1." in lines
    (row,) = [line for line in lines if line.startswith("| 1 |")]
    cells = row.strip("| ").split(" | ")
    assert cells[2:4] == ["10 +- 0.4", "12.2"] and cells[-3:] == [
        "1,330.5",
        "1.50 +- 0.07",
        "0.03 s",
    ]
    text = "\n".join(lines)
    ((name, rates, means),) = tables(text)
    assert (name, rates, means["ours"]) == ("rockyou", [1, 0.5], [10, 20])
    assert means["PrivHist"] == [15, 12]
    assert "From c = 1 up the best peer's mean is 1.50 +- 0.07 times ours or more" in text
    assert "standard errors at these c: rockyou at 0.5 (PrivHist, 0.60)." in text
    assert Mean(15.0, 0.3).by(Mean(10.0, 0.4)).error == pytest.approx(1.5 * math.hypot(0.02, 0.04))
