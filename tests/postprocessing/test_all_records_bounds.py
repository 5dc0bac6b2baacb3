"""Proved intervals about all records: by enumeration, and on data made to be hard for them."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from scipy import stats

from dp_transforms.mechanisms import FrequencyList, FrobeniusMechanism
from dp_transforms.mechanisms.user_degrees import ReleasedDegrees, UserDegreeMechanism
from dp_transforms.mechanisms.users_beyond import UsersBeyondMechanism
from dp_transforms.postprocessing.all_records_bounds import AllRecordsBounds, Bounds
from dp_transforms.postprocessing.estimates import ReleaseIntervals
from dp_transforms.postprocessing.intervals import CoordinateIntervals
from tests.tapes import InsecureSeededTape

NO_NOISE = 1e6  # an epsilon


class Exact(ReleaseIntervals):
    """Intervals of a list that is known, so that degrees alone decide about all records."""

    def __init__(self, bounded):
        self.released = bounded

    def _ends(self, name, index, value, confidence):
        return value, value

    def bands(self, confidence=0.95):
        return self.released, self.released

    def _rate_curve(self, confidence):
        raise NotImplementedError


def exact_degrees(degrees, lowest=(1, 2, 3)):
    cells = np.bincount(np.searchsorted(lowest, degrees, side="right") - 1, minlength=len(lowest))
    return ReleasedDegrees(lowest, tuple(cells.tolist()), NO_NOISE)


def frequency_list(records):
    return FrequencyList.from_counts(Counter(partition for _, partition in records).values())


def numbers(records, most=5):
    """All numbers that bounds are for, of a list of records, by counting."""
    counts = sorted(Counter(partition for _, partition in records).values(), reverse=True)
    padded = [*counts, *[0] * most]
    answers = {("number_of_partitions",): len(counts), ("total",): sum(counts)}
    for k in range(1, most):
        answers["partitions_with_at_least", k] = sum(count >= k for count in counts)
        answers["frequency_at", k] = padded[k - 1]
        answers["share_of_top", k] = sum(padded[:k]) / sum(counts)
    return answers


def ask(bounds, question, *confidence):
    name, *argument = question
    return getattr(bounds, name)(*argument, *confidence)


def small_cases():
    """Each (bounded list, degrees, kappa) of three users with up to three partitions, and all
    answers that are true of some records from which it comes."""
    some = [tuple(c) for size in (1, 2, 3) for c in itertools.combinations("abc", size)]
    cases = {}
    for kappa in (1, 2):
        for users in itertools.combinations_with_replacement(some, 3):
            records = [(user, p) for user, has in enumerate(users) for p in has]
            answers = numbers(records)
            kept_of_each = [itertools.combinations(has, min(len(has), kappa)) for has in users]
            for kept in itertools.product(*kept_of_each):
                bounded = frequency_list([(user, p) for user, has in enumerate(kept) for p in has])
                degrees = tuple(sorted(map(len, users)))
                cases.setdefault((bounded, degrees, kappa), []).append(answers)
    return cases


def test_bounds_hold_for_all_small_data_sets():
    attained = Counter()
    for (bounded, degrees, kappa), truths in small_cases().items():
        for largest in (3, None):
            bounds = AllRecordsBounds(
                Exact(bounded), exact_degrees(degrees), kappa, largest_degree=largest
            )
            for question in truths[0]:
                interval = ask(bounds, question)
                values = [answers[question] for answers in truths]
                assert interval.low <= min(values) and max(values) <= interval.high, question
                if largest:
                    attained[question[0]] += interval.high - max(values) < 1e-6
                    attained[question[0], "low"] += min(values) - interval.low < 1e-6
    # Bounds are not loose: each kind is attained in some cases, from above and from below.
    assert all(
        attained[name] and attained[name, "low"]
        for name in ("total", "frequency_at", "partitions_with_at_least", "share_of_top")
    )


def heavy_with_the_same(rng):
    """Fifty users have the same forty partitions, and two hundred have one."""
    heavy = [(user, partition) for user in range(50) for partition in range(40)]
    return heavy + [(50 + user, 100 + user % 60) for user in range(200)]


def heavy_with_different(rng):
    """Fifty users have forty partitions each that nobody else has."""
    heavy = [(user, f"{user}-{part}") for user in range(50) for part in range(40)]
    return heavy + [(50 + user, user % 60) for user in range(200)]


def a_user_of_a_million(rng):
    """One user has a million partitions, of whom the bounded list knows kappa."""
    return [("the one", part) for part in range(10**6)] + [(u, u % 30) for u in range(300)]


def skewed(rng):
    """Partitions by Zipf's law, degrees of 1 to 30."""
    weights = 1 / np.arange(1, 200)
    chosen = [
        rng.choice(199, 1 + int(rng.pareto(1)) % 30, replace=False, p=weights / weights.sum())
        for _ in range(400)
    ]
    return [(user, part) for user, has in enumerate(chosen) for part in has.tolist()]


def bounded_records(records, kappa):
    """The kappa first partitions of each user: a choice as good as any other one."""
    seen, kept = Counter(), []
    for user, partition in records:
        if seen[user] < kappa:
            kept.append((user, partition))
        seen[user] += 1
    return kept, Counter(seen.values())


QUESTIONS = [
    ("number_of_partitions",),
    ("total",),
    *(("partitions_with_at_least", t) for t in (1, 2, 5, 20, 60)),
    *(("frequency_at", rank) for rank in (1, 10, 41, 100)),
    *(("share_of_top", k) for k in (1, 40)),
]


def true_answer(question, everything):
    name, *argument = question
    if name == "share_of_top":
        top = everything.at_ranks(range(1, argument[0] + 1)).sum()
        return top / everything.total
    if name == "frequency_at":
        return int(everything.at_ranks(argument)[0])
    if name == "total":
        return everything.total
    return int(everything.at_least(argument or [1])[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    "make", [heavy_with_the_same, heavy_with_different, a_user_of_a_million, skewed]
)
def test_intervals_hold_over_the_noise_of_all_releases(make):
    """At 80% confidence each question fails in at most a fifth of 60 runs, whether a largest degree
    is declared or not, and users beyond kappa are counted or not; a run too many than chance allows
    in one of 10**6 tests is an error (one-sided binomial)."""
    records = make(np.random.default_rng(1))
    kappa, confidence, runs = 4, 0.8, 60
    kept, degrees = bounded_records(records, kappa)
    bounded, everything = frequency_list(kept), frequency_list(records)
    answers = {question: true_answer(question, everything) for question in QUESTIONS}
    lists, users = FrobeniusMechanism(1, kappa), UserDegreeMechanism(0.5, 100)
    beyond = UsersBeyondMechanism(0.5, kappa)
    failures = Counter()
    for run in range(runs):
        coordinates = lists.noisy_coordinates(bounded, InsecureSeededTape(run))
        intervals = CoordinateIntervals(coordinates, FrequencyList([1], [1]))
        released = users.release(degrees, InsecureSeededTape(1000 + run))
        counted = beyond.release(degrees, InsecureSeededTape(2000 + run))
        for largest, users_beyond in itertools.product((10**6, None), (None, counted)):
            bounds = AllRecordsBounds(
                intervals, released, kappa, largest_degree=largest, users_beyond=users_beyond
            )
            for question, answer in answers.items():
                interval = ask(bounds, question, confidence)
                case = largest, users_beyond is None, question
                failures[case] += not interval.low <= answer <= interval.high
    assert len(failures) == 4 * len(QUESTIONS)
    limit = stats.binom.isf(1e-6, runs, 1 - confidence)
    assert max(failures.values()) <= limit, failures


def test_heavy_users_with_the_same_partitions_attain_the_bounds():
    kept, degrees = bounded_records(heavy_with_the_same(None), 4)
    histogram = exact_degrees([d for d, users in degrees.items() for _ in range(users)])
    bounds = AllRecordsBounds(Exact(frequency_list(kept)), histogram, 4, largest_degree=40)
    # Four partitions have all fifty users already. The other 36 lost fifty users each.
    assert bounds.dropped().most_users == 50
    assert bounds.frequency_at(1).low == 50 and bounds.frequency_at(41).high >= 50
    assert bounds.total().high == 50 * 40 + 200


def test_what_nobody_declared_has_no_end_but_what_users_bound():
    histogram = exact_degrees([1] * 20 + [3] * 2)
    bounds = AllRecordsBounds(Exact(FrequencyList([12, 3, 1], [1, 2, 4])), histogram, 1)
    assert bounds.total() == Bounds(22 + 2 * 2, math.inf, 0.95)
    assert bounds.number_of_partitions().high == math.inf
    assert bounds.frequency_at(1) == Bounds(12, 14, 0.95)
    assert bounds.partitions_with_at_least(4) == Bounds(1, 3, 0.95)
    assert bounds.partitions_with_at_least(2).high == math.inf
    assert bounds.share_of_top(1).low == 0


def test_a_largest_degree_up_to_kappa_leaves_the_list_as_it_is():
    bounded = FrequencyList([12, 3, 1], [1, 2, 4])
    noisy = ReleasedDegrees((1, 2, 3), (20, 9, 7), 0.1)
    bounds = AllRecordsBounds(Exact(bounded), noisy, 2, largest_degree=2)
    assert bounds.total() == Bounds(22, 22, 0.95)
    assert bounds.frequency_at(2) == Bounds(3, 3, 0.95)
    assert bounds.partitions_with_at_least(1) == Bounds(7, 7, 0.95)


@pytest.mark.thorough
def test_a_kappa_that_the_degrees_chose_widens_what_they_say():
    """The kappa whose H is most underestimated by chance may be the one that is chosen: over all
    kappas together the bounds fail in at most a tenth of the runs."""
    users, degrees = UserDegreeMechanism(0.2, 60), Counter({1: 300, 7: 40, 60: 5})
    runs, failures = 60, 0
    for run in range(runs):
        released = users.release(degrees, InsecureSeededTape(run))
        fails = False
        for kappa in released.lowest:
            heavy = sum(count for degree, count in degrees.items() if degree > kappa)
            bounds = AllRecordsBounds(
                Exact(FrequencyList([1], [1])), released, kappa, kappa_from_degrees=True
            )
            fails |= bounds.dropped(0.9).most_users < heavy
            alone = AllRecordsBounds(Exact(FrequencyList([1], [1])), released, kappa)
            assert alone.dropped(0.9).most_users < bounds.dropped(0.9).most_users
        failures += fails
    assert failures <= stats.binom.isf(1e-6, runs, 0.1)


def test_wrong_arguments_are_named():
    degrees, exact = exact_degrees([1, 2]), Exact(FrequencyList([1], [1]))
    with pytest.raises(ValueError, match="kappa must be a positive integer"):
        AllRecordsBounds(exact, degrees, 0)
    with pytest.raises(ValueError, match="largest_degree must be a positive integer"):
        AllRecordsBounds(exact, degrees, 1, largest_degree=0)
    with pytest.raises(ValueError, match="kappa = 5 was not chosen by these degrees"):
        AllRecordsBounds(exact, degrees, 5, kappa_from_degrees=True)
    bounds = AllRecordsBounds(exact, degrees, 1)
    for wrong in (bounds.frequency_at, bounds.partitions_with_at_least, bounds.share_of_top):
        with pytest.raises(ValueError, match="must be a positive integer"):
            wrong(0)
    with pytest.raises(ValueError, match="confidence must be between 0 and 1"):
        bounds.total(95)
