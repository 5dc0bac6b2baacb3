from fractions import Fraction

import gmpy2
import numpy as np
import pytest

from dp_transforms.mechanisms.enclosure import smallest_where
from dp_transforms.mechanisms.selection.gaussian import RoundedGaussian
from dp_transforms.mechanisms.selection.keep_distribution import OptimalDistribution
from dp_transforms.mechanisms.selection.threshold_distribution import ThresholdDistribution
from tests.cases import refused
from tests.tapes import InsecureSeededTape

TOP = 2**64 - 1
RARE, NEAR = Fraction(1, 2**100), Fraction(1, 2**200)


@pytest.mark.parametrize("drop", [Fraction(1, 2), Fraction(11, 2**65), 1 - RARE, RARE], ids=str)
def test_a_number_is_dropped_below_the_drop_probability_and_not_at_it(drop):
    # At one user this distribution has any drop probability exactly.
    distribution = OptimalDistribution(Fraction(1), 1 - drop)
    word = int(drop * 2**64)
    adjacent = [Fraction(word + i, 2**64) for i in (-1, 1)]
    for uniform in (drop, drop + NEAR, drop - NEAR, *adjacent):
        if not 0 <= uniform < 1:
            continue

        def extend(element, bits, uniform=uniform):
            assert element == 0 and int(uniform * 2**64) == word, "64 bits should have settled this"
            return int(uniform * 2**bits)

        words = np.array([int(uniform * 2**64)], dtype=np.uint64)
        assert distribution.decide(np.array([1]), words, extend) == [uniform >= drop]


def test_certain_statistics_need_no_number():
    distribution = OptimalDistribution(Fraction(1), Fraction(1, 2))
    for word in (0, 1, TOP):
        words = np.full(3, word, dtype=np.uint64)
        keep = distribution.decide(np.array([0, 2, 10**15]), words, pytest.fail)
        assert keep.tolist() == [False, True, True]


@pytest.mark.parametrize(
    "distribution",
    [
        OptimalDistribution(Fraction(1), Fraction(1, 10**5)),
        # So long ranges that the table has one entry for many statistics.
        OptimalDistribution(Fraction(1, 1000), Fraction(1, 10**9)),
        pytest.param(
            ThresholdDistribution(RoundedGaussian(Fraction(10**12)), 4 * 10**6),
            marks=pytest.mark.thorough,
        ),
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


@pytest.mark.parametrize("dtype", ["int64", "uint64", "int32", "uint8"])
def test_a_table_may_go_on_beyond_the_numbers_of_an_array(dtype):
    distribution = OptimalDistribution(Fraction(1, 10**18), Fraction(1, 10**300))
    users = np.array([0, np.iinfo(dtype).max], dtype)
    for ones, expected in ((64, [False, False]), (10**4, [False, True])):
        keep = distribution.decide(
            users,
            np.full(2, TOP, np.uint64),
            lambda i, bits, n=ones: (1 << bits) - (1 << max(bits - n, 0)),
        )
        assert keep.tolist() == expected


def test_a_large_epsilon_takes_no_longer():
    """The precision does not grow with it."""
    drop = OptimalDistribution(Fraction(10**6), Fraction(1, 10**5)).drop_enclosure(2, 64)
    assert drop.upper.precision < 500 and 0 < drop.lower < drop.upper < 1e-300


SHORT = OptimalDistribution(Fraction(1), Fraction(1, 100))
test_wrong_arrays_are_named = refused(
    lambda statistics: SHORT.decide(np.array(statistics), np.zeros(2, np.uint64), None),
    ([1.0, 2.0], "statistics must be a one-dimensional integer array"),
    ([1, 2, 3], "words must be a uint64 array as long as statistics"),
    ([1, -2], "must not be negative"),
)


@pytest.mark.parametrize("answer", [3, 4, 5, 11, 1000])
def test_smallest_where(answer):
    assert smallest_where(lambda n: n >= answer, 3) == answer
