"""The command sample: writes records to try the jobs on, by a random sample of RockYou's accounts.

Users and passwords are made-up identifiers. Two users have the same password identifier exactly if
the sampled accounts had the same password.
"""

from __future__ import annotations

import argparse
import os
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv

from dp_transforms.errors import InputError
from dp_transforms.files.paths import local_path
from dp_transforms.mechanisms import FrequencyList
from dp_transforms.mechanisms.arrays import IntArray
from dp_transforms.reports.phrases import some
from dp_transforms.sample_data import rockyou
from pipelines.command_line import OneLineParser, command


def sample_items(frequency_list: FrequencyList, users: int, rng: np.random.Generator) -> IntArray:
    """Samples users at random without replacement, and returns the rank (from 0) of each one's
    item.

    >>> items = sample_items(FrequencyList([3, 1], [1, 2]), 5, np.random.default_rng(0))
    >>> sorted(items.tolist())
    [0, 0, 0, 1, 2]
    """
    if not 1 <= users <= frequency_list.total:
        raise ValueError(f"users must be between 1 and {frequency_list.total}, got {users}")
    frequencies, multiplicities = frequency_list.frequencies, frequency_list.multiplicities
    first_item = np.cumsum(multiplicities) - multiplicities
    first_user = np.cumsum(frequencies * multiplicities) - frequencies * multiplicities
    user = rng.choice(frequency_list.total, users, replace=False)
    run = np.searchsorted(first_user, user, side="right") - 1
    return first_item[run] + (user - first_user[run]) // frequencies[run]


def sample_table(users: int, seed: int) -> pa.Table:
    """Returns records of `users` users in random order, with the columns user and password_id."""
    rng = np.random.default_rng(seed)
    items = sample_items(rockyou(), users, rng)
    user_ids = pa.array(range(users)).cast(pa.string())
    password_ids = pa.array(items).cast(pa.string())
    return pa.table(
        {
            "user": pa.compute.binary_join_element_wise("user", user_ids, ""),
            "password_id": pa.compute.binary_join_element_wise("password", password_ids, ""),
        }
    )


def make_parser() -> OneLineParser:
    parser = OneLineParser(
        prog="python -m pipelines.sample_records",
        description="Write a CSV file of synthetic users with passwords as frequent as RockYou's.",
    )
    parser.add_argument(
        "--users", type=int, default=1_000_000, help="number of users (default: a million)"
    )
    parser.add_argument("--seed", type=int, default=2009, help="the same seed makes the same file")
    parser.add_argument(
        "--output", type=local_path, required=True, metavar="FILE.csv", help="the file to write"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an existing file")
    return parser


@command(make_parser)
def main(flags: argparse.Namespace) -> None:
    if os.path.exists(flags.output) and not flags.overwrite:
        raise InputError(f"{flags.output} is there already: give --overwrite to replace it")
    table = sample_table(flags.users, flags.seed)
    try:
        os.makedirs(os.path.dirname(flags.output) or ".", exist_ok=True)
        # The stream compresses if the name of the file ends as those of compressed files do.
        with pa.output_stream(flags.output) as file:
            pa.csv.write_csv(table, file, pa.csv.WriteOptions(quoting_style="none"))
    except OSError as error:
        raise InputError(str(error)) from None
    print(f"{flags.output}: {some(flags.users, 'record')}, one of each synthetic user")


if __name__ == "__main__":
    sys.exit(main())
