"""A choice by a noisy look: what it costs and decides, and that counts after it are private."""

import functools
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dp_transforms.columnar.bounding import distinct_pairs
from dp_transforms.engines import round_kernels
from dp_transforms.mechanisms.selection import MeasuredSelection, plan_search
from dp_transforms.mechanisms.selection import measured as module
from dp_transforms.mechanisms.selection.later_counts import LaterCounts
from dp_transforms.mechanisms.selection.measured import Choice
from dp_transforms.mechanisms.selection.plan_search import Compared
from dp_transforms.mechanisms.selection.population import TAILS, Look, tail_cells
from dp_transforms.mechanisms.selection.renyi_calibration import RenyiBudget
from dp_transforms.mechanisms.selection.renyi_distribution import RenyiDistribution
from dp_transforms.mechanisms.selection.rounds import RoundPlan
from dp_transforms.mechanisms.selection.strategy import REPLACE
from tests.beam_runs import table_of
from tests.cases import slow_unless
from tests.mechanisms.selection.shared import bound, look_of, nested_records, zipf_sizes
from tests.mechanisms.selection.test_audits import KINDS, ONE_MORE, transcript_distribution
from tests.statistical import distributions
from tests.tapes import InsecureSeededTape

RECORDS = [(0, "a"), (1, "a"), (1, "b"), (2, "b"), (2, "b"), (3, "a"), (3, "b"), (3, "c")]


class _Looking(MeasuredSelection):
    """Shows the look of a level instead of a choice."""

    def at(self, level, *cells):
        for place, look in enumerate(self._looks(*cells)):
            if place == level:
                return look


@pytest.mark.thorough
@pytest.mark.parametrize(("neighbours", "level"), [("add_or_remove", 5), (REPLACE, 2)])
def test_every_cell_has_the_noise_of_its_part_of_the_look(neighbours, level):
    strategy = _Looking(1024 >> level, 1e-5, 3, neighbours=neighbours)
    assert strategy.look_epsilon(level) == 4
    users, tails = range(len(strategy.edges) + 1), range(TAILS)
    draws = 250
    looks = [strategy.at(level, users, tails, InsecureSeededTape(i)) for i in range(draws)]
    # Three quarters are for users: rates of 3 and 1, or half of that for two users who change.
    for cells, exact, rate in (("degrees", users, 3), ("tails", tails, 1)):
        noise = np.array([getattr(look, cells) for look in looks]) - exact
        q = math.exp(-rate / (2 if neighbours == REPLACE else 1))
        expected = {x: (1 - q) / (1 + q) * q ** abs(x) for x in range(-80, 81)}
        distributions.assert_follows(noise.ravel(), expected)
        # No two cells share a draw: 5.5 standard errors.
        off = np.abs(np.corrcoef(noise.T) - np.eye(len(exact)))
        assert np.all(off < 5.5 / math.sqrt(draws))
    # Nor does a tail share one with a number of users.
    noise = np.array([look.degrees[:5] + look.tails[:5] for look in looks])
    assert abs(np.corrcoef(noise[:, 0], noise[:, 5])[0, 1]) < 5 / math.sqrt(draws)


def test_other_users_have_other_noise_on_the_same_tape():
    strategy, tape = _Looking(1, 1e-5, 3), InsecureSeededTape(0)
    looks = [
        strategy.at(0, [n] + [0] * len(strategy.edges), [0] * TAILS, tape).degrees for n in (0, 1)
    ]
    assert looks[0][1:] != looks[1][1:]


def test_one_user_moves_one_cell_and_one_tail_by_one():
    key = bytes(32)

    def look(records):
        pairs = distinct_pairs(table_of(records))
        first = round_kernels._weigh_first(pairs, key)
        users = round_kernels.users_by_partitions(pairs, (1, 2))
        return users, round_kernels.partitions_by_users(first)

    users, tails = look(RECORDS)
    # One partition of each user counts: tails hold every user once.
    assert users.tolist() == [2, 1, 1] and tails.sum() == 4
    for user in range(4):
        fewer = look([record for record in RECORDS if record[0] != user])
        assert sorted(users - fewer[0]) == [0, 0, 1]
        assert sorted(tails - fewer[1]) == [0] * (TAILS - 1) + [1]


def test_tails_are_sums_of_numbers_of_partitions_of_at_least_so_many_users():
    users = np.array([1, 1, 2, 5, 9])
    reached = [int((users >= t).sum()) for t in range(1, 16)]
    sums = [sum(reached[(1 << k) - 1 : (2 << k) - 1]) for k in range(4)]
    assert tail_cells(users).tolist() == sums + [0] * (TAILS - 4)


@pytest.mark.parametrize(
    ("epsilon", "max_partitions", "neighbours"),
    slow_unless(
        [(1, 1, REPLACE), (1, 100, "add_or_remove"), (Fraction(1, 4), 10, REPLACE)],
        [(1, 1, REPLACE)],
    ),
)
def test_every_plan_stays_within_the_budget(epsilon, max_partitions, neighbours):
    delta, users_changed = Fraction(1, 10**5), 2 if neighbours == REPLACE else 1
    strategy = MeasuredSelection(epsilon, delta, max_partitions, neighbours=neighbours)
    level = module.LEVELS - 1
    left = float(epsilon) * (1 - 1 / 8)
    for (rounds, growth), share in itertools.product(
        plan_search.SCHEDULES, (Fraction(0), Fraction(1, 4))
    ):
        counted = max_partitions if share else 0
        plan = RoundPlan(max_partitions, rounds, growth, 6, "", counted, share, level)
        branch = strategy.planned(plan)
        assert float(branch.epsilon) == pytest.approx(left) and branch.delta == delta
        assert len(branch.budgets) == rounds <= strategy.most_rounds
        budgets = branch.budgets
        if share:
            # Counts are one more round, without exposure.
            later = branch.later_counts
            assert later.sigma2 == later.budget.order * counted / (2 * later.budget.divergence)
            budgets = (later.budget, *budgets)
        assert 0.9 * delta < bound(budgets, left, users_changed) <= delta
    for by in ("optimal", "gaussian", "truncated_geometric"):
        single = strategy.planned(RoundPlan(1, by=by, look=level)).single
        assert float(single.epsilon) == pytest.approx(left) and single.delta == delta


@pytest.mark.thorough
def test_one_partition_each_takes_optimal_and_many_take_rounds():
    for kappa, degree, by, rounds in (
        (1, 1, {"optimal"}, {1}),
        (10, 1, {"optimal"}, {1}),
        (1, 3, {""}, {3}),
        (1, 30, {""}, {6}),
        (10, 30, {""}, {2, 3, 6}),
    ):
        strategy = MeasuredSelection(1, 1e-5, kappa)
        plan = strategy.choice_of(look_of(strategy, [degree] * 100_000, zipf_sizes(100_000))).plan
        assert plan.by in by and plan.rounds in rounds and plan.partitions <= kappa


@pytest.mark.thorough
def test_counts_keep_names_by_a_plan_that_follows_from_the_look():
    for kappa, degree in ((1, 1), (3, 10), (30, 30)):
        with_counts = MeasuredSelection(1, 1e-5, kappa, counted=True)
        look = look_of(with_counts, [degree] * 100_000, zipf_sizes(100_000))
        best = MeasuredSelection(1, 1e-5, kappa).choice_of(look).chosen
        chosen = with_counts.choice_of(look).chosen
        assert chosen.names >= 0.75 * best.names
        plan = chosen.plan
        # One partition of each user: noisy counts decide nearly as well as anything does.
        assert plan.by == "truncated_geometric" if degree == 1 else plan.counted <= kappa


@pytest.mark.thorough
def test_noise_alone_is_a_choice_too():
    strategy = MeasuredSelection(1, 1e-5, 10, counted=True)
    for sign in (-1, 1):
        look = look_of(strategy, [], [])
        noise = tuple(sign * 300 * (-1) ** i for i in range(len(look.degrees)))
        tails = tuple(sign * 900 * (-1) ** i for i in range(TAILS))
        plan = strategy.choice_of(look._replace(degrees=noise, tails=tails)).plan
        assert 1 <= plan.partitions <= 10


@pytest.mark.thorough
def test_budgets_of_predictions_are_about_those_of_plans():
    strategy = MeasuredSelection(1, 1e-5, 30)
    for partitions, (rounds, growth) in itertools.product((1, 30), ((3, 128), (2, 16))):
        plan = RoundPlan(partitions, rounds, growth)
        about = plan_search._about_budgets(strategy.budget_after(0), plan)
        kept = [
            RenyiDistribution(budgets[-1], partitions, min(1, partitions - 1)).kept
            for budgets in (about, strategy.planned(plan).budgets)
        ]
        assert 0.97 * kept[1] <= kept[0]


@pytest.mark.thorough
def test_counts_follow_rounds_where_scaled_ones_would_be_wrong():
    users, items = nested_records(2)
    degrees, one_each = np.unique(users, return_counts=True)[1], np.unique(users, True)[1]
    counts = np.bincount(items[one_each])
    strategy = MeasuredSelection(1, 1e-5, 100, counted=True)
    look = look_of(strategy, degrees, counts[counts > 0])._replace(scales=(5.0, 5.0))
    choice = strategy.choice_of(look)
    by_one = plan_search.plan_by_counts(strategy.budget_after(0), 1)
    (alternative,) = (row for row in choice.compared if row.plan == by_one)
    # Counts of one partition of each user have the least noise, and name as many as anything does;
    # but popular partitions may keep more.
    assert alternative.names > choice.chosen.names
    assert alternative.errors[1] > 2 * alternative.errors[0]
    assert choice.plan.counted > 0 and 5 * choice.chosen.error < alternative.error


# Counts, and the whole, by enumeration.

EPSILON, DELTA = 1.5, 0.03
FAR = 60


@functools.cache
def _noise_of(later):
    """Probabilities of noise from -FAR to FAR."""
    ends = np.array([float(later.noise.above(x, 60).lower) for x in range(-FAR - 1, FAR + 1)])
    return -np.diff(ends)


def _counts(users, named, counted):
    """{numbers of users of the named partitions: probability}, if so many of a user's count."""
    distribution = {(0,) * len(named): 1.0}
    for kind, number in zip(KINDS, users, strict=True):
        has = [place for place in kind if place in named]
        choices = [*itertools.combinations(has, min(counted, len(has)))]
        for _ in range(number):
            following = {}
            for (counts, probability), chosen in itertools.product(distribution.items(), choices):
                more = tuple(n + (p in chosen) for n, p in zip(counts, named, strict=True))
                following[more] = following.get(more, 0) + probability / len(choices)
            distribution = following
    return distribution


def _outcomes(branch, users):
    """{transcript: an array of probabilities of its noisy counts}."""
    outcomes = {}
    later = branch.later_counts
    for state, probability in transcript_distribution(branch, users, KINDS).items():
        named = [place for place, index in enumerate(state) if index is not None]
        whole = np.zeros((1,) * len(named))
        if later is not None and named:
            noise = _noise_of(later)
            whole = np.zeros((2 * FAR + 4,) * len(named))
            for counts, chance in _counts(users, named, later.partitions).items():
                part = np.array(chance)
                for count in counts:
                    part = np.multiply.outer(part, np.pad(noise, (count, 3 - count)))
                whole += part
        elif later is None or not named:
            whole = np.ones(whole.shape)
        outcomes[state] = float(probability) * whole
    return outcomes


def _laplace(rate, reach=80):
    numbers = np.arange(-reach, reach + 1)
    return numbers, math.tanh(rate / 2) * np.exp(-rate * np.abs(numbers))


def _look_law(strategy, moved):
    """{(level, numbers of users and of a tail are above 0): probability} of a look that is refined
    once, unless its number of users is above 0. The true numbers are both ``moved``, 0 or 1.

    Of all noisy numbers above 0 the ratio of the probabilities is the same, and of all others too.
    """
    (users, tails), (fine_users, fine_tails) = (
        [1 / float(scale) for scale in strategy.noise_scales(level)] for level in (0, 1)
    )
    numbers, fine = _laplace(fine_users)
    _, rough = _laplace(users)
    # A rough number is a fine one, and with this probability it is the same.
    q = math.exp(-users)
    same = q / (1 + q) ** 2
    at_most = same * (numbers + moved <= 0) + (1 - same) * np.array(
        [rough[numbers <= -number - moved].sum() for number in numbers]
    )
    law = {
        (0, True): 1 - fine @ at_most,
        (1, True): (fine * at_most)[numbers + moved > 0].sum(),
        (1, False): (fine * at_most)[numbers + moved <= 0].sum(),
    }
    for (level, above), probability in law.copy().items():
        numbers, noise = _laplace(fine_tails if level else tails)
        tail_above = noise[numbers + moved > 0].sum()
        del law[level, above]
        law[level, above, True] = probability * tail_above
        law[level, above, False] = probability * (1 - tail_above)
    return law


def _whole_delta(strategy, plan_after, pairs):
    """The smallest delta of looks, of the plan that follows, names and counts."""
    laws = [_look_law(strategy, moved) for moved in (0, 1)]
    made = {(plan, users): _outcomes(strategy.planned(plan), users)
            for plan in {*map(plan_after, laws[0])}
            for users in set(itertools.chain(*pairs))}  # fmt: skip
    worst = 0.0
    for before, after in pairs:
        for (here, there), (law, other_law) in (
            ((before, after), laws),
            ((after, before), laws[::-1]),
        ):
            delta = 0.0
            for seen, chance in law.items():
                plan = plan_after(seen)
                for outcome, probabilities in made[plan, here].items():
                    other = made[plan, there].get(outcome, np.zeros_like(probabilities))
                    excess = chance * probabilities - math.exp(EPSILON) * other_law[seen] * other
                    delta += float(np.maximum(excess, 0).sum())
            worst = max(worst, delta)
    return worst


@pytest.mark.parametrize("counted", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_look_choice_names_and_counts_are_private_together(monkeypatch, counted):
    # A large part for the look: then it matters that it is paid for.
    monkeypatch.setattr(module, "FIRST_LOOK", Fraction(1, 4))
    monkeypatch.setattr(module, "LEVELS", 2)
    strategy = MeasuredSelection(EPSILON, DELTA, 2, counted=True)
    rounds = RoundPlan(2, 2, 1, 6, "", counted, Fraction(1, 2))
    single = RoundPlan(2, 1, 1, 2, "", counted, Fraction(3, 4))

    def plan_after(seen):
        level, *above = seen
        if level == 0:
            return single
        return (rounds if all(above) else single)._replace(look=1)

    pairs = [pair for pair in ONE_MORE if max(map(sum, pair)) <= 3]
    assert DELTA / 10 < _whole_delta(strategy, plan_after, pairs) <= DELTA


@pytest.mark.thorough
def test_the_law_of_refined_looks_is_that_of_the_mechanism(monkeypatch):
    monkeypatch.setattr(module, "FIRST_LOOK", Fraction(1, 4))
    monkeypatch.setattr(module, "LEVELS", 2)
    strategy = MeasuredSelection(EPSILON, DELTA, 2)
    draws, seen = 4_000, {}
    for i in range(draws // 5):
        looks = [*strategy._looks([1] * 5, [1] * 5, InsecureSeededTape(i))]
        for cell in range(5):
            level = 0 if looks[0].degrees[cell] > 0 else 1
            look = looks[level]
            key = level, look.degrees[cell] > 0, look.tails[cell] > 0
            seen[key] = seen.get(key, 0) + 1
    law = _look_law(strategy, 1)
    assert sum(law.values()) == pytest.approx(1) and seen.keys() <= law.keys()
    for key, probability in law.items():
        deviation = math.sqrt(draws * probability * (1 - probability))
        assert abs(seen.get(key, 0) - draws * probability) < 5 * deviation


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [16, 18, 48])
def test_users_are_known_within_a_third_where_a_look_ends(seed):
    # The degrees are those of 2,103 authors of a repository, by the words that they use. One look
    # in twenty at so few users took them for users of one or two words: their number stood out by
    # 2 to 2.6 deviations of the noise. It led to a quarter of the names, by these seeds too.
    strategy = MeasuredSelection(0.25, 1e-5, module.MOST_PARTITIONS, declared=False)
    users = [3, 18, 69, 56, 168, 205, 322, 230, 302, 185, 236, 106, 101, 34, 25, 11, 11, 9, 5]
    users += [2, 2, 2, 0, 1, 0]
    tails = tail_cells(np.maximum(1, 40 // np.arange(1, 700))).tolist()
    choice = strategy.choose(users, tails, InsecureSeededTape(seed))
    deviation = choice.look.scales[0] * math.sqrt(2 * len(users))
    assert choice.plan.look == module.LEVELS - 1 or sum(choice.look.degrees) >= 3 * deviation
    assert choice.plan.partitions > 10


@pytest.mark.thorough
def test_a_look_is_refined_until_users_stand_out_and_plans_agree():
    strategy = MeasuredSelection(1, 1e-5, 10)
    levels = []
    for users in (0, 500, 4_000, 500_000):
        look = look_of(strategy, [3] * users, zipf_sizes(users) if users else [])
        tape = InsecureSeededTape(users)
        levels.append(strategy.choose(look.degrees, look.tails, tape).plan.look)
    assert levels[0] == module.LEVELS - 1 and levels[-1] == 0
    assert levels == sorted(levels, reverse=True) and len(set(levels)) > 2


def test_counts_follow_their_noise_and_intervals_hold_them():
    later = LaterCounts(RenyiBudget(20, Fraction(1, 2), Fraction(0)), 2)
    assert later.sigma2 == 40
    users = np.full(20_000, 100)
    tape = InsecureSeededTape(1)
    words = tape.words("counts", len(users))
    noisy = later.noisy(users, words, lambda i, bits: tape.prefix("counts", i, bits))
    noise = _noise_of(later)
    expected = dict(zip(range(-FAR, FAR + 1), noise.tolist(), strict=True))
    distributions.assert_follows(noisy - users, expected)
    low, high = later.intervals(noisy)
    inside = float(((low <= users) & (users <= high)).mean())
    # P[|X| <= q] exactly; 4 standard errors.
    whole = noise[FAR - later.reach : FAR + later.reach + 1].sum()
    assert 0.95 <= whole < 0.97 and abs(inside - whole) < 4 * math.sqrt(0.05 / len(users))
    assert [end.tolist() for end in later.intervals(np.array([-50]))] == [[0], [0]]


def test_one_user_moves_as_many_counts_of_named_partitions_as_the_plan_says():
    strategy = MeasuredSelection(1, 1e-5, 3, counted=True)
    plan = RoundPlan(3, 2, 16, 6, "", 2, Fraction(1, 4))
    choice = Choice(Look((), (), (), (1, 1)), (), Compared(plan, 0.0))
    records = [(user, name) for user in range(20) for name in "abcd"] + [(20, "x"), (21, "a")]
    named = [table_of([(0, name)]).select(["partition"]) for name in ("a", "b", "c")]

    def counts(records):
        table = round_kernels.weigh_named(
            distinct_pairs(table_of(records)),
            strategy,
            lambda pairs, at_most: distinct_pairs(pairs, at_most=at_most, key=bytes(32)),
            named=named,
            choice=choice,
        )
        return dict(zip(table["partition"].to_pylist(), table["count"].to_pylist(), strict=True))

    whole = counts(records)
    # Names only, and not by order of names; the user of "a" alone counts there.
    assert set(whole) == {"a", "b", "c"} and sum(whole.values()) == 2 * 20 + 1
    assert min(whole.values()) > 5
    for user, moved in ((0, 2), (20, 0), (21, 1)):
        fewer = counts([record for record in records if record[0] != user])
        changes = [whole[name] - fewer.get(name, 0) for name in whole]
        assert sorted(changes) == [0] * (3 - moved) + [1] * moved


@pytest.mark.thorough
@pytest.mark.parametrize("epsilon", [1e-9, 1.6e-8, 750, 5000])
@pytest.mark.parametrize("level", [0, 5])
def test_no_level_of_a_look_fails_at_an_extreme_epsilon(epsilon, level):
    # If one level failed and another did not, failures would depend on the look's noise.
    strategy = MeasuredSelection(epsilon, 1e-5, 1, counted=True)
    scales = tuple(map(float, strategy.noise_scales(level)))
    cells = len(strategy.edges) + 1
    users = int(100 * scales[0]) + 10_000
    look = Look(
        (users,) + (0,) * (cells - 1), (users // 2,) * 2 + (0,) * 38, strategy.edges, scales
    )
    assert strategy.choice_of(look, level).plan.partitions == 1
