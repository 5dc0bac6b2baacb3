"""Which part of a partition's records bounding keeps, at any tilt."""

import numpy as np
import pytest

from dp_transforms.postprocessing.kept_parts import KeptParts

DEGREES = np.array([1.0, 3, 10, 40, 150])
USERS = np.array([9_000.0, 2_000, 600, 150, 20])
KAPPA = 8
MEANS = np.geomspace(0.5, 5_000, 60)
NUMBERS = 3_000 / MEANS  # of partitions with these means


@pytest.mark.parametrize("tilt", [-0.2, -0.05, 0.05, 0.2])
def test_the_centre_is_where_the_right_part_of_all_pairs_is_kept(tilt):
    pairs = USERS * DEGREES
    share = float(USERS @ np.minimum(DEGREES, KAPPA) / pairs.sum())
    kept = KeptParts(USERS, DEGREES, np.minimum(1, KAPPA / DEGREES), tilt)
    weights = NUMBERS * MEANS
    parts = kept.at(MEANS, kept.centre(MEANS, weights, share))
    assert weights @ parts / weights.sum() == pytest.approx(share, rel=1e-3)


def test_the_tilt_says_whose_things_are_rare():
    """Among things that few have: with a positive tilt they are those of users of many things, of
    whose records less is kept, and with a negative one they are not."""
    rare = np.array([2.0, 20.0])

    def parts(tilt):
        kept = KeptParts(USERS, DEGREES, np.minimum(1, KAPPA / DEGREES), tilt)
        low, high = kept.at(rare, 0.0)
        return high - low

    assert parts(0.1) > 0.01 and parts(-0.1) < -0.01
    assert abs(parts(0)) < 0.01


def test_kept_parts_are_those_of_users_who_have_a_thing_once():
    """Beside a simulation: things of given intensities, which users of d partitions have with
    probability 1 - exp(-intensity * d)."""
    random = np.random.default_rng(2)
    degrees = np.array([1.0, 4.0, 60.0])
    users = np.array([3_000, 800, 300])
    parts = np.minimum(1, 3 / degrees)
    kept = KeptParts(users.astype(float), degrees, parts, tilt=0)
    for intensity in (0.001, 0.03, 0.5, 6.0):
        has = random.binomial(users, -np.expm1(-intensity * degrees), (2_000, 3))
        number, of_kept = has.sum(), (has * parts).sum()
        (part,) = kept.at(np.array([number / 2_000]), 0.0)
        assert part == pytest.approx(of_kept / number, abs=0.01)
    # What everybody has is kept as users keep things; what hardly anybody has, as pairs are kept.
    ends = kept.at(np.array([1e-3, users.sum()]), 0.0)
    pairs = users * degrees
    np.testing.assert_allclose(
        ends, [pairs @ parts / pairs.sum(), users @ parts / users.sum()], 0.01
    )


def test_the_centre_makes_the_kept_pairs_the_right_part():
    kept = KeptParts(np.array([900.0, 90]), np.array([2.0, 80]), np.array([1.0, 0.05]), 0.05)
    means = np.geomspace(1, 500, 40)
    pairs = 1 / means
    centre = kept.centre(means, pairs, 0.3)
    assert kept.at(means, centre) @ pairs / pairs.sum() == pytest.approx(0.3, abs=1e-4)
    assert (np.diff(kept.at(means, centre)) > 0).all()
