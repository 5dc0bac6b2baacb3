"""The choice of a bound on degrees: privacy over all small graphs, and what is chosen."""

import itertools
import math

import pytest

from dp_transforms.mechanisms.degree_bound_choice import DegreeBoundMechanism
from dp_transforms.mechanisms.degree_projection import (
    IN,
    UNDIRECTED,
    kept_edges,
    projections,
)
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.randomness import RandomTape
from tests.cases import refused, thorough_unless

BOUNDS = (1, 2, 4)


def kept(edges, degree):
    lists = projections(edges, BOUNDS, degree)
    return {bound: kept_edges(degrees, degree) for bound, degrees in lists.items()}


def chances(scores, scale):
    """The probabilities that each score is the smallest after discrete Laplace noise, ties going to
    the first: summed over all values that matter, independently of the sampler."""
    q = math.exp(-1 / scale)
    reach = int(60 * scale) + max(scores)

    def mass(x):
        return (1 - q) / (1 + q) * q ** abs(x)

    def above(x):  # Pr[noise > x]
        return q ** (x + 1) / (1 + q) if x >= -1 else 1 - q ** (-x) / (1 + q)

    return [
        sum(
            mass(value - score)
            * math.prod(above(value - other - (i > j)) for j, other in enumerate(scores) if i != j)
            for value in range(-reach, reach + 1)
        )
        for i, score in enumerate(scores)
    ]


@pytest.mark.parametrize(("degree", "nodes"), [(UNDIRECTED, 5), (IN, 3)])
def test_choices_cost_epsilon_for_a_node(degree, nodes):
    directed = degree != UNDIRECTED
    mechanism = DegreeBoundMechanism("0.7", BOUNDS, (1, 2, 3), directed)
    ends = itertools.permutations if directed else itertools.combinations
    pairs = list(ends(range(nodes), 2))
    scale = 2 * (2 if directed else 1) * BOUNDS[-1] / 0.7
    assert float(mechanism._score_noise.scale) == pytest.approx(scale)
    known = {}

    def law(edges):
        scores = tuple(mechanism.scores(kept(edges, degree)))
        if scores not in known:
            known[scores] = chances(scores, scale)
            assert sum(known[scores]) == pytest.approx(1, abs=1e-9)
        return known[scores]

    dearest = 0.0
    for size in range(len(pairs) + 1):
        for edges in itertools.combinations(pairs, size):
            without = [edge for edge in edges if 0 not in edge]
            losses = [abs(math.log(p / q)) for p, q in zip(law(edges), law(without), strict=True)]
            dearest = max(dearest, *losses)
    assert 0.1 < dearest <= 0.7 + 1e-9


@pytest.mark.parametrize("degree", thorough_unless([UNDIRECTED, IN], [UNDIRECTED]))
def test_one_node_moves_each_number_of_edges_up_by_at_most_its_bound(degree):
    ends = itertools.permutations if degree == IN else itertools.combinations
    pairs = list(ends(range(4), 2))
    steps = 2 if degree == IN else 1
    for chosen in itertools.product((False, True), repeat=len(pairs)):
        edges = [pair for pair, is_in in zip(pairs, chosen, strict=True) if is_in]
        without = [edge for edge in edges if 0 not in edge]
        here, there = kept(edges, degree), kept(without, degree)
        assert all(0 <= here[bound] - there[bound] <= steps * bound for bound in BOUNDS)


def test_projections_share_one_order_of_edges_and_stop_where_nothing_is_dropped():
    star = [(0, leaf) for leaf in range(1, 6)]
    lists = projections(star, [1, 2, 8, 16], UNDIRECTED, b"key")
    assert [degrees.frequencies.max() for degrees in lists.values()] == [1, 2, 5, 5]
    assert lists[16] == FrequencyList.from_counts([5, 1, 1, 1, 1, 1])
    for bound, degrees in lists.items():
        assert degrees == projections(star, [bound], UNDIRECTED, b"key")[bound]


def test_the_bound_of_least_cost_is_chosen_without_noise_to_speak_of():
    edges = {2: 100, 4: 190, 8: 300, 16: 310}
    for noise, best in [((0, 0, 0, 0), 16), ((0, 5, 20, 90), 8), ((0, 200, 300, 400), 2)]:
        mechanism = DegreeBoundMechanism(10_000, tuple(edges), noise)
        assert mechanism.choose(edges, RandomTape(bytes(32))) == best


test_what_is_out_of_range_is_refused = refused(
    DegreeBoundMechanism,
    (1, (), (), "at least one number"),
    (1, (4, 2), (1, 1), "ascend"),
    (1, (2, 3), (1, 1), "divide the last"),
    (1, (2, 4), (1,), "a number for each"),
    (1, (0, 4), (1, 1), "bounds must be a positive integer"),
    (0, (2,), (1,), "epsilon"),
)
