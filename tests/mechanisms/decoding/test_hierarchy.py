"""Lists decoded together add up exactly, whatever the noise, and are nearer than lists alone."""

import collections
import hashlib
import itertools

import numpy as np
import pytest

from dp_transforms.mechanisms import FrequencyList, RandomTape
from dp_transforms.mechanisms.decoding import gap_chains, group_posteriors
from dp_transforms.mechanisms.decoding.adding_up import list_of_curve, parts_of
from dp_transforms.mechanisms.decoding.decoder import Posterior
from dp_transforms.mechanisms.decoding.group_posteriors import curve_alone, curves_of_groups
from dp_transforms.mechanisms.decoding.hierarchy import decode_hierarchy
from dp_transforms.mechanisms.decoding.shapes import Curve, Shape, nearest_within
from dp_transforms.mechanisms.noisy_coordinates import NoisyCoordinates
from dp_transforms.mechanisms.partition.frobenius import FrobeniusMechanism


def tape(*numbers):
    return RandomTape(hashlib.sha256(repr(numbers).encode()).digest())


def union(lists):
    """The multiset sum, by another way than the library's."""
    counter = collections.Counter()
    for frequencies in lists:
        counter.update(dict(frequencies))
    return FrequencyList.from_histogram(counter)


def tree(sizes, leaf, parents):
    """The lists of three levels."""
    middle = np.asarray(parents)[leaf]

    def of(chosen):
        return FrequencyList.from_counts(chosen) if len(chosen) else FrequencyList()

    return [
        [of(sizes)],
        [of(sizes[middle == group]) for group in range(max(parents) + 1)],
        [of(sizes[leaf == group]) for group in range(len(parents))],
    ]


def noisy(levels, mechanism, seed):
    return [
        [
            mechanism.noisy_coordinates(private, tape(seed, depth, place))
            for place, private in enumerate(lists)
        ]
        for depth, lists in enumerate(levels)
    ]


def assert_they_add_up(lists, parents):
    for depth, above in enumerate(parents):
        for place, whole in enumerate(lists[depth]):
            children = [
                lists[depth + 1][group] for group, parent in enumerate(above) if parent == place
            ]
            assert union(children) == whole


SHAPES = {
    "empty": np.zeros(0, np.int64),
    "ones": np.ones(300, np.int64),
    "one huge": np.array([10**9, *[1] * 50]),
    "two levels": np.repeat([1000, 3], [20, 40]),
    "zipf": np.floor(300 / np.arange(1, 301)).astype(np.int64),
}


@pytest.mark.parametrize("epsilon", [6, 0.5, 0.05])
@pytest.mark.parametrize("name", SHAPES)
def test_lists_add_up_whatever_they_are(name, epsilon):
    sizes = SHAPES[name]
    parents = [0, 0, 1, 1, 1, 2]
    # The fourth group is empty, and so is the third state but for one partition.
    leaf = np.array([0, 1, 2, 4])[np.arange(len(sizes)) ** 2 % 4 if len(sizes) else []]
    levels = tree(sizes, leaf, parents)
    drawn = noisy(levels, FrobeniusMechanism(epsilon), 1)
    lists = decode_hierarchy(drawn, [[0, 0, 0], parents])
    assert_they_add_up(lists, [[0, 0, 0], parents])
    assert [*map(len, lists)] == [1, 3, 6]


def test_coordinates_that_no_lists_have_add_up_as_well():
    # Anybody may decode what is published; no noise makes it fail.
    rng = np.random.default_rng(5)
    decay = FrobeniusMechanism(1).decay

    def draw():
        rows, columns = (rng.integers(-30, 60, rng.integers(0, 40)) for _ in range(2))
        return NoisyCoordinates(rows, columns, decay)

    levels = [[draw()], [draw(), draw()], [draw() for _ in range(5)]]
    parents = [[0, 0], [0, 1, 1, 1, 0]]
    assert_they_add_up(decode_hierarchy(levels, parents), parents)


def test_small_groups_borrow_the_shape_of_their_parent():
    # Twelve groups of forty partitions, with seeds: there is nothing random.
    rng = np.random.default_rng(2)
    sizes = rng.negative_binomial(2, 0.4, 480) + 1
    leaf = np.repeat(np.arange(12), 40)
    parents = [0] * 6 + [1] * 6
    levels = tree(sizes, leaf, parents)
    joint = alone = 0
    for seed in range(2):
        drawn = noisy(levels, FrobeniusMechanism(0.2), seed)
        lists = decode_hierarchy(drawn, [[0, 0], parents])
        joint += sum(map(FrequencyList.l1_distance, lists[2], levels[2]))
        alone += sum(
            Posterior(coordinates).median().l1_distance(true)
            for coordinates, true in zip(drawn[2], levels[2], strict=True)
        )
    assert alone > 1.5 * joint


def test_a_large_group_that_is_not_like_its_parent_has_a_curve_of_its_own():
    # With seeds: there is nothing random.
    rng = np.random.default_rng(6)
    like_siblings = np.floor(rng.pareto(1.0, 3000) + 1).astype(np.int64)
    unlike_them = rng.poisson(400, 3000)
    parent = np.floor(rng.pareto(1.0, 6000) + 1).astype(np.int64)
    shape = Shape(exact_curve(FrequencyList.from_counts(parent)))
    coordinates = [
        FrobeniusMechanism(1).noisy_coordinates(FrequencyList.from_counts(sizes), tape(8))
        for sizes in (like_siblings, unlike_them)
    ]
    borrowed, own = curves_of_groups(coordinates, [shape], [0, 0])
    for curve, noisy_group, is_own in zip((borrowed, own), coordinates, (False, True), strict=True):
        alone = curve_alone(noisy_group)
        same_places = np.array_equal(curve.values, alone.values)
        # Lists that are decoded side by side differ from those alone by the rounding of floats.
        assert (same_places and np.allclose(curve.means, alone.means, rtol=1e-9)) == is_own


def test_places_that_arms_do_not_reach_change_nothing(monkeypatch):
    """Lists are the same if all places are computed in all passes, at two rates of noise, with
    seeds."""
    rng = np.random.default_rng(11)
    sizes = np.floor(rng.pareto(1.0, 900) + 1).astype(np.int64)
    leaf, parents = rng.integers(0, 30, len(sizes)), [*rng.integers(0, 2, 30).tolist()]
    levels = tree(sizes, leaf, parents)
    for epsilon in (0.1, 1):
        drawn = noisy(levels, FrobeniusMechanism(epsilon), 5)
        lists = decode_hierarchy(drawn, [[0, 0], parents])
        with monkeypatch.context() as patch:
            for module in (gap_chains, group_posteriors):
                patch.setattr(module, "UNREACHED", -1.0)
            assert lists == decode_hierarchy(drawn, [[0, 0], parents])


def test_a_curve_alone_is_about_the_decoded_list():
    private = FrequencyList([500, 90, 30, 8, 3, 1], [1, 2, 5, 20, 60, 200])
    drawn = FrobeniusMechanism(1).noisy_coordinates(private, tape(4))
    decoded = list_of_curve(curve_alone(drawn))
    assert decoded.l1_distance(Posterior(drawn).median()) < 40


def exact_curve(frequency_list):
    values = frequency_list.frequencies[::-1].copy()
    return Curve(values, frequency_list.at_least(values).astype(float), np.zeros(len(values)))


def test_exact_curves_get_their_own_partitions_back():
    rng = np.random.default_rng(3)
    children = [FrequencyList.from_counts(rng.geometric(0.2, 30)) for _ in range(5)]
    assert parts_of(union(children), [*map(exact_curve, children)]) == children


def test_a_frequency_goes_to_the_child_that_lacks_it():
    children = [FrequencyList([90, 2], [1, 3]), FrequencyList([50, 2], [1, 2])]
    whole = FrequencyList([93, 48, 2], [1, 1, 5])
    parts = parts_of(whole, [*map(exact_curve, children)])
    assert parts == [FrequencyList([93, 2], [1, 3]), FrequencyList([48, 2], [1, 2])]


def test_a_shape_has_the_sizes_of_its_curve_and_falls_to_nothing():
    sizes = np.floor(3000 / np.arange(1, 3001)).astype(np.int64)
    shape = Shape(exact_curve(FrequencyList.from_counts(sizes)))
    assert shape.partitions == pytest.approx(3000, rel=1e-6)
    for j in (1, 2, 5, 20, 90):
        assert shape.sizes(np.array([float(j)]))[0] == pytest.approx((sizes >= j).sum(), rel=1e-6)
    ranks = np.array([0.1, 0.7, 3, 40, 700, 2999])
    assert (np.diff(shape.quantiles(ranks)) < 0).all()
    assert shape.sizes(shape.quantiles(ranks)) == pytest.approx(ranks, rel=0.05)


@pytest.mark.parametrize("loose", [0, 1, 30])
def test_lists_keep_public_bounds_on_their_partitions(loose):
    # At this rate the noise is larger than most groups. Bounds are exact if ``loose`` is 0.
    rng = np.random.default_rng(3)
    sizes = rng.negative_binomial(1, 0.3, 400) + 1
    leaf = np.floor(20 * rng.random(400) ** 2).astype(np.int64)
    parents = [place % 3 for place in range(20)]
    levels = tree(sizes, leaf, parents)
    most = [private.distinct + loose for private in levels[-1]]
    for seed in range(3):
        drawn = noisy(levels, FrobeniusMechanism(0.05), seed)
        lists = decode_hierarchy(drawn, [[0, 0, 0], parents], most)
        assert_they_add_up(lists, [[0, 0, 0], parents])
        assert all(
            released.distinct <= bound for released, bound in zip(lists[-1], most, strict=True)
        )


def test_small_groups_with_exact_bounds_err_less_than_the_bounds_alone():
    # Sixty groups of thirty partitions, at a noise of 25 in each coordinate, with seeds. A list of
    # ones of the right length is what the bounds alone tell.
    rng = np.random.default_rng(4)
    sizes = rng.geometric(0.7, 1800)
    leaf = np.repeat(np.arange(60), 30)
    parents = [place % 4 for place in range(60)]
    levels = tree(sizes, leaf, parents)
    most = [private.distinct for private in levels[-1]]
    joint = 0
    for seed in range(2):
        drawn = noisy(levels, FrobeniusMechanism(0.04), seed)
        lists = decode_hierarchy(drawn, [[0] * 4, parents], most)
        joint += sum(map(FrequencyList.l1_distance, lists[-1], levels[-1])) / 2
    ones = sum(FrequencyList([1], [30]).l1_distance(private) for private in levels[-1])
    assert joint < ones


def test_numbers_within_bounds_are_the_nearest_of_their_sum():
    # Beside a search over all integers with the sum, which are nearest among integers only.
    rng = np.random.default_rng(6)
    for _ in range(50):
        wanted, spread = rng.uniform(-2, 6, 3), rng.uniform(0.2, 3, 3)
        highest = rng.integers(1, 6, 3).astype(float)
        total = float(rng.integers(0, int(highest.sum()) + 1))
        nearest = nearest_within(wanted, spread, total, highest)
        assert nearest.sum() == pytest.approx(total)
        assert (nearest >= 0).all() and (nearest <= highest).all()
        distances = [
            ((np.array(other) - wanted) ** 2 / spread).sum()
            for other in itertools.product(*(range(int(most) + 1) for most in highest))
            if sum(other) == total
        ]
        assert ((nearest - wanted) ** 2 / spread).sum() <= min(distances) + 1e-9
