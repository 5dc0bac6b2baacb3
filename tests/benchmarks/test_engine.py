from benchmarks.engine_escalations import count_escalations
from dp_transforms.mechanisms import FrequencyList
from tests.tapes import InsecureSeededTape


def test_escalations_are_as_many_as_the_enclosures_predict():
    """Seeded. Predictions bound the mean; for another seed this fails with probability 1e-4."""
    private = FrequencyList([1000, 300, 7, 1], [30, 40, 500, 10**5])
    escalations = count_escalations(private, 0.25, 10, map(InsecureSeededTape, range(300)))
    assert escalations.releases == 300
    assert escalations.predicted > 10
    assert (
        escalations.predicted / 4
        < escalations.observed
        < escalations.predicted + 4 * escalations.predicted**0.5
    )
    wide = count_escalations(private, 0.25, None, map(InsecureSeededTape, range(10)))
    assert (wide.observed, wide.predicted < 1e-6) == (0, True)
