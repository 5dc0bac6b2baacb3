"""Discrete Laplace and Gaussian noise from fair bits and integer arithmetic alone.

The samplers of Canonne, Kamath and Steinke (2020, "The Discrete Gaussian for Differential
Privacy"), one draw at a time. They need no set-up and no tables, at any scale, and share nothing
with ``discrete_noise``, which gives the same laws many draws at once. How many bits a draw reads
depends on the draw: that is a timing channel.
"""

from __future__ import annotations

import math
from fractions import Fraction

from dp_transforms.mechanisms.base2 import Rational, positive_rational
from dp_transforms.mechanisms.randomness import BitReader


def bernoulli_exp(gamma: Fraction | int, bits: BitReader) -> bool:
    """True with probability exactly e**(-gamma), for a rational gamma >= 0 (Algorithm 1).

    Raises:
      ValueError: gamma is negative.
    """
    if gamma < 0:
        raise ValueError(f"gamma must not be negative, got {gamma}")
    whole = math.floor(gamma)
    return all(_bernoulli_exp_fraction(Fraction(1), bits) for _ in range(whole)) and (
        _bernoulli_exp_fraction(Fraction(gamma) - whole, bits)
    )


def laplace_by_rejection(scale: Rational, bits: BitReader) -> int:
    """A draw x with probability proportional to e**(-|x| / scale) (Algorithm 2).

    Args:
      scale: a positive rational number; a float stands for the number it is exactly.
      bits: fair bits, as many as it takes: ``BitReader(tape.uniform(channel, i))`` for draw i.

    Raises:
      ValueError: scale is not a positive finite number.
    """
    exact = positive_rational("scale", scale)
    t, s = exact.numerator, exact.denominator
    while True:
        remainder = bits.below(t)
        if not _bernoulli_exp_fraction(Fraction(remainder, t), bits):
            continue
        quotient = 0
        while _bernoulli_exp_fraction(Fraction(1), bits):
            quotient += 1
        magnitude = (remainder + t * quotient) // s
        negative = bits.take(1) == 1
        # Zero has one sign only.
        if not (negative and magnitude == 0):
            return -magnitude if negative else magnitude


def gaussian_by_rejection(sigma2: Rational, bits: BitReader) -> int:
    """A draw x with probability proportional to e**(-x**2 / (2 * sigma2)) (Algorithm 3).

    Args:
      sigma2: a positive rational number; a float stands for the number it is exactly.
      bits: fair bits, as many as it takes: ``BitReader(tape.uniform(channel, i))`` for draw i.

    Raises:
      ValueError: sigma2 is not a positive finite number.
    """
    exact = positive_rational("sigma2", sigma2)
    scale = math.isqrt(math.floor(exact)) + 1
    while True:
        candidate = laplace_by_rejection(scale, bits)
        if bernoulli_exp((abs(candidate) - exact / scale) ** 2 / (2 * exact), bits):
            return candidate


def _bernoulli_exp_fraction(gamma: Fraction, bits: BitReader) -> bool:
    """True with probability e**(-gamma), for 0 <= gamma <= 1."""
    # The first k with no success at gamma / k is odd with probability
    # 1 - gamma + gamma**2 / 2! - ... = e**(-gamma).
    k = 1
    while bits.below(gamma.denominator * k) < gamma.numerator:
        k += 1
    return k % 2 == 1
