import gzip
import itertools

import pytest

from benchmarks.baselines import PublicBounds
from benchmarks.frequency_lists import Input, distances, measured
from dp_transforms import evaluation
from dp_transforms.mechanisms import FrequencyList, partition_mechanism

PRIVATE = FrequencyList([40, 7, 1], [1, 5, 30])


@pytest.mark.slow
def test_measured_and_exact_means_are_of_the_same():
    mechanism = partition_mechanism(0.5, mechanism="exponential")
    exact = evaluation.expected_l1(mechanism, PRIVATE) / 2
    mean = measured(distances(mechanism, PRIVATE), precision=0.02, most=2_000)
    # Its tapes are seeded: the same each time.
    assert abs(mean.value - exact) < 5 * mean.error


@pytest.mark.parametrize(("spread", "count"), [(0, 4000), (0.1, 176), (0.001, 8)])
def test_a_mean_is_of_as_many_releases_as_its_precision_needs(spread, count):
    asked = []

    def drawn():
        for k in itertools.count():
            asked.append(100 * (1 + spread * (-1) ** k))
            yield asked[-1]

    mean = measured(drawn(), precision=0.01, most=4_000)
    assert len(asked) == pytest.approx(count, abs=5)
    assert mean.value == pytest.approx(100) and mean.error <= 0.01 * 100


def test_degrees_of_a_graph(tmp_path):
    with gzip.open(tmp_path / "star_edges.csv.gz", "wt") as file:
        file.write("src,dst\n1,2\n1,3\n1,4\n2,3\n")
    case = Input.degrees(tmp_path / "star_edges.csv.gz")
    assert case.private == FrequencyList([3, 2, 1], [1, 2, 1])
    assert (case.name, case.max_partitions) == ("degrees of star", 2)
    assert case.bounds == PublicBounds(4, 3)
