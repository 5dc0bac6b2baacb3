"""Strategies by kind, numbers of selections in other arithmetics, noisy counts, and records with
looks at them."""

import mpmath
import numpy as np

from dp_transforms.mechanisms.selection import STRATEGIES
from dp_transforms.mechanisms.selection.population import Look, degree_cells, tail_cells

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


def look_of(strategy, users, sizes):
    """A look without noise, which is still said to have a scale."""
    degrees = degree_cells(np.asarray(users), strategy.edges)
    tails = tail_cells(np.asarray(sizes))
    return Look(tuple(degrees.tolist()), tuple(tails.tolist()), strategy.edges, (133.0, 400.0))


def zipf_sizes(total, partitions=20_000):
    """The numbers of users of partitions that follow Zipf's law."""
    sizes = total / np.arange(1, partitions + 1) / np.log(partitions)
    return np.maximum(1, sizes.astype(int))


def nested_records(seed):
    """Users by their numbers of partitions, and a function that tells how often each partition
    counts, in which users of few partitions prefer popular ones."""
    rng = np.random.default_rng(seed)
    degrees = np.minimum(np.floor(rng.pareto(1.2, 8_000) + 1), 300).astype(int)
    users = np.repeat(np.arange(len(degrees)), degrees)
    popularity = 1 / np.arange(1, 4_001)
    popular = rng.choice(len(popularity), len(users), p=popularity / popularity.sum())
    any_one = rng.integers(0, len(popularity), len(users))
    takes_popular = rng.random(len(users)) < degrees[users] ** -0.5
    records = np.unique(np.column_stack([users, np.where(takes_popular, popular, any_one)]), axis=0)
    users, items = rng.permutation(records).T
    order = np.argsort(users, kind="stable")
    return users[order], items[order]
