"""Measures how often intervals hold, for ``benchmarks.answers``.

It measures every interval that a release, a page or a table shows. No constant was chosen by the
lists and records here: samples of distributions, heaped and stepped lists, degrees of made-up
graphs, and public commit logs.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import html
import io
import itertools
import pathlib
import re
import secrets
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from scipy.spatial import KDTree

import dp_transforms as dp
from benchmarks.harness import DATA
from benchmarks.partition_selection import user_items, zipf_records
from dp_transforms import JobSecret
from dp_transforms.columnar.bounding import distinct_pairs
from dp_transforms.mechanisms import FrequencyList
from dp_transforms.mechanisms.partition.registry import EXPONENTIAL, FROBENIUS, GEOMETRIC
from dp_transforms.mechanisms.user_degrees import UserDegreeMechanism
from dp_transforms.postprocessing.estimates import (
    CONFIDENCE,
    GRID,
    MODEL,
    PROVED,
    Answers,
    Estimate,
    ModelIntervals,
)
from dp_transforms.postprocessing.guessing_metrics import success_rate
from dp_transforms.postprocessing.kappa_choice import kept_part
from dp_transforms.releases.comparison import compare
from dp_transforms.releases.directory import load
from dp_transforms.releases.frequency_list import ListRelease
from dp_transforms.releases.questions import QUESTIONS
from pipelines import select_partitions

RATES = {FROBENIUS: (1, 0.5, 0.1, 0.02), GEOMETRIC: (4, 1.1), EXPONENTIAL: (1, 0.1)}
TOP, ALPHA = 10, "0.5"
USERS = 20_000
KAPPA = 10

BY_WORDS = {
    question.words.format(things="partitions", users="users"): question for question in QUESTIONS
}
KINDS = {
    "number_of_partitions": "partitions",
    "total": "total",
    "partitions_with_at_least": "at least 10, 100, ...",
    "frequency_at": "ranks 1, 10, ...",
    "share_of_top": "share of the top 10, 100, ...",
}
GUESSES, TOGETHER, BANDS, CURVE = "G_0.5", "top ten", "all ranks", "all shares"


def job_secrets(number: int) -> list[JobSecret]:
    """Returns secrets that may serve several releases."""
    return [
        JobSecret.insecure_for_testing(int.from_bytes(secrets.token_bytes(), "big"))
        for _ in range(number)
    ]


def exact(known: FrequencyList) -> Answers:
    """Returns the exact answers of a list, without noise."""
    return ModelIntervals(known, [known])


# Coverage of intervals of a released list.


class Held(NamedTuple):
    """An interval that a release has shown, and whether it holds.

    Attributes:
      by: whether the interval is proved or by the model.
      mechanism: the mechanism of the list.
      rate: epsilon / kappa.
      list_name: the name of the private list.
      kind: what the interval is about.
      holds: whether the true number is in the interval.
    """

    by: str
    mechanism: str
    rate: float
    list_name: str
    kind: str
    holds: bool


def holds(estimate: Estimate, true: float) -> bool:
    return estimate.low - 1e-9 <= true <= estimate.high + 1e-9


def intervals_held(
    release: ListRelease, private: FrequencyList, by_model: bool = False
) -> Iterator[tuple[str, bool]]:
    """Yields the kind of each interval that a release shows, and whether it holds."""
    truth = exact(private)
    facts = release.model if by_model else release.intervals
    numbers = release.numbers(by_model=by_model, things="partitions", users="users")
    for words, estimate in numbers.items():
        question = BY_WORDS[words]
        yield KINDS[question.method], holds(estimate, question.of_list(truth, CONFIDENCE).value)
    if len(release.released):
        estimate = facts.alpha_guesswork_bits(ALPHA)
        yield GUESSES, holds(estimate, truth.alpha_guesswork_bits(ALPHA).value)
    if by_model:
        return
    top = zip(release.top(TOP), private.at_ranks(np.arange(1, TOP + 1)), strict=True)
    yield TOGETHER, all(holds(estimate, true) for estimate, true in top)
    lower, upper = release.intervals.bands()
    ranks = np.unique(
        np.concatenate(
            [np.cumsum(frequency_list.multiplicities) for frequency_list in (private, lower)]
        )
    )
    ranks = np.append(ranks, private.distinct + 1)
    true = private.at_ranks(ranks)
    yield BANDS, bool(((lower.at_ranks(ranks) <= true) & (true <= upper.at_ranks(ranks))).all())
    guesses = GRID[GRID <= private.distinct].tolist()
    ends = release.intervals.success_rates(guesses)
    yield (
        CURVE,
        all(
            low - 1e-9 <= success_rate(private, guess_count) <= high + 1e-9
            for guess_count, low, high in zip(guesses, *ends, strict=True)
        ),
    )


def lists() -> Iterator[tuple[str, FrequencyList]]:
    """Yields private lists with their names: of users who each take one item of a distribution, of
    other shapes, and of degrees."""
    rng = np.random.default_rng(2026)

    def sample(weights: np.ndarray) -> FrequencyList:
        counts = rng.multinomial(USERS, weights / weights.sum())
        return FrequencyList.from_counts(counts[counts > 0])

    items = np.arange(1, 10_001)
    yield "Zipf", sample(1 / items)
    yield "log-normal", sample(np.exp(2 * rng.standard_normal(10_000)))
    yield "power of the rank, 0.5", sample(items**-0.5)
    yield "Poisson of mean 40", FrequencyList.from_counts(rng.poisson(40, 500) + 1)
    yield "uniform over 2,000", sample(np.ones(2_000))
    yield "heaped on tens", FrequencyList.from_counts(10 * rng.integers(1, 20, 200))
    yield "staircase", FrequencyList.from_counts(np.arange(1, 201))
    yield "two levels", FrequencyList([100, 1], [100, 10_000])
    for name, words in (("git_rails_author_word", "Rails"), ("git_tldr_author_file", "tldr")):
        table = user_items(DATA / f"{name}.csv.gz")
        for column, title in (("partition", "users by item"), ("user", "items by user")):
            yield f"{words}, {title}", counted(table[column])
    for name, edges in graphs().items():
        yield f"degrees, {name}", counted(pa.chunked_array([*edges.T]))


def counted(column: pa.ChunkedArray) -> FrequencyList:
    counts = pc.value_counts(column.combine_chunks()).field("counts")
    return FrequencyList.from_counts(counts.to_numpy())


def graphs() -> dict[str, np.ndarray]:
    """Returns the edges of two made-up graphs of 5,000 nodes, by name."""
    rng = np.random.default_rng(2027)
    ends = [0, 1]
    for node in range(2, 5_000):
        # A node is chosen with probability proportional to its number of edges.
        chosen = {ends[place] for place in rng.integers(0, len(ends), 3)}
        ends += [end for other in sorted(chosen) for end in (node, other)]
    near = KDTree(rng.random((5_000, 2))).query_pairs(0.02, output_type="ndarray")
    return {"preferential attachment": np.reshape(ends, (-1, 2)), "random geometric": near}


def coverage(releases: int) -> Iterator[Held]:
    """Yields all intervals that releases of all lists show."""
    for name, private in lists():
        for mechanism, rates in RATES.items():
            for rate, secret in itertools.product(rates, job_secrets(releases)):
                release = dp.release_counts(
                    private,
                    epsilon=rate,
                    max_partitions_per_user=1,
                    mechanism=mechanism,
                    secret=secret,
                )
                for kind, held in intervals_held(release, private):
                    yield Held(PROVED, mechanism, rate, name, kind, held)
                if release.released.coordinates is not None and len(release.released):
                    for kind, held in intervals_held(release, private, by_model=True):
                        yield Held(MODEL, mechanism, rate, name, kind, held)


def coverage_table(rows: Mapping[str, Sequence[Held]]) -> Iterator[str]:
    """Yields a table with the shares of intervals that hold, by kind."""
    kinds = list(
        dict.fromkeys(interval.kind for intervals in rows.values() for interval in intervals)
    )
    yield f"| | {' | '.join(kinds)} |"
    yield "| --- " + "| ---: " * len(kinds) + "|"
    for name, intervals in rows.items():
        parts = [
            [interval.holds for interval in intervals if interval.kind == kind] for kind in kinds
        ]
        yield f"| {name} | {' | '.join(f'{np.mean(part):.1%}' if part else '' for part in parts)} |"


# Coverage of other intervals.


def records() -> Iterator[tuple[str, pa.Table]]:
    """Yields tables of distinct pairs of users and partitions, with at most ``KAPPA`` pairs of each
    user, and their names."""
    made = zipf_records(USERS, KAPPA, np.random.default_rng(2028))
    logs = {"Rails": "git_rails_author_word", "tldr": "git_tldr_author_file"}
    read = {name: user_items(DATA / f"{file}.csv.gz") for name, file in logs.items()}
    for name, table in ({"Zipf": made} | read).items():
        bounded = distinct_pairs(table, at_most=KAPPA, key=bytes(32))
        yield name, bounded.select(table.column_names).cast(table.schema)


def counts_held(secret: JobSecret, table: pa.Table) -> list[bool]:
    """Returns whether the interval of each noisy count of one release holds.

    The strategy counts all records of the table. Strategies with rounds may count fewer partitions
    of a user.
    """
    released = dp.select(
        table,
        user="user",
        partition="partition",
        epsilon=2,
        delta=1e-5,
        max_partitions_per_user=KAPPA,
        counts=True,
        strategy="gaussian",
        secret=secret,
    )
    true = collections.Counter(table["partition"].to_pylist())
    columns = (released.names[name].to_pylist() for name in ("partition", "low", "high"))
    return [low <= true[name] <= high for name, low, high in zip(*columns, strict=True)]


def others_held(_: JobSecret, table: pa.Table) -> list[bool]:
    """Returns whether the interval for the number of users of other partitions holds, on the page
    of one run of the job. The job draws a secret of its own."""
    with tempfile.TemporaryDirectory() as directory, contextlib.redirect_stdout(io.StringIO()):
        path = pathlib.Path(directory)
        pq.write_table(table, path / "records.parquet")
        code = select_partitions.main(
            [
                f"--input={path}/records.parquet",
                "--user_column=user",
                "--partition_column=partition",
                "--epsilon=2.5",
                "--others_share=0.2",
                "--delta=1e-5",
                f"--max_partitions_per_user={KAPPA}",
                f"--output={path}/names",
            ]
        )
        if code:
            raise RuntimeError(f"the job ended with {code}")
        released = load(f"{path}/names")
        released.report(path / "page.html")
        page = html.unescape((path / "page.html").read_text(encoding="utf-8"))
    shown = re.search(r"not named: between ([\d,]+) and ([\d,]+) \(95%", page)
    assert shown
    low, high = (int(end.replace(",", "")) for end in shown.groups())
    named = pc.is_in(table["partition"], released.names["partition"].combine_chunks())
    rest = table.filter(pc.invert(named))
    return [low <= pc.count_distinct(rest["user"]).as_py() <= high]


def kept_held(secret: JobSecret, table: pa.Table) -> list[bool]:
    """Returns whether the intervals hold for the parts that some values of kappa keep, by one
    release of users' degrees."""
    degrees = counted(table["user"])
    released = UserDegreeMechanism(0.2).release(dict(degrees), secret.tape("degrees"))
    held = []
    for kappa in (1, 2, 5):
        kept = int(np.minimum(degrees.frequencies, kappa) @ degrees.multiplicities)
        held.append(holds(kept_part(released, kappa), kept / degrees.total))
    return held


def differences_held(secret: JobSecret) -> list[bool]:
    """Returns whether the intervals hold for the differences of each list from the one before."""
    held = []
    for pair in itertools.pairwise(private for _, private in lists()):
        comparison = compare(
            *(
                dp.release_counts(private, epsilon=0.5, max_partitions_per_user=1, secret=secret)
                for private in pair
            )
        )
        for words, difference in zip(comparison.questions, comparison.differences, strict=True):
            before, after = (
                BY_WORDS[words].of_list(exact(each), CONFIDENCE).value for each in pair
            )
            held.append(holds(difference, after - before))
    return held


def degrees_held(secret: JobSecret, edges: np.ndarray) -> list[bool]:
    """Returns whether the intervals of one release of a graph's degrees hold."""
    release = dp.degrees(
        {"source": edges[:, 0], "target": edges[:, 1]},
        source="source",
        target="target",
        epsilon=1,
        secret=secret,
    )
    return [held for _, held in intervals_held(release, counted(pa.chunked_array([*edges.T])))]


def other_rows(releases: int) -> Iterator[str]:
    """Yields a table with the shares of other intervals that hold."""
    yield "| interval | of | shown | held |"
    yield "| --- | --- | ---: | ---: |"

    def row(title: str, name: str, make: Callable[..., list[bool]], *data: object) -> str:
        outcomes = [held for secret in job_secrets(releases) for held in make(secret, *data)]
        return f"| {title} | {name} | {len(outcomes):,} | {np.mean(outcomes):.1%} |"

    for name, table in records():
        yield row("noisy counts of names", f"{name}, kappa = {KAPPA}", counts_held, table)
        yield row("users of other partitions", f"{name}, kappa = {KAPPA}", others_held, table)
        yield row("part that kappa = 1, 2, 5 keeps", name, kept_held, table)
    for name, edges in graphs().items():
        yield row("degrees, of edges", name, degrees_held, edges)
    yield row("differences of two lists", "the lists above, in a row", differences_held)


def coverage_part(flags: argparse.Namespace) -> Iterator[str]:
    yield "\n## Coverage of what a list shows\n"
    yield (
        f"How often {CONFIDENCE:.0%} intervals hold, in {flags.releases} releases of each list at "
        "each c: those that a release shows, of guesswork, and what holds together: the bounds of "
        f"the {TOP} largest frequencies, of all ranks, and of the shares of all numbers of top "
        "partitions. None of these lists played a part in the making of the decoder or of an "
        "interval."
    )
    intervals = list(coverage(flags.releases))
    for title, by, mechanisms in (
        ("Frobenius mechanism, proved", PROVED, [FROBENIUS]),
        ("Frobenius mechanism, by 200 lists from the decoder's model", MODEL, [FROBENIUS]),
        ("Geometric and exponential mechanism, proved", PROVED, [GEOMETRIC, EXPONENTIAL]),
    ):
        here = [
            interval
            for interval in intervals
            if interval.by == by and interval.mechanism in mechanisms
        ]
        rows = {
            f"{mechanism}, c = {rate:g}": [
                interval
                for interval in here
                if (interval.mechanism, interval.rate) == (mechanism, rate)
            ]
            for mechanism in mechanisms
            for rate in RATES[mechanism]
        }
        for name in dict.fromkeys(interval.list_name for interval in here):
            rows[name] = [interval for interval in here if interval.list_name == name]
        yield f"\n### {title}\n"
        yield from coverage_table({**rows, "together": here})


def others_part(flags: argparse.Namespace) -> Iterator[str]:
    yield "\n## Coverage of other intervals\n"
    yield (
        f"{flags.others} runs each: names of records at epsilon = 2 and delta = 1e-5, users of "
        "others at 0.5, degrees at 0.2 of users and at 1 of graphs, compared lists at 0.5 each.\n"
    )
    yield from other_rows(flags.others)
