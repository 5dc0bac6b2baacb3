"""Selecting among public partitions, beside others that are not."""

import numpy as np
import pytest

from dp_transforms import SelectPartitions
from dp_transforms.mechanisms.partition_selection import (
    TruncatedGeometricSelection,
)
from dp_transforms.mechanisms.partition_selection.count_intervals import count_intervals
from dp_transforms.runtime import shuffle
from tests.beam_runs import run
from tests.selection_reference import SECRET
from tests.statistical import laws


@pytest.fixture(autouse=True)
def few_buckets(monkeypatch):
    """Small tables in few parts: a run is a matter of overhead."""
    monkeypatch.setattr(shuffle, "DEFAULT_BUCKETS", 3)


class TestPublicPartitions:
    strategy = TruncatedGeometricSelection(1.0, 1e-2)
    public = ("listed", "empty", "item0")

    def select(self, records, threshold, **options):
        transform = SelectPartitions(
            1.0,
            1e-2,
            1,
            public_partitions=self.public,
            public_threshold=threshold,
            secret=SECRET,
            **options,
        )
        assert transform.strategy == self.strategy
        return run(records, transform)

    def test_the_lowest_threshold_keeps_every_listed_partition_with_users(self):
        k = self.strategy.law.threshold
        found = self.select([("a", "listed"), ("b", "rare")], -k)
        assert "listed" in found and len(found) == len(set(found))

    def test_the_highest_threshold_keeps_none_without_users(self):
        records = [(f"{name}/{user}", name) for name in ("listed", "item0") for user in range(60)]
        found = self.select(records, self.strategy.law.threshold)
        assert sorted(found) == ["item0", "listed"]

    def test_laws_of_both_kinds_hold_in_one_release(self):
        names = [f"public {i}" for i in range(3000)]
        records = [(f"{n}/{u}", n) for n in names[:1500] for u in range(2)]
        records += [(f"other {i}/{u}", f"other {i}") for i in range(3000) for u in range(4)]
        transform = SelectPartitions(
            1.0, 1e-2, 1, noisy_counts=True, public_partitions=names, secret=SECRET
        )
        noisy = dict(run(records, transform))
        law = self.strategy.public_law(0)
        groups = ((names[:1500], 2, law), (names[1500:], 0, law))
        others = [f"other {i}" for i in range(3000)]
        for group, users, kept in (*groups, (others, 4, self.strategy.law)):
            found = sum(name in noisy for name in group)
            laws.assert_probability(found, len(group), kept.keep_enclosure(users, 128), 1e-7)
        assert min(noisy[name] for name in noisy if name.startswith("public")) == 1
        threshold = self.strategy.law.threshold
        assert min(noisy[name] for name in noisy if name.startswith("other")) > threshold

    def test_intervals_follow_the_law_of_each_kind(self):
        names = ["listed", "empty"]
        records = [(f"{name}/{user}", name) for name in ("listed", "item0") for user in range(60)]
        k = self.strategy.law.threshold
        transform = SelectPartitions(
            1.0,
            1e-2,
            1,
            noisy_counts=True,
            intervals=True,
            public_partitions=names,
            public_threshold=-k,
            secret=SECRET,
        )
        found = {name: counts for name, *counts in run(records, transform)}
        assert {"listed", "item0"} <= set(found)
        for name, (noisy, *ends) in found.items():
            law = self.strategy.public_law(-k) if name in names else self.strategy.law
            low, high = count_intervals(law, np.array([noisy]))
            assert ends == [low[0], high[0]]
        # A name that nobody has may be public.
        assert "empty" not in found or found["empty"][1] == 0

    def test_integer_and_composite_names(self):
        for name, other in ((7, 8), (("a", 1), ("b", 2))):
            transform = SelectPartitions(
                5.0, 1e-2, 1, public_partitions=[name, name], public_threshold=-1, secret=SECRET
            )
            found = run([("u", name), ("v", other)], transform)
            assert set(found) <= {name, other}

    def test_wrong_combinations_are_refused(self):
        with pytest.raises(ValueError, match="public_partitions are for the strategy"):
            SelectPartitions(1, 1e-2, 1, strategy="laplace", public_partitions=["a"])
        with pytest.raises(ValueError, match="exclude each other"):
            SelectPartitions(1, 1e-2, 1, public_partitions=["a"], pre_threshold=2)
        k = self.strategy.law.threshold
        with pytest.raises(ValueError, match=rf"must be in \[-{k}, {k}\], got {k + 1}"):
            SelectPartitions(1, 1e-2, 1, public_partitions=["a"], public_threshold=k + 1)
        for strategy in ("optimal", "renyi_rounds"):
            with pytest.raises(ValueError, match="public"):
                SelectPartitions(1, 1e-2, 1, strategy=strategy, public_threshold=0)
