"""Strategies by kind, numbers of selections in other arithmetics, and noisy counts."""

import mpmath
import numpy as np

from dp_transforms.mechanisms.selection import STRATEGIES

COUNTS = list(STRATEGIES.values())[:4]
"""The optimal one, and those with truncated geometric, Laplace and Gaussian noise."""
SPLIT, NOISY = COUNTS[:3], COUNTS[1:]
"""Those that split their budget between partitions, and those with noise."""
RATIOS = np.exp(np.linspace(-2, 2, 40001))


def as_mpf(value):
    """An exact number in the current precision of mpmath."""
    numerator, denominator = value.as_integer_ratio()
    return mpmath.mpf(int(numerator)) / int(denominator)


def drop_recursion(epsilon, delta):
    """Yields 1 - pi(n) of the optimal distribution for n = 0, 1, ..., by lemma 1 in 100 digits."""
    drop = mpmath.mpf(1)
    while True:
        yield drop
        with mpmath.workdps(100):
            grown, share = mpmath.exp(mpmath.mpf(epsilon)), mpmath.mpf(delta)
            drop = 1 - min(grown * (1 - drop) + share, 1 - (drop - share) / grown, mpmath.mpf(1))


def select_with_counts(strategy, users, tape):
    """As ``select``, with noisy counts."""
    words = tape.words("selection", len(users))
    return strategy.decide_with_counts(
        users, words, lambda i, bits: tape.prefix("selection", i, bits)
    )


def noise_delta(order, divergence, epsilon):
    """Canonne, Kamath, Steinke (2020), Proposition 12."""
    power = np.exp((order - 1) * (divergence - epsilon))
    return (1 - 1 / order) ** (order - 1) / order * power


def bound(budgets, epsilon, users_changed=1):
    """The lesser bound on delta that ``renyi_calibration`` proves, by floats on a grid."""
    order = budgets[0].order
    *early, last = (float(users_changed * budget.divergence) for budget in budgets)
    *shown, shown_last = (float(budget.exposure) for budget in budgets)

    def noise(divergence):
        return noise_delta(order, divergence, epsilon)

    # The least eta that is enough at every ratio of the earlier rounds.
    late = noise(last) * RATIOS**order
    eta = max((shown_last * RATIOS - late) / RATIOS ** (1 - order))
    before_last = noise(sum(early) + last * (users_changed - 1) / 2)
    kept_apart = sum(shown) + before_last + max(0, eta) * np.exp((order - 1) * sum(early))
    return noise(sum(early) + last) + min(sum(shown) + shown_last, kept_apart)
