"""Choosing with probability proportional to given weights, without dividing and without rounding.

Normalised sampling (Ilvento 2019, Algorithm 2): with total weight T as an integer and K the
smallest integer with T <= 2**K, draw a uniform t in [0, 2**K), again until t < T, and return the
first index whose cumulative weight exceeds t. As T > 2**(K - 1), a draw is rejected with
probability below 1/2.

How many draws were needed can be seen from outside in the time they take. With ``min_retries`` = k
at least k draws are made in any case: more are needed with probability below 2**-k, and otherwise
the number says nothing about the weights. (Arithmetic on large integers takes a time of its own
that depends on the weights; a service that answers an adversary directly should hide that as well.)

All arithmetic is on integers, which cannot round. The precision is a promise that is kept or
broken: where it is given, a value that needs more bits raises ``InexactArithmeticError``, under
exactly the condition under which MPFR would round the value and raise its inexact flag, and there
is no answer.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import gmpy2

from dp_transforms.mechanisms.randomness import WORD_BITS, RandomTape


class InexactArithmeticError(ArithmeticError):
    """A value needs more bits than the precision that was fixed for it."""


def require_exact(value: Any, precision: int) -> None:
    """Raises ``InexactArithmeticError`` if a non-negative integer does not fit ``precision`` bits.

    Trailing zeros do not count, as in a floating-point number with a significand of that many bits.
    """
    bits = significant_bits(value)
    if bits > precision:
        raise InexactArithmeticError(
            f"a weight or a sum of weights needs {bits} bits, but the precision is {precision}"
        )


def significant_bits(value: Any) -> int:
    """Counts the bits of the significand of a non-negative integer, without trailing zeros."""
    number = gmpy2.mpz(value)
    return int(number.bit_length() - number.bit_scan1()) if number else 0


def normalized_sample(
    weights: Sequence[Any],
    tape: RandomTape,
    channel: str,
    min_retries: int = 1,
    precision: int | None = None,
) -> int:
    """An index chosen with probability exactly proportional to its weight (Algorithm 2).

    Args:
      weights: positive numbers that are known exactly: int, float, Fraction, gmpy2.mpz, mpq or
        mpfr.
      tape: attempt a reads the number at (channel, a).
      channel: the address of this choice; every choice needs one of its own.
      min_retries: the least number of draws (see the module's text).
      precision: bits that every weight and the total may have, as integers over their common
        denominator. By default as many as they need.

    Raises:
      ValueError: there are no weights, one is not a positive finite number, or min_retries < 1.
      InexactArithmeticError: a weight or the total needs more bits than the precision.

    >>> normalized_sample([0.5, 0.25, 0.125], RandomTape(bytes(32)), "example")
    0
    """
    sums = _cumulative_weights(weights, precision)
    return bisect_right(sums, draw_below(sums[-1], tape, channel, min_retries))


def bitwise_sample(
    weights: Sequence[Any], tape: RandomTape, channel: str, precision: int | None = None
) -> int:
    """``normalized_sample``, reading only as many random bits as the answer needs (Algorithm 4).

    The same tape gives the same index. Bits are read 64, then 128, 256, ... at a time, so that few
    of the K bits are usually needed; how many depends on the weights, which makes the timing
    channel wider, and there is no ``min_retries`` to narrow it.

    Raises:
      ValueError, InexactArithmeticError: as ``normalized_sample``.

    >>> bitwise_sample([0.5, 0.25, 0.125], RandomTape(bytes(32)), "example")
    0
    """
    sums = _cumulative_weights(weights, precision)
    length = int((sums[-1] - 1).bit_length())
    attempt = 0
    while True:
        bits = min(WORD_BITS, length)
        while True:
            # All that is known of t: it has these leading bits.
            leading = gmpy2.mpz(tape.prefix(channel, attempt, bits))
            first = leading << (length - bits)
            last = first + (gmpy2.mpz(1) << (length - bits)) - 1
            index = bisect_right(sums, first)
            if index == bisect_right(sums, last):
                break
            bits = min(2 * bits, length)
        if index < len(sums):
            return index
        attempt += 1


def draw_below(total: Any, tape: RandomTape, channel: str, min_retries: int = 1) -> Any:
    """A uniform integer in [0, total), by rejection; at least ``min_retries`` draws are made."""
    if min_retries < 1:
        raise ValueError(f"min_retries must be at least 1, got {min_retries}")
    length = int((gmpy2.mpz(total) - 1).bit_length())
    accepted = None
    attempt = 0
    while accepted is None or attempt < min_retries:
        drawn = gmpy2.mpz(tape.prefix(channel, attempt, length))
        if accepted is None and drawn < total:
            accepted = drawn
        attempt += 1
    return accepted


def _cumulative_weights(weights: Sequence[Any], precision: int | None) -> list[Any]:
    """Cumulative sums of the weights as integers over their common denominator."""
    if not len(weights):
        raise ValueError("weights must not be empty")
    integers = _over_common_denominator(weights)
    sums = list(accumulate(integers))
    if precision is not None:
        for value in (*integers, sums[-1]):
            require_exact(value, precision)
    return sums


def _over_common_denominator(weights: Sequence[Any]) -> list[Any]:
    try:
        exact = [gmpy2.mpq(weight) for weight in weights]
    except (TypeError, ValueError, OverflowError):
        exact = [gmpy2.mpq(0)]
    if min(exact) <= 0:
        # Which one, and what it is, may be private.
        raise ValueError("weights must be positive finite numbers")
    denominator = gmpy2.lcm(*(weight.denominator for weight in exact))
    return [weight.numerator * (denominator // weight.denominator) for weight in exact]
