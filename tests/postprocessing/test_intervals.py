import math

import numpy as np
import pytest
from scipy.stats import binom

from dp_transforms.mechanisms import Eta, FrequencyList, ReleasedList, partition_mechanism
from dp_transforms.mechanisms.frequency_list import RankSums
from dp_transforms.mechanisms.noisy_coordinates import (
    COLUMNS,
    ROWS,
    FrobeniusCoordinates,
    NoisyCoordinates,
)
from dp_transforms.mechanisms.partition.distributions import ExponentialDistribution
from dp_transforms.mechanisms.partition.frobenius import FrobeniusMechanism
from dp_transforms.postprocessing.estimates import Estimate, ModelIntervals, RateCurve
from dp_transforms.postprocessing.guessing_metrics import (
    alpha_guesswork_bits,
    success_rate,
    success_rate_bits,
)
from dp_transforms.postprocessing.intervals import (
    CoordinateIntervals,
    intervals_of,
    largest_sum,
    model_intervals_of,
)
from dp_transforms.postprocessing.walk_intervals import WalkIntervals, closed
from tests import enumeration
from tests.tapes import InsecureSeededTape

LISTS = {
    "empty": FrequencyList(),
    "one of one": FrequencyList([1], [1]),
    "one of many": FrequencyList([1000], [1]),
    "many of one": FrequencyList([1], [300]),
    "rectangle": FrequencyList([50], [20]),
    "staircase": FrequencyList(range(40, 0, -1), [1] * 40),
    "long tail": FrequencyList([700, 90, 31, 9, 4, 2, 1], [1, 2, 9, 30, 80, 300, 2000]),
}


def noisy(private, rate, seed):
    """Coordinates as the mechanism draws them, without its decoder."""
    mechanism = FrobeniusMechanism(epsilon=rate)
    drawn = mechanism._draw(private)(InsecureSeededTape(seed))
    return CoordinateIntervals(drawn, private)


def asked(private, facts, confidence):
    """The estimates of what can be asked, and what is true, at indices chosen by the list."""
    side = FrobeniusCoordinates(private).square
    yield facts.total(confidence), private.total
    yield facts.number_of_partitions(confidence), private.distinct
    for index in sorted({1, max(side, 1), side + 3, 5 * side + 20}):
        yield facts.frequency_at(index, confidence), int(private.at_ranks([index])[0])
        counted = int(private.at_least([index])[0])
        yield facts.partitions_with_at_least(index, confidence), counted
        yield facts.sum_of_top(index, confidence), RankSums(private).sum_to(index)
        if private.total:
            yield facts.share_of_top(index, confidence), success_rate(private, index)
    if private.total:
        yield facts.success_rate_bits(3, confidence), success_rate_bits(private, 3)
        for alpha in ("0.3", "1"):
            bits = alpha_guesswork_bits(private, alpha)
            yield facts.alpha_guesswork_bits(alpha, confidence), bits


def held(private, facts, confidence):
    """Tells of each interval, and of the bands, whether it holds what is true."""
    lower, upper = facts.bands(confidence)
    answers = asked(private, facts, confidence)
    holds = [estimate.low - 1e-9 <= truth <= estimate.high + 1e-9 for estimate, truth in answers]
    return [*holds, between(lower, private, upper)]


def between(lower, private, upper):
    """Tells whether a list is between two others at every rank: they are constant between these."""
    lists = (lower, private, upper)
    ends = np.concatenate([frequencies.multiplicities.cumsum() for frequencies in lists])
    low, f, high = (
        frequencies.at_ranks(np.append(ends, ends.max(initial=0) + 1)) for frequencies in lists
    )
    return bool(((low <= f) & (f <= high)).all())


@pytest.mark.parametrize("rate", [1, 0.1])
@pytest.mark.parametrize("private", LISTS.values(), ids=LISTS)
def test_every_interval_holds_as_often_as_it_says(private, rate):
    """At 80%, in 25 draws. Some 250 right intervals fail together with a probability below 3e-6."""
    hits = [held(private, noisy(private, rate, seed), 0.8) for seed in range(25)]
    assert binom.cdf(np.sum(hits, axis=0), 25, 0.8).min() > 1e-8


@pytest.mark.parametrize("private", LISTS.values(), ids=LISTS)
@pytest.mark.parametrize("rate", [3, 0.3])
def test_the_surest_intervals_always_hold_and_say_something(private, rate):
    """1 - 1e-9: fails with a probability below 1e-6, and the seeds are fixed."""
    sure = 1 - 1e-9
    for seed in range(2):
        facts = noisy(private, rate, seed)
        assert all(held(private, facts, sure))
        side = FrobeniusCoordinates(private).square
        reach = 2 * 25 / rate + 10
        assert facts.number_of_partitions(sure).high - private.distinct < reach + side
        assert facts.frequency_at(1, sure).high - facts.frequency_at(1, sure).low < 2 * reach
    with pytest.raises(ValueError, match=r"below 1 - 2\*\*-35"):
        facts.total(1 - 1e-13)
    # Those of many numbers share what is left of 1e-10.
    low, high = facts.success_rates([1], 1 - 1e-10)
    assert 0 <= low <= high <= 1
    assert "99.99999999% confidence" in str(facts.total(1 - 1e-10))


def tails(q, count, reach):
    """How likely sums of noises are beyond t, by convolution of the noise from -reach to reach."""
    n = np.arange(-reach, reach + 1)
    noise = sums = (1 - q) / (1 + q) * q ** np.abs(n)
    for _ in range(count - 1):
        sums = np.convolve(sums, noise)[reach:-reach]
    return lambda t: sums[np.abs(n) > t].sum()


@pytest.mark.parametrize(("rate", "count"), [(1.0, 1), (0.2, 2), (0.05, 3), (2.0, 20), (0.5, 50)])
def test_tails_of_sums_are_those_of_convolutions(rate, count):
    beyond = tails(math.exp(-rate), count, 3000)
    for failure in (0.5, 0.05, 0.001, 1e-5):
        t = largest_sum(rate, count, failure)
        assert beyond(t) <= failure < beyond(t - 1)
    for failure in (1e-7, 1e-12):
        t = largest_sum(rate, count, failure)
        assert beyond(t) <= failure < beyond(t / 2)


def test_sums_of_many_noises_are_about_normal():
    for rate, count in ((1.0, 10**5), (1 / 1024, 3000), (2.0**-20, 40)):
        q = math.exp(-rate)
        deviation = math.sqrt(count * 2 * q) / (1 - q)
        assert largest_sum(rate, count, 0.05) / deviation == pytest.approx(1.96, rel=0.01)
    assert largest_sum(1.0, 0, 0.05) == 0


def test_bounds_on_coordinates_close_to_the_tightest_lists():
    """All lists of up to 9 users within random bounds are within the two lists, which have
    coordinates within the bounds if there is such a list at both ends."""
    rng = np.random.default_rng(4)
    lists = [enumeration.as_list(x) for x in enumeration.partitions_of_at_most(9)]
    coordinates = [FrobeniusCoordinates(x) for x in lists]
    arms = np.array([[x.of(arm, np.arange(1, 6)) for arm in (ROWS, COLUMNS)] for x in coordinates])
    for _ in range(60):
        center = arms[rng.integers(len(arms))]
        lower, upper = (center + sign * rng.integers(0, 3, (2, 5)) for sign in (-1, 1))
        outer, inner = closed(lower, upper, 0, 5), closed(lower, upper, 1, 1)
        inside = np.flatnonzero(((lower <= arms) & (arms <= upper)).all((1, 2)))
        assert len(inside)
        for i in inside:
            assert between(outer[0], lists[i], outer[1])
            assert coordinates[i].square != 1 or between(inner[0], lists[i], inner[1])


def test_rates_between_ranks_are_bounded_for_every_list():
    lists = map(enumeration.as_list, enumeration.partitions_of_at_most(12))
    for private in (x for x in lists if x.distinct >= 4):
        last = private.distinct
        sums = RankSums(private)
        exact = np.array([sums.sum_to(rank) for rank in range(last + 1)]) / private.total
        ranks = np.array([0, 1, *sorted({2, last // 2, last - 1} - {1, last}), last])
        curve = RateCurve(ranks, exact[ranks] * 0.95, np.minimum(exact[ranks] * 1.05, 1))
        everywhere = np.arange(1, last + 1)
        assert (curve.low(everywhere) <= exact[1:] + 1e-12).all()
        assert (exact[1:] <= curve.high(everywhere) + 1e-12).all()
        for end in range(1, last + 1):
            assert curve.low_sum(end) <= exact[:end].sum() + 1e-12 <= curve.high_sum(end) + 2e-12


def test_values_are_those_of_the_released_list_within_the_interval():
    private = LISTS["rectangle"]
    coordinates = FrobeniusMechanism(epsilon=1)._draw(private)(InsecureSeededTape(0))
    near = FrequencyList(private.frequencies + 1, private.multiplicities)
    far = FrequencyList.from_counts([10**6])
    for released in (near, far):
        facts = CoordinateIntervals(coordinates, released)
        for estimate, value in (
            (facts.total(), released.total),
            (facts.frequency_at(3), released.at_ranks([3])[0]),
            (facts.sum_of_top(4), released.at_ranks([1, 2, 3, 4]).sum()),
            (facts.partitions_with_at_least(3), released.at_least([3])[0]),
        ):
            assert estimate.value == min(max(value, estimate.low), estimate.high)
    # By the distribution of one noise: 2 q**(t + 1) / (1 + q) <= 0.045.
    half, beyond = facts.frequency_at(3), tails(math.exp(-1), 1, 60)
    t = (half.high - half.low) // 2
    assert beyond(t) <= 0.05 < beyond(t - 1)


@pytest.mark.parametrize(
    "arms", [((), ()), ((5,), ()), ((), (4, 4)), ((-9,) * 30, (7,) * 3), ((9, 9, 9), (0,) * 50)]
)
def test_coordinates_from_elsewhere_give_intervals_all_the_same(arms):
    rows, columns = (np.array(arm, np.int64) for arm in arms)
    decay = FrobeniusMechanism(eta=Eta(1, 1, 1)).decay
    released = FrequencyList([3, 1], [1, 4])
    facts = CoordinateIntervals(NoisyCoordinates(rows, columns, decay), released)
    for estimate, _ in asked(released, facts, 0.9):
        assert estimate.low <= estimate.value <= estimate.high
    lower, upper = facts.bands(0.9)
    assert between(lower, lower, upper)


def test_intervals_of_the_model_are_quantiles():
    samples = [FrequencyList([n, 1], [1, n]) for n in range(2, 1002)]
    facts = ModelIntervals(FrequencyList([500, 1], [1, 500]), samples)
    estimate = facts.frequency_at(1, 0.9)
    assert (estimate.value, estimate.kind) == (500, "model")
    assert "90% under the model" in str(estimate)
    assert estimate.low == pytest.approx(52, abs=2) and estimate.high == pytest.approx(952, abs=2)
    assert facts.total(0.9).high == 2 * facts.frequency_at(1, 0.9).high
    assert facts.number_of_partitions().kind == facts.success_rate_bits(1).kind == "model"
    assert facts.partitions_with_at_least(2) == Estimate(1, 1, 1, kind="model")
    with pytest.raises(ValueError, match="samples must not be empty"):
        ModelIntervals(FrequencyList(), [])


def test_a_release_has_both_kinds_of_intervals_and_those_of_the_model_are_shorter():
    private = LISTS["long tail"]
    released = FrobeniusMechanism(epsilon=0.2).release(private, InsecureSeededTape(1))
    proved, model = intervals_of(released), model_intervals_of(released, 200)
    for ask in (lambda facts: facts.total(), lambda facts: facts.sum_of_top(30)):
        widths = [estimate.high - estimate.low for estimate in map(ask, (proved, model))]
        assert widths[1] < 0.7 * widths[0]
    with pytest.raises(ValueError, match="has none"):
        model_intervals_of(ReleasedList([1], [1]))
    with pytest.raises(ValueError, match="without its mechanism"):
        intervals_of(ReleasedList([1], [1]))


@pytest.mark.parametrize(
    "facts",
    [noisy(LISTS["empty"], 1, 0), WalkIntervals(LISTS["empty"], ExponentialDistribution(0.5))],
)
@pytest.mark.parametrize(
    ("question", "arguments", "words"),
    [
        ("total", [1], "between 0 and 1"),
        ("frequency_at", [1, 0], "between 0 and 1"),
        ("frequency_at", [0], "rank must be a positive integer"),
        ("partitions_with_at_least", [0], "users must be a positive integer"),
        ("sum_of_top", [0], "partitions must be a positive integer"),
        ("share_of_top", [0], "partitions must be a positive integer"),
        ("alpha_guesswork_bits", [2], "alpha must be in"),
    ],
)
def test_bad_questions_are_refused(facts, question, arguments, words):
    with pytest.raises(ValueError, match=words):
        getattr(facts, question)(*arguments)


@pytest.mark.parametrize("epsilon", [1, 5], ids=["coordinates", "walk"])
def test_ranks_may_be_of_any_size_and_of_numpy(epsilon):
    facts = intervals_of(partition_mechanism(epsilon, 1).release(FrequencyList([9, 1], [1, 3])))
    for question in ("frequency_at", "partitions_with_at_least", "sum_of_top", "share_of_top"):
        ask = getattr(facts, question)
        assert ask(10**30) == ask(2**63 - 1)
        assert type(ask(np.int64(2)).high) is type(ask(2).high)


def test_an_interval_whose_values_are_all_refuted_is_no_point():
    """The first column of -6 says that there are no rows, and the rows say that there are."""
    arms = np.array([8, 3, 0]), np.array([-6, -5, -12])
    decay = FrobeniusMechanism(eta=Eta(1, 1, 1)).decay
    facts = CoordinateIntervals(NoisyCoordinates(*arms, decay), FrequencyList([3, 1], [1, 4]))
    partitions = facts.partitions_with_at_least(1, 0.9)
    assert partitions.low < partitions.high
