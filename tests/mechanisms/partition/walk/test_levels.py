import contextlib
import itertools
from fractions import Fraction
from unittest import mock

import gmpy2
import pytest

from dp_transforms.mechanisms import Eta, FrequencyList, IntegerPartitionMechanism, PartitionBounds
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.enclosure import Undecided
from dp_transforms.mechanisms.partition.walk import levels
from dp_transforms.mechanisms.partition.walk.levels import Level, LookingAhead, Sampler
from dp_transforms.mechanisms.partition.walk.walk import Blocks
from tests.cases import slow_unless, thorough_unless
from tests.tapes import InsecureSeededTape, NearlyUndecidable
from tests.walk_reference import WalkReference

STAIRS = FrequencyList(range(12, 0, -1), [1] * 12)
BLOCKS = {
    "empty": Blocks.of(FrequencyList()),
    "stairs": Blocks.of(STAIRS).cut(),
    "one": Blocks.of(FrequencyList([500], [1])).cut(),
    "square": Blocks.of(FrequencyList([600], [600])).cut(),
    "many lengths": Blocks.of(FrequencyList([900, 899, 170, 9], [1, 60, 700, 500])).cut(),
    # At rates from 1/4 on these are long.
    "long": Blocks.of(FrequencyList([900, 500, 499, 90], [600, 1, 800, 700])),
    "walls far apart, close, and shut": Blocks.of(
        FrequencyList([600, 50, 4, 1], [1, 30, 70, 200]),
        PartitionBounds.of_runs(
            [500, 30, 41, 40, 4, 0, 0], [900, 520, 480, 90, 4, 2, 1], [2, 20, 5, 3, 30, 90, 300]
        ),
    ),
    "walls that are not felt": Blocks.of(STAIRS, PartitionBounds(beyond=90, unbounded_ranks=90)),
}
# By rates c. Next to a large corner the walk is near ln(2) / c: 35 and 14 at the second and third.
WINDOWS = {"1/1000": 90, "1/50": 60, "1/20": 24, "1/4": 14, "10": 8}
CASES = [("stairs", "1/1000"), *itertools.product(BLOCKS, ["1/50", "1/20", "1/4", "10"])]
QUICK = [("stairs", "1/1000"), ("stairs", "1/50"), ("many lengths", "1/20"), ("long", "10")]
QUICK += [(name, "1/4") for name in BLOCKS if name != "long"]


@pytest.mark.parametrize(("name", "rate"), slow_unless(CASES, QUICK), ids=str)
def test_messages_and_thresholds_are_those_of_the_recurrence(name, rate):
    """Where the window is too narrow for a message its bounds are far apart, and still true. Far
    from zero they are close to underflow: an upper bound of 0 would be wrong."""
    blocks, decay, window = BLOCKS[name], Decay(Fraction(rate)), WINDOWS[rate]
    level, exact = Level(blocks, decay, window), WalkReference(blocks, decay, 5 * window // 2)
    tight = narrow = 0
    for index in range(len(blocks) + 1):
        beta = exact.messages[index][exact.window - window : exact.window + window + 1]
        with contextlib.suppress(Undecided):
            for (lo, hi), value in zip(level.messages(index, window), beta, strict=True):
                assert lo <= value <= hi
                tight += hi == 0 or lo > 0.999 * hi
    assert tight > 0.4 * (2 * window + 1) * (len(blocks) + 1) or name == "square"
    # Of a few blocks, for all states from which a walk comes back to zero.
    few = range(0, len(blocks), max(1, len(blocks) // 6))
    for index, state in [(-1, 0), *itertools.product(few, range(-window, window + 1, 3))]:
        if index >= 0 and not exact.messages[index][exact.window + state]:
            continue
        lower, upper = level.thresholds(index, state)
        probabilities = exact.thresholds(index, state, len(lower))
        for lo, value, hi in zip(lower, probabilities, upper, strict=False):
            # Bounds that are not numbers say nothing.
            assert not lo > value and not hi < value, (index, state)
            narrow += hi - lo < 2.0**-40
    assert narrow > 0


LISTS = {
    "empty": Blocks.of(FrequencyList()),
    "stairs": Blocks.of(FrequencyList([9, 4, 1], [3, 2, 5])),
    "square": Blocks.of(FrequencyList([30], [40])),
    "long runs": Blocks.of(FrequencyList([8000, 300, 1], [200, 9000, 6000])),
    "walls": Blocks.of(
        FrequencyList([60, 50, 4, 1], [1, 30, 7, 9]),
        PartitionBounds.of_runs([50, 30, 4, 0, 0], [90, 52, 9, 2, 1], [2, 20, 5, 9, 300]),
    ),
}
PARAMETERS = [{"eta": Eta(1, 1, 1)}, {"eta": Eta(3, 2, 1)}, {"epsilon": 0.1}, {"epsilon": 0.04}]


@pytest.mark.parametrize(
    ("name", "parameters"),
    [(name, PARAMETERS[(i + j) % 4]) for i, name in enumerate(LISTS) for j in (0, 2)],
    ids=str,
)
def test_every_level_gives_the_same_states_from_the_same_tape(monkeypatch, name, parameters):
    """From windows that are too narrow up to wide ones, and with no help from floats."""
    decay = IntegerPartitionMechanism(**parameters).decay
    tapes = list(map(InsecureSeededTape, range(25)))
    sampler, narrow, wide = (Sampler(LISTS[name], decay) for _ in range(3))
    narrow.window, wide.window = 4, 2 * sampler.window
    expected = [sampler.states(tape).tolist() for tape in tapes]
    for other in (narrow, wide):
        assert [other.states(tape).tolist() for tape in tapes] == expected
    if name in ("square", "long runs") and parameters == {"epsilon": 0.04}:
        return  # On windows of 100 states it takes a minute to settle all of them ahead.
    # Each question is settled by looking ahead.
    monkeypatch.setattr(levels, "choose", mock.Mock(side_effect=Undecided(0.0)))
    monkeypatch.setattr(levels, "_AT_ONCE", 10**6)
    level = Level(sampler.blocks, decay, sampler.window, 192)
    assert [level.states(tape).tolist() for tape in tapes[:2]] == expected[:2]


AHEAD = {
    "stairs": (LISTS["stairs"], 200),
    # The walk is near 25 there, where the first window to look ahead on is narrow.
    "corner": (Blocks.of(FrequencyList([60], [60])), 36),
    "squares": (Blocks.of(FrequencyList([30, 20], [40, 30])), 500),
    "walls": (LISTS["walls"], 25),
    "long runs": (Blocks.of(FrequencyList([1000, 99, 98], [300, 1, 900])), 12),
}


@pytest.mark.parametrize("name", thorough_unless(AHEAD, ["stairs", "corner", "walls"]))
def test_numbers_beside_a_threshold_are_settled_ahead(name):
    """Numbers are within 2**-60 of a threshold: those above it make one move more."""
    blocks, inverse_rate = AHEAD[name]
    decay = Decay(Fraction(1, inverse_rate))
    sampler = Sampler(blocks, decay)
    states = [0, *sampler.states(InsecureSeededTape(1)).tolist()]
    exact = WalkReference(sampler.blocks, decay, 5 * sampler.window // 2)
    real, asked = LookingAhead.settle, 0
    for index, state in enumerate(states[:-1], -1):
        channel = ("head", 0) if index < 0 else ("moves", index)
        probabilities = exact.thresholds(index, state, 40)
        likely = [j for j, p in enumerate(probabilities) if 0.05 < p < 0.95]
        if not likely or asked == 2:
            continue
        for above in (0, 1):
            number = gmpy2.mpq(probabilities[likely[0]]) + gmpy2.mpq(2 * above - 1, 2**60)
            tape = NearlyUndecidable(1, *channel, number, 96)
            with mock.patch.object(LookingAhead, "settle", autospec=True, side_effect=real) as spy:
                drawn = [0, *sampler.states(tape).tolist()]
            assert spy.call_count
            assert abs(drawn[index + 2] - drawn[index + 1]) == likely[0] + above
        asked += 1
    assert asked == 2


@pytest.mark.parametrize("agreement", [60, 100, 200, 400])
def test_a_number_close_to_a_threshold_raises_the_bits_and_not_the_answer(agreement):
    """The head's first threshold is exact here: f is empty, so Pr[a = 0] is 1 / sum A(a) B(a)."""
    base, total, weight = Fraction(1, 2), Fraction(0), Fraction(1)
    for a in range(60):
        total += weight
        weight *= base ** (2 * a + 1) / (1 - base ** (a + 1)) ** 2
    for above in (0, 1):
        sampler = Sampler(LISTS["empty"], IntegerPartitionMechanism(eta=Eta(1, 1, 1)).decay)
        tape = NearlyUndecidable(1, "head", 0, 1 / total + Fraction(above, 2**agreement), agreement)
        assert (sampler.states(tape).item() > 0) == above
        assert sampler._level.bits >= agreement or agreement < 128
