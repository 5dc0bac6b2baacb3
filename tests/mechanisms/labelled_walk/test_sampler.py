"""Floats and numbers of any precision give the same answers from the same tape."""

from fractions import Fraction

import numpy as np
import pytest

from dp_transforms.mechanisms import FrequencyList, PartitionBounds
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.enclosure import Undecided
from dp_transforms.mechanisms.integer_partition.corner_price import rate_of
from dp_transforms.mechanisms.labelled_walk.filling import Side
from dp_transforms.mechanisms.labelled_walk.float_walk import UNSETTLED, Part
from dp_transforms.mechanisms.labelled_walk.precise import Precise, mirrored
from dp_transforms.mechanisms.labelled_walk.runs import Run
from dp_transforms.mechanisms.labelled_walk.sampler import CornerSampler
from dp_transforms.mechanisms.randomness import InsecureSeededTape
from dp_transforms.mechanisms.sampler.walk import Blocks, choose
from dp_transforms.mechanisms.sampler.walls import walled_blocks
from tests import enumeration
from tests.tapes import NearlyUndecidable

LISTS = {
    "empty": FrequencyList(),
    "stairs": enumeration.as_list((9, 9, 9, 4, 4, 1, 1, 1, 1, 1)),
    "long runs": FrequencyList([8000, 300, 1], [200, 9000, 6000]),
    "square": FrequencyList([10**6], [10**6]),
}


def sampler(private, epsilon="1", bounds=None):
    blocks = Blocks.of(private) if bounds is None else walled_blocks(private, bounds)
    return CornerSampler(blocks, Decay(rate_of(Fraction(epsilon))))


def undecided(*_):
    raise Undecided


def check_precise_numbers_give_the_same_states(drawn, monkeypatch):
    tapes = [InsecureSeededTape(seed) for seed in range(2)]
    expected = [drawn.states(tape).tolist() for tape in tapes]
    monkeypatch.setattr(Part, "states", lambda *_: None)
    monkeypatch.setattr(drawn._walk, "head", undecided)
    monkeypatch.setattr(drawn._walk, "shares", undecided)
    assert [drawn.states(tape).tolist() for tape in tapes] == expected


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("epsilon", ["1", "0.55"])
def test_precise_numbers_give_the_same_states(name, epsilon, monkeypatch):
    check_precise_numbers_give_the_same_states(sampler(LISTS[name], epsilon), monkeypatch)


def test_precise_numbers_give_the_same_states_between_walls(monkeypatch):
    private = LISTS["stairs"]
    drawn = sampler(private, bounds=PartitionBounds.around(private, 2))
    check_precise_numbers_give_the_same_states(drawn, monkeypatch)


def test_floats_that_know_nothing_leave_all_to_precise_numbers():
    """Which then do without messages in floats, up to the end of the list."""
    drawn = sampler(LISTS["long runs"])
    expected = drawn.states(InsecureSeededTape(0)).tolist()
    walk = drawn._walk
    walk.messages *= 2.0**-200
    for index in range(len(walk.messages)):
        walk._rescale(index)
    assert not walk.messages[:, 0].any() and walk.messages[:, 1].max() == pytest.approx(1, abs=0.5)
    assert drawn.states(InsecureSeededTape(0)).tolist() == expected


def test_questions_of_all_blocks_at_once_are_answered_as_one_by_one():
    drawn = sampler(
        FrequencyList(range(150, 0, -1), [1, 2, 5, 70, 3, 400] + [1, 2, 5, 70, 3, 1] * 24)
    )
    count = len(drawn._runs)
    random = np.random.default_rng(1)
    settled = 0
    lower = np.floor(random.random(count) * 2**53) * 2.0**-53
    part = Part(drawn._walk, 0, lower, lower + 2.0**-53)
    for code in range(-8, 9):
        found = part.states(code)
        if found is None:
            continue
        for index, answer in enumerate(found):
            if answer != UNSETTLED:
                low = lower.item(index)
                shares = drawn._walk.shares(index, code)
                assert answer == 3 * (code // 3) + choose(low, low + 2.0**-53, *shares)
                settled += 1
    assert settled > 10 * count


@pytest.mark.parametrize("agreement", [60, 150, 400])
@pytest.mark.parametrize(("channel", "index"), [("head", 0), ("moves", 2)])
def test_a_number_close_to_a_threshold_takes_more_precision(agreement, channel, index):
    """Its first bits leave the answer open; rounded down, it is below the threshold."""
    drawn = sampler(LISTS["stairs"])
    states = drawn.states(InsecureSeededTape(3))
    level = drawn._filler.precise(1024, drawn._transfer.window)
    turned = channel == "moves" and drawn._bits.item(index)
    if channel == "head":
        left, right, first = level.leaving(2**62), drawn._message(level, 0), 0
    else:
        code = states.item(index)
        seen = 2 - code if turned else code
        first = 3 * (seen // 3)
        left = level.forward(drawn._runs[index], level.single(seen))
        right = drawn._message(level, index + 1)
        if turned:
            right = mirrored(right)
    lo, hi = level.shares(first, left, right)
    assert hi[1] - lo[1] < 2.0**-900
    threshold = Fraction(*map(int, lo[1].as_integer_ratio()))
    found = drawn.states(NearlyUndecidable(3, channel, index, threshold, agreement))
    answer = found.item(0 if channel == "head" else index + 1)
    assert (2 - answer if turned else answer) == first + 1
    used = max(bits for bits, _ in drawn._filler._precise if bits < 1024)
    assert used > min(agreement, 128) // 2


def test_states_inside_long_runs_are_at_zero_or_take_more_precision():
    drawn = sampler(LISTS["long runs"])
    run = Run(5000)
    left, right = Side(run, -2 * 3 + 1), Side(run, 2 * 3 + 1)
    lo, hi = drawn._filler.float_shares(-6, left, right)
    # At D = 0, one of the two kinds behind zeros.
    assert hi[5] < 1e-15 and lo[7] > 1 - 1e-12
    assert abs(lo[6] - 0.5) < 1e-12
    level = drawn._filler.precise(128)
    precise = level.shares(-6, *drawn._filler.vectors(level, left, right))
    assert all(a <= b for a, b in zip(precise[0], hi, strict=False))
    with pytest.raises(Undecided):
        drawn._filler.float_shares(-6, Side(run, -3 * 2), Side(run, -3))


def test_enclosures_on_a_narrow_window_contain_those_on_a_wide_one():
    """Next to a square corner, where walks beyond the narrow window weigh about as much."""
    decay = Decay(Fraction(29, 100))
    coarse, fine = Precise(decay, 16), Precise(decay, 200)
    vectors = []
    for level in (coarse, fine):
        message = mirrored(level.settling(-(2**62)))
        message = mirrored(level.backward(Run(40), mirrored(message)))
        message = level.backward(Run(2), message)
        vectors.append([bound.astype(float) for bound in message])
    (lower, upper), (exact, _) = vectors
    for state in range(-2, coarse.window + 1):
        for kind in range(3):
            here, there = coarse.window + 1 + state, fine.window + 1 + state
            ratio = exact[there, kind] / exact[fine.window + 1, 1]
            centre = coarse.window + 1
            assert lower[here, kind] / upper[centre, 1] <= ratio * (1 + 1e-9)
            assert ratio <= upper[here, kind] / lower[centre, 1] * (1 + 1e-9)
    assert upper[-2, 1] > 1.1 * lower[-2, 1]
