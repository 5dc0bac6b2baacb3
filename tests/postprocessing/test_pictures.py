import numpy as np
import pytest

from dp_transforms.mechanisms import (
    FrequencyList,
    IntegerPartitionMechanism,
    PartitionBounds,
    ReleasedList,
)
from dp_transforms.postprocessing.estimates import GRID
from dp_transforms.postprocessing.walk_intervals import WalkIntervals
from dp_transforms.reports.lists import plot_list
from tests.tapes import InsecureSeededTape

PRIVATE = FrequencyList([90210, 31, 1], [1, 2, 777])
MECHANISM = IntegerPartitionMechanism(epsilon=0.5, sensitivity=2)
RELEASED = MECHANISM.release(PRIVATE, InsecureSeededTape(1))


def test_the_picture_has_the_proven_error_bars(tmp_path):
    axes = plot_list(RELEASED, tmp_path / "list.png").axes[0]
    assert (tmp_path / "list.png").read_bytes().startswith(b"\x89PNG")
    lower, upper = WalkIntervals(RELEASED, MECHANISM.distribution).bands(0.99)
    ranks = GRID[GRID <= upper.distinct]
    lower, upper = np.maximum(lower.at_ranks(ranks), 0.5), upper.at_ranks(ranks)
    (band,) = axes.collections
    corners = set(map(tuple, band.get_paths()[0].vertices.tolist()))
    assert {*zip(ranks, lower, strict=True), *zip(ranks, upper, strict=True)} <= corners
    (line,) = axes.lines
    drawn = dict(line.get_xydata().tolist())
    ends = RELEASED.multiplicities.cumsum().tolist()
    assert [drawn[end] for end in ends] == RELEASED.frequencies.tolist()


def test_a_released_list_shows_itself(tmp_path):
    assert RELEASED.plot(confidence=0.9).axes[0].collections
    RELEASED.plot(tmp_path / "list.png")
    table = RELEASED.to_arrow()
    assert table.to_pydict() == RELEASED.to_dict()
    assert table.schema.metadata[b"epsilon"] == b"0.5"
    assert ReleasedList().to_arrow().schema.types == table.schema.types
    for private_has_none in ("plot", "to_arrow", "to_pandas", "to_dict", "cost"):
        assert not hasattr(PRIVATE, private_has_none)
    pytest.importorskip("pandas")
    frame = RELEASED.to_pandas()
    assert frame.to_dict("list") == RELEASED.to_dict()
    assert frame.attrs == RELEASED.cost
    assert ReleasedList().to_pandas().dtypes.tolist() == frame.dtypes.tolist()


def test_what_is_known_of_one_mechanism_s_noise_is_not_drawn_around_another_s():
    bounds = PartitionBounds(upper=FrequencyList([100_000], [900]))
    other = IntegerPartitionMechanism(epsilon=1, bounds=bounds).release(PRIVATE)
    for released in (other, ReleasedList(), ReleasedList([3, 1], [1, 2])):
        assert not plot_list(released).axes[0].collections
