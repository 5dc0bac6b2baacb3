"""Lists decoded together add up exactly, whatever the noise, and are nearer than lists alone."""

import collections
import hashlib
import itertools
import math

import numpy as np
import pytest

from dp_transforms.mechanisms import FrequencyList, RandomTape
from dp_transforms.mechanisms.decoding import gap_chains, group_posteriors
from dp_transforms.mechanisms.decoding.adding_up import combined, list_of_curve, parts_of, rising
from dp_transforms.mechanisms.decoding.decoder import Posterior
from dp_transforms.mechanisms.decoding.group_posteriors import curve_alone, curves_of_groups
from dp_transforms.mechanisms.decoding.hierarchy import decode_hierarchy
from dp_transforms.mechanisms.decoding.shapes import Curve, Shape, nearest_within
from dp_transforms.mechanisms.decoding.shared_shapes import LEVEL, STEP, BentShapes
from dp_transforms.mechanisms.noisy_coordinates import NoisyCoordinates
from dp_transforms.mechanisms.partition.frobenius import FrobeniusMechanism
from tests.cases import slow_unless


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


@pytest.mark.thorough
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


@pytest.mark.thorough
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


def test_a_frequency_goes_to_the_nearest_partition_and_not_to_the_most_certain_one():
    # The second frequency of the whole list is above both estimates. The first child is certain of
    # one partition there, and of two from 2,000 on.
    children = [FrequencyList([8000, 2000], [1, 1]), FrequencyList([3990], [1])]
    curves = [*map(exact_curve, children)]
    blurred = Curve(np.array([3990, 4025]), np.array([1.0, 0.01]), np.array([0.0, 1e-4]))
    parts = parts_of(FrequencyList([7999, 4025, 2001], [1, 1, 1]), [curves[0], blurred])
    assert parts == [FrequencyList([7999, 2001], [1, 1]), FrequencyList([4025], [1])]


def test_a_child_that_borrows_nothing_does_not_pay_for_an_error_in_common():
    # Twenty small children of 100 partitions lack 5 each, and a large one is right.
    values, errors = np.array([1]), np.array([36.0])
    small = Curve(values, np.array([95.0]), errors, np.array([6.0]))
    large = Curve(values, np.array([2000.0]), np.array([300.0]), np.array([0.0]))
    whole = FrequencyList([1], [4000])
    parts = parts_of(whole, [large, *[small] * 20])
    # By variances alone, it would get 300 / (300 + 20 * 36) of the 100 that are missing.
    assert 2000 <= parts[0].distinct <= 2010
    assert all(98 <= part.distinct <= 101 for part in parts[1:])
    assert sum(part.distinct for part in parts) == 4000


def test_equal_children_get_equal_parts_up_to_one_partition():
    curve = Curve(np.array([1, 5]), np.array([100.4, 40.4]), np.zeros(2))
    parts = parts_of(FrequencyList([5, 1], [404, 600]), [curve] * 10)
    numbers = np.array([part.at_least([1, 5]) for part in parts])
    assert numbers.sum(0).tolist() == [1004, 404]
    assert (np.abs(numbers - [100.4, 40.4]) < 1).all()


def test_rising_numbers_are_the_nearest():
    # Beside the formula of least upper means: x_k is the largest over i <= k of the least over
    # j >= k of the weighted mean of the numbers from i to j.
    rng = np.random.default_rng(8)
    for length in (1, 2, 7, 20):
        numbers = np.arange(length) / 3 + rng.normal(0, 1, (4, length))
        weights = rng.uniform(0.1, 3, (4, length))
        nearest = rising(numbers, weights)
        for row, (of_row, weights_of_row) in enumerate(zip(numbers, weights, strict=True)):
            expected = [
                max(
                    min(
                        np.average(of_row[i : j + 1], weights=weights_of_row[i : j + 1])
                        for j in range(k, length)
                    )
                    for i in range(k + 1)
                )
                for k in range(length)
            ]
            assert nearest[row] == pytest.approx(expected)


def test_a_bend_without_data_deviates_as_its_prior():
    arms = [np.zeros(40), np.zeros(40)]
    users = [np.log(np.arange(1.0, 41))] * 2
    bent = BentShapes(arms, users)
    bent.fit(np.ones(80), np.zeros(80))
    powers = np.array([1, 2, 4, 16])
    steps = np.log2(powers)
    expected = [math.sqrt(LEVEL**2 + number * STEP**2) for number in steps]
    assert bent.deviations(0, powers) == pytest.approx(expected)


def test_a_shape_of_equal_partitions_has_one_left_above_them():
    shape = Shape(exact_curve(FrequencyList([1], [8000])))
    assert shape.sizes(np.array([1.0]))[0] == pytest.approx(8000)
    assert shape.sizes(np.array([1.5]))[0] <= 1.001


def test_unique_partitions_stay_unique_in_groups():
    # The noise is small beside the numbers; with seeds there is nothing random.
    private = FrequencyList([1], [8000])
    shape = Shape(curve_alone(FrobeniusMechanism(1).noisy_coordinates(private, tape(1))))
    groups = [FrequencyList([1], [800])] * 10
    drawn = [
        FrobeniusMechanism(1).noisy_coordinates(group, tape(2, place))
        for place, group in enumerate(groups)
    ]
    curves = curves_of_groups(drawn, [shape], [0] * 10)
    assert sum(curve.at(np.array([2]))[0][0] for curve in curves) < 10


@pytest.mark.thorough
@pytest.mark.parametrize("groups", slow_unless([2, 10, 40], [2, 10]))
def test_leaves_do_not_err_more_than_alone(groups):
    # Leaves of unequal sizes, whose shapes differ; with seeds there is nothing random.
    rng = np.random.default_rng(groups)
    sizes = np.floor(rng.pareto(1.0, 6000) + 1).astype(np.int64)
    chances = sizes[:, None] ** rng.normal(0, 0.2, groups) / np.arange(1, groups + 1)
    chances /= chances.sum(1, keepdims=True)
    leaf = (rng.random((len(sizes), 1)) > np.cumsum(chances, 1)).sum(1)
    levels = tree(sizes, leaf, [0] * groups)
    levels = [levels[0], levels[2]]
    joint = alone = 0
    for seed in range(4):
        drawn = noisy(levels, FrobeniusMechanism(0.3), seed)
        lists = decode_hierarchy(drawn, [[0] * groups])
        joint += sum(map(FrequencyList.l1_distance, lists[1], levels[1]))
        alone += sum(
            Posterior(coordinates).median().l1_distance(true)
            for coordinates, true in zip(drawn[1], levels[1], strict=True)
        )
    assert joint < alone


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


@pytest.mark.thorough
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


def test_a_sum_that_does_not_fit_moves_no_partition_that_is_nearly_certain():
    # The whole list has fewer partitions of 4 users than the children want. Ten times four
    # partitions of 40 users are certain but for a little, and stay where they are.
    values, variances = np.array([3, 4, 40]), np.full(3, 1e-6)
    few = Curve(values, np.array([10, 3.999, 3.98]), variances)
    more = Curve(values, np.array([10.0, 5.0, 4.0]), variances)
    whole = FrequencyList([40, 4, 3], [40, 2, 58])
    parts = parts_of(whole, [few] * 5 + [more] * 5)
    assert union(parts) == whole
    assert [part.at_least([3, 40]).tolist() for part in parts] == [[10, 4]] * 10


def test_a_parent_does_not_trust_children_that_err_as_it_does():
    # Ten children borrow the shape of their parent, and so repeat its error; the sum of their
    # variances, 40, does not show that.
    values = np.array([3])
    parent = Curve(values, np.array([100.0]), np.array([400.0]))
    repeated = Curve(values, np.array([10.0]), np.array([4.0]), np.array([2.0]))
    of_their_own = Curve(values, np.array([10.0]), np.array([4.0]))
    _, trusting = combined(parent, [of_their_own] * 10).at(values)
    _, wary = combined(parent, [repeated] * 10).at(values)
    # The variances of means of 400 and 40, and of 400 and 40 + 20^2, weighted by their inverses.
    assert trusting[0] == pytest.approx(400 * 40 / 440, rel=1e-3)
    assert wary[0] == pytest.approx(400 * 440 / 840, rel=1e-3)
