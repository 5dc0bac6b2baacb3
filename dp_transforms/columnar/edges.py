"""Edges of a graph as records: a node's degree is the number of its distinct neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

SOURCE = "source"
TARGET = "target"

UNDIRECTED = "undirected"
IN = "in"
OUT = "out"
DEGREES = (UNDIRECTED, IN, OUT)


def known_degree(degree: str) -> str:
    """The degree, if there is one of this name. Raises ValueError otherwise."""
    if degree not in DEGREES:
        raise ValueError(f"degree must be one of {', '.join(DEGREES)}, got {degree!r}")
    return degree


def edge_private_sensitivity(degree: str = UNDIRECTED) -> int:
    """Returns the most that one edge can move the sorted list of degrees in L1 norm.

    An edge is one "user" of each node whose degree it adds to: of both its ends, or of one for in-
    and out-degrees. It changes these nodes' degrees by one each, and sorting does not increase L1
    distance. Nodes of degree 0 are not in the list, which is the same as zeros at its end.

    Raises:
      ValueError: there is no such degree.

    >>> edge_private_sensitivity("undirected"), edge_private_sensitivity("in")
    (2, 1)
    """
    return 2 if known_degree(degree) == UNDIRECTED else 1


def neighbours(edges: pa.Table, degree: str) -> pa.Table:
    """Records in which the distinct users of a partition are the neighbours of a node.

    Args:
      edges: columns ``source`` and ``target``, plain or dictionaries of plain values.
      degree: "in", where sources are neighbours of targets; "out", the other way round;
        "undirected", both.

    Returns:
      Columns ``user`` (the neighbour) and ``partition`` (the node), without self-loops.

    Raises:
      TypeError: sources and targets have different types, so that no node could be both.

    >>> import pyarrow as pa
    >>> edges = pa.table({"source": ["a", "b", "c"], "target": ["b", "a", "c"]})
    >>> neighbours(edges, "in").to_pydict()
    {'user': ['a', 'b'], 'partition': ['b', 'a']}
    """
    # A command line names degrees before anything needs Arrow.
    import pyarrow.compute as pc

    from dp_transforms.columnar.columns import (
        PARTITION,
        USER,
        concat,
        decoded,
        described,
        single,
        value_types,
    )

    types = value_types(edges.select([SOURCE, TARGET]))
    if types[0] != types[1]:
        raise TypeError(
            "both ends of an edge must have one type, got "
            f"{' and '.join(map(described, types))}: cast one of the columns"
        )
    if edges[SOURCE].type != edges[TARGET].type:
        # One of them is a dictionary.
        edges = decoded(edges)
    source, target = (single(edges[name]) for name in (SOURCE, TARGET))
    edges = edges.filter(pc.not_equal(source, target))
    into = edges.rename_columns([USER, PARTITION])
    out_of = edges.rename_columns([PARTITION, USER]).select([USER, PARTITION])
    if degree == UNDIRECTED:
        return concat([into, out_of])
    return into if degree == IN else out_of
