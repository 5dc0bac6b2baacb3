"""The distributions of the selecting transforms, end to end, and public partitions."""

import collections

import numpy as np
import pytest

from dp_transforms import SelectPartitions
from dp_transforms.mechanisms.selection import (
    STRATEGIES,
    MeasuredSelection,
    TruncatedGeometricSelection,
    make_strategy,
)
from dp_transforms.mechanisms.selection.threshold_distribution import count_intervals
from dp_transforms.runtime import shuffle
from dp_transforms.specs import NamesSpec
from tests.beam_runs import rows_of, run
from tests.engines import in_process
from tests.selection_reference import SECRET, as_tables
from tests.statistical import distributions


@pytest.fixture(autouse=True)
def few_buckets(monkeypatch):
    """Small tables in few parts: a run is a matter of overhead."""
    monkeypatch.setattr(shuffle, "DEFAULT_BUCKETS", 3)


def names(tables, strategy):
    """The names that are selected in this process."""
    selected, _ = in_process(tables, SECRET).names(NamesSpec(strategy))
    return [name for (name,) in rows_of(selected)]


class TestDistributions:
    """Enough partitions with the same users to see the distribution, by one run per strategy."""

    each = 2000

    @pytest.mark.parametrize("name", STRATEGIES)
    def test_every_strategy(self, name):
        epsilon, delta, max_partitions = 2.0, 0.05, 2
        strategy = make_strategy(name, epsilon, delta, max_partitions_per_user=max_partitions)
        median = strategy.median_users
        # Users come with two partitions of the same size, so that all weights are the smallest.
        records, sizes = [], sorted({1, max(1, median - 2), median})
        for size in sizes:
            for i in range(self.each):
                for user in range(size):
                    records += [(f"{size}/{i // 2}/{user}", f"{size}/{i}")]
        tables = as_tables(records)
        found = collections.Counter(name.split("/")[0] for name in names(tables, strategy))
        taken = strategy
        if isinstance(strategy, MeasuredSelection):
            users = [
                sum(sizes) * self.each // 2 * (edge == max_partitions) for edge in strategy.edges
            ]
            taken = strategy.branch(strategy.plan_of([*users, 0]))
            assert taken.max_partitions_per_user == max_partitions
        for size in sizes:
            if name in ("renyi_rounds", "measured"):
                # All users have kappa partitions.
                expected = pair_distribution(taken, size)
            else:
                expected = strategy.keep_enclosure(size, 128)
            distributions.assert_probability(found[str(size)], self.each, expected, 1e-7)


def pair_distribution(strategy, size):
    """The probability that one of two partitions with the same users is selected in rounds."""
    # One of the two may be named, which are few.
    few = [strategy.round_after(index, 1) for index in range(len(strategy.rounds))]
    keep = [
        [distribution.keep_probability(size * distribution.step(t)) for distribution in few]
        for t in (2, 1)
    ]
    # States: both remain, or this one remains alone.
    together, single, done = 1.0, 0.0, 0.0
    for here, there in zip(*keep, strict=True):
        done += together * here + single * there
        single = single * (1 - there) + together * (1 - here) * here
        together *= (1 - here) ** 2
    return done


@pytest.mark.parametrize("name", STRATEGIES)
def test_planted_users_above_kappa_have_no_more_influence(name):
    # Three users with all of 400 partitions: bounded to 2 each, they can make at most 6 partitions
    # have any user, and of those hardly one has several.
    planted = [(f"planted{user}", f"rare{i}") for user in range(3) for i in range(400)]
    crowd = [(f"user{user}", "common") for user in range(300)]
    strategy = make_strategy(name, 40, 1e-4, max_partitions_per_user=2)
    found = set(names(as_tables(planted + crowd), strategy))
    assert "common" in found
    assert len(found - {"common"}) <= 3


@pytest.mark.parametrize("name", STRATEGIES)
def test_pre_thresholds_are_never_undercut(name):
    records = [(f"{p}/{user}", p) for p in range(200) for user in range(p % 8)]
    found = set(names(as_tables(records), make_strategy(name, 30, 0.5, pre_threshold=5)))
    assert found and min(p % 8 for p in found) >= 5


class TestPublicPartitions:
    strategy = TruncatedGeometricSelection(1.0, 1e-2)
    k = strategy.distribution.threshold

    def test_distributions_of_both_kinds_hold_in_one_release(self):
        names = [f"public {i}" for i in range(3000)]
        records = [(f"{n}/{u}", n) for n in names[:1500] for u in range(2)]
        records += [(f"other {i}/{u}", f"other {i}") for i in range(3000) for u in range(4)]
        transform = SelectPartitions(
            1.0, 1e-2, 1, noisy_counts=True, public_partitions=names, secret=SECRET
        )
        noisy = dict(run(records, transform))
        distribution = self.strategy.public_distribution(0)
        groups = ((names[:1500], 2, distribution), (names[1500:], 0, distribution))
        others = [f"other {i}" for i in range(3000)]
        for group, users, kept in (*groups, (others, 4, self.strategy.distribution)):
            found = sum(name in noisy for name in group)
            distributions.assert_probability(
                found, len(group), kept.keep_enclosure(users, 128), 1e-7
            )
        assert min(noisy[name] for name in noisy if name.startswith("public")) == 1
        assert min(noisy[name] for name in noisy if name.startswith("other")) > self.k

    def test_intervals_follow_the_distribution_of_each_kind(self):
        names = ["listed", "empty"]
        records = [(f"{name}/{user}", name) for name in ("listed", "item0") for user in range(60)]
        transform = SelectPartitions(
            1.0,
            1e-2,
            1,
            noisy_counts=True,
            intervals=True,
            public_partitions=names,
            public_threshold=-self.k,
            secret=SECRET,
        )
        found = {name: counts for name, *counts in run(records, transform)}
        assert {"listed", "item0"} <= set(found)
        for name, (noisy, *ends) in found.items():
            distribution = (
                self.strategy.public_distribution(-self.k)
                if name in names
                else self.strategy.distribution
            )
            low, high = count_intervals(distribution, np.array([noisy]))
            assert ends == [low[0], high[0]]
        # A name that nobody has may be public.
        assert "empty" not in found or found["empty"][1] == 0

    def test_wrong_combinations_are_refused(self):
        with pytest.raises(ValueError, match="public_partitions are for the strategy"):
            SelectPartitions(1, 1e-2, 1, strategy="laplace", public_partitions=["a"])
        with pytest.raises(ValueError, match="exclude each other"):
            SelectPartitions(1, 1e-2, 1, public_partitions=["a"], pre_threshold=2)
        with pytest.raises(
            ValueError, match=rf"must be in \[-{self.k}, {self.k}\], got {self.k + 1}"
        ):
            SelectPartitions(1, 1e-2, 1, public_partitions=["a"], public_threshold=self.k + 1)
        for strategy in ("optimal", "renyi_rounds"):
            with pytest.raises(ValueError, match="public"):
                SelectPartitions(1, 1e-2, 1, strategy=strategy, public_threshold=0)
