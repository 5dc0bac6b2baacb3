"""Distribution tests: do seeded draws follow an exact probability distribution?

Every check has a stated false-alarm rate (by default ``SIGNIFICANCE``): the chance, over the draws
of a right sampler, that the check fails. A seeded test either always fails or never does, so that
chance is spent once, when the seed is chosen.

    assert_follows(draws, {0: Fraction(1, 3), 1: Fraction(2, 3)})

Probabilities are exact rationals, floats, or enclosures (lo, hi). Outcomes that the distribution
does not name are allowed only if its probabilities sum to less than 1; they form one cell.
"""

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from dp_transforms.mechanisms.enclosure import as_fraction

SIGNIFICANCE = 1e-9
"""The false-alarm rate of one check."""

_POOL_BELOW = 50.0


class Fit(NamedTuple):
    """The fit of draws to a distribution: the chi-square statistic and how many cells it has, those
    below 50 expected draws pooled; a bound on the false-alarm rate at which these draws would just
    fail, of which half goes to the chi-square test and half to exact binomial tests, one per
    outcome; and the outcome whose own count is the least likely."""

    chi_square: float
    cells: int
    p_value: float
    worst: Any


def fit(draws, distribution):
    """Tests draws (or a mapping from outcome to how often it was drawn) against a distribution."""
    counts = Counter(draws.tolist() if isinstance(draws, np.ndarray) else draws)
    total = sum(counts.values())
    assert total > 0, "there are no draws to test"
    named = [_probability(p) for p in distribution.values()]
    rest = float(1 - sum(named))
    if rest <= -1e-12:
        raise ValueError("the distribution's probabilities sum to more than 1")
    probabilities = np.array([*map(float, named), rest if rest >= 1e-12 else 0])
    observed = [counts[outcome] for outcome in distribution]
    seen = np.array([*observed, total - sum(observed)])
    below = stats.binom.cdf(seen, total, probabilities)
    above = stats.binom.sf(seen - 1, total, probabilities)
    tails = 2 * np.minimum(below, above)
    worst = int(np.argmin(tails))
    chi_square, cells, chi_square_p = _pooled_chi_square(seen, total * probabilities)
    p_value = min(1.0, 2 * min(chi_square_p, float(tails[worst]) * len(seen)))
    outcomes = [*distribution, "any outcome outside the distribution"]
    return Fit(chi_square, cells, p_value, outcomes[worst])


def assert_follows(draws, distribution, significance=SIGNIFICANCE):
    """Fails if the draws do not follow the distribution, and with this probability if they do."""
    result = fit(draws, distribution)
    assert result.p_value >= significance, f"the draws do not follow the distribution: {result}"


def assert_all_follow(fits):
    """Fails if one of several independent samples does not follow its distribution, or all together
    do not. Half of the false-alarm rate goes to each. Chi-squares add up: what is off in every
    sample shows where it is too small to show in one."""
    worst = min(fits, key=lambda name: fits[name].p_value)
    assert 2 * len(fits) * fits[worst].p_value >= SIGNIFICANCE, f"of {worst}: {fits[worst]}"
    chi_square = sum(fit.chi_square for fit in fits.values())
    freedom = sum(fit.cells - 1 for fit in fits.values())
    together = stats.chi2.sf(chi_square, max(freedom, 1))
    assert 2 * together >= SIGNIFICANCE, f"together, with {freedom} degrees of freedom: {fits}"


def score(draws, mean):
    """The error of the draws' mean in standard errors: a standard normal number, nearly."""
    return float((np.mean(draws) - mean) / np.std(draws) * np.sqrt(len(draws)))


def assert_scores(scores):
    """Fails if one of several independent scores is too large, or their sum is. Draws are not
    normal: for 3,000 of a skewed distribution the rate may be three times as large."""
    together = sum(scores.values()) / np.sqrt(len(scores))
    worst = max(scores, key=lambda name: abs(scores[name]))
    for name, value, number in ((worst, scores[worst], len(scores)), ("all", together, 1)):
        assert 4 * number * stats.norm.sf(abs(value)) >= SIGNIFICANCE, (name, value, scores)


def assert_probability(successes, trials, probability, significance=SIGNIFICANCE):
    """Fails if so many successes in independent trials of this probability are too unlikely."""
    p = _probability(probability)
    draws = {True: successes, False: trials - successes}
    assert_follows(draws, {True: p, False: 1 - p}, significance)


def _probability(value):
    if isinstance(value, tuple):
        lo, hi = map(as_fraction, value)
        # The width must not matter beside the noise of any number of draws that a test can make.
        if not 0 <= lo <= hi or (hi - lo) * 10**9 > hi:
            raise ValueError(f"an enclosure is empty or too wide for a test: {value}")
        return (lo + hi) / 2
    return as_fraction(value)


def _pooled_chi_square(seen, expected):
    # Rare outcomes are pooled until every cell is large enough for the statistic's limiting
    # distribution.
    cells = [np.zeros(2)]
    for outcome in np.column_stack([seen, expected])[np.argsort(-expected, kind="stable")]:
        if cells[-1][1] < _POOL_BELOW:
            cells[-1] += outcome
        else:
            cells.append(outcome)
    if len(cells) > 1 and cells[-1][1] < _POOL_BELOW:
        small = cells.pop()
        cells[-1] += small
    if len(cells) < 2:
        return 0.0, 1, 1.0
    counts, means = np.transpose(cells)
    statistic = float(((counts - means) ** 2 / means).sum())
    return statistic, len(cells), float(stats.chi2.sf(statistic, len(cells) - 1))
