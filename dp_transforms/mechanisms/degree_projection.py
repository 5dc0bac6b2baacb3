"""Projects a graph to bounded degree, so that its degree list has a known node-private sensitivity.

Node-private neighbours: one graph is the other without one node and all its edges. Their number is
not bounded. So a graph is first projected to one without degrees above a public bound D: its edges
are taken in a fixed order, and an edge is kept iff both its ends still have fewer than D kept edges
(edge addition: Day, Li and Lyu, "Publishing graph degree distribution with node differential
privacy", SIGMOD 2016).

Theorem. Adding a node v with all its edges moves the sorted list of projected degrees by at most
2 D in L1 norm, if the order of two edges depends on nothing but these two edges.

Proof. Run the projection on the graph without v and on the graph with v, in step: the edges that
both graphs have come in the same order. For a node u other than v, let d(u) be its degree so far in
the run with v, minus its degree so far in the run without v. Let S be the sum of all |d(u)|, and k
the number of kept edges of v so far. Then S <= k at any time:
  * An edge {v, u} comes in the run with v only. If it is kept, k grows by one, and S by at most
    one.
  * An edge {a, b} that is kept in both runs, or in neither, changes nothing.
  * An edge {a, b} is kept without v, but not with v. Then with v one of its ends was full, say a,
    and without v it was not: d(a) >= 1. So |d(a)| falls by one, and |d(b)| grows by at most one.
  * An edge {a, b} is kept with v, but not without v: the same, with d(a) <= -1.
In the end k <= D. The node v itself adds its degree k, so the two degree vectors differ by at most
2 k in L1, and sorting does not increase L1 distance. QED. The bound is attained: v joined to D
isolated nodes.

For a directed graph an edge (a, b) is kept iff a has fewer than D kept out-edges and b has fewer
than D kept in-edges. The same proof, with S summed over both kinds of degree and k the number of
kept edges into and out of v, gives S <= k <= 2 D. The in-degrees of the other nodes move by at most
S, and v adds an in-degree of at most D. So the list of in-degrees moves by at most 3 D, and so does
the list of out-degrees.

Nodes without a kept edge are not in the list, and the number of nodes is not released.

Corollary. Adding v raises the number of kept edges by between 0 and k, where k is at most D, or 2 D
for a directed graph. For each kept edge adds one to each of two degrees. So twice the change of
their number is the sum of all d(u) plus the degree k of v itself. The sum is between -S and S, and
thus between -k and k.
"""

from __future__ import annotations

import hashlib
import operator
from collections import Counter
from collections.abc import Iterable

from dp_transforms.mechanisms.arguments import shown
from dp_transforms.mechanisms.decimals import positive_integer
from dp_transforms.mechanisms.frequency_list import FrequencyList

UNDIRECTED, IN, OUT = DEGREES = "undirected", "in", "out"

Node = int | str | bytes
Edge = tuple[Node, Node]


def known_degree(degree: str) -> str:
    """Returns the kind of degree. Raises a ValueError if it is not one of ``DEGREES``."""
    if not isinstance(degree, str) or degree not in DEGREES:
        raise ValueError(f"degree must be one of {', '.join(DEGREES)}, got {shown(degree)}")
    return degree


def edge_private_sensitivity(degree: str = UNDIRECTED) -> int:
    """Returns the most that one edge can move the sorted list of degrees in L1 norm.

    An edge adds one to the degrees of both its ends, but only to one in-degree and to one
    out-degree. Sorting does not increase L1 distance. Nodes of degree 0 are left out, which is the
    same as zeros at the end of the list.

    Raises:
      ValueError: there is no such degree.

    >>> edge_private_sensitivity("undirected"), edge_private_sensitivity("in")
    (2, 1)
    """
    return 2 if known_degree(degree) == UNDIRECTED else 1


def node_private_sensitivity(degree_bound: int, directed: bool = False) -> int:
    """Returns the most that one node can move a projected degree list in L1 norm: 2 D, or 3 D for
    the in- or out-degrees of a directed graph, by the proof in the module.

    >>> node_private_sensitivity(degree_bound=50)
    100
    """
    return (3 if directed else 2) * positive_integer("degree_bound", degree_bound)


def project_degrees(
    edges: Iterable[Edge], degree_bound: int, order_key: bytes = b""
) -> FrequencyList:
    """Returns the degrees of an undirected graph projected to degrees of at most ``degree_bound``.

    Args:
      edges: pairs of nodes. Self-loops are dropped, and so are repeats in either direction.
      degree_bound: D, public: chosen without looking at the graph.
      order_key: up to 64 bytes that fix the order of the edges; also chosen without the graph.

    Returns:
      The positive degrees. Private: release them with ``node_private_sensitivity(degree_bound)``.

    Raises:
      ValueError: degree_bound is not positive, or a node is neither an integer nor text nor bytes.

    >>> star = [("hub", leaf) for leaf in "abcde"]
    >>> list(project_degrees(star, degree_bound=3))
    [(3, 1), (1, 3)]
    """
    return projections(edges, [degree_bound], UNDIRECTED, order_key)[degree_bound]


def project_directed_degrees(
    edges: Iterable[Edge], degree_bound: int, order_key: bytes = b""
) -> tuple[FrequencyList, FrequencyList]:
    """Returns the in-degrees and the out-degrees of a directed graph's projection.

    Arguments are those of ``project_degrees``, for edges (source, target); repeats in the same
    direction are dropped. Each list has sensitivity ``node_private_sensitivity(degree_bound,
    directed=True)``, and releasing both spends two budgets.

    >>> in_degrees, out_degrees = project_directed_degrees([(1, 2), (1, 3), (2, 3)], degree_bound=9)
    >>> list(in_degrees), list(out_degrees)
    ([(2, 1), (1, 1)], [(2, 1), (1, 1)])
    """
    positive_integer("degree_bound", degree_bound)
    return _directed(in_fixed_order(set(_encoded(edges)), order_key), degree_bound)


def projections(
    edges: Iterable[Edge], degree_bounds: Iterable[int], degree: str, order_key: bytes = b""
) -> dict[int, FrequencyList]:
    """Returns {degree bound: degrees of the graph's projection to this bound}.

    The edges are taken in the same order for each bound. Arguments are those of
    ``project_degrees``, with several bounds and the kind of degree.

    >>> star = [("hub", leaf) for leaf in "abcde"]
    >>> lists = projections(star, [2, 4], "undirected")
    >>> {bound: list(degrees) for bound, degrees in lists.items()}
    {2: [(2, 1), (1, 2)], 4: [(4, 1), (1, 4)]}
    """
    known_degree(degree)
    bounds = [positive_integer("degree_bound", bound) for bound in degree_bounds]
    if degree == UNDIRECTED:
        pairs = {(a, b) if a < b else (b, a) for a, b in _encoded(edges)}
    else:
        pairs = set(_encoded(edges))
    ordered = in_fixed_order(pairs, order_key)
    lists: dict[int, FrequencyList] = {}
    degrees_of_all_edges: FrequencyList | None = None
    for bound in sorted(bounds):
        if degrees_of_all_edges is not None:
            # A smaller bound has dropped nothing, so this one drops nothing either.
            lists[bound] = degrees_of_all_edges
            continue
        lists[bound] = _projected(ordered, bound, degree)
        if kept_edges(lists[bound], degree) == len(ordered):
            degrees_of_all_edges = lists[bound]
    return lists


def kept_edges(degrees: FrequencyList, degree: str) -> int:
    """Returns the number of edges of a graph with these degrees of this kind."""
    return degrees.total // 2 if degree == UNDIRECTED else degrees.total


def _projected(
    ordered: Iterable[tuple[bytes, bytes]], degree_bound: int, degree: str
) -> FrequencyList:
    if degree == UNDIRECTED:
        return _undirected(ordered, degree_bound)
    in_degrees, out_degrees = _directed(ordered, degree_bound)
    return in_degrees if degree == IN else out_degrees


def _undirected(ordered: Iterable[tuple[bytes, bytes]], degree_bound: int) -> FrequencyList:
    degrees: Counter[bytes] = Counter()
    for a, b in ordered:
        if degrees[a] < degree_bound and degrees[b] < degree_bound:
            degrees[a] += 1
            degrees[b] += 1
    return _positive(degrees)


def _directed(
    ordered: Iterable[tuple[bytes, bytes]], degree_bound: int
) -> tuple[FrequencyList, FrequencyList]:
    into: Counter[bytes] = Counter()
    out_of: Counter[bytes] = Counter()
    for a, b in ordered:
        if out_of[a] < degree_bound and into[b] < degree_bound:
            out_of[a] += 1
            into[b] += 1
    return _positive(into), _positive(out_of)


def in_fixed_order(pairs: Iterable[tuple[bytes, bytes]], key: bytes) -> list[tuple[bytes, bytes]]:
    """Returns pairs of encoded nodes in the order of their keyed hashes.

    The relative order of two pairs depends only on them and the key, as the proof needs. Unlike
    alphabetical order, this does not favour the edges of some nodes.
    """

    def place(pair: tuple[bytes, bytes]) -> tuple[bytes, tuple[bytes, bytes]]:
        return hashlib.blake2b(pair[0] + pair[1], digest_size=8, key=key).digest(), pair

    return sorted(pairs, key=place)


def _encoded(edges: Iterable[Edge]) -> Iterable[tuple[bytes, bytes]]:
    for a, b in edges:
        first, second = _encode(a), _encode(b)
        if first != second:
            yield first, second


def _encode(node: Node) -> bytes:
    """Returns bytes that are equal iff the nodes are equal. Here an integer equals its decimal
    text, and a text its UTF-8 bytes."""
    if isinstance(node, str):
        return node.encode("utf-8", "surrogatepass")
    if isinstance(node, bytes):
        return node
    try:
        return b"%d" % operator.index(node)
    except TypeError:
        raise ValueError(
            f"edges must join integers, text or bytes, got a node of type {type(node).__name__}"
        ) from None


def _positive(degrees: Counter[bytes]) -> FrequencyList:
    return FrequencyList.from_counts([degree for degree in degrees.values() if degree])
