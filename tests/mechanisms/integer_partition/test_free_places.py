"""Lists of a public total, with places of moves integrated out: the law is that of enumeration."""

import itertools

import numpy as np
import pytest

from dp_transforms.mechanisms import Eta, ExactTotalMechanism, FrequencyList
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.integer_partition.free_places import FreePlaces, composition
from dp_transforms.mechanisms.randomness import InsecureSeededTape
from dp_transforms.mechanisms.sampler import walk
from dp_transforms.mechanisms.sampler.levels import Sampler
from dp_transforms.mechanisms.sampler.walk import Blocks
from tests import enumeration
from tests.statistical import laws
from tests.statistical.draws import RELEASES

ETA = Eta(1, 1, 1)


def attempts(free, excess):
    """Walks that were accepted, from as many tapes as that takes."""
    tries = (free.attempt(excess, InsecureSeededTape(seed)) for seed in itertools.count())
    yield from (found for found in tries if found is not None)


CASES = [
    # K moves in a run of zeros and back in one of ones, in all runs or in the first few.
    ((5, 5, 5), 1, 1, 3, 4),
    ((5, 5, 5), 2, 1, 2, 2),
    ((6, 3, 3), 1, 2, 1, 4),
    ((6, 4, 2), 0, 2, 2, 5),
    # No walk has so many.
    ((3, 1), 1, 3, 3, 4),
]


@pytest.mark.parametrize(("target", "excess", "number", "length", "runs"), CASES, ids=str)
def test_walks_have_the_law_of_enumeration(target, excess, number, length, runs):
    check(target, excess, number, length, runs, 150)


def test_walks_with_free_places_have_their_share():
    target, length = (4, 4), 2
    private = enumeration.as_list(target)
    law = enumeration.law(
        ETA.base, target, enumeration.partitions_of_at_most(9), lambda x: sum(x) == 9
    )
    share = sum(chance for x, chance in law.items() if free_runs(private, x, length))
    sampler = Sampler(Blocks.of(private), Decay(base=ETA))
    found = itertools.islice(attempts(FreePlaces(sampler, 1, length, 2), 1), 200)
    have_one = [free_runs(private, one.applied_to(sampler.blocks), length) > 0 for one in found]
    laws.assert_follows(have_one, {True: share, False: 1 - share})


def free_runs(private, released, length):
    """How many runs of at least this length have one move, above zero: by D on the diagonals."""

    def cells(frequency_list, diagonal):
        counts = np.repeat(frequency_list.frequencies, frequency_list.multiplicities)
        counts = np.append(counts, np.zeros(40, dtype=np.int64))
        return (counts - np.arange(1, len(counts) + 1) >= diagonal).sum()

    runs = Blocks.of(private)
    ends = runs.top - np.append(0, runs.lengths.cumsum())
    d = [cells(released, end) - cells(private, end) for end in ends]
    return sum(
        run >= length and {before, after} in ({n, n + 1} for n in range(20))
        for run, before, after in zip(runs.lengths, d[:-1], d[1:], strict=True)
    )


@pytest.mark.parametrize(
    ("target", "excess", "number", "length", "runs"),
    [((5, 5, 5), 1, 1, 4, 2), ((7, 2), 1, 2, 1, 4)],
)
def test_runs_may_be_cut(target, excess, number, length, runs, monkeypatch):
    monkeypatch.setattr(walk, "SHORT", 2)
    blocks = Blocks.of(enumeration.as_list(target)).cut()
    assert len(blocks) > (blocks.run_lengths > 0).sum()
    check(target, excess, number, length, runs, 150)


@pytest.mark.law
@pytest.mark.parametrize(("target", "excess", "number", "length", "runs"), CASES, ids=str)
def test_many_walks_of_each(target, excess, number, length, runs):
    check(target, excess, number, length, runs, RELEASES // 2)


def check(target, excess, number, length, runs, draws):
    total = sum(target) + excess
    law = enumeration.law(
        ETA.base, target, enumeration.partitions_of_at_most(total), lambda x: sum(x) == total
    )
    sampler = Sampler(Blocks.of(enumeration.as_list(target)), Decay(base=ETA))
    free = FreePlaces(sampler, number, length, runs)
    found = itertools.islice(attempts(free, excess), draws)
    laws.assert_follows([one.applied_to(sampler.blocks) for one in found], law)


def test_compositions_are_uniform():
    expected = [parts for parts in itertools.product(range(1, 6), repeat=3) if sum(parts) == 7]
    found = [tuple(composition(7, 3, InsecureSeededTape(seed)).tolist()) for seed in range(1500)]
    laws.assert_follows(found, {parts: 1 / len(expected) for parts in expected})


@pytest.mark.slow
def test_a_long_list_needs_few_attempts():
    """A walk has this excess with a probability of about 1/300."""
    eta, private = Eta(3, 2, 1), FrequencyList(range(6000, 0, -50), [5] * 120)
    sampler = Sampler(Blocks.of(private), Decay(base=eta))
    free = FreePlaces.suited_to(sampler)
    assert free is not None and free._most < 1 / 8
    found = list(itertools.islice(attempts(free, 5), 3))
    assert [one.excess(sampler.blocks) for one in found] == [5, 5, 5]
    mechanism = ExactTotalMechanism(total=private.total + 5, eta=eta)
    assert mechanism.release(private, InsecureSeededTape(0)).total == private.total + 5
