"""Properties of frequency lists, the unrestricted mechanism, and what is computed about it."""

import math
import pickle

import gmpy2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_transforms import evaluation
from dp_transforms.mechanisms import FrequencyList, IntegerPartitionMechanism
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.partition.distributions import expected_l1
from dp_transforms.mechanisms.randomness import is_below
from tests.enumeration import conjugate, l1_distance
from tests.list_strategies import frequency_lists
from tests.row_distribution import RowDistribution
from tests.tapes import InsecureSeededTape

small_counts = st.lists(st.integers(1, 12), max_size=10)
seeds = st.integers(0, 10**6)
few = settings(max_examples=15)


@given(frequency_lists())
def test_a_list_has_many_forms(tmp_path_factory, private):
    frequencies, multiplicities = private.frequencies, private.multiplicities
    assert private == FrequencyList.from_runs(frequencies, multiplicities)
    twice = np.repeat(frequencies, 2), np.repeat(multiplicities, 2)
    assert FrequencyList.from_runs(*twice) == FrequencyList(frequencies, 2 * multiplicities)
    copy = pickle.loads(pickle.dumps(private))
    assert copy == private and hash(copy) == hash(private)
    path = tmp_path_factory.mktemp("lists") / "list.csv"
    private.to_csv(path)
    assert FrequencyList.from_csv(path) == private
    assert private.total == sum(v * m for v, m in private)
    assert len(private) * (len(private) + 1) <= 2 * private.total


@pytest.mark.thorough
@given(frequency_lists(), frequency_lists(), frequency_lists())
def test_l1_is_a_metric_that_conjugation_keeps(a, b, c):
    assert a.l1_distance(b) == b.l1_distance(a)
    assert (a.l1_distance(b) == 0) == (a == b)
    assert a.l1_distance(c) <= a.l1_distance(b) + b.l1_distance(c)
    assert abs(a.total - b.total) <= a.l1_distance(b)
    assert conjugate(a).l1_distance(conjugate(b)) == a.l1_distance(b)
    assert conjugate(conjugate(a)) == a


@given(small_counts, small_counts)
def test_l1_is_that_of_the_sorted_counts(a, b):
    distance = FrequencyList.from_counts(a).l1_distance(FrequencyList.from_counts(b))
    assert distance == l1_distance(sorted(a, reverse=True), sorted(b, reverse=True))


@few
@given(frequency_lists(), st.sampled_from([0.1, 0.5, 1.0, 4.0]), seeds)
def test_a_release_is_a_function_of_the_tape(private, epsilon, seed):
    mechanism = IntegerPartitionMechanism(epsilon=epsilon)
    tapes = [InsecureSeededTape(seed), InsecureSeededTape(seed + 1)]
    released = mechanism.release_many(private, 2, iter(tapes))
    assert released == [mechanism.release(private, tape) for tape in tapes]
    # Each corner moves by a few times 1 / epsilon; this is far more.
    spread = 8 * len(private) * math.log(10**9) + 4 * math.pi**2 / epsilon + 200
    assert released[0].l1_distance(private) < 2 / epsilon * spread


@few
@given(frequency_lists(), seeds.map(InsecureSeededTape), st.sampled_from([200, 2**16]))
def test_without_noise_the_list_comes_back(private, tape, epsilon):
    """At q = e**-100 a move has a probability of about e**-100 at each corner."""
    assert IntegerPartitionMechanism(epsilon=epsilon).release(private, tape) == private


@few
@given(small_counts, st.sampled_from([0.1, 0.5, 2.0]))
def test_expectations_are_those_of_the_rows(counts, rate):
    rows = RowDistribution(sorted(counts, reverse=True), math.exp(-rate), int(40 / rate) + 30)
    assert expected_l1(FrequencyList.from_counts(counts), rate) == pytest.approx(rows.expected_l1)


@few
@given(frequency_lists(), st.sampled_from([0.5, 1.0, 4.0]))
def test_expectations_do_not_change_under_conjugation(private, epsilon):
    mechanism = IntegerPartitionMechanism(epsilon=epsilon)
    expected = evaluation.expected_l1(mechanism, private)
    assert expected == pytest.approx(evaluation.expected_l1(mechanism, conjugate(private)))
    dearer = IntegerPartitionMechanism(epsilon=1.5 * epsilon)
    assert expected > evaluation.expected_l1(dearer, private)


@given(st.fractions(min_value="1/1000", max_value=20), st.integers(-50, 10**6))
def test_powers_are_enclosed(rate, exponent):
    decay = Decay(rate)
    lo, hi = decay.power(exponent, 128)
    with gmpy2.context(precision=400, emin=gmpy2.get_emin_min(), emax=gmpy2.get_emax_max()):
        exact = gmpy2.exp(-gmpy2.mpfr(gmpy2.mpq(rate) * exponent))
        width = gmpy2.mpfr(2) ** -124 * (1 + abs(exponent) * gmpy2.mpq(rate))
        assert lo <= exact <= hi <= lo * (1 + width)
        if exponent >= 0:
            low, high = decay.one_minus_power(exponent, 128)
            assert low <= 1 - exact <= high


@given(seeds, st.integers(0, 200), st.integers(1, 300))
def test_a_tape_gives_each_number_one_value(seed, index, bits):
    tape = InsecureSeededTape(seed)
    uniform = tape.uniform("numbers", index)
    word = int(tape.words("numbers", index + 1)[index])
    assert word == int(tape.words("numbers", 1, start=index)[0]) == uniform.prefix(64)
    assert uniform.prefix(bits + 64) >> bits == word
    lo, hi = uniform.enclosure(bits)
    assert lo <= gmpy2.mpq(uniform.prefix(400), gmpy2.mpz(1) << 400) < hi
    assert is_below(uniform, lambda _: (hi, hi)) and not is_below(uniform, lambda _: (lo, lo))
