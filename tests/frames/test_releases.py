import collections
import datetime
import decimal
import pickle
import re
import time
from functools import partial

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.internal import pickler

import dp_transforms as dp
from dp_transforms import JobSecret
from dp_transforms.beam.reading import _held
from dp_transforms.budget.ledger_rows import now
from dp_transforms.columnar.columns import PARTITION, USER
from dp_transforms.engines.in_process import InProcess
from dp_transforms.errors import InputError
from dp_transforms.files import frame_records
from dp_transforms.files.record_files import RecordFiles
from dp_transforms.mechanisms.frequency_list import ReleasedList
from dp_transforms.releases import ListSpec
from pipelines.__main__ import main
from tests.beam_runs import rows_of, run
from tests.frames.shared import COMMON, PAGES, SECRET, USERS
from tests.jobs import python

LIST = COMMON | {"epsilon": 1}
NAMES = LIST | {"delta": 1e-5}
RECORDS = {"page": PAGES, "who": USERS}
COLUMNS = RECORDS | {"unread": [object()] * len(USERS)}
PAIRS = list(zip(PAGES, USERS, strict=True))
FRAME, TABLE = pl.DataFrame(RECORDS), pa.table(RECORDS)
Visit = collections.namedtuple("Visit", ["page", "who"])
NESTED = [{"at": {"page": page}, "who": {"id": user}} for page, user in PAIRS]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    where = tmp_path_factory.mktemp("files")
    FRAME.write_parquet(where / "visits.parquet")
    FRAME.write_csv(where / "visits.csv")
    return where


KINDS = {
    "polars": lambda: FRAME,
    "lazy polars": lambda: FRAME.lazy(),
    "categories": lambda: FRAME.with_columns(pl.all().cast(pl.Categorical)),
    "pandas": lambda: pd.DataFrame(COLUMNS),
    "pandas categories": lambda: pd.DataFrame(RECORDS, dtype="category"),
    "arrow": lambda: TABLE,
    "batch": lambda: pa.RecordBatch.from_pydict(RECORDS),
    "reader": lambda: TABLE.to_reader(max_chunksize=700),
    "duckdb": lambda: duckdb.from_arrow(TABLE),
    "columns": lambda: COLUMNS,
    "arrays": lambda: {"who": np.array(USERS), "page": np.array(PAGES)},
    "dictionaries": lambda: ({"page": page, "who": user} for page, user in PAIRS),
    "named tuples": lambda: [Visit(*pair) for pair in PAIRS],
}


@pytest.fixture(scope="module")
def expected(files):
    """The list that the command line's readers and kernels release from a file."""
    spec = ListSpec(dp.release(FRAME, **LIST).released.mechanism)
    source = RecordFiles(str(files / "visits.parquet"), "who", ["page"])
    return InProcess(source, SECRET).frequency_list(spec)[0][0]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_data_has_the_release_of_the_job(kind, expected):
    released = dp.release(KINDS[kind](), **LIST, secret=SECRET)
    assert released.released == expected
    assert released.released.coordinates == expected.coordinates


@pytest.mark.parametrize("name", ["visits.parquet", "visits.csv"])
def test_paths_are_read_as_jobs_read_them(name, files, expected):
    assert dp.release(files / name, **LIST, secret=SECRET).released == expected
    assert dp.release(str(files / name), **LIST, secret=SECRET).released == expected


def test_tuples_have_positions(expected):
    options = LIST | {"user": 1, "partition": 0, "secret": SECRET}
    for numbered in (PAIRS, {0: PAGES, 1: USERS}, pd.DataFrame({0: PAGES, 1: USERS})):
        assert dp.release(numbered, **options).released == expected
    for wrong in ({"user": -1}, {"partition": -2}):
        with pytest.raises(ValueError, match="by a position from 0"):
            dp.release(PAIRS, **options | wrong)


@pytest.mark.parametrize(
    "hold",
    [
        pl.DataFrame,
        pl.LazyFrame,
        pd.DataFrame,
        pa.Table.from_pylist,
        lambda rows: pa.Table.from_pylist(rows).to_reader(max_chunksize=700),
        lambda rows: {name: [row[name] for row in rows] for name in ("at", "who")},
        list,
    ],
)
def test_a_dot_leads_into_nested_columns(hold, expected):
    options = LIST | {"user": "who.id", "partition": "at.page", "secret": SECRET}
    assert dp.release(hold(NESTED), **options).released == expected
    with pytest.raises(ValueError, match=r"'who\.name'|not all records have who\.name"):
        dp.release(hold(NESTED), **options | {"user": "who.name", "secret": None})


def test_a_frame_in_a_pipeline_has_the_release_of_the_job(expected):
    source = dp.FromFrame(FRAME, user="who", partition="page")
    (released,) = run(
        lambda pipeline: pipeline | source,
        dp.BoundContributions(3, secret=SECRET),
        dp.CountDistinctUsers(secret=SECRET),
        dp.ReleaseFrequencyList(1, 3, secret=SECRET),
    )
    assert released == expected
    # The description of a job has no records.
    token = pickler.dumps(source._held)
    assert len(token) < 1000 and pickler.loads(token) is source._held
    with pytest.raises(ValueError, match="this worker is another"):
        _held("0" * 32)
    with pytest.raises(ValueError, match="no column"):
        dp.FromFrame(FRAME, user="who", partition="url")


@pytest.mark.parametrize(("counts", "strategy"), [(False, "optimal"), (True, "laplace")])
def test_names_are_those_of_the_transform(counts, strategy):
    options = {"strategy": strategy, "secret": SECRET}
    transform = dp.SelectPartitions(1, 1e-5, 3, noisy_counts=counts, intervals=counts, **options)
    rows = rows_of(run([pa.table({USER: USERS, PARTITION: PAGES})], transform))
    names = dp.select(FRAME, **NAMES, counts=counts, **options).names
    assert len(names) > 3 and sorted(rows_of([names])) == sorted(rows)
    if counts:
        noisy = names["noisy_count"].to_pylist()
        assert noisy == sorted(noisy, reverse=True)


def test_several_columns_and_other_types():
    days = pd.date_range("2026-01-01", periods=20).date
    data = pd.DataFrame({"who": range(4_000), "page": ["a", "b"] * 2_000, "day": [*days] * 200})
    options = NAMES | {"partition": ["page", "day"], "strategy": "laplace"}
    names = dp.select(data, **options, counts=True).names
    assert names.column_names == ["page", "day", "noisy_count", "low", "high"]
    pairs = set(zip(names["page"].to_pylist(), names["day"].to_pylist(), strict=True))
    assert pairs == {("ab"[n % 2], f"2026-01-{n + 1:02}") for n in range(20)}


def test_an_empty_release_has_intervals_pictures_and_pages(tmp_path):
    for empty in ([], {"who": [], "page": []}, pd.DataFrame({"who": [], "page": []})):
        release = dp.release(empty, **LIST | {"epsilon": 50})
        assert release.released == ReleasedList() and len(dp.select(empty, **NAMES)) == 0
    assert "partitions: 0 (0 to 0, 95% confidence)" in repr(release)
    for result in (release, dp.compare(release, release)):
        result.plot(tmp_path / "list.png")
        result.report(tmp_path / "list.html")
    release.save(tmp_path / "list")
    assert dp.load(tmp_path / "list") == release and release.to_arrow().num_rows == 0
    typed = pl.DataFrame({"who": [], "page": []}, {"who": pl.Int32, "page": pl.String})
    assert "partitions" in repr(dp.release(typed, **LIST))
    assert dp.select(typed, **NAMES, counts=True).to_polars().columns[:2] == ["page", "noisy_count"]


PRIVATE = "ann.smith"
TIME = datetime.datetime(2026, 1, 31, 12)
ZONED = TIME.replace(tzinfo=datetime.timezone.utc)
_objects = partial(np.array, dtype=object)
_polars_objects = partial(pl.Series, dtype=pl.Object)
_CAST = pl.LazyFrame({"who": [PRIVATE], "page": ["x"]}).cast({"who": pl.Int64})


def _failing(first, error):
    yield first
    raise error


def _reader(error):
    batch = pa.record_batch({"who": ["a"], "page": ["x"]})
    return pa.RecordBatchReader.from_batches(batch.schema, _failing(batch, error))


class _FailingQuery:
    def __arrow_c_stream__(self, requested_schema=None):
        raise ArithmeticError(PRIVATE)


def _of_dask(value):
    """A frame that is not computed, which iterates over the names of its columns."""
    frame = type("DataFrame", (dict,), {"__module__": "dask.dataframe.core"})
    return frame(who=[value], page=["x"])


BAD = [
    # Whatever the data raise themselves.
    (_failing({"who": "a", "page": "x"}, KeyError(PRIVATE)), "data raised KeyError while"),
    (_reader(OSError(PRIVATE)), "data raised OSError while"),
    (_CAST, "data raised InvalidOperationError while"),
    (_FailingQuery(), "data raised ArithmeticError while"),
    (pd.DataFrame({"who": ["a"], "url": [PRIVATE]}), "no column 'page': check the name"),
    (pl.DataFrame({"who": ["a"]}).lazy(), "no column 'page'"),
    # The names of columns of a pivoted table are values.
    (pa.table({"who": ["a"], PRIVATE: [1]}).to_reader(), "no column 'page': check the name"),
    ({"who": [PRIVATE, None], "page": ["x", "y"]}, "leave them out with drop_nulls=True"),
    ({"who": [PRIVATE], "page": [1.5]}, r"column 'page' holds floats.*Int64"),
    ([{"who": PRIVATE, "page": "x"}, {"who": PRIVATE}], "not all records have who, page"),
    ([(PRIVATE, "x")], "not all records have who, page"),
    ({"who": [PRIVATE], "page": ["x", "y"]}, "not equally long"),
    (pl.Series("who", [PRIVATE]), "must be a data frame.* got Series"),
    ({"who": [PRIVATE, 2**70], "page": ["x", "y"]}, "several types"),
    # One value decides of none of the others, whatever holds them.
    *[
        ({"who": hold([PRIVATE, PRIVATE.encode()]), "page": ["x", "y"]}, "several types")
        for hold in (list, collections.deque, iter, pd.Series, _objects, _polars_objects)
    ],
    ({"who": {PRIVATE, "b"}, "page": ["x", "y"]}, "several types"),
    ({"who": "ab", "page": ["x", "y"]}, "holds single values"),
    (pl.DataFrame({"who": _polars_objects([PRIVATE, 1]), "page": ["x", "y"]}), "several types"),
    ({"who": [PRIVATE, "b"], "page": _objects([TIME, TIME.date()])}, "several types"),
    ([{"who": PRIVATE, "page": TIME}, {"who": "b", "page": ZONED}], "several types"),
    (pd.DataFrame({"who": [PRIVATE, "b"], "page": [TIME, ZONED]}), "several types"),
    ({"who": [PRIVATE], "page": [pd.Timestamp(1)]}, "several types"),
    ([{"who": "a", "page": "b"}, PRIVATE], "not all records have who, page"),
    ({"who": ["a"], "page": [{PRIVATE: 1}]}, r"the type struct \(int64\), in which"),
    ({"who": ["a"], "page": [decimal.Decimal("1e40")]}, "the type decimal of so many digits, in"),
    (
        {"who": ["a"], "page": pa.array([decimal.Decimal("1e40")]).dictionary_encode()},
        "the type decimal of so many digits, in",
    ),
    (PRIVATE.encode(), "must be a data frame"),
    (collections.Counter([PRIVATE]), "holds single values: give counts to release_counts"),
    ({"who": PRIVATE, "page": "x"}, "holds single values: .* one record as a list of one"),
    (np.array([[PRIVATE, "x"]]), r"give a dictionary of arrays, such as {'user': array\[:, 0\]"),
    (_of_dask(PRIVATE), r"are not computed yet: give data.compute\(\)"),
    ({"who": [PRIVATE], "page": [2**63]}, "column 'page' has integers beyond 64 bits: make"),
    (pd.DataFrame({"who": [-(2**63) - 1], "page": ["x"]}), "column 'who' has integers beyond 64"),
    (pd.DataFrame({"who": [1], "page": ["x"]}).set_index("page"), r"\.reset_index\(\) makes a"),
    (7, "must be a data frame"),
    ("nowhere.csv", "nowhere.csv"),
]


@pytest.mark.parametrize(("data", "message"), BAD)
def test_bad_data_are_told_of_without_a_value(data, message):
    with pytest.raises((ValueError, TypeError), match=message) as error:
        dp.release(data, **LIST)
    shown = error.value
    while shown is not None:
        assert PRIVATE not in str(shown)
        shown = None if shown.__suppress_context__ else shown.__context__


@pytest.mark.parametrize(
    "read_once",
    [lambda rows: (row for row in rows), lambda rows: pa.Table.from_pylist(rows).to_reader()],
    ids=["generator", "reader"],
)
def test_data_that_were_read_to_their_end_are_refused_before_anything_is_spent(read_once):
    data = read_once([{"who": user, "page": "x"} for user in range(50)])
    session = dp.Session(epsilon=9)
    first = session.release(data, **LIST | {"epsilon": 8})
    assert first.total().value > 0
    with pytest.raises(InputError, match="an earlier release has read to its end: give a list"):
        session.release(data, **LIST | {"epsilon": 1})
    with pytest.raises(InputError, match="an earlier release has read"):
        dp.release(data, **LIST)
    with pytest.raises(InputError, match="an earlier release has read"):
        dp.FromFrame(data, user="who", partition="page")
    assert session.remaining.epsilon == 1


def test_advice_about_a_file_names_the_argument_of_the_function(tmp_path):
    (tmp_path / "visits.csv").write_text("who,page\n1,\n2,a\n")
    (tmp_path / "visits.jsonl").write_text('{"who": 1, "page": null}\n{"who": 2, "page": "a"}\n')
    for path in tmp_path.iterdir():
        with pytest.raises(InputError, match="leave them out with drop_nulls=True"):
            dp.release(path, **LIST)
        assert dp.release(path, **LIST | {"epsilon": 99}, drop_nulls=True).total().value == 1


def test_a_want_of_memory_is_told_as_one():
    with pytest.raises(MemoryError, match="the records need more memory"):
        dp.release(_failing({"who": "a", "page": "x"}, MemoryError(PRIVATE)), **LIST)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"max_partitions_per_user": 0}, "max_partitions_per_user"),
        ({"partition": []}, "partition must name at least one column"),
        ({"partition": ()}, "partition must name at least one column"),
        ({"partition": None}, "partition must name a column, .* got None"),
        ({"user": None}, "user must name a column, .* got None"),
        ({"session": "budget.db"}, "must be a Session, .* got str"),
        ({"partition": "who"}, "must be different columns"),
        ({"mechanism": "magic"}, "mechanism must be one of"),
        ({"survey": 0}, "survey must be True, False, or a number between 0 and 1, got 0"),
        ({"survey": ""}, "survey must be True, False, or a number"),
    ],
)
def test_arguments_are_checked_before_data_are_read(more, message):
    # [7] would be refused as soon as it is looked at.
    data = pl.DataFrame(schema=["who", "page"]) if "who" in more.values() else [7]
    with pytest.raises((TypeError, ValueError), match=message):
        dp.release(data, **LIST | more)


def test_a_secret_serves_one_release():
    secret = JobSecret.from_os()
    dp.release(FRAME, **LIST, secret=secret)
    with pytest.raises(ValueError, match="serves another"):
        dp.release(FRAME, **LIST, secret=secret)
    for no_secret in (bytes(32), b"", "0" * 32):
        with pytest.raises(TypeError, match=r"must be a JobSecret, such as JobSecret\.from_os\(\)"):
            dp.release(FRAME, **LIST, secret=no_secret)


def test_nulls_can_be_left_out():
    data = pl.DataFrame({"who": [1, None, 2, 3], "page": ["a", "a", None, "a"]})
    released = dp.release(data, **LIST | {"epsilon": 99}, drop_nulls=True)
    assert list(released.released) == [(2, 1)]


def test_columns_without_a_value_have_any_type(monkeypatch):
    monkeypatch.setattr(frame_records, "CHUNK_RECORDS", 2)
    options = LIST | {"epsilon": 99, "drop_nulls": True}
    nulls = {"who": [1, 2], "page": [None, None]}
    for hold in (dict, pd.DataFrame, pl.DataFrame, pa.table):
        assert dp.release(hold(nulls), **options).released == ReleasedList()
    pages = [*"ab", None, None, "a"]
    rows = [{"who": user, "page": page} for user, page in enumerate(pages)]
    assert list(dp.release(rows, **options).released) == [(2, 1), (1, 1)]
    assert list(dp.release(rows[2:], **options).released) == [(1, 1)]
    with pytest.raises(ValueError, match=r"\(text, if the first"):
        dp.release([*rows[2:], {"who": 1, "page": 7}], **options)


def test_nothing_private_comes_back():
    release = dp.release(FRAME, **LIST)
    names = dp.select(FRAME, **NAMES, counts=True)
    for result in (release, names):
        pickled = pickle.dumps(result)
        assert pickle.loads(pickled) == result
        texts = [
            repr(result),
            result._repr_html_(),
            result.privacy,
            str(vars(result)),
            str(result.statement),
        ]
        assert not any("user 1" in text for text in [*texts, pickled.decode("latin-1")])
    # Names of which the release does not tell are nowhere in it.
    hidden = set(PAGES) - set(names.names["page"].to_pylist())
    # Not without quotes: a page is "/128", and epsilon a fraction.
    shown = set(re.findall(r"""(['"])(/\d+)\1""", str(vars(names))))
    assert hidden and not hidden & {page for _, page in shown}
    assert not set(vars(release)) - {"released", "statement", "intervals", "named", "as_drawn"}


@pytest.mark.thorough
def test_beam_is_not_imported(tmp_path):
    code = (
        "import sys, dp_transforms as dp\n"
        "assert not {'pyarrow', 'pipelines', 'numpy'} & set(sys.modules)\n"
        "dp.plan(1, users=1_000)\n"
        "assert not {'pyarrow', 'dp_transforms.releases'} & set(sys.modules)\n"
        "data = {'who': [1, 2], 'page': ['a', 'b']}\n"
        "options = dict(user='who', partition='page', epsilon=1, max_partitions_per_user=1)\n"
        "release = dp.release(data, **options); repr(release); release.save('list')\n"
        "dp.select(data, **options, delta=0.1, counts=True).save('names')\n"
        "dp.load('list'), dp.load('names')\n"
        "print({'apache_beam', 'polars', 'matplotlib'} & set(sys.modules))\n"
    )
    done = python("-c", code, cwd=tmp_path)
    assert done.stdout == "set()\n", done.stderr


def test_what_a_job_wrote_is_loaded(files, tmp_path):
    common = [f"--input={files / 'visits.csv'}", "--user_column=who", "--partition_column=page"]
    common += ["--epsilon=1", "--max_partitions_per_user=3"]
    loaded = []
    for job in (["release"], ["select", "--delta=1e-5", "--noisy_counts", "--strategy=laplace"]):
        places = [tmp_path / job[0], tmp_path / f"{job[0]} again"]
        assert main([*job, *common, f"--output={places[0]}"]) == 0
        loaded.append(dp.load(places[0]))
        loaded[-1].save(places[1])
        first, again = ({p.name: p.read_bytes() for p in place.iterdir()} for place in places)
        assert first == again
    release, names = loaded
    here = dp.release(files / "visits.csv", **LIST)
    assert {**here.statement, "versions": 0} == {**release.statement, "versions": 0}
    chosen = dp.select(files / "visits.csv", **NAMES, counts=True, strategy="laplace")
    assert chosen.statement == names.statement
    assert names.to_arrow().schema == chosen.to_arrow().schema


@pytest.mark.thorough
def test_names_that_are_integers_stay_names(tmp_path):
    table = pa.table({"who": range(3_000), "page": [1234567, 89] * 1_500})
    pq.write_table(table, tmp_path / "visits.parquet")
    names = dp.select(tmp_path / "visits.parquet", **NAMES, counts=True)
    assert sorted(names.to_pandas()["page"]) == [89, 1234567]
    assert "1234567  " in repr(names) and "1,234,567" not in repr(names)
    names.save(tmp_path / "names")
    assert dp.load(tmp_path / "names") == names
    clash = {"who": [1], "low": ["a"]}
    with pytest.raises(ValueError, match="the release adds a column 'low'"):
        dp.select(clash, **NAMES | {"partition": "low"}, counts=True)


@pytest.mark.parametrize("name", ["x" * 200_000, b"\xc3\xa9", b"\xff", b"\\x41\\\xe2", b',"\n'])
def test_names_of_any_length_and_bytes(tmp_path, name):
    data = {"who": range(600), "page": [name, name[:1]] * 300}
    names = dp.select(data, **NAMES, counts=True, strategy="laplace")
    assert sorted(names.names["page"].to_pylist()) == sorted({name, name[:1]})
    names.save(tmp_path / "names")
    assert dp.load(tmp_path / "names") == names


@pytest.mark.parametrize("missing", [None, pd.NaT, pd.NA])
@pytest.mark.parametrize(
    "hold",
    [
        lambda days: pd.DataFrame({"when": pd.Series(days, dtype="datetime64[ns]")}),
        lambda days: pd.DataFrame({"when": pd.Series(days, dtype=object)}),
        lambda days: {"when": np.array([*days[:2], None], "datetime64[D]")},
        lambda days: {"when": ["2026-01-31", "2026-01-31 10:00", None]},
    ],
)
def test_records_without_a_time_can_be_left_out(hold, missing):
    columns = {"who": [1, 2, 3], "page": [*"aaa"]}
    data = {**columns, **dict(hold([_DAY, _DAY, missing]))}
    days = LIST | {"epsilon": 99, "max_periods_per_user": 1, "max_partitions_per_user": 1}
    days |= {"time": "when", "period": "month", "periods": "2026-01-01..2026-01-31"}
    for table in (data, pd.DataFrame(data)):
        with pytest.raises(InputError, match="without a user, a partition or a time: fill these"):
            dp.release_by_period(table, **days)
        released = dp.release_by_period(table, **days, drop_nulls=True)
        assert list(released["2026-01"].released) == [(2, 1)]


_DAY = pd.Timestamp("2026-01-31")


@pytest.mark.parametrize("missing", [None, pd.NaT, pd.NA])
@pytest.mark.parametrize(
    "hold",
    [
        lambda days: {"who": [1, 2], "page": days},
        lambda days: [{"who": who, "page": day} for who, day in enumerate(days)],
        lambda days: pd.DataFrame({"who": [1, 2], "page": pd.Series(days, dtype=object)}),
        lambda days: {"who": [1, 2], "page": np.array(days, dtype=object)},
    ],
)
def test_what_pandas_puts_for_a_missing_value_is_null(hold, missing):
    columns = {"user": "who", "partition": "page", "max_partitions_per_user": 1, "epsilon": 50}
    with pytest.raises(InputError, match="leave them out with drop_nulls=True"):
        dp.release(hold([_DAY, missing]), **columns)
    released = dp.release(hold([_DAY, missing]), **columns, drop_nulls=True)
    assert released.top(1)[0].value == 1


def test_the_time_of_a_release_does_not_depend_on_how_long_records_take(monkeypatch):
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    first_read = []

    def records():
        first_read.append(now())
        time.sleep(1.1)
        yield 1, "a"

    released = dp.release(records(), 0, 1, epsilon=1, max_partitions_per_user=1)
    assert released.statement["created"] <= first_read[0]
