"""Degree lists that protect nodes, with nothing declared, beside published methods.

    python -m benchmarks.node_degrees [--edges=DIR] [--repeats=5] [--output=benchmarks/results]

Each number is the mean of dist (half the L1 distance) between the released list and the degrees of
the WHOLE graph. Graphs are made from seeds; DIR may add files .csv.gz of edges (src,dst). All
methods are pure epsilon-DP for adding or removing one node with all its edges, and have the same
candidates for the bound D. PRIVATE evaluation: it needs the true degrees.

"Day, Li and Lyu" is the cumulative histogram of their paper (SIGMOD 2016) after edge addition. It
has the numbers of nodes of degree at most i, for i = 0 to D, with sensitivity D + 1. They get
Laplace noise and are made ascending. A tenth of epsilon pays for choosing D by the exponential
mechanism: its quality is minus the number of edges that D drops, minus sqrt(2) D / epsilon for the
noise. The histogram also counts nodes without edges, and is told their number here.

"Known D" is this project's list at the best candidate and at the whole epsilon. Nobody can know
that candidate: the column shows what the choice costs.

It is also the least that the reduction of node to edge privacy can err with this list and this way
to drop edges (N2E: Hu, Ding and Dong, arXiv 2511.20125; we know its abstract and a summary). N2E
finds a threshold tau privately, and clips the graph so that a node changes at most tau + k edges,
where k makes up for nodes beyond tau. A mechanism that protects edges gets 1 / (tau + k) of what is
left of epsilon. One edge moves the list of degrees by 2, so its noise covers 2 (tau + k), and that
of "known D" covers 2 D. So the column is N2E with the best tau, k = 0, and a threshold that costs
nothing, while N2E pays for its threshold, with some delta too.
"""

from __future__ import annotations

import math
import pathlib
import statistics
from collections.abc import Iterator, Sequence
from fractions import Fraction

import networkx as nx
import numpy as np

from benchmarks.harness import integer_pairs, numbered_tapes, page_parser, write_page
from dp_transforms.mechanisms import FrequencyList, RandomTape
from dp_transforms.mechanisms.degree_projection import UNDIRECTED, projections
from dp_transforms.releases import NodeDegreesSpec
from dp_transforms.releases.degrees import projected_mechanism

EPSILONS = ("0.5", "1", "2", "4")
LARGEST = 2048
Edges = list[tuple[int, int]]


class Graph:
    """A graph, as the lists of its degrees in every projection."""

    def __init__(self, name: str, edges: Edges):
        self.name = name
        bounds = [2**power for power in range(1, LARGEST.bit_length())]
        self.lists = projections(edges, [*bounds, len(edges)], UNDIRECTED)
        self.whole = self.lists[len(edges)]
        self.nodes = self.whole.distinct

    def dist(self, degrees: FrequencyList) -> float:
        """Returns half the L1 distance to the degrees of the whole graph."""
        return self.whole.l1_distance(degrees) / 2


def main() -> None:
    parser = page_parser("node_degrees", __doc__, "repeats", "edges")
    flags = parser.parse_args()
    files = sorted(flags.edges.glob("*.csv.gz")) if flags.edges else []
    write_page(flags.output / "node_degrees.md", report(files, flags.repeats))


def graphs(files: Sequence[pathlib.Path]) -> Iterator[Graph]:
    """Yields the graphs that are made, and those of files."""
    yield Graph("preferential attachment", list(nx.barabasi_albert_graph(20_000, 5, seed=1).edges))
    clustered = nx.powerlaw_cluster_graph(5_000, 10, 0.3, seed=2)
    yield Graph("power law with triangles", list(clustered.edges))
    yield Graph("uniform random", list(nx.gnm_random_graph(10_000, 60_000, seed=1).edges))
    yield Graph("ring of neighbours", list(nx.watts_strogatz_graph(20_000, 8, 0.1, seed=3).edges))
    for path in files:
        edges = list(map(tuple, integer_pairs(path).tolist()))
        yield Graph(path.name.removesuffix(".csv.gz"), edges)


def report(files: Sequence[pathlib.Path], repeats: int) -> Iterator[str]:
    """Yields the lines of the page."""
    yield "# Degrees that protect nodes\n"
    yield (
        "Mean dist to the degrees of the whole graph. Nothing is declared but for the last column, "
        "whose bound is the best of all candidates. So the last column is also the least that "
        "the reduction of node to edge privacy (N2E) can err with this project's lists: as if its "
        "threshold were the best, and cost nothing.\n"
    )
    yield "| graph | epsilon | chosen bounds | this project | Day, Li and Lyu | known D |"
    yield "| --- | ---: | --- | ---: | ---: | ---: |"
    tapes, random = numbered_tapes(), np.random.default_rng(0)
    ratios, costs = [], []
    for graph in graphs(files):
        for text in EPSILONS:
            epsilon = Fraction(text)
            spec = NodeDegreesSpec(epsilon)
            chosen, ours = zip(
                *(released(graph, spec, next(tapes), next(tapes)) for _ in range(repeats)),
                strict=True,
            )
            theirs = [day_li_lyu(graph, spec, random) for _ in range(repeats)]
            best = min(
                statistics.fmean(
                    graph.dist(known.release(graph.lists[bound], next(tapes)))
                    for _ in range(repeats)
                )
                for bound in spec.candidates
                for known in [projected_mechanism(epsilon, bound, UNDIRECTED, "auto")]
            )
            ours_mean, theirs_mean = statistics.fmean(ours), statistics.fmean(theirs)
            ratios.append(theirs_mean / ours_mean)
            costs.append(ours_mean / best)
            bounds = ", ".join(str(bound) for bound in sorted(set(chosen)))
            yield (
                f"| {graph.name} | {text} | {bounds} | {ours_mean:,.0f} | {theirs_mean:,.0f} | "
                f"{best:,.0f} |"
            )
    yield (
        f"\nThe published method errs {statistics.geometric_mean(ratios):.2f} times as much in the "
        f"geometric mean, and {min(ratios):.2f} to {max(ratios):.2f} times. The choice of the "
        f"bound costs a factor of {statistics.geometric_mean(costs):.2f}, and at most "
        f"{max(costs):.2f}."
    )


def released(
    graph: Graph, spec: NodeDegreesSpec, for_choice: RandomTape, for_list: RandomTape
) -> tuple[int, float]:
    """Returns the bound that this project chooses, and dist of its list."""
    bound = spec.choice.choose(spec.kept(graph.lists), for_choice)
    return bound, graph.dist(spec.list_mechanism(bound).release(graph.lists[bound], for_list))


def day_li_lyu(graph: Graph, spec: NodeDegreesSpec, random: np.random.Generator) -> float:
    """Returns dist of the list of degrees that the noisy cumulative histogram of the published
    method describes."""
    epsilon = float(spec.cost.epsilon)
    for_choice, for_list = epsilon / 10, epsilon * 9 / 10
    bounds = np.array(spec.candidates)
    edges = np.array([graph.lists[bound].total // 2 for bound in bounds.tolist()])
    quality = -(edges[-1] - edges) - math.sqrt(2) * bounds / for_list
    # The quality of a bound changes by at most the largest bound.
    weights = for_choice * quality / (2 * bounds[-1]) + random.gumbel(size=len(bounds))
    bound = int(bounds[int(np.argmax(weights))])
    degrees = np.arange(bound + 1)
    at_least = np.array([nodes_with_at_least(graph.lists[bound], degree) for degree in degrees + 1])
    at_most = graph.nodes - at_least
    noisy = at_most + random.laplace(scale=(bound + 1) / for_list, size=len(at_most))
    ascending = np.maximum(isotonic(noisy), 0).round().astype(np.int64)
    # Nodes without edges are left out of the list.
    nodes_of_degree = np.diff(ascending)
    positive = nodes_of_degree > 0
    return graph.dist(
        FrequencyList.from_runs(degrees[1:][positive][::-1], nodes_of_degree[positive][::-1])
    )


def nodes_with_at_least(degrees: FrequencyList, least: int) -> int:
    """Returns the number of nodes with at least so many edges."""
    return int(degrees.multiplicities[degrees.frequencies >= least].sum())


def isotonic(values: np.ndarray) -> np.ndarray:
    """Returns the ascending values nearest in least squares, by pooling values that are out of
    order."""
    pools: list[tuple[float, int]] = []
    for value in values.tolist():
        mean, size = value, 1
        while pools and pools[-1][0] > mean:
            last_mean, last_size = pools.pop()
            mean = (mean * size + last_mean * last_size) / (size + last_size)
            size += last_size
        pools.append((mean, size))
    return np.concatenate([np.full(size, mean) for mean, size in pools])


if __name__ == "__main__":
    main()
