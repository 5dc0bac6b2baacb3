"""Every kind of release is the same on every engine, whatever happens on the way.

Under one secret the engines write equal bytes: for many records, none and those of one user, with
records that do not fit into memory, with bundles that are run again, and after a job that was
interrupted. Records that cannot be used are refused in the same words.
"""

import collections
import dataclasses
import fnmatch
import functools
import importlib
import inspect
import json
import pkgutil
import random
import typing
import uuid
from unittest import mock

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from dp_transforms import JobSecret, releases
from dp_transforms.beam.engine import OnBeam
from dp_transforms.engines import local_shuffle
from dp_transforms.engines.base import Engine
from dp_transforms.engines.in_process import InProcess
from dp_transforms.errors import input_error_message
from dp_transforms.files.filenames import OTHER_TABLES, RELEASED_FILES
from dp_transforms.files.frame_records import RecordArguments
from dp_transforms.mechanisms.partition.registry import REGISTRY
from dp_transforms.releases import AllRecordsSpec, ListAndNamesSpec, NamesSpec, ReleaseSpec
from dp_transforms.releases.directory import readers
from tests.cases import thorough_unless
from tests.release_cases import CASES

SECRET = JobSecret.insecure_for_testing(5)
HEADER = "user,page,sex,day\n"
LIST_TITLES = {mechanism.title for mechanism in REGISTRY.values()}
METHODS = {
    name: typing.get_type_hints(method)["spec"]
    for name, method in vars(Engine).items()
    if not name.startswith("_")
}


def many_records():
    """Records of which one user may have many, and some are there twice."""
    rng = random.Random(3)
    return [
        f"{rng.randrange(90)},{int(rng.paretovariate(0.6))},{rng.choice('fm')},2026-01-0{day}\n"
        for day in rng.choices(range(1, 5), k=900)
    ]


ROWS = {
    "many": many_records(),
    "none": [],
    "one user": [f"7,{page},f,2026-01-0{page}\n" for page in range(1, 4)],
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """For each kind of data, records in two files."""
    root = tmp_path_factory.mktemp("records")
    for name, rows in ROWS.items():
        (root / name).mkdir()
        for part in range(2):
            (root / name / f"{part}.csv").write_text(HEADER + "".join(rows[part::2]))
    return root


def source_of(case, path):
    if case.period is None:
        columns = {"groups": case.columns}
    else:
        columns = {"time": "day", "period": case.period}
    return RecordArguments(f"{path}/*.csv", "user", "page", False, **columns).open()


def tables_of(case, source, released):
    """For each part of a release: its specification, its tables by name, and its statement."""
    for spec, elements, entries in case.parts(case.spec, released):
        statement = spec.statement(source.partition_fields) | entries
        statement |= spec.tables.entries(elements)
        yield spec, spec.tables.make(elements, statement), statement


def content(case, source, released):
    """The bytes of all files of a release."""
    written = []
    for _, tables, statement in tables_of(case, source, released):
        written.append({name: table.content() for name, table in tables.items()})
        written.append({"privacy.json": json.dumps(statement).encode()})
    return written


def in_process(case, source):
    return case.spec.release(InProcess(source, SECRET, num_buckets=3))


_released = collections.defaultdict(list)


def _keep(key, *released):
    # Pickled by its name, so that this process's list is the one that grows.
    _released[key].append([list(elements) for elements in released])


def on_beam(case, source, runner=None):
    """The collections of the release, which is the same each time that a worker is to write it."""
    key = uuid.uuid4().hex
    engine = OnBeam(beam.Pipeline(runner or FnApiRunner()), source, SECRET, num_buckets=2)
    try:
        engine.run(functools.partial(_keep, key), case.spec.release(engine))
    except BaseException:
        assert key not in _released
        raise
    first, *again = _released.pop(key)
    for released in again:
        assert content(case, source, released) == content(case, source, first)
    return first


ENGINES = pytest.mark.parametrize("make", thorough_unless([in_process, on_beam], [in_process]))
KINDS = {type(case.spec): case for case in reversed(CASES.values())}
"""The first case of each kind."""
FIRST_CASES = [name for name, case in CASES.items() if case in KINDS.values()]
EVERY_CASE = pytest.mark.parametrize("name", thorough_unless(CASES, FIRST_CASES))


@functools.cache
def released_here(name, path):
    """The release of a case by the engine of this process, with memory enough."""
    case = CASES[name]
    return in_process(case, source_of(case, path))


@functools.cache
def expected(name, path):
    """The files of ``released_here``."""
    case = CASES[name]
    return content(case, source_of(case, path), released_here(name, path))


def test_every_kind_has_a_case_and_a_method_of_its_own():
    for module in pkgutil.iter_modules(releases.__path__, f"{releases.__name__}."):
        importlib.import_module(module.name)
    kinds, to_visit = set(), [ReleaseSpec]
    while to_visit:
        kind = to_visit.pop()
        to_visit += kind.__subclasses__()
        if not inspect.isabstract(kind) and kind.__module__.startswith(f"{releases.__name__}."):
            kinds.add(kind)
    examples = {type(case.spec) for case in CASES.values()}
    assert not kinds - examples, "give each of these an example in tests/release_cases.py"
    for kind in kinds:
        # So a job that writes into the same directory knows it for a release.
        assert fnmatch.fnmatch(kind.tables.file_name, RELEASED_FILES), (
            f"the main table of {kind.__name__} must be called {RELEASED_FILES}"
        )
    without = examples - {*METHODS.values()}
    assert not without, "give each of these a method in dp_transforms/engines/base.py"
    assert len(METHODS) == len(examples)


@pytest.mark.parametrize("case", KINDS.values(), ids=lambda case: type(case.spec).__name__)
def test_a_specification_calls_the_method_of_its_kind(case):
    engine = mock.Mock(spec=list(METHODS))
    released = case.spec.release(engine)
    (call,) = engine.mock_calls
    name, arguments, _ = call
    assert METHODS[name] is type(case.spec) and arguments == (case.spec,)
    assert released is getattr(engine, name).return_value


def check_names(files):
    """Fails if a file of a release would not be removed with it."""
    others = {file for part in files for file in part} - {"privacy.json", *OTHER_TABLES}
    assert all(fnmatch.fnmatch(file, RELEASED_FILES) for file in others), (
        "a second table is not removed with its release until it is one of filenames.OTHER_TABLES"
    )


@pytest.mark.parametrize("data", thorough_unless(["none", "one user"], ["none"]))
@pytest.mark.parametrize("name", FIRST_CASES)
def test_engines_write_the_same(name, data, directory):
    # Of many records they do even if bundles are run again, and after an interrupt: see below.
    case, path = CASES[name], directory / data
    source = source_of(case, path)
    files = expected(name, path)
    assert content(case, source, on_beam(case, source)) == files
    check_names(files)


def test_a_list_and_names_come_without_a_number_of_other_users():
    # One engine left it out, and it would have been paid for.
    names = NamesSpec.of("measured", 1, 1e-2, 3, others_epsilon=1)
    with pytest.raises(ValueError, match="others_epsilon is for names alone"):
        ListAndNamesSpec(CASES["list"].spec, names)


@pytest.mark.parametrize("already_bounded", [False, True])
def test_names_beside_a_list_are_made_for_its_bound(already_bounded):
    # Records with three partitions of each user, for which names of one partition of each user are
    # not private.
    names = NamesSpec.of("optimal", 1, 1e-2, 1, already_bounded=already_bounded)
    with pytest.raises(ValueError, match="max_partitions_per_user, which is 3, got 1"):
        ListAndNamesSpec(CASES["list"].spec, names)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_integers_of_numpy_are_stated_as_integers(case):
    if isinstance(case.spec, ListAndNamesSpec):
        pytest.skip("its parts have arguments of their own")
    numbers = {
        field.name: np.int64(value)
        for field in dataclasses.fields(case.spec)
        if field.init and type(value := getattr(case.spec, field.name)) is int
    }
    spec = dataclasses.replace(case.spec, **numbers)
    assert json.dumps(spec.statement(None)) == json.dumps(case.spec.statement(None))


def test_a_survey_and_names_are_of_all_records():
    bounded = NamesSpec.of("optimal", 1, 1e-2, 3, already_bounded=True)
    with pytest.raises(ValueError, match="beside a survey must not be already_bounded"):
        ListAndNamesSpec(CASES["all records"].spec, bounded)
    survey = AllRecordsSpec(epsilon=2, max_degree=40, largest_degree=20)
    with pytest.raises(ValueError, match="largest_degree is for a list alone"):
        ListAndNamesSpec(survey, CASES["names"].spec)


@EVERY_CASE
def test_statements_do_not_depend_on_the_records(name, directory):
    case, statements = CASES[name], []
    for data in ROWS:
        path = directory / data
        files = [part["privacy.json"] for part in expected(name, path)[1::2]]
        statements.append([json.loads(text) for text in files])
        specs = [spec for spec, *_ in case.parts(case.spec, released_here(name, path))]
        for spec, statement in zip(specs, statements[-1], strict=True):
            # A released number, with noise.
            statement.pop("users_of_other_partitions", None)
            if {"survey", "choice", "choice_of_degree_bound"} & statement.keys():
                # What follows from a survey, a look or a choice is released, too.
                known = spec.statement(source_of(case, path).partition_fields)
                if "choice" in statement:
                    # The chosen plan says how partitions are counted, and how many of a user's.
                    for key in ("noisy_counts_are_of", "count_intervals"):
                        statement.pop(key, None)
                    if statement["max_partitions_per_user_is"].startswith("chosen by the look"):
                        del statement["max_partitions_per_user"]
                parts = [(statement, known)]
                if "survey" in known:
                    parts.append((statement["survey"], known["survey"]))
                for whole, part in parts:
                    for key in whole.keys() - part.keys():
                        del whole[key]
    assert statements[0] == statements[1] == statements[2]


@EVERY_CASE
def test_bundles_that_are_run_again_change_nothing(name, directory):
    # Every bundle is run twice, the one that writes as well.
    case, path = CASES[name], directory / "many"
    source, files = source_of(case, path), expected(name, path)
    released = on_beam(case, source, FnApiRunner(bundle_repeat=1))
    assert content(case, source, released) == files
    check_names(files)
    tables = [text for part in files for file, text in part.items() if file.endswith(".csv")]
    # A line more for the names of columns.
    assert max(text.count(b"\n") for text in tables) > case.least_rows


@EVERY_CASE
def test_the_last_columns_of_tables_are_integers(name, directory):
    # In other formats than CSV these columns have that type.
    case, path = CASES[name], directory / "many"
    released = released_here(name, path)
    for spec, tables, _ in tables_of(case, source_of(case, path), released):
        for table in tables.values():
            width = len(table.header) - spec.integer_columns
            assert width >= 0
            for row in table.rows:
                assert all(isinstance(value, int | np.integer) for value in row[width:])
                assert not any(isinstance(value, int | np.integer) for value in row[:width])


@EVERY_CASE
def test_statements_say_their_kind(name, directory):
    for files in expected(name, directory / "many")[1::2]:
        statement = json.loads(files["privacy.json"])
        # Without a reader, it would be taken for a list.
        describing = [reader for reader in readers() if reader.describes(statement)]
        assert len(describing) <= 1
        assert describing or statement["mechanism"] in LIST_TITLES


@EVERY_CASE
def test_records_that_do_not_fit_into_memory_change_nothing(name, directory, tmp_path, monkeypatch):
    case, path = CASES[name], directory / "many"
    files = expected(name, path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    writes, write = [], local_shuffle.Buckets._write
    monkeypatch.setattr(
        local_shuffle.Buckets, "_write", lambda *args: writes.append(args) or write(*args)
    )
    monkeypatch.setattr(local_shuffle, "is_full", lambda *_: True)  # a batch of each table
    for limit in (0, 3_000):
        monkeypatch.setattr(local_shuffle, "memory_limit", lambda limit=limit: limit)
        source = source_of(case, path)
        assert content(case, source, in_process(case, source)) == files
        assert writes and not list(tmp_path.iterdir())


FAULTS = {
    "no user": (",1,f,2026-01-02\n", "has records without a user"),
    "too few fields": ("7,1\n", "a line does not have 4 fields"),
    "no time": ("7,1,f,yesterday\n", "not all records have a time"),
}


@pytest.mark.parametrize(
    ("case", "fault"),
    [
        pytest.param(case, fault, id=f"{kind.__name__}-{fault}")
        for kind, case in KINDS.items()
        for fault in FAULTS
        if case.period is not None or fault != "no time"
    ],
)
def test_bad_records_are_refused_in_the_same_words(case, fault, tmp_path):
    row, words = FAULTS[fault]
    (tmp_path / "0.csv").write_text(HEADER + "1,1,f,2026-01-01\n")
    (tmp_path / "1.csv").write_text(HEADER + "2,1,f,2026-01-01\n" + row)
    messages = []
    for make in (in_process, on_beam):
        source = source_of(case, tmp_path)
        with pytest.raises(Exception) as error:
            make(case, source)
        messages.append(input_error_message(error.value))
    assert messages[0] == messages[1] and words in messages[0]
    assert "yesterday" not in messages[0]


class Interrupted:
    """A source that is interrupted after its first table."""

    def __init__(self, source):
        self._source, self.check_ends = source, source.check_ends
        self.estimated_rows, self.num_buckets = 0, 3

    def tables(self):
        yield next(self._source.tables())
        raise KeyboardInterrupt


@ENGINES
@pytest.mark.parametrize("case", KINDS.values(), ids=lambda case: type(case.spec).__name__)
def test_nothing_is_left_of_an_interrupted_job(case, make, directory, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(local_shuffle, "is_full", lambda *_: True)
    monkeypatch.setattr(local_shuffle, "memory_limit", lambda: 0)
    source = Interrupted(source_of(case, directory / "many"))
    with pytest.raises((KeyboardInterrupt, RuntimeError), match=r"^$|KeyboardInterrupt"):
        make(case, source)
    assert not list(tmp_path.iterdir())
    # The next one has the same files.
    (name,) = (name for name, other in CASES.items() if other is case)
    source = source_of(case, directory / "many")
    assert content(case, source, make(case, source)) == expected(name, directory / "many")
