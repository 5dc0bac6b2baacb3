import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dp_transforms import sample_data
from dp_transforms.mechanisms import Eta, FrequencyList, FrobeniusMechanism, PartitionBounds
from dp_transforms.mechanisms.discrete_noise import TwoSidedGeometric
from dp_transforms.mechanisms.noisy_coordinates import COLUMNS, ROWS
from dp_transforms.mechanisms.partition.frobenius import EndingRule
from dp_transforms.mechanisms.randomness import RandomTape
from tests.cases import slow_unless
from tests.enumeration import arms, as_list, partitions_of_at_most
from tests.statistical import distributions
from tests.tapes import InsecureSeededTape

RATIO = Eta(1, 1, 1)  # q = 1/2
SIZE = 12
"""No list of this file that is looked into has more coordinates in an arm."""


def with_a_user(values, max_partitions):
    """All lists with one more user, who has up to kappa partitions, old or new."""
    padded = [*values, *[0] * max_partitions]
    for count in range(max_partitions + 1):
        for chosen in itertools.combinations(range(len(padded)), count):
            more = [value + (i in chosen) for i, value in enumerate(padded)]
            yield tuple(sorted(filter(None, more), reverse=True))


@pytest.mark.parametrize("max_partitions", [1, 2, 3])
def test_the_loss_is_at_most_epsilon_for_all_neighbours_and_reached(max_partitions):
    # 2**-eta = 1/2: each cell costs ln 2, and the whole release kappa ln 2.
    mechanism = FrobeniusMechanism(eta=RATIO, sensitivity=max_partitions)
    assert mechanism.epsilon_cost == pytest.approx(max_partitions * math.log(2), rel=1e-14)
    other = FrobeniusMechanism(epsilon=Fraction(1, 3), sensitivity=max_partitions)
    assert other.decay.rate == Fraction(1, 3 * max_partitions)
    q, losses = Fraction(1, 2), set()
    # The largest ratio of two products is the product of the largest ratios.
    worst = {
        (a, b): max(q ** (abs(z - a) - abs(z - b)) for z in range(-12, 25))
        for a, b in itertools.product(range(12), repeat=2)
    }
    for values in partitions_of_at_most(7):
        here = drawn_around(mechanism, values)
        assert here == arms(values, SIZE)
        for neighbour in with_a_user(values, max_partitions):
            both = (itertools.chain(*coordinates) for coordinates in (here, arms(neighbour, SIZE)))
            pairs = list(zip(*both, strict=True))
            losses.add(math.prod(worst[pair] for pair in pairs))
            losses.add(math.prod(worst[pair[::-1]] for pair in pairs))
    assert max(losses) == q**-max_partitions


def drawn_around(mechanism, values):
    """The numbers that the mechanism adds noise to: the noisy coordinates less the tape's noise."""
    tape, noise = LongTape(7), TwoSidedGeometric(mechanism.eta)
    drawn = mechanism.noisy_coordinates(as_list(values), tape)
    both = ((ROWS, drawn.rows), (COLUMNS, drawn.columns))
    return [(noisy[:SIZE] - noise.sample(tape, arm, SIZE)).tolist() for arm, noisy in both]


class LongTape(InsecureSeededTape):
    """A tape whose noise keeps arms alive for a while."""

    def words(self, channel, count, start=0):
        words = super().words(channel, count, start).copy()
        words[: max(0, 16 - start)] |= np.uint64(0b11111 << 59)
        return words


def reference_end(noisy, decay):
    """The rule by the definition, in integers: the first end, or None."""
    refuted = math.ceil(60 * math.log(2) / float(decay.rate))
    longest = EndingRule(decay).longest
    for end in range(1, len(noisy) + 1):
        last = enumerate(noisy[:end][::-1][:longest].tolist(), 1)
        if min(itertools.accumulate(abs(z) - abs(z - t) for t, z in last)) <= -refuted:
            return end
    return None


@pytest.mark.parametrize("epsilon", [Fraction(8), Fraction(1), Fraction(1, 4), Fraction(1, 20)])
@pytest.mark.parametrize("values", [(), (1,) * 30, (9, 9, 9), tuple(range(40, 0, -1)), (500, 3)])
def test_an_arm_ends_where_the_rule_says_of_the_noisy_numbers_alone(epsilon, values):
    mechanism = FrobeniusMechanism(epsilon=epsilon)
    for seed in range(3):
        drawn = mechanism.noisy_coordinates(as_list(values), InsecureSeededTape(seed))
        for noisy in (drawn.rows, drawn.columns):
            assert reference_end(noisy, mechanism.decay) == len(noisy)


def test_a_batch_more_or_less_gives_the_same_prefix():
    noisy = np.array([*range(30, 0, -1), *[0] * 40])
    rule = EndingRule(FrobeniusMechanism(epsilon=1).decay)
    (end,) = {rule.end(noisy[:length], 0) for length in range(40, 71)}
    assert rule.end(noisy[: end - 1], 0) is None
    assert rule.end(noisy, end - 1) == end


def test_the_rule_hardly_ever_ends_an_arm_early():
    # The flattest living arm. The bound is 2**-60 at each coordinate.
    mechanism = FrobeniusMechanism(epsilon=Fraction(1, 5))
    staircase = FrequencyList(range(400, 0, -1), [1] * 400)
    for seed in range(50):
        drawn = mechanism.noisy_coordinates(staircase, InsecureSeededTape(seed))
        assert min(len(drawn.rows), len(drawn.columns)) > 200


def test_neighbours_share_the_noise_of_a_tape_and_arms_do_not():
    mechanism, tape = FrobeniusMechanism(epsilon=Fraction(1, 10)), InsecureSeededTape(1)
    first, second = (mechanism.noisy_coordinates(as_list(x), tape) for x in ((5, 2), (6, 2)))
    differ = [a != b for a, b in zip(first.rows, second.rows, strict=False)]
    assert differ == [True, *[False] * (len(differ) - 1)]
    empty = mechanism.noisy_coordinates(FrequencyList(), tape)
    # Equal by chance at 1 of 20 coordinates.
    equal = [a == b for a, b in zip(empty.rows, empty.columns, strict=False)]
    assert np.mean(equal) < 0.3


def test_the_noise_of_each_coordinate_has_its_distribution():
    """Of the first coordinates of both arms, on 2,000 releases."""
    private = (9, 4, 4, 4)
    exact = dict(zip((ROWS, COLUMNS), arms(private, SIZE), strict=True))
    mechanism, q = FrobeniusMechanism(epsilon=0.5), math.exp(-0.5)
    tapes = map(InsecureSeededTape, range(2000))
    drawn = [mechanism.noisy_coordinates(as_list(private), tape) for tape in tapes]
    expected = {n: (1 - q) / (1 + q) * q ** abs(n) for n in range(-9, 10)}
    for index, arm in itertools.product(range(3), exact):
        noisy = [getattr(coordinates, arm)[index] for coordinates in drawn]
        noise = np.array(noisy) - exact[arm][index]
        distributions.assert_follows(noise, expected)


@pytest.mark.parametrize(
    ("private", "epsilon"),
    [
        *[(FrequencyList(), 8), (FrequencyList(), Fraction(1, 1024)), (FrequencyList([1], [1]), 1)],
        *[(FrequencyList([10**15], [1]), 0.1), (FrequencyList([1], [10**6]), 8)],
        *[(FrequencyList([40], [25]), 1), (FrequencyList(range(60, 0, -1), [1] * 60), 0.1)],
        (FrequencyList([100, 50, 10], [3, 7, 40]), Fraction(1, 1024)),
    ],
)
def test_every_list_is_released(private, epsilon):
    mechanism = FrobeniusMechanism(epsilon=epsilon)
    released = mechanism.release(private, InsecureSeededTape(5))
    assert released.mechanism == mechanism and released.coordinates is not None
    # Far more than the noise, and far less than the largest of these lists.
    assert released.l1_distance(private) < 3000 / epsilon**1.4 + 30


@pytest.mark.parametrize(
    ("epsilon", "most"), slow_unless([(0.5, 1488), (0.1, 4460), (0.02, 11362)], [(0.5, 1488)])
)
def test_rockyou_is_released_as_accurately_as_ever(epsilon, most):
    """As by a prototype, whose decoder this one is at least as good as, and 2% for 6 draws."""
    private = sample_data.rockyou()
    mechanism, tapes = FrobeniusMechanism(epsilon=epsilon), map(InsecureSeededTape, range(6))
    released = mechanism.release_many(private, 6, tapes)
    assert np.mean([frequencies.l1_distance(private) / 2 for frequencies in released]) < 1.02 * most


def test_public_bounds_hold_and_cost_nothing():
    private = FrequencyList([30, 4, 1], [1, 3, 20])
    bounds = PartitionBounds.around(private, 2)
    mechanism = FrobeniusMechanism(epsilon=0.1, bounds=bounds)
    assert mechanism.decay == FrobeniusMechanism(epsilon=0.1).decay
    assert bounds.contain(mechanism.release(private, InsecureSeededTape(2)))
    limited = FrobeniusMechanism(epsilon=0.1, max_total=70)
    assert limited.release(private, InsecureSeededTape(2)).total <= 70
    assert limited.possible_lists()["max_total"] == 70


def test_bad_parameters_are_named():
    for tiny in (1e-7, 5e-324, "1e-300"):
        with pytest.raises(ValueError, match=rf"epsilon must be at least .* {tiny}: raise epsilon"):
            FrobeniusMechanism(epsilon=tiny)
    with pytest.raises(ValueError, match="max_total must be an integer"):
        FrobeniusMechanism(epsilon=1, max_total=-1)
    with pytest.raises(ValueError, match=r"2\*\*24"):
        FrobeniusMechanism(epsilon=1).release(FrequencyList([2**25], [2**25]))
    for draw in (FrobeniusMechanism(epsilon=1).release, FrobeniusMechanism(1).noisy_coordinates):
        with pytest.raises(ValueError, match=r"at most 2\*\*62"):
            draw(FrequencyList([2**62 + 1], [1]))
        with pytest.raises(TypeError, match=r"from_counts"):
            draw([3, 1])
        tape = RandomTape.from_os()
        draw(FrequencyList(), tape)
        with pytest.raises(ValueError, match="has claimed this tape"):
            draw(FrequencyList(), tape)
