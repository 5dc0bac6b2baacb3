"""The distribution-test harness itself: it must accept right draws and reject wrong ones."""

from fractions import Fraction

import numpy as np
import pytest
from gmpy2 import mpfr, mpq

from tests.statistical import distributions
from tests.tapes import InsecureSeededTape

DIE = {face: Fraction(1, 6) for face in range(1, 7)}


def die_rolls(seed, count, faces=6):
    words = InsecureSeededTape(seed).words("roll", count)
    return 1 + (words % np.uint64(faces)).astype(np.int64)


def test_accepts_the_right_distribution():
    result = distributions.assert_follows(die_rolls(1, 60_000), DIE)
    assert (result.draws, result.cells) == (60_000, 6)


def test_rejects_a_distribution_that_is_slightly_off():
    # A face is off by 7.8 standard deviations of its count.
    loaded = DIE | {1: Fraction(1, 6) + Fraction(1, 60), 2: Fraction(1, 6) - Fraction(1, 60)}
    with pytest.raises(AssertionError, match="do not follow"):
        distributions.assert_follows(die_rolls(1, 30_000), loaded)


def test_rejects_many_deviations_none_of_which_shows_alone():
    cells = 2_000
    distribution = {i: Fraction(1, cells) for i in range(cells)}
    counts = {i: 100 + (13 if i % 2 else -13) for i in range(cells)}
    result = distributions.fit(counts, distribution)
    assert result.p_value < distributions.SIGNIFICANCE
    assert result.chi_square == pytest.approx(cells * 1.69)


def test_what_is_off_in_every_sample_shows_together():
    loaded = DIE | {1: Fraction(1, 6) + Fraction(1, 100), 2: Fraction(1, 6) - Fraction(1, 100)}
    distributions.assert_all_follow(
        {seed: distributions.fit(die_rolls(seed, 6000), DIE) for seed in range(40)}
    )
    fits = {seed: distributions.fit(die_rolls(seed, 6000), loaded) for seed in range(40)}
    for name, alone in fits.items():
        distributions.assert_all_follow({name: alone})
    with pytest.raises(AssertionError, match="together"):
        distributions.assert_all_follow(fits)
    with pytest.raises(AssertionError, match="of seven"):
        distributions.assert_all_follow({"seven": distributions.fit(die_rolls(1, 6000) + 1, DIE)})


def test_means_that_are_all_off_show_together():
    rolls = [die_rolls(seed, 6000) for seed in range(40)]
    distributions.assert_scores({seed: distributions.score(rolls[seed], 3.5) for seed in range(40)})
    scores = {seed: distributions.score(rolls[seed], 3.46) for seed in range(40)}
    for name, alone in scores.items():
        distributions.assert_scores({name: alone})
    with pytest.raises(AssertionError, match="all"):
        distributions.assert_scores(scores)
    with pytest.raises(AssertionError, match="one"):
        distributions.assert_scores(
            {"one": distributions.score(rolls[1], 3.2)} | {seed: 0 for seed in range(40)}
        )


def test_rejects_an_outcome_that_the_distribution_excludes():
    with pytest.raises(AssertionError, match="outside the distribution"):
        distributions.assert_follows([*die_rolls(1, 1000).tolist(), 7], DIE)


def test_rejects_a_rare_outcome_that_occurs_too_often():
    # The pooled chi-square cell would hide it: the binomial test of the outcome does not.
    distribution = {0: 1 - Fraction(1, 10**6), 1: Fraction(1, 10**6)}
    with pytest.raises(AssertionError):
        distributions.assert_follows({0: 990, 1: 10}, distribution)
    distributions.assert_follows({0: 999, 1: 1}, distribution)


def test_unnamed_outcomes_share_the_remaining_probability():
    named = {face: p for face, p in DIE.items() if face <= 2}
    distributions.assert_follows(die_rolls(2, 10_000), named)
    with pytest.raises(AssertionError):
        distributions.assert_follows(die_rolls(2, 10_000), {1: Fraction(1, 6), 2: Fraction(1, 3)})


def test_probabilities_may_be_rationals_floats_or_enclosures():
    distribution = {1: mpq(1, 6), 2: 1 / 6, 3: (mpfr(1) / 6, mpfr(1) / 6), 4: Fraction(1, 6)}
    distributions.assert_follows(die_rolls(3, 10_000), distribution)
    with pytest.raises(ValueError, match="too wide"):
        distributions.fit([0], {0: (0.4, 0.6)})
    with pytest.raises(ValueError, match="more than 1"):
        distributions.fit([0], {0: Fraction(2, 3), 1: Fraction(2, 3)})


def test_the_false_alarm_rate_is_the_one_stated():
    # 1,000 right samplers at 5%: more than 80 alarms have a probability below 1e-4 at a rate of 5%.
    alarms = sum(
        distributions.fit(die_rolls(seed, 600), DIE).p_value < 0.05 for seed in range(1_000)
    )
    assert 1 <= alarms <= 80


def test_assert_probability():
    distributions.assert_probability(500, 1_000, Fraction(1, 2))
    with pytest.raises(AssertionError):
        distributions.assert_probability(700, 1_000, Fraction(1, 2))
