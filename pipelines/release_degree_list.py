"""The command degrees: releases how many nodes of a graph have each degree, without naming nodes.

The list of degrees is released by a mechanism for integer partitions, with pure epsilon-DP for one
of two neighbouring relations:

* edges: neighbours add or remove all records of one edge. An edge adds one to the degrees of both
  of its ends; for in- and out-degrees, to that of one end. So the sensitivity is 2, or 1.
* nodes: neighbours add or remove one node with all its edges. The graph is first projected to a
  bound on degrees, which is public, or is chosen at a tenth of epsilon. The proofs are in
  ``dp_transforms.releases.node_degrees`` and ``dp_transforms.mechanisms.degree_projection``.
"""

from __future__ import annotations

import argparse
import sys

from dp_transforms.budget import PrivacyUnit
from dp_transforms.files.filenames import FREQUENCIES_FILE
from dp_transforms.mechanisms.degree_projection import DEGREES, UNDIRECTED
from dp_transforms.mechanisms.partition.exponential import IntegerPartitionMechanism
from dp_transforms.releases import DegreesSpec, NodeDegreesSpec
from dp_transforms.releases.node_degrees import degrees_spec
from pipelines import flag_values, job_flags
from pipelines.command_line import JobParser, refuse, require
from pipelines.release_job import PreparedRelease, release_command, release_of

EDGE, NODE = PrivacyUnit.EDGE.value, PrivacyUnit.NODE.value

_EPILOG = f"""\
The output directory receives {FREQUENCIES_FILE} (frequency,multiplicity: multiplicity nodes
have the degree frequency) and privacy.json (the guarantee).

An edge counts once, however many records it has, and a self-loop does not count. For undirected
degrees, records (a, b) and (b, a) are the same edge. The list leaves out nodes without an edge.

examples:
  python -m pipelines.release_degree_list --input='links/*.csv' --source_column=from
      --target_column=to --degree=in --epsilon=1 --output=release
  python -m pipelines.release_degree_list --input=friends.csv --source_column=a --target_column=b
      --privacy_unit=node --epsilon=1 --output=release
"""

_COLUMNS = {
    "source_column": "the column of an edge's source: its name, or its position from 1 with "
    "--no_header",
    "target_column": "the column of an edge's target, by name or position",
}


def make_parser() -> JobParser:
    parser = JobParser(
        "pipelines.release_degree_list",
        "Release how many nodes of a graph have each degree, under epsilon-differential privacy\n"
        "for adding or removing an edge, or a node with all its edges.",
        _EPILOG,
    )
    job_flags.add_input_flags(parser, _COLUMNS)
    privacy = job_flags.add_release_flags(
        parser, cost="what the release costs; smaller is more private"
    )
    privacy.add_argument(
        "--degree",
        choices=DEGREES,
        default=UNDIRECTED,
        help="count all edges of a node (default), edges into it, or edges out of it",
    )
    privacy.add_argument(
        "--privacy_unit",
        choices=(EDGE, NODE),
        default=EDGE,
        help="neighbouring graphs differ in one edge (default), or in one node with all its edges",
    )
    privacy.add_argument(
        "--degree_bound",
        type=flag_values.positive_integer,
        metavar="D",
        help="for --privacy_unit=node: keep at most D edges of each node; the noise grows with D. "
        "Public: choose it without looking at the graph. By default a tenth of epsilon pays for a "
        "choice from the graph",
    )
    privacy.add_argument(
        "--nodes",
        type=flag_values.positive_integer,
        metavar="N",
        help="the number of nodes, if it is public, for --privacy_unit=edge: the released list has "
        "no more, at no cost",
    )
    parser.add_common_flags()
    return parser


@release_command(make_parser)
def main(flags: argparse.Namespace) -> PreparedRelease:
    require(flags, "input", "source_column", "target_column", "epsilon", "output")
    if flags.privacy_unit == NODE:
        refuse(flags, "is for --privacy_unit=edge: one node changes the number of nodes", "nodes")
    else:
        refuse(flags, "is for --privacy_unit=node: for edges no bound is needed", "degree_bound")
    if flags.source_column == flags.target_column:
        raise ValueError(
            f"--source_column and --target_column must be different columns, got "
            f"{flags.source_column}"
        )
    spec = _spec(flags)
    edges = job_flags.records(flags, columns=(flags.source_column, [flags.target_column]))
    edges.check_ends()
    return release_of(flags, spec, edges)


def _spec(flags: argparse.Namespace) -> DegreesSpec | NodeDegreesSpec:
    """Returns the specification of the release that the flags ask for."""
    spec = degrees_spec(
        epsilon=flags.epsilon,
        degree=flags.degree,
        privacy_unit=flags.privacy_unit,
        degree_bound=flags.degree_bound,
        nodes=flags.nodes,
        mechanism=flags.mechanism,
    )
    is_exponential = isinstance(spec.mechanism, IntegerPartitionMechanism)
    if flags.report and is_exponential and flags.nodes is not None:
        raise ValueError(
            "--report has no error bars for --nodes under the exponential mechanism: leave out one"
        )
    return spec


if __name__ == "__main__":
    sys.exit(main())
