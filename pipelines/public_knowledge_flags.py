"""Flags that narrow a release to the lists that agree with public knowledge.

Each gives a mechanism of its own; at most one of them is used.
"""

from __future__ import annotations

import argparse
import functools

from dp_transforms.files.frequency_files import read_frequency_list
from dp_transforms.mechanisms import (
    ExactTotalMechanism,
    FrobeniusMechanism,
    MaximumTotalMechanism,
    PartitionBounds,
    partition_mechanism,
)
from dp_transforms.mechanisms.partition.mechanism import PartitionMechanism
from dp_transforms.mechanisms.partition.registry import (
    AUTO,
    EXPONENTIAL,
    FROBENIUS,
    chosen_mechanism,
)
from pipelines import flag_types

VARIANTS = ("exact_total", "max_total", "bounds_total", "bounds_reference")
_GO_WITH = {
    "bounds_width": "bounds_reference",
    "bounds_distance": "bounds_reference",
}


def add_variant_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags that ``mechanism_from_flags`` reads."""
    variants = parser.add_argument_group(
        "public knowledge that narrows the release (optional, one of these)"
    )
    integer = functools.partial(variants.add_argument, type=flag_types.positive_integer)
    integer(
        "--exact_total",
        metavar="N",
        help="the sum of all frequencies is public: only lists of this total are released",
    )
    integer("--max_total", metavar="N", help="a public upper bound on the sum of all frequencies")
    integer(
        "--bounds_total",
        metavar="N",
        help="bound the i-th largest frequency by N / i; time grows with the root of N",
    )
    variants.add_argument(
        "--bounds_reference",
        metavar="FILE.csv",
        help="a public list (frequency,multiplicity) that the released one is near, at every rank",
    )
    integer(
        "--bounds_width",
        metavar="W",
        help="with --bounds_reference: at most so far from it at every rank",
    )
    integer(
        "--bounds_distance",
        metavar="D",
        help="with --bounds_reference: between the least and the largest values that ranks have in "
        "lists within an L1 distance of D",
    )


def mechanism_from_flags(flags: argparse.Namespace, max_partitions: int) -> PartitionMechanism:
    """The mechanism of sensitivity kappa that --epsilon or --eta and ``add_variant_flags`` ask for.

    Raises:
      ValueError: flags exclude each other, or one is missing; the message names them.
      InputError: the reference cannot be read.
    """
    given = [name for name in VARIANTS if getattr(flags, name) is not None]
    if len(given) > 1:
        raise ValueError(f"give one of --{' and --'.join(given)}, not both")
    for name, needed in _GO_WITH.items():
        if getattr(flags, name) is not None and getattr(flags, needed) is None:
            raise ValueError(f"--{name} goes with --{needed}")
    mechanism = _mechanism(flags, max_partitions)
    if given and flags.report and not mechanism.decodes:
        raise ValueError(
            f"--report computes error bars for the unrestricted mechanism: leave out --{given[0]}"
        )
    return mechanism


def _mechanism(flags: argparse.Namespace, max_partitions: int) -> PartitionMechanism:
    epsilon, eta, name = flags.epsilon, flags.eta, flags.mechanism
    if name == AUTO:
        name = chosen_mechanism(epsilon, max_partitions, eta)
    if flags.max_total is not None and name == FROBENIUS:
        return FrobeniusMechanism(epsilon, max_partitions, eta, max_total=flags.max_total)
    for total in ("exact_total", "max_total"):
        if getattr(flags, total) is not None and flags.mechanism not in (AUTO, EXPONENTIAL):
            raise ValueError(f"--{total} does not go with --mechanism={flags.mechanism}")
    if flags.exact_total is not None:
        return ExactTotalMechanism(epsilon, max_partitions, eta, total=flags.exact_total)
    if flags.max_total is not None:
        return MaximumTotalMechanism(epsilon, max_partitions, eta, max_total=flags.max_total)
    return partition_mechanism(
        epsilon, max_partitions, flags.mechanism, eta=eta, bounds=_bounds(flags)
    )


def _bounds(flags: argparse.Namespace) -> PartitionBounds | None:
    if flags.bounds_total is not None:
        return PartitionBounds.of_total(flags.bounds_total)
    if flags.bounds_reference is None:
        return None
    if (flags.bounds_width is None) == (flags.bounds_distance is None):
        raise ValueError("--bounds_reference needs either --bounds_width or --bounds_distance")
    reference = read_frequency_list(flags.bounds_reference, public=True)
    if flags.bounds_width is not None:
        return PartitionBounds.around(reference, flags.bounds_width)
    return PartitionBounds.within_distance(reference, flags.bounds_distance)
