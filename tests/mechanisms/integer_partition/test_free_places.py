"""Lists of a public total, with places of moves integrated out: the law is that of enumeration."""

import itertools

import pytest

from dp_transforms.mechanisms import Eta, ExactTotalMechanism, FrequencyList
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.integer_partition.free_places import FreePlaces, composition
from dp_transforms.mechanisms.randomness import InsecureSeededTape
from dp_transforms.mechanisms.sampler.levels import Sampler
from dp_transforms.mechanisms.sampler.walk import Blocks
from tests import enumeration
from tests.statistical import laws

ETA = Eta(1, 1, 1)


def attempts(free, excess):
    """Walks that were accepted, from as many tapes as that takes."""
    for seed in itertools.count():
        walk = free.attempt(excess, InsecureSeededTape(seed))
        if walk is not None:
            yield walk


CASES = [
    # K moves in a run of zeros and back in one of ones, in all blocks or in the first few.
    ((5, 5, 5), 0, 1, 3, 4),
    ((5, 5, 5), 2, 1, 2, 2),
    ((6, 3, 3), 1, 2, 1, 4),
    ((6, 4, 2), 0, 2, 2, 5),
    # No walk has so many.
    ((3, 1), 1, 3, 3, 4),
]


@pytest.mark.parametrize(("target", "excess", "number", "length", "blocks"), CASES, ids=str)
def test_walks_have_the_law_of_enumeration(target, excess, number, length, blocks):
    check(target, excess, number, length, blocks, 150)


@pytest.mark.law
@pytest.mark.parametrize(("target", "excess", "number", "length", "blocks"), CASES, ids=str)
def test_5000_walks_of_each(target, excess, number, length, blocks):
    check(target, excess, number, length, blocks, 5000)


def check(target, excess, number, length, blocks, draws):
    total = sum(target) + excess
    law = enumeration.law(
        ETA.base, target, enumeration.partitions_of_at_most(total), lambda x: sum(x) == total
    )
    sampler = Sampler(Blocks.of(enumeration.as_list(target)), Decay(base=ETA))
    free = FreePlaces(sampler, number, length, blocks)
    found = itertools.islice(attempts(free, excess), draws)
    laws.assert_follows([walk.applied_to(sampler.blocks) for walk in found], law)


def test_compositions_are_uniform():
    expected = [parts for parts in itertools.product(range(1, 6), repeat=3) if sum(parts) == 7]
    found = [tuple(composition(7, 3, InsecureSeededTape(seed)).tolist()) for seed in range(1500)]
    laws.assert_follows(found, {parts: 1 / len(expected) for parts in expected})


@pytest.mark.slow
def test_a_long_list_needs_few_attempts():
    """A walk has this excess with a probability of about 1/300; four places are free."""
    eta, private = Eta(3, 2, 1), FrequencyList(range(6000, 0, -50), [5] * 120)
    sampler = Sampler(Blocks.of(private), Decay(base=eta))
    free = FreePlaces.suited_to(sampler)
    assert free is not None and free._most < 1 / 8
    walks = list(itertools.islice(attempts(free, 5), 3))
    assert [walk.excess(sampler.blocks) for walk in walks] == [5, 5, 5]
    mechanism = ExactTotalMechanism(total=private.total + 5, eta=eta)
    assert mechanism.release(private, InsecureSeededTape(0)).total == private.total + 5
