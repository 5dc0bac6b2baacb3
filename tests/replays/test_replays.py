"""Every job tells neighbours apart by numbers that noise covers, and by nothing else.

Each job runs on records with and without one user, under one secret: its exit code, words, logs,
ledger, statements and the names, modes and heads of its files must be equal. Released rows on which
the user has no part must be equal too, and the order of records must show nowhere. ``make
replays`` does this for an hour.
"""

import csv
import functools
import io
import itertools
import logging
import os
import sys

import apache_beam as beam
import pytest
from apache_beam.metrics import Metrics

from dp_transforms import BoundContributions
from dp_transforms.budget import Ledger, PrivacyUnit
from dp_transforms.errors import InputError
from dp_transforms.files import output
from tests.replays.neighbours import COLOURS, DAYS, KINDS, neighbours, shuffled
from tests.replays.replay import replay

SEEDS = range(int(os.environ.get("REPLAYS", len(KINDS))))

RECORDS = ("--user_column=user", "--partition_column=page", "--multiline")
BOUND = (*RECORDS, "--max_partitions_per_user=2")
ALL_PERIODS = ("--period=day", "--time_column=day", f"--periods={DAYS[0]}..{DAYS[-1]}")
PERIODS = (*ALL_PERIODS, "--max_periods_per_user=2")
GROUPS = ("--group_by=colour", f"--groups=colour={','.join(COLOURS)}")
JOBS = {
    "list": ("release", *BOUND, "--epsilon=1"),
    "list by the geometric mechanism": ("release", *BOUND, "--epsilon=4"),
    "list by the exponential mechanism": (
        "release", *BOUND, "--epsilon=1", "--mechanism=exponential"
    ),
    "list of all records": ("release", *RECORDS, "--epsilon=2"),
    "list of all records on Beam": (
        "release", *RECORDS, "--epsilon=2", "--runner=DirectRunner"
    ),
    "list with a survey": ("release", *BOUND, "--epsilon=2", "--survey_share=0.2"),
    "list on Beam": ("release", *BOUND, "--epsilon=1", "--runner=DirectRunner"),
    "list in Parquet": ("release", *BOUND, "--epsilon=1", "--output_format=parquet"),
    "lists of periods": ("release", *BOUND, *PERIODS, "--epsilon=2"),
    "lists of all records of periods": ("release", *RECORDS, *PERIODS, "--epsilon=4"),
    "names": ("select", *BOUND, "--epsilon=2", "--delta=1e-2", "--strategy=optimal"),
    "names with counts": (
        "select", *BOUND, "--epsilon=4", "--delta=1e-2", "--strategy=laplace", "--noisy_counts"
    ),
    "names by what a look tells": ("select", *RECORDS, "--epsilon=2", "--delta=1e-3"),
    "names by what was measured": (
        "select", *BOUND, "--epsilon=1", "--delta=1e-3", "--strategy=measured"
    ),
    "names and the number of other users": (
        "select", *BOUND, "--epsilon=1", "--delta=1e-3", "--others_share=0.2"
    ),
    "names of periods": ("select", *BOUND, *PERIODS, "--epsilon=4", "--delta=1e-3"),
    "names of periods by what a look tells": (
        "select", *RECORDS, *ALL_PERIODS, "--epsilon=4", "--delta=1e-3"
    ),
    "names in rounds": (
        "select", *BOUND, "--epsilon=1", "--delta=1e-3", "--strategy=renyi_rounds"
    ),
    "both": ("release-all", *BOUND, "--epsilon=2", "--delta=1e-3"),
    "both of all records": ("release-all", *RECORDS, "--epsilon=4", "--delta=1e-3"),
    "lists that add up": (
        "release-hierarchy", *BOUND, "--levels=colour,day", "--groups={groups}", "--epsilon=3"
    ),
    "attributes": (
        "release-attributes", "--user_column=user", "--attributes=colour,day,page",
        "--combination=colour,day", "--epsilon=3", "--multiline",
    ),
    "groups": ("release-groups", *BOUND, *GROUPS, "--epsilon_all=1", "--epsilon_groups=1"),
    "groups of all records": (
        "release-groups", *RECORDS, *GROUPS, "--epsilon_all=2", "--epsilon_groups=2"
    ),
    "degrees": (
        "degrees", "--source_column=user", "--target_column=page", "--epsilon=1",
        "--privacy_unit=node", "--degree_bound=3", "--multiline",
    ),
    "degrees with a chosen bound": (
        "degrees", "--source_column=user", "--target_column=page", "--epsilon=1",
        "--privacy_unit=node", "--multiline",
    ),
    "kappa": ("choose-kappa", *RECORDS, "--epsilon=1", "--for_epsilon=1", "--max_degree=8"),
}  # fmt: skip
OPTIONS = {
    "degrees": {"unit": PrivacyUnit.NODE},
    "degrees with a chosen bound": {"unit": PrivacyUnit.NODE},
    "kappa": {"answers": True},
}
SLOW = {
    "list of all records on Beam",
    "lists of all records of periods",
    "groups of all records",
    "both of all records",
    "names by what a look tells",
    "names of periods by what a look tells",
}
QUICK = {
    "list",
    "list by the geometric mechanism",
    "list by the exponential mechanism",
    "list in Parquet",
    "names",
    "names with counts",
    "lists of periods",
    "groups",
    "degrees",
    "degrees with a chosen bound",
}
MARKS = {
    job: pytest.mark.slow if job in SLOW else pytest.mark.thorough for job in JOBS.keys() - QUICK
}
SOME_MARKED = [pytest.param(job, marks=MARKS.get(job, [])) for job in JOBS]


@pytest.fixture
def run(tmp_path):
    """What leaves a job on some rows; each time in a directory of its own."""
    numbers = itertools.count()

    def of(job, rows):
        directory = tmp_path / str(next(numbers))
        directory.mkdir()
        return replay(directory, rows, *JOBS[job], **OPTIONS.get(job, {}))

    return of


@pytest.fixture(scope="module")
def of_neighbours(tmp_path_factory):
    """What leaves a job on the neighbours of a seed; the runs of the last job are kept."""

    @functools.lru_cache(maxsize=len(SEEDS))
    def of(job, seed):
        with_user, without_user, _ = neighbours(seed)
        return tuple(
            replay(tmp_path_factory.mktemp("job"), rows, *JOBS[job], **OPTIONS.get(job, {}))
            for rows in (with_user, without_user)
        )

    return of


# Of the scope "module", so that all tests of a job come together.
EVERY_JOB = pytest.mark.parametrize("job", SOME_MARKED, scope="module")


@EVERY_JOB
def test_neighbours_differ_in_noisy_numbers_alone(job, of_neighbours):
    for seed in SEEDS:
        here, there = of_neighbours(job, seed)
        assert here.bare.get("exit code", 0) == 0
        assert here.bare == there.bare, (seed, KINDS[seed % len(KINDS)].__name__)


@EVERY_JOB
def test_the_order_of_records_shows_nowhere(job, of_neighbours, run):
    for seed in SEEDS[::4]:
        rows, _, _ = neighbours(seed)
        assert of_neighbours(job, seed)[0] == run(job, shuffled(rows, seed)), seed


def untouched(job, noisy, own):
    """Released rows on which a user with these records has no part."""
    _, pages, colours, days = map(set, zip(*own, strict=True))
    rows = {
        path: list(csv.reader(io.StringIO(content.decode(), newline="")))
        for path, content in noisy.items()
    }
    if job == "lists of periods":
        other_days = {*DAYS} - days
        return [rows[path] for path in sorted(rows) if path.split("/")[1] in other_days]
    if job == "groups":
        other_colours = {*COLOURS} - colours
        return [row for path in sorted(rows) for row in rows[path] if row[1] in other_colours]
    ((_, *listed),) = rows.values()
    return [row for row in listed if row[0] not in pages]


@pytest.mark.parametrize(
    "job", ["names", "names with counts", "lists of periods", "groups"], scope="module"
)
def test_rows_on_which_the_user_has_no_part_are_equal(job, of_neighbours):
    sizes = set()
    for seed in SEEDS[::2]:
        _, _, own = neighbours(seed)
        here, there = (untouched(job, left.noisy, own) for left in of_neighbours(job, seed))
        assert here == there, seed
        sizes.add(len(here))
    assert max(sizes) > 1


def leak_in_stdout(directory, statement, count):
    print(count)


def leak_in_stderr(directory, statement, count):
    print(count, file=sys.stderr)


def leak_in_log(directory, statement, count):
    logging.getLogger("dp_transforms").info("%d records", count)


def leak_in_statement(directory, statement, count):
    statement["records"] = count


def leak_in_name(directory, statement, count):
    os.makedirs(f"{directory.path}/{count}")


def leak_in_mode(directory, statement, count):
    os.makedirs(directory.path)
    os.chmod(directory.path, 0o700 + count % 8)


def leak_in_size(directory, statement, count):
    os.makedirs(directory.path)
    with open(f"{directory.path}/padding", "wb") as file:
        file.write(bytes(count))


def leak_in_exit_code(directory, statement, count):
    raise SystemExit(count % 100)


def leak_in_error(directory, statement, count):
    raise InputError(f"{count} records do not fit")


@pytest.mark.parametrize(
    ("leak", "channel"),
    [
        (leak_in_stdout, "stdout"),
        (leak_in_stderr, "stderr"),
        (leak_in_log, "log"),
        (leak_in_statement, "content of out/privacy.json"),
        (leak_in_name, "files"),
        (leak_in_mode, "files"),
        (leak_in_size, "content of out/padding"),
        (leak_in_exit_code, "exit code"),
        (leak_in_error, "stderr"),
    ],
)
def test_a_leak_in_each_channel_is_seen(leak, channel, run, monkeypatch):
    rows, without_user, _ = neighbours(0)
    publish, sizes = output.ReleaseDirectory.publish, iter((len(rows), len(without_user)))

    def leaking(directory, tables, statement, budget_entry):
        leak(directory, statement, next(sizes))
        publish(directory, tables, statement, budget_entry)

    monkeypatch.setattr(output.ReleaseDirectory, "publish", leaking)
    here, there = run("list", rows), run("list", without_user)
    assert here.bare[channel] != there.bare.get(channel)


def test_a_leak_in_the_ledger_is_seen(run, monkeypatch):
    rows, without_user, _ = neighbours(0)
    reserve, sizes = Ledger.reserve_all, iter((len(rows), len(without_user)))

    def leaking(ledger, requests, *arguments, **options):
        more = f" of {next(sizes)} records"
        named = [request._replace(purpose=request.purpose + more) for request in requests]
        return reserve(ledger, named, *arguments, **options)

    monkeypatch.setattr(Ledger, "reserve_all", leaking)
    assert run("list", rows).bare["ledger"] != run("list", without_user).bare["ledger"]


def count(batch):
    """Counts records of a batch where everybody can see it."""
    Metrics.counter("records", "read").inc(len(batch))
    return batch


@pytest.mark.thorough
def test_a_leak_in_a_counter_of_beam_is_seen(run, monkeypatch):
    rows, without_user, _ = neighbours(0)
    expand = BoundContributions.expand
    monkeypatch.setattr(
        BoundContributions, "expand", lambda step, records: expand(step, records | beam.Map(count))
    )
    here, there = run("list on Beam", rows), run("list on Beam", without_user)
    assert here.bare["counters"] != there.bare["counters"]
