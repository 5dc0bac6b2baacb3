"""Decisions by 64 bits and by more of them, at equality, and in distribution."""

from dataclasses import dataclass
from fractions import Fraction

import gmpy2
import numpy as np
import pytest

from dp_transforms.mechanisms.enclosure import exactly, smallest_where
from dp_transforms.mechanisms.selection.count_strategies import OptimalSelection
from dp_transforms.mechanisms.selection.gaussian import RoundedGaussian
from dp_transforms.mechanisms.selection.keep_distribution import (
    KeepDistribution,
    OptimalDistribution,
)
from dp_transforms.mechanisms.selection.threshold_distribution import ThresholdDistribution
from tests.tapes import InsecureSeededTape

TOP = 2**64 - 1


@dataclass(frozen=True)
class FixedDistribution(KeepDistribution):
    """1 - pi(s) given outright for s = 1, 2, ..., and then the last one."""

    drops: tuple[Fraction, ...]

    def drop_enclosure(self, statistic, precision):
        return exactly(1 if statistic < 1 else self.drops[min(statistic, len(self.drops)) - 1])

    @property
    def saturation(self):
        return self.drops.index(0) + 1 if 0 in self.drops else None


def decide(distribution, statistic, word, later=None):
    """One decision; ``later`` is the whole number U, or None if 64 bits must be enough."""

    def extend(element, bits):
        assert element == 0 and later is not None, "64 bits should have settled this"
        return int(later * 2**bits)

    words = np.array([word], dtype=np.uint64)
    return distribution.decide(np.array([statistic]), words, extend).item()


def test_a_number_equal_to_the_drop_probability_keeps():
    half = FixedDistribution((Fraction(1, 2), Fraction(0)))
    assert decide(half, 1, 2**63, later=Fraction(1, 2))
    assert not decide(half, 1, 2**63 - 1)
    assert decide(half, 1, 2**63 + 1)


def test_what_64_bits_leave_open_is_read_further():
    # Between two words: the 65th bit decides, and a 200-bit neighbour needs 200 of them.
    threshold = Fraction(5, 2**64) + Fraction(1, 2**65)
    distribution = FixedDistribution((threshold, Fraction(0)))
    near = Fraction(1, 2**200)
    assert not decide(distribution, 1, 4) and decide(distribution, 1, 6)
    assert decide(distribution, 1, 5, later=threshold)
    assert decide(distribution, 1, 5, later=threshold + near)
    assert not decide(distribution, 1, 5, later=threshold - near)


def test_probabilities_closer_to_one_than_64_bits_still_count():
    rare = Fraction(1, 2**100)
    distribution = FixedDistribution((1 - rare, rare))
    assert decide(distribution, 1, TOP, later=1 - rare)
    assert not decide(distribution, 1, TOP, later=1 - 2 * rare)
    assert not decide(distribution, 1, TOP - 1)
    assert not decide(distribution, 2, 0, later=rare / 2)
    assert decide(distribution, 2, 0, later=rare) and decide(distribution, 2, 1)


def test_certain_statistics_need_no_number():
    distribution = FixedDistribution((Fraction(1, 2), Fraction(0)))
    for word in (0, 1, TOP):
        assert decide(distribution, 2, word) and decide(distribution, 10**15, word)
        assert not decide(distribution, 0, word)


@pytest.mark.parametrize(
    "distribution",
    [
        OptimalDistribution(Fraction(1), Fraction(1, 10**5)),
        # So long ranges that the table has one entry for many statistics.
        OptimalDistribution(Fraction(1, 1000), Fraction(1, 10**9)),
        ThresholdDistribution(RoundedGaussian(Fraction(10**12)), 4 * 10**6),
        OptimalDistribution(Fraction(1), Fraction(0)),
    ],
    ids=["short", "long", "normal", "never"],
)
def test_the_table_decides_as_each_probability_does(distribution):
    # Random words, and words beside the threshold of their own statistic.
    count = 1500
    end = distribution.reach or 100
    tape = InsecureSeededTape(3)
    statistics = (tape.words("statistic", count) % np.uint64(end + end // 4 + 2)).astype(np.int64)
    words = tape.words("U", count)
    for i in range(0, count, 3):
        near = int(distribution.drop_enclosure(int(statistics[i]), 128)[0] * 2**64) + i % 5 - 2
        words[i] = min(max(near, 0), TOP)
    keep = distribution.decide(statistics, words, lambda i, bits: int(words[i]) << (bits - 64))
    for s, word, kept in zip(statistics.tolist(), words.tolist(), keep.tolist(), strict=True):
        lo, hi = (gmpy2.mpq(end) for end in distribution.drop_enclosure(s, 256))
        uniform = gmpy2.mpq(word, 2**64)
        assert uniform >= hi if kept else uniform < lo


def test_a_decision_depends_on_its_own_number_alone():
    strategy, tape = OptimalSelection(1, "0.01"), InsecureSeededTape(5)
    alone = [bool(strategy.select(np.array([4]), tape, str(i))[0]) for i in range(64)]
    words = np.concatenate([tape.words(str(i), 1) for i in range(64)])
    together = strategy.decide(np.full(64, 4), words, lambda i, bits: tape.prefix(str(i), 0, bits))
    assert together.tolist() == alone and 0 < sum(alone) < 64


def test_wrong_arrays_are_named():
    distribution = OptimalDistribution(Fraction(1), Fraction(1, 100))
    words = np.zeros(2, dtype=np.uint64)
    for statistics, message in (
        ([1.0, 2.0], "statistics must be a one-dimensional integer array"),
        ([1, 2, 3], "words must be a uint64 array as long as statistics"),
        ([1, -2], "must not be negative"),
    ):
        with pytest.raises(ValueError, match=message):
            distribution.decide(np.array(statistics), words, None)


@pytest.mark.parametrize("answer", [3, 4, 5, 11, 1000])
def test_smallest_where(answer):
    assert smallest_where(lambda n: n >= answer, 3) == answer
