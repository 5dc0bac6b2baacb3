"""The command plan: predicts errors of releases from public numbers, and reads no private data."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import sys
from collections.abc import Sequence

from dp_transforms.engines.progress import duration_words
from dp_transforms.files.paths import local_path
from dp_transforms.files.release_files import read_frequency_list
from dp_transforms.mechanisms import FrequencyList
from dp_transforms.mechanisms.partition.exponential import least_epsilon
from dp_transforms.mechanisms.partition.registry import partition_mechanism
from dp_transforms.postprocessing.attribute_plan import (
    AttributePlan,
    epsilons_of_one_attribute,
    plan_attributes,
)
from dp_transforms.postprocessing.hierarchy_plan import plan_hierarchy
from dp_transforms.postprocessing.planning import (
    MechanismPlan,
    ReleasePlan,
    SelectionPlan,
    expected_dist,
    plan_releases,
    zipf_list,
)
from dp_transforms.postprocessing.text_table import text_table
from dp_transforms.reports.phrases import some
from dp_transforms.reports.plans import plot_releases
from pipelines import flag_values
from pipelines.command_line import OneLineParser, add_json_flag, command, draw, refuse

_ROWS_PER_SECOND = 1_000_000

_EPILOG = """\
Never give the list that is to be released as --reference: its expected error is private.

examples:
  python -m pipelines.plan --users=1000000 --epsilon=1,0.5,0.1
  python -m pipelines.plan --reference=last_year/released_frequencies.csv --epsilon=1
      --delta=1e-8 --max_partitions_per_user=10 --plot=plan.png
  python -m pipelines.plan --users=1000000 --epsilon=1 --levels=state,county
      --groups=50,3000 --group_sizes=40,4000
"""


def make_parser() -> OneLineParser:
    parser = OneLineParser(
        prog="python -m pipelines.plan",
        usage="%(prog)s (--users=N | --reference=FILE.csv) --epsilon=E[,E...] [--delta=D] ...",
        description="Predict the expected error of releases from public numbers alone, the users\n"
        "that a partition needs to be named, and the time. No private data are read.",
        epilog=_EPILOG,
    )
    source = parser.add_argument_group("what is public about the data")
    either = source.add_mutually_exclusive_group(required=True)
    either.add_argument(
        "--users",
        type=flag_values.positive_integer,
        metavar="N",
        help="number of users, with KAPPA partitions each; the list is taken to follow Zipf's law",
    )
    either.add_argument(
        "--reference",
        metavar="FILE.csv",
        help="a PUBLIC list of a similar kind; header frequency,multiplicity; descending",
    )
    source.add_argument(
        "--zipf_exponent",
        type=float,
        metavar="S",
        help="with --users: the partition of rank i has about 1 / i**S as many users as the first "
        "(default: 1)",
    )
    source.add_argument(
        "--records",
        type=flag_values.positive_integer,
        metavar="N",
        help="number of input records, for the estimate of time",
    )
    privacy = parser.add_argument_group("privacy")
    privacy.add_argument(
        "--epsilon",
        type=flag_values.epsilons,
        required=True,
        metavar="E[,E...]",
        help="budgets to compare; the list and the selection cost one of them each",
    )
    privacy.add_argument(
        "--delta", type=flag_values.proportion, help="plan a selection of partitions as well"
    )
    privacy.add_argument(
        "--max_partitions_per_user",
        type=flag_values.positive_integer,
        default=1,
        metavar="KAPPA",
        help="at most KAPPA partitions of each user are kept (default: 1)",
    )
    privacy.add_argument(
        "--attributes",
        type=flag_values.positive_integer,
        metavar="N",
        help="plan release-attributes: N attributes share each epsilon equally, and the numbers "
        "are of one of their lists",
    )
    privacy.add_argument(
        "--groups",
        type=flag_values.positive_integers,
        metavar="N[,N...]",
        help="plan release-hierarchy: the number of groups at each level, from the top down",
    )
    privacy.add_argument(
        "--shares",
        type=flag_values.shares,
        metavar="NUMBER,...",
        help="with --groups: how epsilon is divided, see release-hierarchy",
    )
    privacy.add_argument(
        "--levels",
        type=flag_values.names,
        metavar="NAME,...",
        help="with --groups: the names of the levels, such as state,county",
    )
    privacy.add_argument(
        "--group_sizes",
        type=flag_values.positive_integers,
        metavar="N[,N...]",
        help="with --groups: contributions of groups to plan, beside those of an average group of "
        "each level (default: ten times the average, and a tenth)",
    )
    add_json_flag(parser)
    parser.add_argument(
        "--plot",
        type=local_path,
        metavar="FILE.png",
        help="draw the errors (matplotlib, extra: report)",
    )
    return parser


def tables(plans: Sequence[ReleasePlan], why: str) -> str:
    """Returns plans as text, with tables of lists, of mechanisms and, with a delta, of selections.
    ``why`` explains the choice of the mechanism."""
    others = list(plans[0].other_dists)
    rows = [
        ["epsilon", "expected dist", *others, "of all contributions", "seconds for one release"]
    ]
    rows += [
        [
            f"{plan.epsilon:g}",
            *(f"{dist:,.0f}" for dist in (plan.expected_dist, *plan.other_dists.values())),
            f"{100 * plan.relative_error:.2g}%",
            f"{plan.seconds:.2f}",
        ]
        for plan in plans
    ]
    text = "Frequency list (dist is half the L1 distance to the list without noise, in users)\n"
    if others:
        text = (
            "Frequency list (dist is half the L1 distance, in users, to the list without noise: of "
            f"a Zipf list\nand of two other kinds of lists, {' and '.join(others)}; yours may be "
            "between or beyond them)\n"
        )
    text += f"{text_table(rows)}\n\n{_mechanism_table(plans)}\n{why}"
    if not plans[0].selections:
        return text
    rows = [["epsilon", *(selection.strategy for selection in plans[0].selections)]]
    for plan in plans:
        rows.append([f"{plan.epsilon:g}", *map(_selection_cell, plan.selections)])
    return (
        f"{text}\n\nSelection: users with which a partition is named half of the time (how "
        f"many partitions have them)\n{text_table(rows)}\n"
        '* is what strategy="auto" takes; renyi_rounds and measured do better where users have '
        "fewer partitions"
    )


def attribute_table(plans: Sequence[AttributePlan], attributes: int) -> str:
    """Returns a table of what the list of one of several attributes would answer."""
    rows = [["epsilon", "of each list", "Shannon entropy (bits)", "unique users (part)"]]
    rows += [
        [
            f"{plan.epsilon:g}",
            f"{plan.epsilon_of_each:.3g}",
            *(f"{answer.low:.4g} to {answer.high:.4g}" for answer in (plan.entropy, plan.unique)),
        ]
        for plan in plans
    ]
    return (
        f"One of {attributes} attributes, if its list is like this one: 95% intervals of one "
        f"release\n{text_table(rows)}"
    )


def _print_hierarchy(flags: argparse.Namespace) -> None:
    """Prints the plans of the lists of a hierarchy."""
    if flags.delta is not None or flags.attributes is not None or flags.plot is not None:
        raise ValueError(
            "--groups is for the lists of a hierarchy: leave out --delta, --attributes and --plot"
        )
    refuse(flags, "is for one list: leave out --groups", "records", "zipf_exponent")
    groups = flags.groups
    if flags.levels is not None:
        if len(flags.levels) != len(groups):
            raise ValueError("--levels names the levels of --groups: give as many names as numbers")
        groups = dict(zip(flags.levels, groups, strict=True))
    if flags.reference is None:
        reference, contributions = None, flags.users * flags.max_partitions_per_user
        kinds = "a Zipf list and two other kinds"
    else:
        reference = read_frequency_list(flags.reference, public=True)
        contributions, kinds = reference.total, "its part of the reference list"
    plans = [
        plan_hierarchy(
            contributions,
            groups,
            epsilon,
            flags.max_partitions_per_user,
            flags.shares,
            flags.group_sizes,
            reference,
        )
        for epsilon in flags.epsilon
    ]
    if flags.json:
        levels = [dataclasses.asdict(level) for plan in plans for level in plan.levels]
        print(json.dumps({"contributions": contributions, "levels": levels}, indent=2))
        return
    most = flags.max_partitions_per_user
    print(
        f"{some(contributions, 'contribution')}, at most {most} per user. Each "
        "row is about one group, the first of a level about\none of average size. dist is half the "
        "L1 distance to the group's list without noise, for\n"
        f"{kinds}, if it was released alone. In the hierarchy, small groups err less.\n"
    )
    print("\n\n".join(map(str, plans)))


def _mechanism_table(plans: Sequence[ReleasePlan]) -> str:
    """Returns a table of the error that each mechanism would have."""
    rows = [["epsilon", *(planned.mechanism for planned in plans[0].mechanisms)]]
    for plan in plans:
        rows.append([f"{plan.epsilon:g}", *map(_mechanism_cell, plan.mechanisms)])
    head = "Expected dist by --mechanism (none: it does not work there, or is far worse)"
    return f"{head}\n{text_table(rows)}"


def _selection_cell(planned: SelectionPlan) -> str:
    cell = "never"
    if planned.half_from is not None:
        cell = f"{planned.half_from:,} ({planned.named:,})"
    return _marked(cell, planned.chosen)


def _mechanism_cell(planned: MechanismPlan) -> str:
    if planned.expected_dist is None:
        return "none"
    return _marked(f"{planned.expected_dist:,.0f}", planned.chosen)


def _marked(cell: str, chosen: bool) -> str:
    """Returns the text of a cell, with a star if "auto" would choose it."""
    return f"{cell} *" if chosen else cell


def _why_the_default(
    reference: FrequencyList, plans: Sequence[ReleasePlan], max_partitions: int
) -> str:
    """Returns a text about the default: from which epsilon on each mechanism works, and the error
    of the geometric one there."""
    least = least_epsilon(max_partitions)
    text = (
        "* is the default, --mechanism=auto: the mechanism with the least error on most lists, "
        "chosen by\nepsilon and KAPPA (--max_partitions_per_user) alone. All are epsilon-DP.\n"
        f"geometric works from {least} on (ln 3 * KAPPA), the other mechanisms everywhere."
    )
    below = [plan.expected_dist for plan in plans if plan.epsilon < least]
    if not below:
        return text
    there = expected_dist(partition_mechanism(least, max_partitions), reference).dist
    if there < min(below):
        text += (
            f"\nAn epsilon of {least}, just above ln 3 * KAPPA, would buy the geometric mechanism: "
            f"expected dist {there:,.0f}."
        )
    return text


@command(make_parser)
def main(flags: argparse.Namespace) -> None:
    if flags.groups is not None:
        _print_hierarchy(flags)
        return
    max_partitions, made_up = flags.max_partitions_per_user, flags.reference is None
    if made_up:
        exponent = 1.0 if flags.zipf_exponent is None else flags.zipf_exponent
        reference = zipf_list(flags.users * max_partitions, exponent)
    else:
        refuse(flags, "is for --users: --reference is a list of its own", "zipf_exponent")
        reference = read_frequency_list(flags.reference, public=True)
    if flags.shares is not None:
        raise ValueError("--shares divides epsilon among the levels of a hierarchy: give --groups")
    refuse(flags, "is about the groups of a hierarchy: give --groups", "levels", "group_sizes")
    epsilons, of_attributes = flags.epsilon, ""
    if flags.attributes is not None:
        if max_partitions != 1 or flags.delta is not None:
            raise ValueError(
                "--attributes is for lists in which a user has one value: leave out --delta and "
                "--max_partitions_per_user"
            )
        epsilons = epsilons_of_one_attribute(flags.epsilon, flags.attributes)
        attribute_plans = plan_attributes(reference, flags.epsilon, flags.attributes)
        of_attributes = f"{attribute_table(attribute_plans, flags.attributes)}\n\n"
    plans = plan_releases(reference, epsilons, flags.delta, max_partitions, made_up)
    why = _why_the_default(reference, plans, max_partitions)
    drawn = ""
    if flags.plot is not None:
        drawn = draw(functools.partial(plot_releases, plans), flags.plot)
    if flags.json:
        about = {"contributions": reference.total, "partitions": reference.distinct}
        if flags.records is not None:
            about["seconds_for_records"] = flags.records / _ROWS_PER_SECOND
        planned = {"plans": [dataclasses.asdict(plan) for plan in plans]}
        if flags.attributes is not None:
            planned["attributes"] = [dataclasses.asdict(plan) for plan in attribute_plans]
        print(json.dumps(about | planned, indent=2))
        return
    kind = "the reference list" if flags.reference else "a Zipf list in place of the data"
    size = f"{some(reference.total, 'contribution')}, {some(reference.distinct, 'partition')}"
    print(
        f"{kind}: {size}, at most {max_partitions} per user\n\n"
        f"{of_attributes}{tables(plans, why)}\n\n"
        f"{_sizes(reference, flags.records)}"
        f"\n{drawn}".rstrip("\n")
    )


def _sizes(reference: FrequencyList, records: int | None) -> str:
    """Returns a text about the size of a job's list and the time to read its records."""
    # A list with m different frequencies has at least 1 + 2 + ... + m contributions.
    pairs = int(((8 * reference.total + 1) ** 0.5 - 1) // 2)
    text = f"One worker draws a job's list, from at most {pairs:,} pairs (frequency, multiplicity)."
    if records is not None:
        duration = duration_words(records / _ROWS_PER_SECOND)
        text += (
            f"\nReading, bounding and counting {records:,} records: about {duration} of one "
            "process at a million records a second (--progress of a job shows yours)."
        )
    return text


if __name__ == "__main__":
    sys.exit(main())
