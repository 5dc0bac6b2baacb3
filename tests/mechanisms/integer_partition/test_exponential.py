"""The mechanism: its law, its levels of precision, square corners, and its errors."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from dp_transforms.mechanisms import Eta, FrequencyList, IntegerPartitionMechanism
from dp_transforms.mechanisms.randomness import InsecureSeededTape
from dp_transforms.mechanisms.sampler.levels import Level, Sampler
from dp_transforms.mechanisms.sampler.walk import Blocks
from tests import enumeration
from tests.cases import slow_unless
from tests.tapes import NearlyUndecidable


def mechanism(rate):
    """The mechanism with q = rate if that is an Eta, with q = e**-rate otherwise."""
    if isinstance(rate, Eta):
        return IntegerPartitionMechanism(eta=rate)
    return IntegerPartitionMechanism(epsilon=2 * rate)


LISTS = {
    "empty": enumeration.as_list(()),
    "two items": enumeration.as_list((3, 1)),
    "square": enumeration.as_list((2, 2, 2)),
    "stairs": enumeration.as_list((9, 9, 9, 4, 4, 1, 1, 1, 1, 1)),
    "long runs": FrequencyList([8000, 300, 1], [200, 9000, 6000]),
}
RATES = (Eta(1, 1, 1), Eta(3, 2, 1), 0.05, 0.02)
# Windows of small rates are wide, which makes the reference levels of long runs take minutes.
QUICK = [
    (name, rate) for name in LISTS for rate in RATES[: {"stairs": 3, "long runs": 2}.get(name, 4)]
]


@pytest.mark.parametrize(
    ("name", "rate"), slow_unless(itertools.product(LISTS, RATES), QUICK), ids=str
)
def test_every_level_gives_the_same_walk_from_the_same_tape(name, rate):
    sampler = Sampler(Blocks.of(LISTS[name]), mechanism(rate).decay)
    window = 2 * sampler.first_level.window
    levels = [Level(window), Level(2 * window), Level(window, 128), Level(window + 9, 256)]
    for seed in range(25):
        chains = [
            sampler.at_level(level).states(InsecureSeededTape(seed)).tolist() for level in levels
        ]
        assert all(chain == chains[0] for chain in chains)


@pytest.mark.parametrize("agreement", [60, 100, 200, 400])
def test_a_number_close_to_a_threshold_raises_the_level_and_not_the_answer(agreement):
    """The head's first threshold is exact here: f is empty, so Pr[a = 0] is 1 / sum A(a) B(a)."""
    base = Fraction(1, 2)
    total, weight = Fraction(0), Fraction(1)
    for a in range(60):
        total += weight
        weight *= base ** (2 * a + 1) / (1 - base ** (a + 1)) ** 2
    sampler = Sampler(Blocks.of(FrequencyList()), mechanism(Eta(1, 1, 1)).decay)
    tape = NearlyUndecidable(1, "head", 0, 1 / total, agreement)
    states = sampler.states(tape)
    highest = sampler.at_level(Level(40, 1024)).states(tape)
    assert states.tolist() == highest.tolist()
    used = [level.bits for level in sampler._levels]
    assert max(bits for bits in used if bits < 1024) > min(agreement, 128) // 2


@pytest.mark.parametrize("epsilon", [8, 1, 0.1, 0.02])
@pytest.mark.parametrize(
    "private",
    [
        FrequencyList([10**6], [10**6]),
        FrequencyList([10**9], [1]),
        FrequencyList([1], [10**9]),
        FrequencyList([5, 4, 3, 2, 1], [1] * 5),
        FrequencyList(),
    ],
    ids=["square", "one item", "singletons", "stairs", "empty"],
)
def test_square_corners(private, epsilon):
    sampler = Sampler(Blocks.of(private), mechanism(epsilon / 2).decay)
    distances = [
        sampler.release(InsecureSeededTape(seed)).l1_distance(private) for seed in range(50)
    ]
    # Each corner adds sum_n n q**n / (1 - q**n) or less: two of them, and the two infinite runs.
    q = np.exp(-epsilon / 2)
    corners = 2 * len(private) + 1
    one = sum(n * q**n / (1 - q**n) for n in range(1, 2000))
    assert np.mean(distances) <= 2 * corners * one + 1
    assert any(distances) or epsilon == 8


def test_release_is_a_function_of_the_tape():
    private = FrequencyList([100, 7, 1], [1, 30, 500])
    released = IntegerPartitionMechanism(epsilon=1)
    first = released.release(private, InsecureSeededTape(5))
    assert first == released.release(private, InsecureSeededTape(5))
    assert released.release_many(private, 2, iter(map(InsecureSeededTape, (5, 6))))[0] == first
    assert len({released.release(private) for _ in range(20)}) > 1


def test_sensitivity_divides_the_rate():
    private = FrequencyList([100, 7, 1], [1, 30, 500])
    one = IntegerPartitionMechanism(epsilon=0.5).release(private, InsecureSeededTape(1))
    four = IntegerPartitionMechanism(epsilon=2.0, sensitivity=4)
    assert four.release(private, InsecureSeededTape(1)) == one


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"epsilon": float("inf")}, "epsilon"),
        ({"epsilon": 1e-12}, "epsilon"),
        ({"epsilon": 1.0, "sensitivity": 0}, "sensitivity"),
        ({"epsilon": 1.0, "sensitivity": 1.5}, "sensitivity"),
        ({"epsilon": 1.0, "eta": Eta(1, 1, 1)}, "eta"),
    ],
    ids=str,
)
def test_bad_parameters_are_named(arguments, named):
    with pytest.raises(ValueError, match=named):
        IntegerPartitionMechanism(**arguments)
