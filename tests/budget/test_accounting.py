"""Composition against exact sums, numerical maxima, and the distributions of real mechanisms."""

import functools
import itertools
import math
import operator
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.rdp import RdpAccountant
from scipy import stats

from dp_transforms.budget import (
    ApproximateDpEvent,
    BoundedRangeDpEvent,
    PrivacyBudget,
    compose,
    gaussian_threshold_event,
    largest_epsilon,
    partition_event,
)
from dp_transforms.budget.accounting import bounded_range_divergence, list_event, pure_divergence
from dp_transforms.mechanisms import (
    FrobeniusMechanism,
    GeometricPartitionMechanism,
    IntegerPartitionMechanism,
    partition_mechanism,
)
from tests import enumeration
from tests.cases import refused


def times(count, event):
    return [dp_event.SelfComposedDpEvent(event, count)]


@functools.cache
def rows_of(*lists):
    """Lists as rows of 30 numbers; by default all lists of up to 30 users."""
    lists = lists or enumeration.partitions_of_at_most(30)
    return np.array([[*x, *[0] * (30 - len(x))] for x in lists])


def partition_distributions(lists, epsilon):
    """The integer-partition mechanism's probabilities of lists of up to 30 users, per list."""
    rate = float(IntegerPartitionMechanism(epsilon=epsilon).decay.rate)
    for row in rows_of(*lists):
        weights = np.exp(-rate * abs(rows_of() - row).sum(axis=1))
        yield weights / weights.sum()


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 5.0])
def test_the_partition_mechanism_has_bounded_range(epsilon):
    """Exact log ratios of neighbours fill an interval, and epsilon bounds them too."""
    length = IntegerPartitionMechanism(epsilon=epsilon).loss_range
    neighbours = [(2, 1), (3, 1), (2, 2), (2, 1, 1), (2,), (1, 1)]
    first, *other_distributions = partition_distributions(neighbours, epsilon)
    for distribution in other_distributions:
        losses = np.log(first / distribution)
        assert abs(losses).max() <= epsilon
        assert losses.max() - losses.min() == pytest.approx(length, rel=1e-9)
    assert epsilon <= length < 2 * epsilon


@pytest.mark.parametrize(("epsilon", "count"), [(0.5, 20), (1.0, 4), (0.1, 60)])
def test_what_compose_says_holds_for_the_exact_distribution(epsilon, count):
    """Its losses, rounded down to a grid, give a lower bound."""
    delta = 1e-4
    event = partition_event(IntegerPartitionMechanism(epsilon=epsilon))
    bound = compose(times(count, event), delta)
    grid = epsilon / 400
    for f, g in [((2, 1), (3, 1)), ((3, 1), (2, 1)), ((), (1,)), ((1,), ()), ((9,), (9, 1))]:
        p, q = partition_distributions([f, g], epsilon)
        steps = np.floor(np.log(p / q) / grid).astype(int)
        lowest = steps.min()
        single = np.bincount(steps - lowest, weights=p)
        size = count * len(single)
        total = np.fft.irfft(np.fft.rfft(single, 2 * size) ** count, 2 * size)[:size]
        losses = (np.arange(size) + count * lowest) * grid
        excess = np.maximum(0, -np.expm1(bound.epsilon - losses))
        assert float(total @ excess) <= delta


@pytest.mark.parametrize("count", [1, 4, 30])
def test_of_a_loss_and_its_range_composition_takes_what_is_smaller(count):
    both = compose(times(count, BoundedRangeDpEvent(1.2, 1.0)), 1e-6)
    for other in (BoundedRangeDpEvent(1.2), ApproximateDpEvent(1.0)):
        alone = compose(times(count, other), 1e-6)
        assert all(both.by_method[method] <= alone.by_method[method] for method in both.by_method)
    assert both.by_method["basic"] == pytest.approx(count)
    geometric = partition_event(GeometricPartitionMechanism(epsilon=1.5))
    assert (geometric.epsilon, geometric.pure) == (3.0, 1.5)


@pytest.mark.parametrize("epsilon", [0.01, 0.1])
def test_many_lists_cost_a_quarter_of_the_rho(epsilon):
    delta, count = 1e-6, 400
    rdp = compose(times(count, BoundedRangeDpEvent(epsilon)), delta).by_method["rdp"]
    library = RdpAccountant(orders=1 + np.geomspace(1e-2, 1e5, 2000))
    library.compose(dp_event.ZCDpEvent(rho=count * epsilon**2 / 8))
    zcdp = library.get_epsilon(delta)
    assert 0.98 * zcdp < rdp < 1.001 * zcdp
    pure = compose(times(count, ApproximateDpEvent(epsilon)), delta).by_method["rdp"]
    assert pure > 1.9 * rdp


@pytest.mark.parametrize("epsilon", [1e-8, 1e-4, 0.1, 1.0, 8.0])
def test_bounded_range_divergence_is_the_maximum_over_two_point_distributions(epsilon):
    orders = np.array([1.02, 1.5, 2, 7, 64, 1000.0])
    # Log ratios t and t - epsilon; their probabilities follow from E_Q[ratio] = 1.
    t = np.linspace(0, epsilon, 20_001)[1:-1]
    upper = (-np.expm1(t - epsilon)) / (np.exp(t) - np.exp(t - epsilon))
    for order, claimed in zip(orders, bounded_range_divergence(epsilon, orders), strict=True):
        log_moment = np.logaddexp(
            np.log(upper) + order * t, np.log1p(-upper) + order * (t - epsilon)
        )
        largest = log_moment.max() / (order - 1)
        assert claimed >= largest * (1 - 1e-6) - 1e-12
        assert claimed <= largest * (1 + 1e-4) + 1e-11
        assert claimed <= min(order * epsilon**2 / 8, epsilon)


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 3.0, 50.0])
def test_pure_divergence_is_that_of_randomised_response(epsilon):
    orders = np.array([1.02, 2, 30, 1000.0])
    p, q = 1 / (1 + math.exp(-epsilon)), 1 / (1 + math.exp(epsilon))
    for order, claimed in zip(orders, pure_divergence(epsilon, orders), strict=True):
        terms = [order * math.log(a) + (1 - order) * math.log(b) for a, b in ((p, q), (q, p))]
        expected = np.logaddexp(*terms) / (order - 1)
        assert claimed == pytest.approx(expected, rel=1e-6, abs=1e-11)
        assert claimed <= epsilon


@pytest.mark.parametrize(("epsilon", "count"), [(0.1, 30), (0.5, 10), (1.0, 3)])
def test_pld_is_exact_for_pure_mechanisms(epsilon, count):
    """k-fold randomised response is the worst of all k-fold epsilon-DP mechanisms."""
    q = math.exp(-epsilon)
    exact = {2 * i - count: stats.binom.pmf(i, count, 1 / (1 + q)) for i in range(count + 1)}
    for delta in (1e-3, 1e-6, 1e-10):
        t = compose(times(count, ApproximateDpEvent(epsilon)), delta).by_method["pld"] / epsilon
        assert delta_at(exact, q, t) <= delta < delta_at(exact, q, t - 2e-4 * count)


def test_own_deltas_are_failures_that_come_on_top():
    events = times(10, ApproximateDpEvent(0.1, 1e-7))
    total = compose(events, delta=2e-6)
    for method, epsilon in total.by_method.items():
        left = -math.expm1(math.log1p(-2e-6) - 10 * math.log1p(-1e-7))
        without = compose(times(10, ApproximateDpEvent(0.1)), delta=left).by_method[method]
        assert epsilon == pytest.approx(without, rel=1e-6), method
    with pytest.raises(ValueError, match=r"delta=9e-07 cannot be reached.*1e-06"):
        compose(events, delta=9e-7)


def test_the_tightest_method_depends_on_the_task():
    assert compose(times(100, BoundedRangeDpEvent(0.1)), 1e-6).method == "rdp"
    assert compose(times(100, ApproximateDpEvent(0.1)), 1e-6).method == "pld"
    assert compose([gaussian_threshold_event(4, 1e-7)], 1e-6).method == "pld"
    assert compose([dp_event.ZCDpEvent(0.01)], 1e-6).method == "rdp"


def test_one_gaussian_by_its_closed_form():
    sigma, delta = 4.0, 1e-6
    epsilon = compose([dp_event.GaussianDpEvent(sigma)], delta).epsilon
    # Balle and Wang (2018), equation 6.
    near, far = stats.norm.cdf(np.array([1, -1]) / (2 * sigma) - epsilon * sigma)
    exact = near - math.exp(epsilon) * far
    assert delta * 0.999 < exact <= delta * (1 + 1e-9)


def test_nested_events_count_like_written_out_ones():
    bounded_range, laplace = BoundedRangeDpEvent(0.2), dp_event.LaplaceDpEvent(5.0)
    nested = dp_event.SelfComposedDpEvent(dp_event.ComposedDpEvent([bounded_range, laplace]), 3)
    flat = [bounded_range, laplace] * 3 + [dp_event.NoOpDpEvent()]
    nested_total, flat_total = compose([nested], 1e-5), compose(flat, 1e-5)
    assert Counter(nested_total.by_method) == pytest.approx(Counter(flat_total.by_method))
    # A discrete Laplace mechanism is epsilon-DP for decay * sensitivity.
    discrete = compose([dp_event.DiscreteLaplaceDpEvent(0.1, 3)])
    assert discrete.by_method["basic"] == pytest.approx(0.3)


def test_nothing_costs_nothing():
    assert compose([], 1e-6).epsilon == compose([BoundedRangeDpEvent(0.0)], 0).epsilon == 0
    event = ApproximateDpEvent(1.0)
    assert compose([event, *times(0, event)], 1e-6) == compose([event], 1e-6)


@pytest.mark.thorough
def test_losses_of_any_size_compose():
    # Neither e**1000 is a float, nor would a grid as fine as the smallest loss fit in memory.
    assert compose(times(2, ApproximateDpEvent(1000.0)), 1e-6).epsilon == pytest.approx(2000)
    assert largest_epsilon(2, PrivacyBudget(2000, 1e-6)) == pytest.approx(1000)
    few = times(10, ApproximateDpEvent(1.0))
    both = compose([*few, *times(100, ApproximateDpEvent(1e-8))], 1e-6).epsilon
    assert compose(few, 1e-6).epsilon <= both <= 10 + 1e-6


def test_fourier_errors_do_not_pass_for_privacy():
    # 1000 compositions at delta = 0: the library's distributions alone say 0.24 instead of 1.05.
    events = times(1000, BoundedRangeDpEvent(0.00105))
    assert compose(events, 0).epsilon == pytest.approx(1.05)
    assert compose(events, 1e-12).by_method["pld"] == math.inf


@pytest.mark.parametrize("count", [1, 3, 23, 1000])
def test_largest_epsilon_uses_up_the_budget(count):
    budget = PrivacyBudget(1, 1e-6)
    epsilon = largest_epsilon(count, budget)
    assert (1 - 1e-6) / count <= epsilon <= 1
    assert compose(times(count, list_event(epsilon)), 1e-6).epsilon <= 1
    more = compose(times(count, list_event(epsilon * 1.001)), 1e-6)
    assert more.epsilon > 1 or count == 1
    assert largest_epsilon(count, PrivacyBudget(1)) == pytest.approx(1 / count, rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.05, 0.2499, 0.25, 0.5, 1.0, 1.5])
def test_a_list_s_event_is_that_of_its_mechanism(epsilon):
    event = list_event(epsilon)
    if isinstance(event, BoundedRangeDpEvent):
        assert event.epsilon == partition_mechanism(epsilon).loss_range
    assert compose([event]).epsilon == epsilon


def losses(shift, q):
    """The distribution of the loss, in units of c, of discrete Laplace noise on a number that is
    moved."""
    distribution = Counter({shift: 1 / (1 + q)})
    distribution.update({shift - 2 * n: (1 - q) / (1 + q) * q**n for n in range(1, shift)})
    distribution[-shift] += q**shift / (1 + q)
    return distribution


def delta_at(distribution, q, t):
    """The delta at epsilon = t c, exactly."""
    return sum(p * (1 - q ** (loss - t)) for loss, p in distribution.items() if loss > t)


@pytest.mark.parametrize("q", [Fraction(1, 3), Fraction(2, 3), Fraction(19, 20)])
def test_all_shifts_in_one_coordinate_are_the_worst(q):
    """Of all ways to move coordinates by up to 6. Between multiples of c both deltas are linear in
    e**epsilon, and the distributions of both orders of a pair are the same."""
    for max_partitions in range(1, 7):
        multiples = range(-max_partitions, max_partitions + 1)
        worst = [delta_at(losses(max_partitions, q), q, t) for t in multiples]
        for shifts in enumeration.partitions_of_at_most(max_partitions):
            distribution = {0: Fraction(1)}
            for shift in shifts:
                both = Counter()
                pairs = itertools.product(distribution.items(), losses(shift, q).items())
                for (a, p), (b, r) in pairs:
                    both[a + b] += p * r
                distribution = both
            deltas = [delta_at(distribution, q, t) for t in multiples]
            assert all(map(operator.le, deltas, worst))


@pytest.mark.parametrize(("epsilon", "max_partitions", "count"), [(0.3, 10, 30), (0.1, 3, 50)])
def test_composed_noise_on_coordinates_costs_what_its_exact_distribution_says(
    epsilon, max_partitions, count
):
    delta = 1e-6
    event = partition_event(FrobeniusMechanism(epsilon=epsilon, sensitivity=max_partitions))
    claimed = compose(times(count, event), delta).epsilon
    pure = compose(times(count, ApproximateDpEvent(epsilon)), delta).epsilon
    q = math.exp(-epsilon / max_partitions)
    of_one = losses(max_partitions, q)
    single = [of_one[loss] for loss in range(-max_partitions, max_partitions + 1)]
    distribution = functools.reduce(np.convolve, [single] * count)
    exact = dict(enumerate(distribution.tolist(), -count * max_partitions))
    t = claimed * max_partitions / epsilon
    assert delta_at(exact, q, t) <= delta < delta_at(exact, q, 0.999 * t)
    assert claimed < pure


def test_events_survive_the_library_s_own_serialisation():
    for event in (BoundedRangeDpEvent(0.5), ApproximateDpEvent(0.5, 1e-6)):
        assert dp_event.DpEvent.from_named_tuple(event.to_named_tuple()) == event
        # Other accountants must refuse what they do not know.
        assert not RdpAccountant().supports(event)


test_bad_arguments_are_refused = refused(
    lambda function, *arguments: function(*arguments),
    (compose, [dp_event.UnsupportedDpEvent()], 1e-6, "events must be of a kind"),
    (compose, [], 1, "delta must be at least 0 and below 1, got 1"),
    (BoundedRangeDpEvent, float("inf"), "epsilon must be a finite number"),
    (ApproximateDpEvent, 1.0, -1e-9, "delta must be at least 0"),
    (largest_epsilon, 0, PrivacyBudget(1), "count must be positive, got 0"),
    (compose, times(-1, ApproximateDpEvent(1.0)), "count must be a positive integer, got -1"),
    (compose, times(0.5, ApproximateDpEvent(1.0)), "count must be a positive integer, got 0.5"),
    (compose, [dp_event.LaplaceDpEvent(0.0)], "events must be .*positive"),
    (compose, [dp_event.LaplaceDpEvent(math.inf)], 1e-6, "events must be .*finite"),
    (compose, [dp_event.GaussianDpEvent(-1.0)], 1e-6, "events must be .*positive"),
    (compose, [dp_event.GaussianDpEvent(math.nan)], 1e-6, "events must be .*positive"),
    (compose, [dp_event.DiscreteLaplaceDpEvent(-1.0, 1)], "events must be .*positive"),
    (compose, [dp_event.DiscreteLaplaceDpEvent(1.0, 0.5)], "events must be .*positive"),
    (compose, [dp_event.ZCDpEvent(-0.1)], 1e-6, "events must be .*positive"),
)
