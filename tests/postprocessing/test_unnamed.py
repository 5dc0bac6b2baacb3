import itertools

import numpy as np
import pyarrow as pa
import pytest

from dp_transforms.columnar.columns import PARTITION, USER
from dp_transforms.engines.round_kernels import select_in_memory
from dp_transforms.mechanisms.selection import (
    GaussianSelection,
    LaplaceSelection,
    MeasuredSelection,
    OptimalSelection,
    RenyiRoundsSelection,
    TruncatedGeometricSelection,
)
from dp_transforms.mechanisms.selection.rounds import RoundPlan
from dp_transforms.postprocessing.unnamed import UnnamedBound, most_unnamed_users
from dp_transforms.runtime.job_secret import JobSecret
from tests.cases import thorough_unless

BY_COUNTS = {
    "optimal": OptimalSelection(1, 1e-5, 10),
    "naive": OptimalSelection(1, 1e-5, 10, composition="naive"),
    "replaced": OptimalSelection(1, 1e-5, 2, neighbours="replace"),
    "pre-threshold": LaplaceSelection(1, 1e-3, 2, pre_threshold=40),
    "gaussian": GaussianSelection(0.5, 1e-5, 3),
    "truncated": TruncatedGeometricSelection(1, 1e-5),
    "no epsilon": OptimalSelection(0, "0.01"),
}


@pytest.mark.parametrize("strategy", BY_COUNTS.values(), ids=BY_COUNTS)
@pytest.mark.parametrize("confidence", [0.5, 0.95, "0.999"])
def test_the_bound_is_the_last_number_that_may_be_missed(strategy, confidence):
    """And that all larger ones are named as often as it says."""
    bound = most_unnamed_users(strategy, confidence)
    assert bound.of_at_most is None
    probabilities = [strategy.keep_probability(n) for n in range(bound.users, bound.users + 60)]
    assert probabilities[0] < float(confidence) <= min(probabilities[1:])


def missed(strategy, pairs, partition, secrets):
    """How often a partition is not named, of selections from (user, partition) pairs."""
    users, partitions = zip(*sorted(pairs), strict=True)
    table = pa.table({USER: pa.array(users), PARTITION: pa.array(partitions)})
    number = 0
    for secret in secrets:
        names = select_in_memory(table, strategy, JobSecret(secret.to_bytes(32, "big")))
        number += partition not in names[PARTITION].to_pylist()
    return number


def adversaries(users, kappa):
    """Records in which each user of "target" has kappa partitions: others that nobody else has,
    that all have, that others have enough of to be named in early rounds."""
    mine = [(f"u{user}", "target") for user in range(users)]
    for kind in ("own", "shared", "popular"):
        pairs = list(mine)
        for user, other in itertools.product(range(users), range(kappa - 1)):
            pairs.append((f"u{user}", f"{user} {other}" if kind == "own" else f"other {other}"))
        if kind == "popular":
            pairs += [(f"v{n}", f"other {o}") for n in range(6 * users) for o in range(kappa - 1)]
        yield pairs


ROUNDS = {
    "three rounds": RenyiRoundsSelection(2, 1e-3, 4),
    "pre-threshold": RenyiRoundsSelection(2, 1e-3, 3, pre_threshold=12),
    "many rounds": MeasuredSelection(2, 1e-3, 4).planned(RoundPlan(4, 6, 1)),
    "one round": RenyiRoundsSelection(2, 1e-3, 4, number_of_rounds=1),
}


@pytest.mark.parametrize("name", thorough_unless(ROUNDS, ["pre-threshold", "one round"]))
def test_rounds_miss_no_larger_partition_more_often_than_said(name):
    """Of 40 selections from each adversarial data set, with one user more than the bound. More than
    9 of 40 are missed with probability 6e-5 at most, if 5% are in the mean."""
    strategy = ROUNDS[name]
    bound = most_unnamed_users(strategy)
    for pairs in adversaries(bound.users + 1, strategy.max_partitions_per_user):
        assert missed(strategy, pairs, "target", range(40)) <= 9


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ROUNDS.values(), ids=ROUNDS)
def test_rounds_miss_partitions_at_the_rate_said(strategy):
    """As above, of 1000 selections: at most 50 in the mean; more than 78 have probability 1e-4."""
    bound = most_unnamed_users(strategy)
    for pairs in adversaries(bound.users + 1, strategy.max_partitions_per_user):
        assert missed(strategy, pairs, "target", range(1000)) <= 78


def test_the_bound_of_rounds_is_not_far_from_what_they_miss():
    """A partition of half as many users, all of kappa partitions of their own, is often missed."""
    strategy = ROUNDS["three rounds"]
    bound = most_unnamed_users(strategy)
    own = next(adversaries(bound.users // 2, 4))
    assert missed(strategy, own, "target", range(40)) >= 8


@pytest.mark.parametrize("strategy", ROUNDS.values(), ids=ROUNDS)
def test_users_of_fewer_partitions_add_no_less(strategy):
    """The proof needs it: a round's weights fall with a user's number of partitions."""
    for index in range(strategy.most_rounds):
        for named in (0, 10**6):
            weights = strategy.weights(
                index, np.arange(1, 5)[: strategy.max_partitions_per_user], named
            )
            assert (np.diff(weights) <= 0).all() and weights[-1] > 0


def test_what_is_not_known_is_not_said():
    assert most_unnamed_users(MeasuredSelection(1, 1e-5, 10)) == UnnamedBound(None)
    assert most_unnamed_users(OptimalSelection(1, 0)) == UnnamedBound(None)
    rounds = most_unnamed_users(ROUNDS["three rounds"], bounded_before=False)
    assert rounds.of_at_most == 4
    for confidence in (0, 1, float("nan")):
        with pytest.raises(ValueError, match="confidence must be"):
            most_unnamed_users(BY_COUNTS["optimal"], confidence)
