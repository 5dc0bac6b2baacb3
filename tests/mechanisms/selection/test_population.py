"""Populations that a look leads to, beside the records that it was of."""

import itertools

import numpy as np
import pytest

from dp_transforms.mechanisms.selection import MeasuredSelection, OptimalSelection
from dp_transforms.mechanisms.selection.population import populations_behind
from dp_transforms.mechanisms.selection.prediction import of_distribution, predict
from tests.mechanisms.selection.shared import look_of, nested_records, zipf_sizes


def test_populations_behind_a_look_have_the_counts_that_it_saw():
    users, items = nested_records(1)
    degrees, one_each = np.unique(users, return_counts=True)[1], np.unique(users, True)[1]
    counts = np.bincount(items[one_each])
    strategy = MeasuredSelection(1, 1e-5, 10)
    look = look_of(strategy, degrees, counts[counts > 0])._replace(scales=(1.0, 1.0))
    distribution = OptimalSelection(1, 1e-5).distribution
    exact = sum(distribution.keep_probability(int(count)) for count in counts[counts > 0])
    largest = []
    # The most likely populations.
    for population in populations_behind(look)[0]:
        # With one partition of each user, whoever has the popular ones.
        predicted = predict(population, [of_distribution(distribution, 1)])
        assert predicted.names == pytest.approx(exact, rel=0.1)
        assert population.users @ population.degrees == pytest.approx(len(users), rel=0.1)
        has = population.shares @ population.partitions
        assert has == pytest.approx(population.degrees, rel=0.05)
        largest.append(population.sizes[population.partitions > 1].max())
    # Popular partitions have fewer users if those are the users of few partitions.
    assert largest[1] < 0.7 * largest[0]


def test_noisy_tails_name_no_more_users_than_there_are():
    strategy = MeasuredSelection(1, 1e-5, 10)
    look = look_of(strategy, [2] * 5_000, zipf_sizes(5_000, 500))
    tails = (*look.tails[:8], 9_000, 9_000, *look.tails[10:])
    far = look._replace(tails=tails, scales=(20.0, 4_000.0))
    for population in itertools.chain(*populations_behind(far)):
        counted = population.partitions @ (
            population.users / population.degrees @ population.shares
        )
        assert counted == pytest.approx(5_000, rel=0.2)
