"""Repeats the release of Yahoo!'s password frequency lists on made-up users, by one command.

    python -m benchmarks.yahoo_retelling [--users N] [--attributes 22]
        [--epsilon_groups 0.25 0.55] [--output benchmarks/results]

In 2015 Yahoo! published frequency lists of the passwords of all 69 million users in a sample, and
of groups of them: by gender, age, language and much else (Blocki, Datta and Bonneau, NDSS 2016).
Each user was in at most 23 groups. Here a budget of epsilon = 0.5 is spent in halves: one half for
the list of all users, and one for the groups, in equal parts for each attribute. After that the
page has the errors at other budgets.

Users are a sample of the accounts of the package's Yahoo! list, with made-up attributes: in some
groups passwords are harder to guess than in others. They are written to a Parquet file and released
by ``pipelines.release_grouped_lists``. The statistics of the paper's Table III are computed from
the release, and from the originals, which are counted here without the job. For budgets other than
the first, the job's mechanism releases the originals, without the job: nobody has more than one
password, so the job would make the same lists.
"""

from __future__ import annotations

import os
import pathlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from dp_accounting.dp_event import SelfComposedDpEvent

from benchmarks.harness import page_parser, write_page
from dp_transforms.budget.accounting import compose, partition_event
from dp_transforms.files.filenames import LISTS_FILE, LISTS_HEADER
from dp_transforms.mechanisms import FrequencyList, partition_mechanism
from dp_transforms.postprocessing import guessing_metrics
from dp_transforms.releases.lists import parse_lists
from dp_transforms.sample_data import yahoo
from pipelines.release_grouped_lists import main
from pipelines.sample_records import sample_items

EPSILON_ALL = "0.25"
DELTA = 1e-9
SEED = 2015
GUESSES = (1, 10, 100)
ALPHAS = ("0.25", "0.5")
CLOSE = 0.1

_ATTRIBUTES = {
    "gender": {"female": 0.46, "male": 0.54},
    "age": {"13-24": 0.28, "25-34": 0.3, "35-44": 0.2, "45-54": 0.13, "55 and over": 0.09},
    "language": {"English": 0.72, "Spanish": 0.13, "German": 0.07, "French": 0.05, "other": 0.03},
    "tenure": {"under a year": 0.2, "1-5 years": 0.45, "over 5 years": 0.35},
}
_SERVICES = (
    "auctions, calendar, chat, dating, fantasy sports, finance, forums, games, groups, mail, "
    "maps, mobile, music, photos, retail, search, toolbar, video"
).split(", ")
_SHARES_OF_SERVICES = np.geomspace(0.06, 0.8, len(_SERVICES))
_MAX_ATTRIBUTES = len(_ATTRIBUTES) + len(_SERVICES)
# The factor by which the odds of a group differ between the rarest passwords and the average one.
_ODDS = 1.5

Name = tuple[str, str]
Lists = Mapping[Name, FrequencyList]


def attribute_shares(number: int) -> dict[str, dict[str, float]]:
    """Returns the first attributes of a made-up population, each with the shares of users in its
    groups."""
    shares = dict(_ATTRIBUTES)
    for service, share in zip(_SERVICES, _SHARES_OF_SERVICES, strict=True):
        shares[service] = {"uses it": share, "does not": 1 - share}
    return {name: shares[name] for name in list(shares)[:number]}


def made_up_users(
    users: int, shares: Mapping[str, Mapping[str, float]], rng: np.random.Generator
) -> pa.Table:
    """Returns a record for each user: user, password, and a column for each attribute."""
    items = sample_items(yahoo(), users, rng)
    columns = {"user": pa.array(np.arange(users)), "password": pa.array(items)}
    # From 0 for the most common password to 1 for the rarest.
    rarity = np.log1p(items) / np.log1p(items.max())
    odds = _ODDS ** (rarity - rarity.mean())
    for name, groups in shares.items():
        # Every second group has passwords that are harder to guess.
        weights = [share * (odds if i % 2 else 1 / odds) for i, share in enumerate(groups.values())]
        draws = rng.random(users) * np.sum(weights, axis=0)
        codes = np.zeros(users, np.int8)
        for end in np.cumsum(weights[:-1], axis=0):
            codes += draws >= end
        columns[name] = pa.DictionaryArray.from_arrays(pa.array(codes), list(groups))
    return pa.table(columns)


def true_lists(table: pa.Table, attributes: Sequence[str]) -> dict[tuple[str, str], FrequencyList]:
    """Returns the lists that the job releases, without noise. Each record is counted as a user."""
    _, password = np.unique(table["password"].to_numpy(), return_inverse=True)
    lists = {("", ""): _list_of(password)}
    for name in attributes:
        column = table[name].combine_chunks()
        codes = column.indices.to_numpy()
        for code, group in enumerate(column.dictionary.to_pylist()):
            lists[name, group] = _list_of(password[codes == code])
    return lists


def _list_of(passwords: npt.NDArray[np.int64]) -> FrequencyList:
    counts = np.bincount(passwords)
    return FrequencyList.from_counts(counts[counts > 0])


def release(
    records: str, shares: Mapping[str, Mapping[str, float]], epsilon_groups: str, output: str
) -> Lists:
    """Returns the lists of a file of users, as the job releases them.

    Args:
      records: a Parquet file of ``made_up_users``.
      shares: the attributes and their groups; the shares do not matter.
      epsilon_groups: the epsilon of all groups together.
      output: the job's output directory.
    """
    code = main(
        [
            f"--input={records}",
            "--user_column=user",
            "--partition_column=password",
            f"--group_by={','.join(shares)}",
            *(f"--groups={name}={','.join(groups)}" for name, groups in shares.items()),
            f"--epsilon_all={EPSILON_ALL}",
            f"--epsilon_groups={epsilon_groups}",
            "--max_partitions_per_user=1",
            f"--output={output}",
        ]
    )
    if code:
        raise SystemExit(code)
    return parse_lists(pathlib.Path(output, LISTS_FILE).read_bytes(), LISTS_HEADER)


def release_originals(originals: Lists, attributes: int, epsilon_groups: str) -> Lists:
    """Returns released lists without the job, from the lists that it would make of the records."""
    everyone = partition_mechanism(float(EPSILON_ALL))
    one_of_them = partition_mechanism(float(epsilon_groups) / attributes)
    return {
        name: (one_of_them if any(name) else everyone).release(original)
        for name, original in originals.items()
    }


def composed_epsilon(epsilon: float, attributes: int) -> float:
    """Returns the epsilon, at ``DELTA``, of the lists of all attributes together, given that of
    each attribute. They are composed by the mechanism's range or epsilon, see
    ``dp_transforms.budget.accounting``."""
    events = [SelfComposedDpEvent(partition_event(partition_mechanism(epsilon)), attributes)]
    return compose(events, delta=DELTA).epsilon


def metrics(frequency_list: FrequencyList) -> list[float]:
    """Returns lambda_1, lambda_10, lambda_100, G_0.25 and G_0.5, in bits."""
    return [guessing_metrics.success_rate_bits(frequency_list, guesses) for guesses in GUESSES] + [
        guessing_metrics.alpha_guesswork_bits(frequency_list, alpha) for alpha in ALPHAS
    ]


def largest_difference(original: FrequencyList, values: Sequence[float]) -> float:
    """Returns the largest difference between a list's metrics and other values, in bits."""
    return max(abs(metric - value) for metric, value in zip(metrics(original), values, strict=True))


def table_lines(originals: Lists, released: Lists) -> Iterator[str]:
    """Yields Table III as Markdown, with the values of original and release for each metric."""
    names = [f"λ_{guesses}" for guesses in GUESSES] + [f"G_{alpha}" for alpha in ALPHAS]
    head = ["group", "users", "released", *names, "off by"]
    yield f"| {' | '.join(head)} |"
    yield f"| --- |{' ---: |' * (len(head) - 1)}"
    for name, original in originals.items():
        if name not in released:
            continue
        rows = [metrics(original), metrics(released[name])]
        off = f"{largest_difference(original, rows[1]):.2f}"
        cells = [" / ".join(f"{bits:.1f}" for bits in column) for column in zip(*rows, strict=True)]
        attribute, group = name
        label = f"{attribute}: {group}" if attribute else "all users"
        totals = [f"{lists[name].total:,}" for lists in (originals, released)]
        yield f"| {' | '.join([label, *totals, *cells, off])} |"


def summary(originals: Lists, released: Lists) -> str:
    """Returns a sentence on the largest differences of lists with many users."""
    parts = []
    for least in (1_000_000, 2_000_000, 3_000_000):
        large = [name for name in released if originals[name].total > least]
        if large:
            off = {n: largest_difference(originals[n], metrics(released[n])) for n in large}
            parts.append(f"{_distances(off)} for the {len(large)} lists of more than {least:,}")
    return f"Largest differences: {'; '.join(parts) or 'no list has a million users'}."


def _distances(differences: Mapping[Name, float]) -> str:
    within = sum(difference <= CLOSE for difference in differences.values())
    return f"{max(differences.values()):.2f} bits, {within} within {CLOSE}"


def retell(users: int, attributes: int, epsilons: Sequence[str], directory: str) -> Iterator[str]:
    """Yields the pieces of the page of results.

    Args:
      users: the number of users, at most that of the Yahoo! list.
      attributes: the number of attributes, between 1 and 22.
      epsilons: the budgets of all groups together. The job runs at the first one, and its lists are
        shown. For the others only errors are shown.
      directory: an existing directory, for the records and the releases.
    """
    shares = attribute_shares(attributes)
    table = made_up_users(users, shares, np.random.default_rng(SEED))
    records = os.path.join(directory, "users.parquet")
    pq.write_table(table, records)
    originals = true_lists(table, list(shares))
    del table
    yield (
        f"# The Yahoo! release, retold\n\n`python -m benchmarks.yahoo_retelling --users={users} "
        f"--attributes={attributes} --epsilon_groups {' '.join(epsilons)}`\n\n{users:,} made-up "
        f"users, each in {attributes + 1} of {len(originals)} groups. Statistics of Table III of "
        f"Blocki, Datta and Bonneau (NDSS 2016), in bits: original / released."
    )
    shown = ""
    for i, epsilon in enumerate(epsilons):
        if i == 0:
            released = release(records, shares, epsilon, os.path.join(directory, "release"))
            how = "Released by the job."
        else:
            released = release_originals(originals, attributes, epsilon)
            how = "Released without the job."
        each = float(epsilon) / attributes
        yield (
            f"\nEpsilon {EPSILON_ALL} for all users, and {epsilon} / {attributes} = {each:.3g} for "
            f"each attribute, which is {epsilon} for all groups, or "
            f"{composed_epsilon(each, attributes):.3g} with delta = {DELTA}. "
            f"{summary(originals, released)} {how}"
        )
        if i == 0:
            shown = "\n".join(table_lines(originals, released))
    yield f"\nThe lists at {epsilons[0]}:\n\n{shown}"


def run() -> None:
    """Makes the page by the flags of the command line."""
    parser = page_parser("yahoo_retelling", __doc__)
    parser.add_argument("--users", type=int, default=4_000_000)
    parser.add_argument(
        "--attributes",
        type=int,
        default=_MAX_ATTRIBUTES,
        choices=range(1, _MAX_ATTRIBUTES + 1),
        metavar=f"1..{_MAX_ATTRIBUTES}",
    )
    parser.add_argument(
        "--epsilon_groups", nargs="+", default=["0.25", "0.4", "0.55"], metavar="EPSILON"
    )
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        pieces = retell(flags.users, flags.attributes, flags.epsilon_groups, directory)
        write_page(flags.output / "yahoo_retelling.md", pieces)


if __name__ == "__main__":
    run()
