"""Decisions inside blocks and infinite runs: floats, higher precision and rationals agree."""

import itertools
from fractions import Fraction

import gmpy2
import numpy as np
import pytest

from dp_transforms.mechanisms import Eta
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.enclosure import Enclosure, Undecided
from dp_transforms.mechanisms.randomness import InsecureSeededTape
from dp_transforms.mechanisms.sampler import blocks as module
from dp_transforms.mechanisms.sampler.blocks import _Splitter, geometric, places, unbounded
from dp_transforms.mechanisms.sampler.float_transfer import FloatTransfer

ETAS = [Eta(1, 1, 1), Eta(3, 2, 1), Eta(1023, 10, 1)]
LENGTHS = [None, 2, 5, 64, 1000]


class Known:
    """A uniform number that is a rational."""

    def __init__(self, value):
        self._value = gmpy2.mpq(value)

    def prefix(self, bits):
        return int((self._value.numerator << bits) // self._value.denominator)

    def enclosure(self, bits):
        leading = self.prefix(bits)
        return Enclosure(gmpy2.mpq(leading, 2**bits), gmpy2.mpq(leading + 1, 2**bits))


def distribution(eta, factor, x, length):
    ratio = eta.base**factor
    return (1 - ratio**x) / (1 if length is None else 1 - ratio**length)


@pytest.mark.parametrize("eta", ETAS, ids=str)
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("factor", [1, 3])
def test_numbers_close_to_a_threshold(eta, length, factor):
    """Within 2**-50 .. 2**-400 of F(x), on either side."""
    decay = Decay(base=eta)
    for x, bits in itertools.product((1, 2, 4, 40), (50, 63, 65, 130, 400)):
        if length is not None and x >= length:
            continue
        threshold = distribution(eta, factor, x, length)
        tiny = gmpy2.mpq(1, 2**bits * 3)
        if threshold + tiny >= 1:
            continue
        assert geometric(decay, factor, Known(threshold - tiny), length) == x
        above = geometric(decay, factor, Known(threshold + tiny), length)
        assert above > x
        assert threshold + tiny < distribution(eta, factor, above, length)
        assert threshold + tiny >= distribution(eta, factor, above - 1, length)


@pytest.mark.parametrize("rate", [Fraction(1, 2), Fraction(1, 100)])
@pytest.mark.parametrize("length", LENGTHS)
def test_floats_say_what_higher_precision_says(monkeypatch, rate, length):
    decay, tape = Decay(rate), InsecureSeededTape(1)
    quick = [geometric(decay, 1, tape.uniform("places", i), length) for i in range(200)]
    monkeypatch.setattr(module, "_EXPM1_ERROR", 1.0)
    assert quick == [geometric(decay, 1, tape.uniform("places", i), length) for i in range(200)]
    assert len(set(quick)) > 1


def test_the_largest_float_below_one_is_no_special_case():
    """All of its leading 53 bits are ones."""
    decay = Decay(base=Eta(1, 1, 1))
    assert geometric(decay, 1, Known(1 - gmpy2.mpq(3, 2**62)), None) == 61


@pytest.mark.parametrize("rate", [Fraction(1, 2), Fraction(1, 50)])
def test_arrays_say_what_single_decisions_say(rate):
    decay, tape = Decay(rate), InsecureSeededTape(2)
    indices = np.arange(300)
    lengths = 1 + indices % 90
    found = places(decay, lengths, tape, "places", indices, tape.words("places", 300))
    single = [
        geometric(decay, 1, tape.uniform("places", i), n) for i, n in enumerate(lengths.tolist())
    ]
    assert found.tolist() == single
    factors = np.arange(1, 100)
    assert unbounded(decay, factors, tape, "tail").tolist() == [
        geometric(decay, factor, tape.uniform("tail", i))
        for i, factor in enumerate(factors.tolist())
    ]


def test_arrays_pass_on_what_floats_leave_open(monkeypatch):
    """Every number counts as too close to a threshold: the answers stay."""
    decay, tape = Decay(Fraction(1, 10)), InsecureSeededTape(3)
    lengths, indices = np.full(50, 30), np.arange(50)

    def both():
        words = tape.words("places", 50)
        found = places(decay, lengths, tape, "places", indices, words)
        return found.tolist(), unbounded(decay, indices + 1, tape, "tail").tolist()

    quick = both()
    monkeypatch.setattr(module, "_EXPM1_ERROR", 1.0)
    assert both() == quick


@pytest.mark.parametrize("rate", [Fraction(1, 4), Fraction(1, 40)])
def test_splits_of_a_block_at_every_precision(rate):
    """How many moves are in the first half: floats, and MPFR at 128 and 192 bits."""
    decay = Decay(rate)
    transfer = FloatTransfer(decay, 30)
    answers = set()
    for index, (near, far) in enumerate([(4, 4), (16, 17), (3, 40), (64, 64)] * 8):
        splitter = _Splitter(transfer, InsecureSeededTape(4), "splits 0")
        entered, moves = index % 9 - 6, 2 + index % 3
        quick = splitter._by_floats(index, near, far, entered, moves)
        for precision in (128, 192):
            assert splitter._precisely(index, near, far, entered, moves, precision) == quick
        answers.add(quick)
    assert len(answers) > 2


def test_a_split_that_floats_leave_open_is_made_all_the_same(monkeypatch):
    """Beyond the window of the transfer weights, for one."""
    decay = Decay(Fraction(1, 4))
    wide, narrow = (FloatTransfer(decay, window) for window in (40, 2))
    found = []
    for transfer in (wide, narrow):
        splitter = _Splitter(transfer, InsecureSeededTape(5), "splits 0")
        splitter.split(60, 5, 7, 0)
        found.append(splitter.places)
    assert found[0] == found[1]
    assert len(set(found[0])) == 7 and all(1 <= place <= 60 for place in found[0])
    monkeypatch.setattr(_Splitter, "_by_floats", lambda *_: (_ for _ in ()).throw(Undecided(1.0)))
    splitter = _Splitter(wide, InsecureSeededTape(5), "splits 0")
    splitter.split(60, 5, 7, 0)
    assert splitter.places == found[0]
