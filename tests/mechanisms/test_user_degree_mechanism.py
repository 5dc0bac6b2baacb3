import itertools
import math
from collections import Counter

import numpy as np
import pytest

from dp_transforms.mechanisms.randomness import RandomTape
from dp_transforms.mechanisms.user_degrees import ReleasedDegrees, UserDegreeMechanism, cell_bounds
from dp_transforms.runtime.job_secret import JobSecret
from tests.cases import refused
from tests.statistical import distributions
from tests.tapes import InsecureSeededTape

SECRET = JobSecret.insecure_for_testing(1)


def test_cells_are_narrow_and_end_at_the_largest_degree():
    for most in (1, 2, 7, 8, 30, 1000, 12345):
        bounds = cell_bounds(most)
        assert bounds[0] == 1 and bounds[-1] == most
        assert all(a < b <= max(a + 1, 1.34 * a) for a, b in itertools.pairwise(bounds))


def probability(mechanism, cells, released):
    """From the definition of discrete Laplace noise, in floats."""
    q = math.exp(-float(mechanism.epsilon))
    distances = np.abs(np.subtract(cells, released))
    return np.prod((1 - q) / (1 + q) * q**distances, axis=-1)


@pytest.mark.parametrize("epsilon", [0.5, 2])
def test_no_user_changes_any_release_by_more_than_epsilon(epsilon):
    """Every histogram of up to three users over degrees 1 to 4, and every neighbour of it."""
    mechanism = UserDegreeMechanism(epsilon, max_degree=3)
    released = list(itertools.product(range(-2, 5), repeat=3))
    losses = []
    for more in [group for n in (2, 3) for group in itertools.product(range(1, 5), repeat=n)]:
        both = (mechanism.cells(Counter(group)) for group in (more[1:], more))
        losses.append(np.log([probability(mechanism, cells, released) for cells in both]))
    assert np.abs(np.diff(losses, axis=1)).max() == pytest.approx(epsilon)


def test_the_noise_is_that_of_the_statement():
    """Of 4,200 cells without users."""
    mechanism = UserDegreeMechanism(1, max_degree=6)
    drawn = [mechanism.release({}, InsecureSeededTape(seed)).users for seed in range(700)]
    expected = {k: probability(mechanism, [0], [k]) for k in range(-6, 7)}
    distributions.assert_follows(np.array(drawn).ravel(), expected)


def test_a_retry_repeats_the_release_and_other_data_have_other_noise():
    mechanism = UserDegreeMechanism(0.1, max_degree=100)
    released = mechanism.release_under({1: 500, 7: 20}, SECRET.tape)
    assert released == mechanism.release_under({7: 20, 1: 500}, SECRET.tape)
    other = mechanism.release_under({1: 501, 7: 20}, SECRET.tape)
    noise = np.subtract(released.users, mechanism.cells({1: 500, 7: 20}))
    assert (noise != np.subtract(other.users, mechanism.cells({1: 501, 7: 20}))).any()
    assert released.users != mechanism.release_under({1: 500, 7: 20}, SECRET.tape, "again").users


def test_a_tape_serves_once():
    tape = RandomTape.from_os()
    UserDegreeMechanism(1).release({1: 1}, tape)
    with pytest.raises(ValueError, match="has claimed this tape"):
        UserDegreeMechanism(1).release({1: 2}, tape)


test_faults_are_named = refused(
    lambda make: make(),
    (lambda: UserDegreeMechanism(0), "epsilon must be a positive"),
    (lambda: UserDegreeMechanism(1, 0), "max_degree must be a positive integer"),
    (lambda: UserDegreeMechanism(1, 10**6 + 1), "max_degree must be at most 1,000,000"),
    (lambda: UserDegreeMechanism(2**-60), "scale must be at most"),
    (lambda: UserDegreeMechanism(1).release({0: 3}), "must be positive integers"),
    (lambda: ReleasedDegrees((2, 3), (1, 1), 1.0), "lowest must ascend from 1"),
    (lambda: ReleasedDegrees((1, 3), (1,), 1.0), "lowest must ascend from 1"),
)
