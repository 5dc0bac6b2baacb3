"""Runs a job under a frozen secret, and keeps all that leaves it, channel by channel.

What noise covers is kept apart: it may differ between neighbours, as the guarantee says by how
much. All else must be equal, since nothing bounds what it tells.
"""

import contextlib
import csv
import io
import itertools
import json
import logging
import re
import stat
from dataclasses import dataclass
from unittest import mock

import apache_beam as beam
import pyarrow.parquet as pq

from dp_transforms import JobSecret
from dp_transforms.budget import Ledger, PrivacyUnit
from dp_transforms.files.filenames import (
    ALL_PERIODS_FILE,
    ALL_RECORDS_FILE,
    COORDINATES_FILE,
    DIGESTS,
    RELEASED_FILES,
    SURVEY_FILE,
)
from dp_transforms.mechanisms.degree_bound_choice import DegreeBoundMechanism
from dp_transforms.mechanisms.gradual_survey import GradualSurvey
from dp_transforms.mechanisms.user_degrees import ReleasedDegrees
from pipelines.__main__ import main
from tests.replays.neighbours import COLOURS, COLUMNS, DAYS

NOISY_FILES = (RELEASED_FILES, COORDINATES_FILE, ALL_PERIODS_FILE, SURVEY_FILE, ALL_RECORDS_FILE)
"""Noise covers the rows of these, and so their sizes. Their names and heads tell nothing."""

_DRAWN = r'"(ledger_id": "\w+"|(users_of_other_partitions|noisy_users)": -?\d+)'
"""Of a statement: the identity that a ledger drew, and the numbers that noise covers."""


@dataclass(frozen=True)
class Left:
    """What left a job.

    Attributes:
      bare: a dictionary of channels that no noise covers.
      noisy: the files that noise covers, by path.
    """

    bare: dict
    noisy: dict


def replay(directory, rows, command, *flags, unit=PrivacyUnit.USER, answers=False):
    """Runs a command on rows of users, pages, colours and days in an empty directory.

    Args:
      flags: those of the command, with ``{groups}`` for a file of public groups by colour and day.
      unit: what the command protects.
      answers: whether the command goes on with what it released: noise covers what it says then,
        and whether it can.
    """
    records = directory / "records.csv"
    with records.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([COLUMNS, *rows])
    ledger = Ledger.create(directory / "budget.ledger", 100, 0.5, unit=unit)
    public_groups = directory / "groups.csv"
    with public_groups.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("colour", "day"), *itertools.product(COLOURS, DAYS)])
    flags = [flag.format(groups=public_groups) for flag in flags]
    arguments = [command, f"--input={records}", f"--output={directory}/out", *flags]
    out, err, log = io.StringIO(), io.StringIO(), io.StringIO()
    handler = logging.StreamHandler(log)
    root = logging.getLogger()
    level = root.level
    secret, run, results = JobSecret.insecure_for_testing(1), beam.Pipeline.run, []

    def run_and_keep(pipeline, *arguments, **options):
        results.append(run(pipeline, *arguments, **options))
        return results[-1]

    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            mock.patch.object(JobSecret, "from_os", lambda: secret),
            mock.patch.object(beam.Pipeline, "run", run_and_keep),
            _equal_choices(),
        ):
            code = main([*arguments, f"--ledger={ledger.path}"])
    except SystemExit as stop:
        code = stop.code
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    words = {"exit code": code, "stdout": out.getvalue(), "stderr": err.getvalue()}
    bare = ({} if answers else words) | {
        "log": log.getvalue(),
        "counters": [
            (str(metric.key), str(metric.committed))
            for result in results
            for metrics in result.metrics().query().values()
            for metric in metrics
        ],
        "ledger": [(line.purpose, line.state, line.cost) for line in ledger.lines()],
    }
    bare = {name: _without(directory, value) for name, value in bare.items()}
    files, noisy = {}, {}
    for path in sorted([*directory.glob("out"), *directory.glob("out/**/*")]):
        name = str(path.relative_to(directory))
        files[name] = stat.filemode(path.stat().st_mode)
        if not path.is_file():
            continue
        content = path.read_bytes()
        if any(map(path.match, NOISY_FILES)):
            noisy[name] = content
            content = content.partition(b"\n")[0]
        elif path.suffix == ".parquet":
            noisy[name] = content
            content = pq.read_schema(path)
        elif path.suffix == ".json":
            content = re.sub(_DRAWN, "", _without(directory, _uncovered(content.decode())))
        bare[f"content of {name}"] = content
    return Left(bare | {"files": files}, noisy)


@contextlib.contextmanager
def _equal_choices():
    """Makes every survey of degrees, and every choice of a degree bound, come out the same after it
    was made. Noise covers both, and all that follows from them; the rest of a job must not depend
    on data in another way."""
    survey, choose = GradualSurvey.release_under, DegreeBoundMechanism.choose_under

    def same_survey(mechanism, *arguments, **options):
        survey(mechanism, *arguments, **options)
        users = [40 // (cell + 1) for cell in range(len(mechanism.lowest))]
        return ReleasedDegrees(mechanism.lowest, tuple(users), float(mechanism.epsilons[0]))

    def same_bound(mechanism, *arguments):
        choose(mechanism, *arguments)
        return mechanism.bounds[1]

    with (
        mock.patch.object(GradualSurvey, "release_under", same_survey),
        mock.patch.object(DegreeBoundMechanism, "choose_under", same_bound),
    ):
        yield


def _uncovered(text):
    """The statement without what follows from noisy numbers: digests of the tables, and a look, its
    choice, and its plan."""
    statement = json.loads(text)
    if not isinstance(statement, dict):
        return text
    statement.pop(DIGESTS, None)
    if "choice" not in statement:
        return json.dumps(statement)
    cost = ("look_epsilon", "look_epsilon_exact")
    follows = ("plan", "max_partitions_per_user", "noisy_counts_are_of", "count_intervals", *cost)
    for key in ("choice", *follows):
        statement.pop(key, None)
    return json.dumps(statement)


def _without(directory, text):
    return text.replace(str(directory), "DIR") if isinstance(text, str) else text
