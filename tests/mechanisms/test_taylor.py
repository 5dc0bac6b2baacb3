import gmpy2
import numpy as np
import pytest

from dp_transforms.mechanisms import taylor

CENTRES = np.arange(0, 600) / 64
BETWEEN = CENTRES + 1 / 128
RANDOM = np.random.default_rng(1).uniform(0, 9.5, 10_000)
TINY = 10 ** np.random.default_rng(2).uniform(-300, 0.9, 2_000)
POINTS = np.concatenate([CENTRES, BETWEEN, np.nextafter(BETWEEN, 0), RANDOM, TINY])


@pytest.mark.parametrize(
    ("function", "exact", "stretches"),
    [
        (taylor.exp_minus, lambda s: gmpy2.exp(-s), (1, 4.8)),
        (taylor.one_minus_exp_minus, lambda s: -gmpy2.expm1(-s), (1, 4.8)),
        (taylor.normal_tail, lambda s: gmpy2.erfc(s / gmpy2.sqrt(2)) / 2, (1,)),
    ],
)
def test_values_are_within_their_error(function, exact, stretches):
    for points in (POINTS * stretch for stretch in stretches):
        values = function(points)
        with gmpy2.context(precision=120):
            for value, point in zip(values.tolist(), points.tolist(), strict=True):
                expected = exact(gmpy2.mpfr(point))
                assert abs(value - expected) <= taylor.RELATIVE_ERROR * expected


def test_beyond_the_tables():
    far = np.array([50.0, 1e300, np.inf])
    assert (taylor.exp_minus(far) < 2.0**-66).all()
    assert (taylor.normal_tail(far) < 2.0**-68).all()
    assert (taylor.one_minus_exp_minus(far) == 1).all()
