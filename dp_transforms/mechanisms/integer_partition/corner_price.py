"""What the corner-weighted mechanism costs, and the rate that an epsilon buys.

With weights q**||x - f||_1 w(x), q = e**-c and w the corner weights at s = 1/4, the privacy loss
between neighbours that differ in ``sensitivity`` cells of their Young diagrams is at most

    sensitivity * (c + ln R(c)),        R(c) = 1 + (1/q - 1) (1 - (1 + q k) / G),
    k = (q - 1/3) / (4 q / 3),          G = prod_{i >= 1} (1 + k q**i / (1 - q**i)),

for every q >= 1/3, that is for c <= ln 3. It is attained for sensitivity 1 and approached for
others. The proof is in docs/proofs/corner_weighted.md.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import gmpy2

from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.enclosure import Enclosure, enclosed, exactly

RATE_UNIT = Fraction(1, 2**40)
"""Rates are multiples of this."""

_PRECISION = 128


def loss_enclosure(rate: Fraction, precision: int = _PRECISION) -> Enclosure:
    """(lo, hi) around c + ln R(c), the loss for one cell, for a rate c below ln 3.

    >>> lo, hi = loss_enclosure(Fraction(893297, 10**6))
    >>> abs(float(lo) - 1) < 1e-5 and lo < hi
    True
    """
    decay = Decay(rate)
    q = decay.power(1, precision)
    k = gmpy2.mpq(3, 4) - gmpy2.mpq(1, 4) / q
    if k.lower < 0:
        raise ValueError(f"the rate must be below ln 3, got {rate}")
    gained = (1 / q - 1) * (1 - (1 + q * k) / _product(decay, k, precision))
    loss: Enclosure = exactly(rate) + (1 + gained).log()
    return loss


def _product(decay: Decay, k: Enclosure, precision: int) -> Enclosure:
    """(lo, hi) around G.

    The factors behind the n-th multiply to at most e**t with t = k sum_{i>n} q**i / (1 - q**i),
    which is below k q**(n+1) / ((1 - q) (1 - q**(n+1))).
    """
    found = enclosed(1, precision)
    terms = math.ceil(precision * math.log(2) / float(decay.rate))
    for i in range(1, terms + 1):
        found *= 1 + k * decay.power(i, precision) / decay.one_minus_power(i, precision)
    rest = decay.one_minus_power(1, precision) * decay.one_minus_power(terms + 1, precision)
    beyond = (k * decay.power(terms + 1, precision) / rest).exp()
    return Enclosure(found.lower, (found * beyond).upper)


@lru_cache(maxsize=256)
def rate_of(loss: Fraction) -> Fraction:
    """A rate c, a multiple of ``RATE_UNIT``, whose loss for one cell is certainly at most ``loss``,
    which is epsilon / sensitivity and below ln 3: the largest, or the one below it.

    >>> float(rate_of(Fraction(1)))  # doctest: +ELLIPSIS
    0.893297...
    """
    # Floats find where to look; the enclosure decides.
    low, high = float(loss) / 2, float(loss)
    while high - low > RATE_UNIT / 2:
        middle = (low + high) / 2
        low, high = (middle, high) if _approximate_loss(middle) <= loss else (low, middle)
    rate = (math.floor(low / RATE_UNIT) + 1) * RATE_UNIT
    while Decay(rate).is_at_most_one_third() or loss_enclosure(rate)[1] > gmpy2.mpq(loss):
        rate -= RATE_UNIT
    return rate


def _approximate_loss(rate: float) -> float:
    q = math.exp(-rate)
    k = (q - 1 / 3) / (4 * q / 3)
    powers = (math.exp(-rate * i) for i in range(1, math.ceil(40 / rate)))
    product = math.prod(1 + k * power / (1 - power) for power in powers)
    return rate + math.log(1 + (1 / q - 1) * (1 - (1 + q * k) / product))
