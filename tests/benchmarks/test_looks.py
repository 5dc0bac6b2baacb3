import gzip

import numpy as np
import pytest

from benchmarks import looks
from benchmarks.selection_strategies import SipsSelection, WeightedGaussianSelection
from dp_transforms.mechanisms.selection import MeasuredSelection, OptimalSelection

SIZES = (60, 14, 12, 1)


@pytest.fixture
def pairs(tmp_path):
    """Users of one partition each."""
    items = np.repeat(np.arange(len(SIZES)), SIZES).tolist()
    rows = "".join(f"{user},{item}\n" for user, item in enumerate(items))
    path = tmp_path / "some_pairs.csv.gz"
    path.write_bytes(gzip.compress(f"user,item\n{rows}".encode()))
    return looks.Pairs(path)


def test_expected_names_are_sums_of_keep_probabilities(pairs):
    assert pairs.sizes.tolist() == list(SIZES)
    strategy = OptimalSelection(1, 1e-5)
    named = pairs.named(strategy, np.random.default_rng(1))
    exact = [strategy.keep_probability(size) for size in SIZES]
    assert named.each == pytest.approx(exact)
    assert named.names == pytest.approx(sum(exact))
    assert named.records == pytest.approx(np.dot(exact, SIZES) / sum(SIZES))
    # Bounding keeps no more than one of two pairs of a user.
    both = np.ones(len(SIZES), bool)
    users, _, has = pairs.bounded(both, 1, np.zeros(len(pairs.users)))
    assert len(users) == sum(SIZES) and set(has) == {1}


@pytest.mark.thorough
def test_probabilities_of_weighted_strategies_are_the_exact_ones():
    sums = np.array([1, 1 << 24, 30 << 24, 90 << 24])
    for strategy in (WeightedGaussianSelection(1, 1e-5, 3), SipsSelection(1, 1e-5, 3)):
        distribution = strategy.rounds[-1]
        exact = [distribution.keep_probability(int(x)) for x in sums]
        assert looks.keep_of(distribution)(sums) == pytest.approx(exact, rel=1e-6, abs=1e-12)


@pytest.mark.thorough
def test_a_row_has_the_best_published_strategy_and_what_looks_cost(pairs):
    records = looks.Records(pairs, 1.0)
    best = records.best_published(1)
    measured = looks.Measured(records, 1, 1, best)
    row = measured.row()
    assert row[:4] == ["some pairs", "1", "1", "optimal"] and best.strategy == "optimal"
    level = measured.chosen[0].look
    share = MeasuredSelection(1, 1e-5).look_epsilon(level)
    assert row[8] == f"{float(share):.1%}"
    chosen = looks.Measured(records, None, 1, best).row()
    assert chosen[2:4] == ["chosen", "optimal at 1"]
