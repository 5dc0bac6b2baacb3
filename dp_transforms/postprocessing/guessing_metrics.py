"""Guessing metrics of a frequency list: how hard are its items to guess, most frequent first?

Item i of a list of N users has probability p_i = f_i / N, and p_1 >= p_2 >= ... An attacker who
knows the list guesses in that order. The metrics are those of Bonneau, "The science of guessing:
analyzing an anonymized corpus of 70 million passwords" (IEEE S&P 2012), which are also the columns
of Table III of Blocki, Datta and Bonneau, "Differentially private password frequency lists" (NDSS
2016).

Those in bits are effective key lengths: a uniform choice among 2**b items has b bits in every
metric, and each bit doubles the attacker's work. A metric describes the sample in the list, not the
population that it was drawn from: where most items are singletons, the population's tail is harder
to guess than the list's.

Everything runs over the distinct frequencies and in exact integers; only the last step is a float.
On a released list the metrics are post-processing and cost no privacy; ``intervals`` bounds
what the noise can have done to them.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TypeVar

import numpy as np

from dp_transforms.mechanisms.arrays import IntArray
from dp_transforms.mechanisms.decimals import Real, exact_fraction
from dp_transforms.mechanisms.frequency_list import FrequencyList, RankSums

_Number = TypeVar("_Number", float, Fraction)


def rank_sums(frequency_list: FrequencyList) -> RankSums:
    """The sums of a list. ValueError if it is empty."""
    if not len(frequency_list):
        raise ValueError("frequency_list is empty, and guessing metrics need at least one item")
    return RankSums(frequency_list)


def sums_to(frequency_list: FrequencyList, ranks: IntArray) -> IntArray:
    """The numbers of users at the ranks up to each of some ranks.

    >>> sums_to(FrequencyList([5, 2, 1], [1, 1, 3]), np.array([0, 2, 9])).tolist()
    [0, 7, 10]
    """
    ends = np.append(0, frequency_list.multiplicities.cumsum())
    sums = np.append(0, (frequency_list.frequencies * frequency_list.multiplicities).cumsum())
    run = np.searchsorted(ends, ranks, side="right") - 1
    return sums[run] + (ranks - ends[run]) * np.append(frequency_list.frequencies, 0)[run]


def success_rate(frequency_list: FrequencyList, guesses: int) -> float:
    """lambda_beta: the fraction of accounts that beta guesses per account break.

    Raises:
      ValueError: the list is empty, or guesses is not positive.

    >>> success_rate(FrequencyList([5, 2, 1], [1, 1, 3]), guesses=2)
    0.7
    """
    check_positive("guesses", guesses)
    return float(Fraction(rank_sums(frequency_list).sum_to(guesses), frequency_list.total))


def success_rate_bits(frequency_list: FrequencyList, guesses: int) -> float:
    """lambda_beta as an effective key length, lg(beta / lambda_beta): resistance to online
    guessing.

    >>> success_rate_bits(FrequencyList([4], [16]), guesses=8)  # uniform over 16 items
    4.0
    """
    check_positive("guesses", guesses)
    covered = rank_sums(frequency_list).sum_to(guesses)
    return math.log2(Fraction(guesses * frequency_list.total, covered))


def alpha_guesswork_bits(frequency_list: FrequencyList, alpha: Real) -> float:
    """G-tilde_alpha: G_alpha as an effective key length, in bits; resistance to offline guessing.

    >>> alpha_guesswork_bits(FrequencyList([4], [16]), alpha=0.5)
    4.0
    """
    return math.log2(guesswork_key_space(*_guesswork_and_rate(frequency_list, alpha)))


def guesswork_key_space(work: _Number, rate: _Number) -> _Number:
    """2**G-tilde for a guesswork G_alpha and the rate lambda_{mu_alpha} that is really reached.

    Bonneau (2012): G-tilde = lg(2 G / lambda - 1) + lg(1 / (2 - lambda)).
    """
    return (2 * work / rate - 1) / (2 - rate)


def check_alpha(alpha: Real) -> Fraction:
    """alpha as an exact fraction, if it is in (0, 1]."""
    fraction = exact_fraction("alpha", alpha)
    if not 0 < fraction <= 1:
        raise ValueError(f"alpha must be in (0, 1], got {alpha}")
    return fraction


def check_positive(name: str, number: int) -> None:
    """Raises a ValueError if a number that a user asked for is below 1."""
    if number < 1:
        raise ValueError(f"{name} must be at least 1, got {number}")


def _guesswork_and_rate(frequency_list: FrequencyList, alpha: Real) -> tuple[Fraction, Fraction]:
    """G_alpha and lambda_{mu_alpha}, exactly.

    G_alpha = (1 - lambda_mu) mu + sum of i p_i over i <= mu. An account still costs a guess at step
    j + 1 iff the first j guesses failed, so this is the sum of 1 - lambda_j over 0 <= j < mu.
    """
    ranks = rank_sums(frequency_list)
    guesses = ranks.rank_reaching(check_alpha(alpha) * ranks.total)
    work = Fraction(guesses * ranks.total - ranks.sum_of_sums(guesses), ranks.total)
    return work, Fraction(ranks.sum_to(guesses), ranks.total)
