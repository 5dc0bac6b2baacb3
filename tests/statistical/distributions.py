"""Distribution tests: do seeded draws follow an exact probability distribution?

Every check has a stated false-alarm rate (by default ``SIGNIFICANCE``): the chance, over the draws
of a right sampler, that the check fails. A seeded test either always fails or never does, so that
chance is spent once, when the seed is chosen.

    assert_follows(draws, {0: Fraction(1, 3), 1: Fraction(2, 3)})

Probabilities are exact rationals, floats, or enclosures (lo, hi). Outcomes that the distribution
does not name are allowed only if its probabilities sum to less than 1; they form one cell.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from scipy import stats

from dp_transforms.mechanisms.enclosure import as_fraction

SIGNIFICANCE = 1e-9
"""The false-alarm rate of one check."""

_POOL_BELOW = 50.0
_REST = object()


@dataclass(frozen=True)
class Fit:
    """The fit of draws to a distribution.

    Attributes:
      draws: how many draws were tested.
      cells: how many cells the chi-square statistic has, those below 50 expected draws pooled.
      chi_square: the statistic.
      p_value: a bound on the false-alarm rate at which these draws would just fail. Half of it
        goes to the chi-square test, and half to exact binomial tests, one per outcome.
      worst: the outcome whose own count is the least likely.
    """

    draws: int
    cells: int
    chi_square: float
    p_value: float
    worst: Hashable


def fit(draws: Iterable[Hashable] | Mapping[Hashable, int], distribution: Mapping[Any, Any]) -> Fit:
    """Tests draws (or a mapping from outcome to how often it was drawn) against a distribution."""
    counts = Counter(draws.tolist() if isinstance(draws, np.ndarray) else draws)
    total = sum(counts.values())
    if total == 0:
        raise ValueError("there are no draws to test")
    expected = {outcome: _probability(p) for outcome, p in distribution.items()}
    rest = 1 - sum(expected.values())
    if abs(rest) < 1e-12:
        rest = Fraction(0)
    if rest < 0:
        raise ValueError("the distribution's probabilities sum to more than 1")
    expected[_REST] = rest
    observed = Counter()
    for outcome, count in counts.items():
        observed[outcome if outcome in expected else _REST] += count

    outcomes = list(expected)
    probabilities = np.array([float(expected[outcome]) for outcome in outcomes])
    seen = np.array([observed[outcome] for outcome in outcomes])
    tails = _binomial_p_values(seen, total, probabilities)
    worst = int(np.argmin(tails))
    chi_square, cells, chi_square_p = _pooled_chi_square(seen, total * probabilities)
    return Fit(
        draws=total,
        cells=cells,
        chi_square=chi_square,
        p_value=min(1.0, 2 * min(chi_square_p, float(tails[worst]) * len(outcomes))),
        worst="any outcome outside the distribution"
        if outcomes[worst] is _REST
        else outcomes[worst],
    )


def assert_follows(
    draws: Iterable[Hashable] | Mapping[Hashable, int],
    distribution: Mapping[Any, Any],
    significance: float = SIGNIFICANCE,
) -> Fit:
    """Fails if the draws do not follow the distribution; a right sampler fails with this
    probability."""
    result = fit(draws, distribution)
    assert result.p_value >= significance, f"the draws do not follow the distribution: {result}"
    return result


def assert_all_follow(fits: Mapping[Any, Fit], significance: float = SIGNIFICANCE) -> None:
    """Fails if one of several independent samples does not follow its distribution, or all together
    do not.

    Half of the false-alarm rate goes to each. Chi-squares add up: what is off in every sample shows
    where it is too small to show in one.
    """
    worst = min(fits, key=lambda name: fits[name].p_value)
    result = fits[worst]
    assert 2 * len(fits) * result.p_value >= significance, f"of {worst}: {result}"
    chi_square = sum(fit.chi_square for fit in fits.values())
    freedom = sum(fit.cells - 1 for fit in fits.values())
    together = stats.chi2.sf(chi_square, max(freedom, 1))
    assert 2 * together >= significance, (
        f"together: chi-square {chi_square} of {freedom} degrees of freedom: {fits}"
    )


def score(draws: Any, mean: float) -> float:
    """The error of the draws' mean in standard errors: a standard normal number, nearly."""
    return float((np.mean(draws) - mean) / np.std(draws) * np.sqrt(len(draws)))


def assert_scores(scores: Mapping[Any, float], significance: float = SIGNIFICANCE) -> None:
    """Fails if one of several independent scores is too large, or their sum is.

    Draws are not normal: for 3,000 of a skewed distribution the rate may be up to three times as
      large.
    """
    sum_of_all = sum(scores.values()) / np.sqrt(len(scores))
    worst = max(scores, key=lambda name: abs(scores[name]))
    for name, value, number in ((worst, scores[worst], len(scores)), ("all", sum_of_all, 1)):
        assert 4 * number * stats.norm.sf(abs(value)) >= significance, (name, value, scores)


def assert_probability(
    successes: int, trials: int, probability: Any, significance: float = SIGNIFICANCE
) -> None:
    """Fails if so many successes in independent trials of this probability are too unlikely."""
    assert_follows(
        {True: successes, False: trials - successes},
        {True: _probability(probability), False: 1 - _probability(probability)},
        significance,
    )


def _probability(value: Any) -> Fraction:
    if isinstance(value, tuple):
        lo, hi = map(as_fraction, value)
        # The width must not matter beside the noise of any number of draws that a test can make.
        if not 0 <= lo <= hi or (hi - lo) * 10**9 > hi:
            raise ValueError(f"an enclosure is empty or too wide for a test: {value}")
        return (lo + hi) / 2
    return as_fraction(value)


def _binomial_p_values(seen: Any, total: int, probabilities: Any) -> Any:
    """Exact two-sided p-values of each outcome's own count, which is binomial."""
    below = stats.binom.cdf(seen, total, probabilities)
    above = stats.binom.sf(seen - 1, total, probabilities)
    return np.minimum(1.0, 2 * np.minimum(below, above))


def _pooled_chi_square(seen: Any, expected: Any) -> tuple[float, int, float]:
    # Rare outcomes are pooled until every cell is large enough for the statistic's limiting
    # distribution.
    order = np.argsort(-expected, kind="stable")
    cells: list[list[float]] = []
    for count, mean in zip(seen[order], expected[order], strict=True):
        if cells and cells[-1][1] < _POOL_BELOW:
            cells[-1][0] += count
            cells[-1][1] += mean
        else:
            cells.append([count, mean])
    if len(cells) > 1 and cells[-1][1] < _POOL_BELOW:
        count, mean = cells.pop()
        cells[-1][0] += count
        cells[-1][1] += mean
    if len(cells) < 2:
        return 0.0, len(cells), 1.0
    statistic = float(sum((count - mean) ** 2 / mean for count, mean in cells))
    return statistic, len(cells), float(stats.chi2.sf(statistic, len(cells) - 1))
