"""The distribution-test harness itself: it must accept right draws and reject wrong ones."""

from fractions import Fraction

import numpy as np
import pytest
from gmpy2 import mpfr, mpq

from tests.statistical import distributions
from tests.tapes import InsecureSeededTape

SIXTH = Fraction(1, 6)
DIE = dict.fromkeys(range(1, 7), SIXTH)
RARE = {0: 1 - Fraction(1, 10**6), 1: Fraction(1, 10**6)}


def die_rolls(seed, count):
    words = InsecureSeededTape(seed).words("roll", count)
    return 1 + (words % np.uint64(6)).astype(np.int64)


def loaded(excess):
    return DIE | {1: SIXTH + excess, 2: SIXTH - excess}


def test_accepts_right_distributions():
    distributions.assert_follows(die_rolls(1, 60_000), DIE)
    distributions.assert_follows({0: 999, 1: 1}, RARE)
    # Rationals, floats and enclosures; outcomes that are not named share what is left.
    some = {1: mpq(1, 6), 2: 1 / 6, 3: (mpfr(1) / 6, mpfr(1) / 6), 4: SIXTH}
    distributions.assert_follows(die_rolls(3, 10_000), some)
    distributions.assert_probability(500, 1_000, Fraction(1, 2))


def test_rejects_wrong_distributions():
    for draws, distribution, message in (
        # A face is off by 7.8 standard deviations of its count.
        (die_rolls(1, 30_000), loaded(Fraction(1, 60)), "do not follow"),
        ([*die_rolls(1, 1000).tolist(), 7], DIE, "outside the distribution"),
        # A pooled chi-square cell would hide it: the binomial test of the outcome does not.
        ({0: 990, 1: 10}, RARE, "do not follow"),
        (die_rolls(2, 10_000), {1: SIXTH, 2: 2 * SIXTH}, "do not follow"),
    ):
        with pytest.raises(AssertionError, match=message):
            distributions.assert_follows(draws, distribution)
    with pytest.raises(AssertionError):
        distributions.assert_probability(700, 1_000, Fraction(1, 2))


def test_rejects_many_deviations_none_of_which_shows_alone():
    cells = 2_000
    counts = {i: 100 + (13 if i % 2 else -13) for i in range(cells)}
    result = distributions.fit(counts, dict.fromkeys(range(cells), Fraction(1, cells)))
    assert result.p_value < distributions.SIGNIFICANCE
    assert result.chi_square == pytest.approx(cells * 1.69) and result.cells == cells


def test_what_is_off_in_every_sample_shows_together():
    right, fits = (
        {seed: distributions.fit(die_rolls(seed, 6000), distribution) for seed in range(40)}
        for distribution in (DIE, loaded(Fraction(1, 100)))
    )
    distributions.assert_all_follow(right)
    for name, alone in fits.items():
        distributions.assert_all_follow({name: alone})
    with pytest.raises(AssertionError, match="together"):
        distributions.assert_all_follow(fits)
    with pytest.raises(AssertionError, match="of seven"):
        distributions.assert_all_follow({"seven": distributions.fit(die_rolls(1, 6000) + 1, DIE)})


def test_means_that_are_all_off_show_together():
    right, scores = (
        {seed: distributions.score(die_rolls(seed, 6000), mean) for seed in range(40)}
        for mean in (3.5, 3.46)
    )
    distributions.assert_scores(right)
    for name, alone in scores.items():
        distributions.assert_scores({name: alone})
    with pytest.raises(AssertionError, match="all"):
        distributions.assert_scores(scores)
    score = distributions.score(die_rolls(1, 6000), 3.2)
    with pytest.raises(AssertionError, match="one"):
        distributions.assert_scores(dict.fromkeys(range(40), 0) | {"one": score})


def test_wrong_probabilities_are_named():
    with pytest.raises(ValueError, match="too wide"):
        distributions.fit([0], {0: (0.4, 0.6)})
    with pytest.raises(ValueError, match="more than 1"):
        distributions.fit([0], {0: Fraction(2, 3), 1: Fraction(2, 3)})


def test_the_false_alarm_rate_is_the_one_stated():
    # 1,000 right samplers at 5%: more than 80 alarms have a probability below 1e-4 at a rate of 5%.
    fits = (distributions.fit(die_rolls(seed, 600), DIE) for seed in range(1_000))
    assert 1 <= sum(fit.p_value < 0.05 for fit in fits) <= 80
