"""Exact numbers of selections in other arithmetics, and their noisy counts."""

import mpmath

from dp_transforms.mechanisms.selection.keep_distribution import as_float


def as_mpf(value):
    """An exact number in the current precision of mpmath."""
    numerator, denominator = value.as_integer_ratio()
    return mpmath.mpf(int(numerator)) / int(denominator)


def drop_probability(distribution, statistic):
    """1 - pi(statistic), to the precision of a float."""
    return as_float(lambda precision: distribution.drop_enclosure(statistic, precision))


def select_with_counts(strategy, users, tape):
    """As ``select``, with noisy counts."""
    words = tape.words("selection", len(users))
    return strategy.decide_with_counts(
        users, words, lambda i, bits: tape.prefix("selection", i, bits)
    )
