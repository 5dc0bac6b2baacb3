"""Audits every job exactly: records go through the whole job, for all pairs of tiny neighbours.

Private lists and counts are caught where noise would be added. What a user keeps depends on the
secret and on that user's own records, so the loss of a pair is at most the largest one under a
secret. Each pair comes with the number of a secret, and many secrets are tried. Lists are released
independently: their exact losses add up. Windows have tests of their own
(``beam/test_windowed.py``), and so has selection in rounds, whose transcript is adaptive
(``mechanisms/selection/test_audits.py``).
"""

import collections
import functools
import itertools
import math

import pyarrow as pa
import pytest

from dp_transforms import JobSecret, releases
from dp_transforms.engines import (
    degree_kernels,
    hierarchy_kernels,
    in_process,
    round_kernels,
    selection_kernels,
    survey_kernels,
)
from dp_transforms.evaluation import exact_partition_epsilon
from dp_transforms.mechanisms import FrequencyList
from dp_transforms.mechanisms.degree_bound_choice import DegreeBoundMechanism
from dp_transforms.mechanisms.degree_projection import IN, OUT, UNDIRECTED
from dp_transforms.mechanisms.gradual_survey import GradualSurvey
from dp_transforms.mechanisms.partition.registry import partition_mechanism
from dp_transforms.mechanisms.selection import MeasuredSelection
from dp_transforms.mechanisms.selection.measured import Choice
from dp_transforms.mechanisms.selection.plan_search import Compared
from dp_transforms.mechanisms.selection.population import Look
from dp_transforms.mechanisms.selection.rounds import RoundPlan
from dp_transforms.mechanisms.user_degrees import ReleasedDegrees, UserDegreeMechanism
from dp_transforms.mechanisms.users_beyond import UsersBeyondMechanism
from dp_transforms.releases import all_records
from dp_transforms.releases.hierarchy import PartitionGroups
from tests.cases import slow_unless, thorough_unless
from tests.in_process_engine import in_process as engine_of

KAPPA = 2
LIST = releases.ListSpec(partition_mechanism(1, KAPPA))
NAMES = releases.NamesSpec.of("optimal", 0.5, 0.05, KAPPA)
GROUPS = releases.GroupsSpec(
    attributes=(releases.Attribute("colour", ["red", "blue"]), releases.Attribute("size", ["s"])),
    epsilon_all=0.5,
    epsilon_groups=1,
    max_partitions_per_user=KAPPA,
)
ATTRIBUTES = releases.AttributesSpec(
    attributes=["colour", "size", ("colour", "size")], epsilon=2, shares={"size": 2}
)
ITEMS = [(0,), (1,), (2,)]


@pytest.fixture
def caught(monkeypatch):
    """The private inputs of all mechanisms of a job, by what they are for."""
    private_inputs = {}

    def catch_list(private, mechanism, secret, context="frequency list"):
        if not isinstance(private, FrequencyList):
            private = FrequencyList.from_histogram(private)
        private_inputs[context] = mechanism, private

    def catch_counts(table, **_):
        private_inputs.setdefault("counts", {}).update(
            zip(table["partition"].to_pylist(), table["count"].to_pylist(), strict=True)
        )
        return table.slice(0, 0)

    def catch_tree(levels, parents, mechanisms, tapes, most_partitions):
        for depth, (lists, mechanism) in enumerate(zip(levels, mechanisms, strict=True)):
            private_inputs.update(
                {(depth, i): (mechanism, private) for i, private in enumerate(lists)}
            )
        return levels

    def catch_degrees(mechanism, degrees, secret):
        private_inputs["degrees"] = collections.Counter(degrees)

    monkeypatch.setattr(in_process, "release_histogram", catch_list)
    monkeypatch.setattr(in_process, "release_frequency_list", catch_list)
    monkeypatch.setattr(degree_kernels, "release_frequency_list", catch_list)
    monkeypatch.setattr(hierarchy_kernels, "release_lists_of_tree", catch_tree)
    monkeypatch.setattr(selection_kernels, "decision_function", lambda *_: catch_counts)
    monkeypatch.setattr(UserDegreeMechanism, "release_under", catch_degrees)
    return private_inputs


def inputs(caught, release, pairs, columns=("user", "partition")):
    """The private inputs of both of each pair of rows, under the secret of the pair."""
    kinds = [pa.int64()] * 2 + [pa.string()] * (len(columns) - 2)

    @functools.cache
    def inputs_of(rows, seed):
        arrays = [pa.array([row[i] for row in rows], kind) for i, kind in enumerate(kinds)]
        caught.clear()
        release(engine_of([pa.table(arrays, columns)], JobSecret.insecure_for_testing(seed)))
        return dict(caught)

    for *pair, seed in pairs:
        yield [inputs_of(tuple(rows), seed) for rows in pair]


def losses(caught, release, pairs, **columns):
    """The loss of each pair of rows: the sum over lists."""
    price = functools.cache(exact_partition_epsilon)
    for here, there in inputs(caught, release, pairs, **columns):
        assert here.keys() == there.keys()
        yield sum(price(mechanism, f, there[name][1]) for name, (mechanism, f) in here.items())


def users_of(own, users):
    """Rows of so many users, each of whom has some of these, the same without the last one, and the
    number of a secret. Each choice of the other users has a secret of its own."""
    parts = [part for size in range(len(own) + 1) for part in itertools.combinations(own, size)]
    others = itertools.combinations_with_replacement(parts, users - 1)
    for secret_number, taken in enumerate(others):
        for last in parts:
            rows = [(user, *row) for user, part in enumerate((*taken, last)) for row in part]
            yield rows, [row for row in rows if row[0] < users - 1], secret_number


def selections(keep, names, counts):
    """The probabilities of all selections of these names, if each is decided by itself: of n users
    with the probability keep[n]."""
    chances = [keep[counts.get(name, 0)] for name in names]
    return [
        math.prod(p if named else 1 - p for p, named in zip(chances, chosen, strict=True))
        for chosen in itertools.product((False, True), repeat=len(names))
    ]


def graphs_with_and_without(nodes, degree, removed):
    """Graphs of at most six edges, the same without an edge or a node and its edges, and the number
    of each of three secrets."""
    ends = itertools.combinations if degree == UNDIRECTED else itertools.permutations
    edges = [*ends(range(nodes), 2)]
    graphs = [graph for size in range(7) for graph in itertools.combinations(edges, size)]
    for graph, secret_number in itertools.product(graphs, range(3)):
        if removed == "edge":
            smaller = [[edge for edge in graph if edge != gone] for gone in graph]
        else:
            smaller = [[edge for edge in graph if gone not in edge] for gone in range(nodes)]
        for rest in smaller:
            yield graph, rest, secret_number


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("rounds", "kappa", "counted"),
    slow_unless(
        [(1, 1, True), (2, 3, False), (3, 2, True), (3, 2, False), (4, 2, True)], [(3, 2, True)]
    ),
)
def test_a_survey_and_a_list_cost_epsilon_at_every_kappa(
    caught, monkeypatch, rounds, kappa, counted
):
    # After each number of rounds, whose cost is that of the last one. The survey sees users with
    # more partitions than kappa, and the list does not. The number of users beyond kappa is
    # released or not, whichever is worth more.
    monkeypatch.setattr(all_records, "margin_of_count", lambda *_: 0 if counted else math.inf)
    spec = releases.AllRecordsSpec(epsilon=5, max_degree=3)
    spent = spec.survey.epsilons[rounds - 1]
    monkeypatch.setattr(releases.AllRecordsSpec, "kappa_after", lambda *_: kappa)

    def catch_survey(self, degrees, tape_of, enough):
        caught["degrees"] = collections.Counter(degrees)
        return ReleasedDegrees((1, 2, 3), (0, 0, 0), float(spent))

    def catch_users_beyond(mechanism, degrees, tape_of):
        caught["users beyond"] = mechanism, mechanism.count(degrees)
        return mechanism.release(degrees)

    monkeypatch.setattr(GradualSurvey, "release_under", catch_survey)
    monkeypatch.setattr(UsersBeyondMechanism, "release_under", catch_users_beyond)
    price = functools.cache(exact_partition_epsilon)
    dearest = 0
    for here, there in inputs(
        caught, lambda engine: engine.all_records(spec), users_of(ITEMS, users=3)
    ):
        with_user, without = here["degrees"], there["degrees"]
        moved = sum(((with_user - without) + (without - with_user)).values())
        (mechanism, f), (_, g) = here["frequency list"], there["frequency list"]
        assert mechanism.sensitivity == kappa
        loss = moved * float(spent) + price(mechanism, f, g)
        assert ("users beyond" in here) == counted
        if counted:
            (beyond, h), (_, without_user) = here["users beyond"], there["users beyond"]
            loss += abs(h - without_user) * float(beyond.epsilon)
        dearest = max(dearest, loss)
    assert dearest == pytest.approx(5, abs=1e-9)


DAYS = ["monday", "tuesday", "wednesday"]
SEVERAL_LISTS = {
    "periods": (
        releases.PeriodAllRecordsSpec(
            periods=DAYS[:2], epsilon=6, max_periods_per_user=2, max_degree=3
        ),
        ("user", "partition", "list"),
        [(0, "monday"), (1, "monday"), (0, "tuesday"), (1, "tuesday")],
        6,
    ),
    "one period of each user": (
        releases.PeriodAllRecordsSpec(
            periods=DAYS[:2], epsilon=3, max_periods_per_user=1, max_degree=3
        ),
        ("user", "partition", "list"),
        [(0, "monday"), (1, "monday"), (0, "tuesday"), (2, "wednesday")],
        3,
    ),
    "groups": (
        releases.GroupAllRecordsSpec(
            attributes=GROUPS.attributes, epsilon_all=2, epsilon_groups=6, max_degree=3
        ),
        ("user", "partition", "colour", "size"),
        [(2, "blue", "s"), (2, "red", "s"), (1, "red", "m")],
        8,
    ),
}


@pytest.mark.thorough
@pytest.mark.parametrize("kappa", slow_unless([1, 2], [2]))
@pytest.mark.parametrize("name", SEVERAL_LISTS)
def test_surveys_of_several_lists_cost_with_their_lists_what_is_said(
    caught, monkeypatch, name, kappa
):
    # One user may be in several lists, with more partitions than kappa, and outside of all. Kappa
    # and the number of rounds, which the surveys' outputs decide, are held fixed.
    spec, columns, own, cost = SEVERAL_LISTS[name]
    monkeypatch.setattr(all_records, "margin_of_count", lambda *_: math.inf)
    monkeypatch.setattr(releases.AllRecordsSpec, "kappa_after", lambda *_: kappa)
    monkeypatch.setattr(survey_kernels, "release_histogram", in_process.release_histogram)

    def catch_survey(self, degrees, tape_of, enough):
        purpose, *_ = tape_of.args
        epsilon = self.epsilons[1]
        caught["survey", purpose] = epsilon, collections.Counter(degrees)
        return ReleasedDegrees((1, 2, 3), (0, 0, 0), float(epsilon))

    monkeypatch.setattr(GradualSurvey, "release_under", catch_survey)
    price = functools.cache(exact_partition_epsilon)
    dearest = 0
    pairs = users_of(own, users=2)
    for here, there in inputs(caught, spec.release, pairs, columns=columns):
        assert here.keys() == there.keys()
        loss = 0
        for purpose, (mechanism, f) in here.items():
            _, g = there[purpose]
            if isinstance(purpose, tuple):
                loss += ((f - g) + (g - f)).total() * float(mechanism)
            else:
                assert mechanism.sensitivity == kappa
                loss += price(mechanism, f, g)
        dearest = max(dearest, loss)
    assert dearest == pytest.approx(cost, abs=1e-9)
    assert float(spec.cost.epsilon) == cost


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("w", "kappa", "level"), slow_unless([(1, 2, 0), (2, 1, 0), (2, 2, 3)], [(2, 2, 3)])
)
def test_a_look_and_names_of_all_periods_cost_epsilon_and_delta(monkeypatch, w, kappa, level):
    # One user may have more pairs than kappa, and be in more periods than w and outside of all. The
    # plan, which the output of the look decides, is held fixed.
    spec = releases.PeriodNamesSpec(
        periods=DAYS[:2], epsilon=0.5, delta=0.05, max_periods_per_user=w
    )
    strategy = spec.names.strategy
    plan = RoundPlan(kappa, by="optimal", look=level)
    choice = Choice(Look((), (), (), (0.0, 0.0)), (), Compared(plan, 0))
    caught = {}

    def catch_look(self, degrees, tails, tape):
        caught["look"] = degrees, tails
        return choice

    def catch_sums(table, strategy, index, **_):
        if table.num_rows:
            assert index == 0, "the plan has a single round"
            sums = (table[name].to_pylist() for name in ("partition", "weight"))
            for pair, users in zip(*sums, strict=True):
                caught[pair["list"], pair["partition"]] = users
        return table.slice(0, 0).select(["partition"])

    monkeypatch.setattr(MeasuredSelection, "choose", catch_look)
    monkeypatch.setattr(round_kernels, "select_round", catch_sums)
    own = [(0, "monday"), (1, "monday"), (0, "tuesday"), (2, "wednesday")]
    cells = [(day, item) for item, day in own[:3]]
    single = strategy.budget_after(level).single(plan)
    keep = [single.keep_probability(users) for users in range(4)]
    scales = [float(scale) for scale in strategy.noise_scales(level)]
    left = 0.5 - float(strategy.look_epsilon(level))
    dearest_look = dearest_names = 0
    pairs = users_of(own, users=2)
    columns = ("user", "partition", "list")
    for pair in inputs(caught, spec.release, pairs, columns=columns):
        looks = [private_inputs["look"] for private_inputs in pair]
        moved = [
            sum(abs(a - b) for a, b in zip(here, there, strict=True)) / scale
            for here, there, scale in zip(*looks, scales, strict=True)
        ]
        dearest_look = max(dearest_look, sum(moved))
        for here, there in itertools.permutations(selections(keep, cells, each) for each in pair):
            lost = sum(max(0, p - math.exp(left) * q) for p, q in zip(here, there, strict=True))
            dearest_names = max(dearest_names, lost)
    assert dearest_look == pytest.approx(0.5 - left, abs=1e-9)
    assert 0.9 * 0.05 < dearest_names <= 0.05 * (1 + 1e-9)
    assert (float(spec.cost.epsilon), float(spec.cost.delta)) == (0.5, 0.05)


def test_a_list_costs_epsilon(caught):
    prices = losses(caught, lambda engine: engine.frequency_list(LIST), users_of(ITEMS, users=3))
    assert max(prices) == pytest.approx(1, abs=1e-9)


@pytest.mark.thorough
@pytest.mark.parametrize("rows", slow_unless([3, 4], [3]))
def test_lists_of_groups_cost_the_sum_of_their_prices(caught, rows):
    own = [(2, "blue", "s"), (2, "red", "s"), (1, "red", "m"), (0, "red", "s")][:rows]
    columns = ("user", "partition", "colour", "size")
    pairs = users_of(own, users=2)
    prices = losses(caught, lambda engine: engine.grouped_lists(GROUPS), pairs, columns=columns)
    assert max(prices) == pytest.approx(1.5, abs=1e-9)


@pytest.mark.thorough
def test_a_level_costs_its_share_whatever_the_number_of_its_groups(caught):
    # One user may have records in several groups, of one partition too, and outside of all.
    own = [(0, "a", "x"), (0, "a", "y"), (1, "b", "x"), (2, "c", "x")]
    spec = releases.HierarchySpec(
        levels=["state", "county"],
        groups=[("a", "x"), ("a", "y"), ("b", "x")],
        epsilon="1.5",
        max_partitions_per_user=KAPPA,
        shares=[1, "0.5", "1.5"],
    )
    columns = ("user", "partition", "state", "county")
    pairs = users_of(own, users=2)
    prices = losses(caught, lambda engine: engine.hierarchy(spec), pairs, columns=columns)
    assert max(prices) == pytest.approx(1.5, abs=1e-9)
    assert float(spec.cost.epsilon) == 1.5


def test_levels_of_named_partitions_cost_their_shares(caught):
    spec = releases.HierarchySpec(
        levels=["kind"],
        groups=[("even",), ("odd",)],
        epsilon=2,
        max_partitions_per_user=KAPPA,
        partition_groups=PartitionGroups(("0", "1", "7"), (0, 1, 1)),
    )
    prices = losses(caught, lambda engine: engine.hierarchy(spec), users_of(ITEMS, users=2))
    assert max(prices) == pytest.approx(2, abs=1e-9)


@pytest.mark.thorough
def test_lists_of_attributes_cost_the_sum_of_their_prices(caught):
    # Users of several records have several values of an attribute, and some have none.
    own = [(0, "red", "s"), (1, "red", ""), (2, "blue", "s")]
    columns = ("user", "partition", "colour", "size")
    pairs = users_of(own, users=2)
    prices = losses(
        caught, lambda engine: engine.attribute_lists(ATTRIBUTES), pairs, columns=columns
    )
    assert max(prices) == pytest.approx(2, abs=1e-9)
    assert {name: mechanism.epsilon for name, (mechanism, _) in caught.items()} == {
        "list of attribute 'colour'": 0.5,
        "list of attribute 'size'": 1,
        "list of attribute 'colour + size'": 0.5,
    }


@pytest.mark.parametrize("degree", [UNDIRECTED, IN, OUT])
@pytest.mark.parametrize("bound", thorough_unless([None, 1, 2], [1]))
def test_degrees_cost_epsilon_for_an_edge_or_a_node(caught, degree, bound):
    nodes = 4 if degree == UNDIRECTED else 3
    pairs = graphs_with_and_without(nodes, degree, "edge" if bound is None else "node")
    spec = releases.DegreesSpec(1, degree, bound)
    dearest = max(losses(caught, lambda engine: engine.degree_list(spec), pairs))
    # Nothing is given away for an edge. How far a node moves projected degrees is only bounded.
    assert dearest == pytest.approx(1, abs=1e-9) if bound is None else 0.3 < dearest <= 1 + 1e-9


@pytest.mark.thorough
@pytest.mark.parametrize("degree", slow_unless([UNDIRECTED, IN, OUT], [UNDIRECTED, IN]))
def test_lists_under_each_bound_that_may_be_chosen_cost_their_part(caught, monkeypatch, degree):
    """The choice is enumerated in ``test_degree_bound_choice``; here its output is held fixed."""
    spec = releases.NodeDegreesSpec("0.02", degree)
    assert spec.candidates == (2, 4, 8, 16)
    nodes = 4 if degree == UNDIRECTED else 3
    pairs = [*graphs_with_and_without(nodes, degree, "node")]
    for bound in spec.candidates[:2]:
        monkeypatch.setattr(
            DegreeBoundMechanism, "choose_under", lambda self, kept, tape, bound=bound: bound
        )
        dearest = max(losses(caught, lambda engine: engine.node_degrees(spec), pairs))
        assert 0 < dearest <= 0.018 + 1e-9


@pytest.mark.thorough
def test_one_user_is_one_of_the_users_by_degree(caught):
    spec = releases.UserDegreesSpec(1, max_degree=KAPPA)
    pairs = users_of(ITEMS, users=3)
    for here, there in inputs(caught, lambda engine: engine.user_degrees(spec), pairs):
        assert sum((here["degrees"] - there["degrees"]).values()) <= 1
        assert not there["degrees"] - here["degrees"]


@pytest.mark.parametrize(
    "release",
    [
        lambda engine: engine.names(NAMES),
        lambda engine: engine.list_and_names(releases.ListAndNamesSpec(LIST, NAMES)),
    ],
    ids=["alone", "beside a list"],
)
def test_names_cost_epsilon_and_delta(caught, release):
    keep = [NAMES.strategy.keep_probability(users) for users in range(4)]
    names = [name for (name,) in ITEMS]
    dearest = max(
        sum(max(0, p - math.exp(0.5) * q) for p, q in zip(here, there, strict=True))
        for pair in inputs(caught, release, users_of(ITEMS, users=3))
        for here, there in itertools.permutations(
            selections(keep, names, private_inputs.get("counts", {})) for private_inputs in pair
        )
    )
    assert 0.9 * 0.05 < dearest <= 0.05 * (1 + 1e-9)
