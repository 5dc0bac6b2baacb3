"""The command choose-kappa: releases how many partitions users have, and recommends a kappa."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import math
import sys

from dp_transforms.errors import InputError
from dp_transforms.files.filenames import DEGREES_FILE
from dp_transforms.files.paths import local_path
from dp_transforms.mechanisms.user_degrees import MAX_DEGREE, ReleasedDegrees
from dp_transforms.postprocessing.kappa_choice import (
    check_later_release,
    choose_kappa,
    kappa_table,
)
from dp_transforms.releases import UserDegreesSpec
from dp_transforms.releases.user_degrees import read_degrees
from dp_transforms.reports import page
from dp_transforms.reports.plans import plot_kappas
from pipelines import command_line, flag_values, job_flags
from pipelines.job_context import Job
from pipelines.release_job import PreparedRelease, release_command, release_of

_MANY = 100_000
_EPILOG = f"""\
The output directory receives {DEGREES_FILE} (partitions_from,users: the noisy number of users with
at least partitions_from partitions, and fewer than on the next line) and privacy.json (the
guarantee). The job prints a comparison of kappas. The costs of both releases add up.

examples:
  python -m pipelines.choose_kappa --input='logs/*.csv' --user_column=account
      --partition_column=page --epsilon=0.1 --for_epsilon=0.9 --output=degrees
  python -m pipelines.choose_kappa --released=degrees --for_epsilon=0.9 --for_delta=1e-8
      --plot=kappa.png
"""


def make_parser() -> command_line.JobParser:
    parser = command_line.JobParser(
        "pipelines.choose_kappa",
        "Release how many partitions users have, under epsilon-differential privacy for adding or\n"
        "removing all records of one user, and recommend a --max_partitions_per_user from it.",
        _EPILOG,
    )
    job_flags.add_input_flags(parser)
    earlier = parser.add_argument_group("an earlier release of this job, at no further cost")
    earlier.add_argument("--released", metavar="DIR", help="the --output of that job")
    privacy = job_flags.add_release_flags(
        parser, cost="what this release costs; a tenth of EPSILON is usually enough", lists=False
    )
    privacy.add_argument(
        "--max_degree",
        type=flag_values.positive_integer,
        metavar="N",
        help="the largest kappa to try; public: choose it without looking at the records "
        f"(default: {MAX_DEGREE})",
    )
    following = parser.add_argument_group("the next release")
    following.add_argument(
        "--for_epsilon", type=flag_values.epsilon, metavar="EPSILON", help="the next release's cost"
    )
    following.add_argument(
        "--for_delta",
        type=flag_values.proportion,
        metavar="DELTA",
        help="its delta, if it is a selection of names; without this flag it is a frequency list",
    )
    following.add_argument(
        "--plot",
        type=local_path,
        metavar="FILE.png",
        help="draw the comparison (matplotlib, extra: report)",
    )
    parser.add_common_flags()
    return parser


@release_command(make_parser)
def main(flags: argparse.Namespace) -> PreparedRelease | Job:
    if (flags.input is None) == (flags.released is None):
        raise ValueError("give either --input or --released; --help explains them")
    command_line.require(flags, "for_epsilon")
    check_later_release(flags.for_epsilon, flags.for_delta)
    if flags.released is not None:
        why = "is for --input: an earlier release costs nothing more"
        command_line.refuse(flags, why, "epsilon", "max_degree")
        job_flags.refuse_flags_of_output(flags, why)
        job_flags.refuse_flags_of_records(flags, why)
        return functools.partial(_show, flags, read_degrees(flags.released), [])
    command_line.require(flags, "user_column", "partition_column", "epsilon", "output")
    spec = UserDegreesSpec(flags.epsilon, flags.max_degree or MAX_DEGREE)
    if spec.max_degree > _MANY:
        command_line.warn(
            f"--max_degree={spec.max_degree} is far more partitions than users have: noise among "
            "degrees that nobody has looks like users who have so many. Give about as many as one "
            "user may well have, chosen without looking at the records"
        )
    if flags.plot is not None:
        page.check_picture(flags.plot)
    release = release_of(flags, spec, job_flags.records(flags))
    (directory,) = release.directories
    files = [directory.file(name) for name in directory.files]
    return dataclasses.replace(
        release, done=lambda: _show(flags, read_degrees(directory.path), files)
    )


def _show(flags: argparse.Namespace, released: ReleasedDegrees, files: list[str]) -> None:
    """Prints the files of a release and the comparison of kappas by it, and draws the plot."""
    try:
        choice = choose_kappa(released, flags.for_epsilon, flags.for_delta)
    except ValueError as error:
        released_files = ""
        if files:
            released_files = f". The degrees were released and paid for: {', '.join(files)}"
        raise InputError(f"there is no comparison: {error}{released_files}") from None
    if flags.json:
        values = dataclasses.asdict(choice)
        if math.isinf(choice.contributions.high):
            # JSON has no infinity.
            values["contributions"]["high"] = None
        print(json.dumps({"files": files} | values, indent=2))
    else:
        print("\n".join([*files, kappa_table(choice)]))
    if flags.plot is not None:
        path = command_line.draw(functools.partial(plot_kappas, choice), flags.plot)
        if not flags.json:
            print(path)


if __name__ == "__main__":
    sys.exit(main())
