import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_transforms.mechanisms.enclosure import Undecided
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.partition.walk.walk import Blocks, choose
from dp_transforms.mechanisms.partition_bounds import PartitionBounds

counts = st.lists(st.integers(1, 9), max_size=8)


def bits(values, low, high):
    """b_x(c) for c in [low, high), from the definition."""
    ends = {value - rank for rank, value in enumerate(sorted(values, reverse=True), 1)}
    return {c: c in ends or c < -len(values) for c in range(low, high)}


@given(counts, counts)
def test_the_moves_of_any_partition_give_it_back(private, released):
    old, new = bits(private, -40, 40), bits(released, -40, 40)
    flips = np.array([c for c in old if old[c] != new[c]], dtype=np.int64)
    flipped = Blocks.of(FrequencyList.from_counts(private)).flipped(flips)
    assert flipped == FrequencyList.from_counts(released)


@given(st.lists(st.integers(1, 10**12), max_size=5), st.integers(65, 10**7))
def test_blocks_cover_the_runs(values, long):
    runs = Blocks.of(FrequencyList.from_counts(values))
    blocks = runs.cut(long)
    for cover in (runs, blocks):
        assert cover.lengths[cover.bits == 1].sum() == len(values)
        assert cover.lengths[cover.bits == 0].sum() == max(values, default=0)
    ends, cuts = runs.lengths.cumsum(), blocks.lengths.cumsum()
    assert np.isin(ends, cuts).all()
    for run, end in zip(runs.lengths.tolist(), ends.tolist(), strict=True):
        inside = ((cuts <= end) & (cuts > end - run)).sum()
        assert inside == 1 if run <= 64 or run >= long else inside <= run.bit_length()


def test_walls_are_known_wherever_a_run_is_cut():
    """They are those of the list between bounds whose every value is a run of its own."""
    private = FrequencyList([900, 20], [100, 300])
    bounds = PartitionBounds.of_runs([700, 0], [1000, 500], [150, 400])
    coarse = Blocks.of(private, bounds)
    fine = coarse.cut()
    few, many = (np.append(0, blocks.lengths.cumsum()) for blocks in (coarse, fine))
    assert set(few) < set(many)
    for side in ("lowest", "highest"):
        # These are integers.
        between = np.interp(many, few, getattr(coarse, side))
        assert getattr(fine, side) == pytest.approx(between, abs=1e-9)


def test_a_choice_is_made_only_where_it_is_certain():
    lo, hi = [0.25, 0.5, 1.0], [0.3, 0.5, 1.0]
    assert choose(0.2, 0.25, lo, hi) == 0
    assert choose(0.3, 0.31, lo, hi) == 1
    assert choose(0.5, 0.51, lo, hi) == 2
    for lower, upper in [(0.2, 0.26), (0.29, 0.31), (0.49, 0.51)]:
        with pytest.raises(Undecided):
            choose(lower, upper, lo, hi)
    with pytest.raises(Undecided):
        choose(0.9, 0.91, [0.5], [0.5])
