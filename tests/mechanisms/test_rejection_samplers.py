"""Canonne, Kamath and Steinke's samplers against laws that are computed directly."""

import math
from fractions import Fraction

import pytest

from dp_transforms.mechanisms.randomness import BitReader, InsecureSeededTape
from dp_transforms.mechanisms.rejection_samplers import (
    bernoulli_exp,
    gaussian_by_rejection,
    laplace_by_rejection,
)
from tests.statistical import laws

DRAWS = 20_000


def readers(seed):
    tape = InsecureSeededTape(seed)
    return (BitReader(tape.uniform("test", i)) for i in range(DRAWS))


def proportional_law(weight, reach):
    weights = {x: weight(x) for x in range(-reach, reach + 1)}
    total = sum(weights.values())
    return {x: w / total for x, w in weights.items()}


@pytest.mark.parametrize("gamma", [0, Fraction(1, 10**6), Fraction(2, 3), 1, Fraction(5, 2)])
def test_bernoulli_exp(gamma):
    successes = sum(bernoulli_exp(gamma, bits) for bits in readers(1))
    laws.assert_probability(successes, DRAWS, math.exp(-gamma))


def test_bernoulli_exp_rejects_a_negative_gamma():
    with pytest.raises(ValueError, match="gamma"):
        bernoulli_exp(Fraction(-1, 2), next(readers(1)))


@pytest.mark.parametrize("scale", [Fraction(1, 3), 1, Fraction(7, 2), 20])
def test_discrete_laplace(scale):
    law = proportional_law(lambda x: math.exp(-abs(x) / scale), math.ceil(60 * scale))
    laws.assert_follows((laplace_by_rejection(scale, bits) for bits in readers(2)), law)


@pytest.mark.parametrize("sigma2", [Fraction(1, 10), 1, Fraction(9, 2), 400])
def test_discrete_gaussian(sigma2):
    law = proportional_law(lambda x: math.exp(-x * x / (2 * sigma2)), math.ceil(12 * sigma2**0.5))
    laws.assert_follows((gaussian_by_rejection(sigma2, bits) for bits in readers(3)), law)


@pytest.mark.parametrize("sampler", [laplace_by_rejection, gaussian_by_rejection])
@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf"), "1"])
def test_bad_scales_are_named(sampler, bad):
    with pytest.raises(ValueError, match=r"scale|sigma2"):
        sampler(bad, next(readers(1)))
