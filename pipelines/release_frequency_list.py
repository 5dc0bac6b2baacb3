"""The command release, which is the main job: releases the frequency list of users' records."""

from __future__ import annotations

import argparse
import functools
import sys
from typing import TYPE_CHECKING, Any

from dp_transforms import mechanisms
from dp_transforms.engines.progress import say, say_private
from dp_transforms.files.filenames import COORDINATES_FILE, FREQUENCIES_FILE
from dp_transforms.files.release_files import check_frequency_list, read_frequency_list
from dp_transforms.mechanisms.partition.mechanism import PartitionMechanism
from dp_transforms.mechanisms.partition.registry import (
    AUTO,
    EXPONENTIAL,
    FROBENIUS,
)
from dp_transforms.releases import (
    AllRecordsSpec,
    ListSpec,
    PeriodAllRecordsSpec,
    PeriodListsSpec,
)
from dp_transforms.runtime.job_secret import JobSecret, release_frequency_list
from pipelines import flag_values, job_flags
from pipelines.command_line import JobParser, refuse, require
from pipelines.release_job import PreparedRelease, period_release, release_command, release_of

if TYPE_CHECKING:
    from dp_transforms.mechanisms.frequency_list import ReleasedList

_OF_ONE_LIST = "is for one list, not for one of each --period"
_RESTRICTIONS = ("exact_total", "max_total", "bounds_total", "bounds_reference")
_DISTANCES = ("bounds_width", "bounds_distance")

_EPILOG = f"""\
The output directory receives {FREQUENCIES_FILE} (frequency,multiplicity: multiplicity
partitions have frequency users each), privacy.json (the guarantee) and, below
epsilon = ln 3 * KAPPA or with --max_total, {COORDINATES_FILE} (the noisy numbers from which
the list is computed). All are public.

examples:
  python -m pipelines.release_frequency_list --input='logs/*.csv' --user_column=account
      --partition_column=page --epsilon=1 --max_partitions_per_user=10 --output=release
  python -m pipelines.release_frequency_list --frequency_list=counts.csv --epsilon=1
      --max_partitions_per_user=1 --output=release
"""


def make_parser() -> JobParser:
    parser = JobParser(
        "pipelines.release_frequency_list",
        "Release how many users partitions have, without saying which partitions, under\n"
        "epsilon-differential privacy for adding or removing all records of one user.",
        _EPILOG,
    )
    job_flags.add_input_flags(parser)
    counted = parser.add_argument_group("counts that exist already, instead of records")
    counted.add_argument(
        "--frequency_list",
        metavar="FILE.csv",
        help="counts, instead of records; header frequency,multiplicity, descending",
    )
    privacy = job_flags.add_release_flags(
        parser,
        max_partitions="keep at most KAPPA partitions of each user, chosen at random; by default a "
        "survey of users' partitions chooses it, and numbers are about all records. With "
        "--frequency_list it is needed: your promise that no user is in more of the counts",
    )
    job_flags.add_survey_flags(privacy)
    cost = privacy.add_mutually_exclusive_group()
    cost.add_argument(
        "--epsilon",
        type=flag_values.epsilon,
        help="what the release costs; smaller is more private",
    )
    cost.add_argument(
        "--eta",
        type=_eta,
        metavar="X,Y,Z",
        help="the cost in base 2, instead of --epsilon: a unit of L1 distance weighs (X / 2**Y)**Z",
    )
    job_flags.add_period_flags(parser)
    _add_public_knowledge_flags(parser)
    parser.add_common_flags()
    return parser


@release_command(make_parser)
def main(flags: argparse.Namespace) -> PreparedRelease:
    if (flags.input is None) == (flags.frequency_list is None):
        raise ValueError("give either --input or --frequency_list; --help explains them")
    if flags.epsilon is None and flags.eta is None:
        raise ValueError("give --epsilon, or --eta")
    require(flags, "output")
    if flags.frequency_list is not None:
        return _release_of_counts(flags)
    require(flags, "user_column", "partition_column")
    surveys = flags.max_partitions_per_user is None or flags.survey_share is not None
    if surveys:
        return _release_of_all_records(flags)
    refuse(flags, "needs a survey, by --survey_share", "largest_degree")
    mechanism = mechanism_from_flags(flags, flags.max_partitions_per_user)
    if flags.period is not None:
        refuse(flags, _OF_ONE_LIST, *_RESTRICTIONS, "report")
        return period_release(flags, PeriodListsSpec, mechanism=flags.mechanism)
    refuse(flags, "goes with --period", *job_flags.PERIOD_FLAGS)
    return release_of(flags, ListSpec(mechanism), job_flags.records(flags))


def _release_of_all_records(flags: argparse.Namespace) -> PreparedRelease:
    """Returns the release of a list with a survey, or of both for each period."""
    only_without = (*_RESTRICTIONS, *_DISTANCES, "eta")
    refuse(flags, "needs --max_partitions_per_user, and no --survey_share", *only_without)
    options: dict[str, Any] = {
        "survey_share": flags.survey_share,
        "mechanism": flags.mechanism,
        "largest_degree": flags.largest_degree,
    }
    if flags.period is not None:
        refuse(flags, _OF_ONE_LIST, "report")
        return period_release(flags, PeriodAllRecordsSpec, **options)
    refuse(flags, "goes with --period", *job_flags.PERIOD_FLAGS)
    spec = AllRecordsSpec(
        epsilon=flags.epsilon, max_partitions_per_user=flags.max_partitions_per_user, **options
    )
    return release_of(flags, spec, job_flags.records(flags))


def _release_of_counts(flags: argparse.Namespace) -> PreparedRelease:
    """Returns the release of a file of counts."""
    why = "is for --input: --frequency_list holds counts, not records"
    refuse(flags, why, "survey_share", "largest_degree", "period", *job_flags.PERIOD_FLAGS)
    job_flags.refuse_flags_of_records(flags, why)
    if flags.max_partitions_per_user is None:
        # A promise on which the guarantee rests is not made by leaving something out.
        raise ValueError(
            "--max_partitions_per_user is needed with --frequency_list: it is your promise that no "
            "user is in more than KAPPA of the counts"
        )
    mechanism = mechanism_from_flags(flags, flags.max_partitions_per_user)

    def release_counts() -> tuple[list[ReleasedList]]:
        if flags.progress:
            say("releasing the frequency list")
        remedy = "; --show_private_errors says more"
        private = read_frequency_list(flags.frequency_list, flags.show_private_errors, remedy)
        released = release_frequency_list(private, mechanism, JobSecret.from_os())
        if flags.show_private_counters:
            say_private("contributions", private.total)
        return ([released],)

    check = functools.partial(check_frequency_list, flags.frequency_list)
    return release_of(
        flags,
        ListSpec(mechanism),
        None,
        bounded_by_job=False,
        check=check,
        of_counts=release_counts,
    )


def _add_public_knowledge_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags about public numbers, which ``mechanism_from_flags`` reads."""
    variants = parser.add_argument_group(
        "public knowledge that narrows the release (optional, one of these)"
    )
    integer = functools.partial(variants.add_argument, type=flag_values.positive_integer)
    integer(
        "--exact_total",
        metavar="N",
        help="the sum of all frequencies, if it is public: only lists of this total are released",
    )
    integer(
        "--max_total",
        metavar="N",
        help="a public upper bound on the sum of all frequencies; released by the Frobenius "
        "mechanism, whose decoder keeps to it",
    )
    integer(
        "--bounds_total",
        metavar="N",
        help="bound the i-th largest frequency by N / i; time grows with the root of N",
    )
    variants.add_argument(
        "--bounds_reference",
        metavar="FILE.csv",
        help="a public list (frequency,multiplicity) near the private list, rank by rank",
    )
    integer(
        "--bounds_width",
        metavar="W",
        help="with --bounds_reference: the largest difference from it at every rank",
    )
    integer(
        "--bounds_distance",
        metavar="D",
        help="with --bounds_reference: bound each rank by its least and largest values in lists "
        "within an L1 distance of D",
    )


def mechanism_from_flags(flags: argparse.Namespace, max_partitions: int) -> PartitionMechanism:
    """Returns the mechanism that the flags ask for.

    Raises:
      ValueError: flags are missing, or exclude each other.
      InputError: the reference cannot be read.
    """
    restrictions = [name for name in _RESTRICTIONS if getattr(flags, name) is not None]
    if len(restrictions) > 1:
        raise ValueError(f"give one of --{' and --'.join(restrictions)}, not both")
    if flags.bounds_reference is None:
        refuse(flags, "goes with --bounds_reference", *_DISTANCES)
    mechanism = _mechanism(flags, max_partitions)
    if restrictions and flags.report and not mechanism.decodes:
        raise ValueError(
            "--report computes error bars for the unrestricted mechanism: leave out "
            f"--{restrictions[0]}"
        )
    return mechanism


def _mechanism(flags: argparse.Namespace, max_partitions: int) -> PartitionMechanism:
    """Returns the mechanism, by --mechanism and the public numbers that flags give."""
    price = (flags.epsilon, max_partitions, flags.eta)
    if flags.max_total is not None:
        if flags.mechanism not in (AUTO, FROBENIUS):
            raise ValueError(
                f"--max_total does not go with --mechanism={flags.mechanism}: only the decoder of "
                f"--mechanism={FROBENIUS} keeps to it, and --mechanism={AUTO} takes that one"
            )
        return mechanisms.FrobeniusMechanism(*price, max_total=flags.max_total)
    if flags.exact_total is not None:
        if flags.mechanism not in (AUTO, EXPONENTIAL):
            raise ValueError(
                f"--exact_total does not go with --mechanism={flags.mechanism}: it is for the "
                f"lists of --mechanism={EXPONENTIAL}, and --mechanism={AUTO} takes that one"
            )
        return mechanisms.ExactTotalMechanism(*price, total=flags.exact_total)
    return mechanisms.partition_mechanism(
        flags.epsilon, max_partitions, flags.mechanism, eta=flags.eta, bounds=_bounds(flags)
    )


def _bounds(flags: argparse.Namespace) -> mechanisms.PartitionBounds | None:
    """Returns the public bounds that the flags --bounds_... give, or None without them."""
    if flags.bounds_total is not None:
        return mechanisms.PartitionBounds.of_total(flags.bounds_total)
    if flags.bounds_reference is None:
        return None
    if (flags.bounds_width is None) == (flags.bounds_distance is None):
        raise ValueError("--bounds_reference needs either --bounds_width or --bounds_distance")
    reference = read_frequency_list(flags.bounds_reference, public=True)
    if flags.bounds_width is not None:
        return mechanisms.PartitionBounds.around(reference, flags.bounds_width)
    return mechanisms.PartitionBounds.within_distance(reference, flags.bounds_distance)


def _eta(text: str) -> mechanisms.Eta:
    try:
        x, y, z = (int(part) for part in text.split(","))
        return mechanisms.Eta(x, y, z)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"must be three positive integers X,Y,Z with X < 2**Y, for example 1,1,1, got {text!r}"
        ) from None


if __name__ == "__main__":
    sys.exit(main())
