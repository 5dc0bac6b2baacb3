"""Computes guessing metrics of a frequency list: how hard its items are to guess, in order.

Item i of a list of N users has probability p_i = f_i / N, and an attacker who knows the list
guesses the most frequent items first. The metrics are those of Bonneau, "The science of guessing:
analyzing an anonymized corpus of 70 million passwords" (IEEE S&P 2012), and the columns of Table
III of Blocki, Datta and Bonneau, "Differentially private password frequency lists" (NDSS 2016).

Bits are effective key lengths: a uniform choice among 2**b items has b bits in every metric. A
metric describes the sample in the list, not the population that it was drawn from: where most items
are singletons, the population's tail is harder to guess than the list's.

Metrics are computed exactly from the distinct frequencies, and only the last step is in floating
point. On a released list this is post-processing, and ``intervals`` bounds the effect of the noise.

Every metric raises a ValueError for an empty list, or an argument that is out of range: guesses are
positive, alpha is in (0, 1], and value_per_cost is not negative.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray, IntArray
from dp_transforms.mechanisms.decimals import Number, exact_fraction, positive_integer
from dp_transforms.mechanisms.frequency_list import FrequencyList, RankSums

_Number = TypeVar("_Number", float, Fraction)


def rank_sums(frequency_list: FrequencyList) -> RankSums:
    """Returns the sums of a list. Raises a ValueError if it is empty."""
    if not len(frequency_list):
        raise ValueError("frequency_list is empty, and guessing metrics need at least one item")
    return RankSums(frequency_list)


def success_rate(frequency_list: FrequencyList, guesses: int) -> float:
    """Returns lambda_beta: the fraction of accounts that beta guesses per account break.

    >>> success_rate(FrequencyList([5, 2, 1], [1, 1, 3]), guesses=2)
    0.7
    """
    guesses = positive_integer("guesses", guesses)
    return float(Fraction(rank_sums(frequency_list).sum_to(guesses), frequency_list.total))


def success_rate_bits(frequency_list: FrequencyList, guesses: int) -> float:
    """Returns lambda_beta in bits, lg(beta / lambda_beta): resistance to online guessing.

    >>> success_rate_bits(FrequencyList([4], [16]), guesses=8)  # uniform over 16 items
    4.0
    """
    guesses = positive_integer("guesses", guesses)
    covered = rank_sums(frequency_list).sum_to(guesses)
    return math.log2(Fraction(guesses * frequency_list.total, covered))


def min_entropy(frequency_list: FrequencyList) -> float:
    """Returns H_infinity = -lg p_1, in bits, which is ``success_rate_bits`` for one guess."""
    return success_rate_bits(frequency_list, 1)


def guesses_to_reach(frequency_list: FrequencyList, alpha: Number) -> int:
    """Returns mu_alpha: the fewest guesses per account that break a fraction alpha of the accounts.

    >>> guesses_to_reach(FrequencyList([5, 2, 1], [1, 1, 3]), alpha=0.7)
    2
    """
    ranks = rank_sums(frequency_list)
    return ranks.rank_reaching(check_alpha(alpha) * ranks.total)


def alpha_guesswork(frequency_list: FrequencyList, alpha: Number) -> float:
    """Returns G_alpha: an attacker's mean guesses per account, giving up after mu_alpha of them.

    >>> alpha_guesswork(FrequencyList([5, 2, 1], [1, 1, 3]), alpha=0.7)  # 1 for half, else 2
    1.5
    """
    return float(_guesswork_and_rate(frequency_list, alpha)[0])


def alpha_guesswork_bits(frequency_list: FrequencyList, alpha: Number) -> float:
    """Returns G-tilde_alpha, which is G_alpha in bits: resistance to offline guessing.

    >>> alpha_guesswork_bits(FrequencyList([4], [16]), alpha=0.5)
    4.0
    """
    return math.log2(guesswork_key_space(*_guesswork_and_rate(frequency_list, alpha)))


def guesswork_key_space(work: _Number, rate: _Number) -> _Number:
    """Returns 2**G-tilde, from a guesswork G_alpha and the rate lambda_{mu_alpha} that its guesses
    reach: G-tilde = lg(2 G / lambda - 1) + lg(1 / (2 - lambda)) (Bonneau, 2012)."""
    return (2 * work / rate - 1) / (2 - rate)


def guessing_curve(frequency_list: FrequencyList) -> tuple[IntArray, FloatArray]:
    """Returns guesses per account, and the fraction of accounts that they break, at the last item
    of each frequency. Between two such points the curve is a straight line.

    >>> guesses, rates = guessing_curve(FrequencyList([5, 2, 1], [1, 1, 3]))
    >>> guesses.tolist(), rates.tolist()
    ([1, 2, 5], [0.5, 0.7, 1.0])
    """
    ranks = rank_sums(frequency_list)
    rates = np.array(ranks.sums[1:], dtype=np.float64) / ranks.total
    return np.array(ranks.ends[1:], dtype=np.int64), rates


@dataclass(frozen=True)
class Attack:
    """The point at which the most profitable attack stops.

    Attributes:
      guesses: guesses per account after which the attacker gives up; 0 if attacking does not pay.
      success_rate: the fraction of accounts broken.
      profit: the mean profit per account, in units of the cost of one guess.
    """

    guesses: int
    success_rate: float
    profit: float


def rational_attack(frequency_list: FrequencyList, value_per_cost: Number) -> Attack:
    """Returns the attack that pays best, if a broken account is worth ``value_per_cost`` guesses.

    An attacker who gives up on an account after B guesses gains value * lambda_B, and makes on
    average as many guesses as the sum of 1 - lambda_j over 0 <= j < B. The profit may fall and rise
    again: this is its global maximum, with the fewest guesses among equals. Source: Blocki, Harsha
    and Zhou, "On the economics of offline password cracking" (IEEE S&P 2018).

    >>> rational_attack(FrequencyList([50, 1], [1, 50]), value_per_cost=4)
    Attack(guesses=1, success_rate=0.5, profit=1.0)
    """
    value = exact_fraction("value_per_cost", value_per_cost)
    if value < 0:
        raise ValueError(f"value_per_cost must not be negative, got {value_per_cost}")
    ranks = rank_sums(frequency_list)
    best_profit, best_guesses = Fraction(0), 0
    # Inside a run of equal frequencies, p is constant and 1 - lambda falls. So the profit is convex
    # there, and largest at an end of the run.
    spent = 0
    for run, frequency in enumerate(ranks.frequencies):
        width = ranks.ends[run + 1] - ranks.ends[run]
        spent += width * (ranks.total - ranks.sums[run]) - frequency * (width * (width - 1) // 2)
        profit = value * ranks.sums[run + 1] - spent
        if profit > best_profit:
            best_profit, best_guesses = profit, ranks.ends[run + 1]
    return Attack(
        guesses=best_guesses,
        success_rate=float(Fraction(ranks.sum_to(best_guesses), ranks.total)),
        profit=float(best_profit / ranks.total),
    )


def check_alpha(alpha: Number) -> Fraction:
    """Returns alpha as an exact fraction. Raises a ValueError if it is not in (0, 1]."""
    fraction = exact_fraction("alpha", alpha)
    if not 0 < fraction <= 1:
        raise ValueError(f"alpha must be in (0, 1], got {alpha}")
    return fraction


def _guesswork_and_rate(frequency_list: FrequencyList, alpha: Number) -> tuple[Fraction, Fraction]:
    """Returns G_alpha and lambda_{mu_alpha}, exactly.

    G_alpha = (1 - lambda_mu) mu + sum of i p_i over i <= mu. An account costs a guess at step j + 1
    if, and only if, the first j guesses failed. So G_alpha is the sum of 1 - lambda_j over
    0 <= j < mu.
    """
    ranks = rank_sums(frequency_list)
    guesses = ranks.rank_reaching(check_alpha(alpha) * ranks.total)
    work = Fraction(guesses * ranks.total - ranks.sum_of_sums(guesses), ranks.total)
    return work, Fraction(ranks.sum_to(guesses), ranks.total)
