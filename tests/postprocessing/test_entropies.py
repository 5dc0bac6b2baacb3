import math

import numpy as np
import pytest
import scipy.stats

from dp_transforms.mechanisms import FrequencyList, partition_mechanism
from dp_transforms.mechanisms.noisy_coordinates import COLUMNS, ROWS
from dp_transforms.postprocessing import entropies
from dp_transforms.postprocessing.estimates import Estimate, ModelIntervals, RateCurve
from dp_transforms.postprocessing.guessing_metrics import min_entropy, success_rate
from dp_transforms.postprocessing.intervals import _one_weighted, intervals_of
from dp_transforms.postprocessing.walk_intervals import ReleaseError, WalkIntervals, closed
from tests import enumeration
from tests.postprocessing.test_intervals import noisy
from tests.postprocessing.test_walk_intervals import lists_within
from tests.tapes import InsecureSeededTape

SETS = (2, 10, 100)
LISTS = {
    "empty": FrequencyList(),
    "one huge value": FrequencyList([20_000], [1]),
    "all unique": FrequencyList([1], [20_000]),
    "two levels": FrequencyList([100, 1], [100, 10_000]),
    "two levels at a limit": FrequencyList([10, 9], [150, 150]),
    "Zipf": FrequencyList.from_counts([max(2_000 // rank, 1) for rank in range(1, 4_000)]),
}


def truths(private):
    """What each answer estimates, by its name and arguments."""
    is_empty, total = len(private) == 0, private.total
    return {
        ("shannon_entropy",): 0 if is_empty else entropies.shannon_entropy(private),
        ("normalized_entropy",): 0 if is_empty else entropies.normalized_entropy(private),
        ("min_entropy",): 0 if is_empty else min_entropy(private),
        ("collision_probability",): 1 if is_empty else entropies.collision_probability(private),
        ("tsallis_entropy",): 0 if is_empty else entropies.tsallis_entropy(private),
        ("unique_users",): entropies.users_in_small_partitions(private, 2),
        ("share_unique",): entropies.users_in_small_partitions(private, 2) / max(total, 1),
        **{
            ("users_in_small_partitions", n): entropies.users_in_small_partitions(private, n)
            for n in SETS
        },
        **{
            ("share_in_small_partitions", n): entropies.users_in_small_partitions(private, n)
            / max(total, 1)
            for n in SETS
        },
    }


def test_entropies_are_those_of_scipy():
    counts = [50, 7, 7, 3, 1, 1, 1]
    private, p = FrequencyList.from_counts(counts), np.array(counts) / sum(counts)
    bits = scipy.stats.entropy(p, base=2)
    assert entropies.shannon_entropy(private) == pytest.approx(bits, abs=1e-12)
    assert entropies.normalized_entropy(private) == pytest.approx(bits / math.log2(70), abs=1e-12)
    assert entropies.collision_probability(private) == pytest.approx(p @ p, abs=1e-12)
    assert entropies.tsallis_entropy(private) == pytest.approx(1 - p @ p, abs=1e-12)
    assert [entropies.users_in_small_partitions(private, n) for n in (1, 2, 4, 8, 51)] == [
        sum(count for count in counts if count < n) for n in (1, 2, 4, 8, 51)
    ]
    assert entropies.normalized_entropy(FrequencyList([1], [1])) == 0
    with pytest.raises(ValueError, match="frequency_list is empty"):
        entropies.shannon_entropy(FrequencyList())
    with pytest.raises(ValueError, match="fewer_than must be a positive integer"):
        entropies.users_in_small_partitions(private, 0)


@pytest.mark.parametrize("slack", [0, 0.04, 0.2])
def test_no_list_within_bounds_on_its_success_rates_is_outside(slack):
    """All lists of at most 11 users, with bounds at some ranks around one of them."""
    lists = [
        FrequencyList.from_counts(counts)
        for counts in enumeration.partitions_of_at_most(11)
        if counts
    ]
    ranks = np.array([0, 1, 3, 4, 9, 12])
    rates = [
        np.array([0, *(success_rate(private, int(k)) for k in ranks[1:])]) for private in lists
    ]
    inside = 0
    for middle in rates[::9]:
        low, high = np.maximum(middle - slack, 0), np.minimum(middle + slack, 1)
        corners = RateCurve(ranks, low, high).corners
        bits = entropies.entropy_bounds(*corners)
        same = entropies.collision_bounds(*corners)
        for private, rate in zip(lists, rates, strict=True):
            if (low - 1e-12 <= rate).all() and (rate <= high + 1e-12).all():
                inside += 1
                assert bits[0] <= entropies.shannon_entropy(private) <= bits[1]
                assert same[0] <= entropies.collision_probability(private) <= same[1]
    assert inside >= len(rates[::9])


def test_bounds_without_slack_at_all_ranks_are_the_entropy():
    for counts in ([9, 4, 4, 2, 1], [5], [1] * 8):
        private = FrequencyList.from_counts(counts)
        ranks = np.arange(len(counts) + 1)
        rates = np.append(0, np.cumsum(counts) / sum(counts))
        corners = RateCurve(ranks, rates, rates).corners
        bits, same = entropies.shannon_entropy(private), entropies.collision_probability(private)
        assert entropies.entropy_bounds(*corners) == pytest.approx((bits, bits), abs=1e-7)
        assert entropies.collision_bounds(*corners) == pytest.approx((same, same), abs=1e-7)


@pytest.mark.parametrize(("rate", "draws"), [(0.5, 15), (0.05, 10)])
@pytest.mark.parametrize("private", LISTS.values(), ids=LISTS)
def test_every_interval_holds_as_often_as_it_says(private, rate, draws):
    """At 95%, with fixed seeds: right intervals miss more than 5 of 15 times, or 4 of 10 times,
    with a probability below 7e-5 each, were they as short as possible."""
    misses = dict.fromkeys(truths(private), 0)
    for seed in range(draws):
        facts = noisy(private, rate, seed)
        for (name, *arguments), truth in truths(private).items():
            interval = (
                getattr(facts, name)(*arguments) if len(private) or name != "min_entropy" else None
            )
            misses[(name, *arguments)] += (
                interval is not None and not interval.low <= truth <= interval.high
            )
    assert max(misses.values()) <= (5 if draws == 15 else 4), misses


def test_small_partitions_are_as_certain_as_they_say():
    """At 80%, in 60 draws: right intervals hold fewer than 32 times with a probability of 1e-6."""
    private, limit = LISTS["two levels"], 40
    truth = entropies.users_in_small_partitions(private, limit)
    held = 0
    for seed in range(60):
        interval = noisy(private, 0.3, seed).users_in_small_partitions(limit, 0.8)
        held += interval.low <= truth <= interval.high
    assert held >= 32


@pytest.mark.parametrize("private", LISTS.values(), ids=LISTS)
def test_intervals_of_the_geometric_mechanism_hold(private):
    """Seeded: of 15 releases at most 4 miss, which right intervals exceed with 7e-4 each."""
    misses = dict.fromkeys(truths(private), 0)
    for seed in range(15):
        facts = intervals_of(partition_mechanism(1.5).release(private, InsecureSeededTape(seed)))
        assert isinstance(facts, WalkIntervals)
        for (name, *arguments), truth in truths(private).items():
            if name == "min_entropy" and not (len(private) and len(facts.released)):
                continue
            interval = getattr(facts, name)(*arguments)
            misses[(name, *arguments)] += not interval.low <= truth <= interval.high
    assert max(misses.values()) <= 4, misses


@pytest.mark.parametrize("x", [(5, 2, 1, 1, 1), (9, 4, 2, 2, 1), (1,) * 9, (3, 3, 3)], ids=str)
def test_no_list_near_a_release_of_a_walk_is_outside(x, monkeypatch):
    """With bounds on distances in the place of noise, and on each number of the list of columns."""
    error = ReleaseError(2, math.inf, 0)
    monkeypatch.setattr(ReleaseError, "of", lambda *_: error)

    class Within:
        def largest_excess(self, failure):
            return 2

        def largest_shortfalls(self, failure, ranks):
            return [2] * len(ranks)

    facts = WalkIntervals(FrequencyList.from_counts(x), Within())
    for counts in lists_within(x, error):
        near = FrequencyList.from_counts(counts)
        for (name, *arguments), truth in truths(near).items():
            if len(near):
                interval = getattr(facts, name)(*arguments)
                assert interval.low <= truth + 1e-9 and truth <= interval.high + 1e-9, name


@pytest.mark.parametrize(("rate", "count", "weight"), [(0.5, 1, 2), (0.5, 9, 9), (2, 30, 4)])
def test_a_weighted_noise_is_within_its_bound(rate, count, weight):
    """The exact distribution, by convolution."""
    q, reach = math.exp(-rate), math.ceil(40 / rate)
    noise = (1 - q) / (1 + q) * q ** np.abs(np.arange(-reach, reach + 1))
    whole = np.zeros(2 * weight * reach + 1)
    whole[::weight] = noise
    for _ in range(count):
        whole = np.convolve(whole, noise)
    distance = np.abs(np.arange(len(whole)) - len(whole) // 2)
    for failure in (0.05, 1e-4):
        bound = _one_weighted(rate, count, weight, failure)
        assert whole[distance > bound].sum() <= failure
        # Not much is given away.
        assert whole[distance > bound / 2].sum() > failure


def test_estimates_err_less_than_those_of_the_noisy_numbers():
    """Plug-in estimates of the decoded list, and of the list that closes the noisy coordinates."""
    private = LISTS["Zipf"]
    truth, errors = truths(private), {"ours": [], "naive": []}
    for seed in range(6):
        released = partition_mechanism(0.2).release(private, InsecureSeededTape(seed))
        arms = released.coordinates.rows, released.coordinates.columns
        size = min(map(len, arms))
        noisy_arms = tuple(np.maximum(arm[:size], 0) for arm in arms)
        naive, _ = closed(noisy_arms, noisy_arms, 0, size)
        for name, estimated in (("ours", released), ("naive", naive)):
            answers = truths(estimated)
            errors[name].append([abs(answers[key] - truth[key]) for key in truth])
    ours, theirs = (np.mean(errors[name], axis=0) for name in ("ours", "naive"))
    keys = [key for key in truth if key[0] in ("shannon_entropy", "share_in_small_partitions")]
    for key, own_error, naive_error in zip(truth, ours, theirs, strict=True):
        if key in keys:
            assert own_error < naive_error, key


def test_a_model_has_entropies_too():
    samples = [FrequencyList([3, 1], [1, n]) for n in (4, 5, 6)]
    model = ModelIntervals(samples[1], samples)
    bits = [entropies.shannon_entropy(sample) for sample in samples]
    assert model.shannon_entropy() == Estimate(bits[1], bits[0], bits[2], kind="model")
    assert model.unique_users() == Estimate(5, 4, 6, kind="model")


def test_questions_are_checked():
    facts = noisy(LISTS["all unique"], 1, 0)
    with pytest.raises(ValueError, match="fewer_than must be a positive integer"):
        facts.users_in_small_partitions(0)
    with pytest.raises(ValueError, match="confidence must be between 0 and 1"):
        facts.shannon_entropy(1)
    assert facts.users_in_small_partitions(1) == Estimate(0, 0, 0)
    everyone = facts.users_in_small_partitions(10**30)
    assert everyone.low <= 20_000 <= everyone.high
    assert {ROWS, COLUMNS} == set(facts._arms)
