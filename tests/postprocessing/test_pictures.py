from dp_transforms.mechanisms import (
    BoundedPartitionMechanism,
    FrequencyList,
    IntegerPartitionMechanism,
    PartitionBounds,
    ReleasedList,
)
from dp_transforms.mechanisms.randomness import InsecureSeededTape
from dp_transforms.postprocessing.pictures import plot_released_list
from dp_transforms.postprocessing.rank_intervals import rank_frequency_band

PRIVATE = FrequencyList([90210, 31, 1], [1, 2, 777])
MECHANISM = IntegerPartitionMechanism(epsilon=0.5, sensitivity=2)
RELEASED = MECHANISM.release(PRIVATE, InsecureSeededTape(1))


def test_the_picture_has_the_proven_error_bars(tmp_path):
    axes = plot_released_list(RELEASED, tmp_path / "list.png").axes[0]
    assert (tmp_path / "list.png").read_bytes().startswith(b"\x89PNG")
    ranks, lower, upper = rank_frequency_band(RELEASED, MECHANISM.law, 0.99)
    (band,) = axes.collections
    corners = set(map(tuple, band.get_paths()[0].vertices.tolist()))
    assert {*zip(ranks, lower, strict=True), *zip(ranks, upper, strict=True)} <= corners
    (line,) = axes.lines
    drawn = dict(line.get_xydata().tolist())
    ends = RELEASED.multiplicities.cumsum().tolist()
    assert [drawn[end] for end in ends] == RELEASED.frequencies.tolist()


def test_what_is_known_of_one_mechanism_s_noise_is_not_drawn_around_another_s():
    bounds = PartitionBounds(upper=FrequencyList([100_000], [900]))
    other = BoundedPartitionMechanism(epsilon=1, bounds=bounds).release(PRIVATE)
    for released in (other, ReleasedList(), ReleasedList([3, 1], [1, 2])):
        assert not plot_released_list(released).axes[0].collections
