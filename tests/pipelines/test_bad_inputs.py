"""The bad-input book: malformed and hostile inputs to the jobs.

Each fault ends with its exit code (2: the command line, 1: a file, 4: a budget) and one line on
stderr that says what to do. Nothing is written, nothing private is in the message, and no budget is
spent, be the fault in a flag or in the last record.
"""

import decimal
import functools
import gzip
import os
import pathlib
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_transforms.budget import Ledger, PrivacyBudget, PrivacyUnit
from dp_transforms.files.delimited_text import DelimitedText
from pipelines.__main__ import main
from tests.jobs import flags_over

# In the records, and the lists, of every case; must never be in a message.
PRIVATE, FREQUENCY = "zanzibar", "7712"
RECORDS = f"user,page\nann,{PRIVATE}\n{PRIVATE},home\n"
COUNTS = "frequency,multiplicity\n"

ALL, GROUPS, KAPPA = "release-all", "release-groups", "choose-kappa"
MAIN_JOBS = ("release", "select", ALL)
JOBS = (*MAIN_JOBS, "degrees", GROUPS, KAPPA)
USAGE, FAILURE = 2, 1


class Fault(NamedTuple):
    """A fault of the input to some jobs, and a part of the message about it."""

    flags: tuple[str, ...]  # {tmp} is the directory of the files
    says: str
    code: int = FAILURE
    jobs: tuple[str, ...] = MAIN_JOBS
    records: str | bytes = RECORDS
    without: str = ""  # a usual flag that is not given


def flag(text, says, *jobs, code=USAGE):
    return Fault((text,), says, code, jobs or MAIN_JOBS)


def any_job(text, says, code=USAGE):
    return flag(text, says, *JOBS, code=code)


def text(records, says, *flags):
    """Records in records.csv that cannot be read."""
    return Fault(flags, says, FAILURE, ("release",), records)


def only(job, says, *flags, code=FAILURE):
    return Fault(flags, says, code, (job,))


usage = functools.partial(only, code=USAGE)


def by_period(job, says, *flags, without=None, code=USAGE):
    """A fault in what a release for each period has, or ``without`` one of its flags."""
    usual = dict(flag.split("=") for flag in PERIODS.split())
    usual.pop(without, None)
    return only(job, says, *flags_over(usual, *flags), code=code)


def counted(says, *flags, code=USAGE):
    """A fault in what narrows a release of counts."""
    return only("release", says, "--frequency_list={tmp}/counts.csv", *flags, code=code)


def parquet(name, says, *flags):
    return only("release", says, f"--input={{tmp}}/{name}", *flags)


PERIODS = "--period=day --time_column=at --periods=2026-01-05..2026-01-08 --max_periods_per_user=2"

NUMBER = "must be a number above 0 and at most 100"
PROPORTION = "must be a number above 0 and below 1"
COUNT = "must be a positive integer"
EXPONENTIAL = "--mechanism=exponential"
DECIMALS = "--input={tmp}/decimals.parquet"
FIRST_LAST = "periods must be FIRST..LAST"
BOUND = "--max_partitions_per_user="
UNWRITABLE = ("{tmp}/records.csv", "{tmp}/records.csv/out", "/proc/none", "{tmp}/" + 300 * "a")

FAULTS_OF_FLAGS = [
    # Privacy parameters; the last epsilon is 0 as a float.
    *(flag(f"--epsilon={epsilon}", NUMBER) for epsilon in ("0", "nan", "1e6", "", "1e-400")),
    flag("--epsilon=1e-12", "raise epsilon", "release", ALL),
    *(flag(f"--delta={delta}", PROPORTION, "select", ALL) for delta in "01"),
    *(flag(f"{BOUND}{bound}", COUNT) for bound in ("0", "1.5", "²", "1" + 29 * "0")),
    flag(f"{BOUND}1" + 17 * "0", "epsilon must be at least", "release", ALL),
    flag("--eta=4,2,1", "X < 2**Y", "release"),
    usage("release", "not allowed with", "--eta=1,1,1", "--epsilon=1"),
    flag("--selection_share=1", PROPORTION, ALL),
    flag("--strategy=magic", "invalid choice: 'magic'", "select", ALL),
    flag("--pre_threshold=0", COUNT, "select"),
    *(flag(f"--num_buckets={number}", "must be between 1 and") for number in (0, 10**12)),
    # The command line.
    any_job("--epsilom=1", "there is no flag --epsilom: "),
    any_job("--frobnicate=1", "there is no flag --frobnicate: see --help"),
    any_job("out/", "there is no place for 'out/'"),
    Fault(("--", "--ledger=none"), "there is no place for '--'", USAGE, JOBS),
    any_job("--runner=NoRunner", "NoRunner"),
    usage("release", "option: project", "--runner=DataflowRunner", "--temp_location=gs://a/b"),
    any_job("--direct_num_workers=x", "invalid int value"),
    any_job("--dry_run=true", "--dry_run takes no value"),
    any_job("--template_location=gs://b/t", "makes a classic template"),
    any_job("--output_executable_path=job.jar", "makes a jar, whose runs"),
    any_job("--direct_running_mode=multi_threading", "it corrupts data"),
    flag("--user_column=page", "must be different columns"),
    flag("--no_header", "positions counted from 1"),
    any_job("--delimiter=::", "one ASCII character"),
    any_job("--encoding=utf-99", "must be the name of a Python codec"),
    any_job("--input_format=xml", "invalid choice: 'xml'"),
    Fault(("--input_format=parquet", "--no_header"), "--no_header is for delimited text", USAGE),
    Fault(("--multiline", "--no_quotes"), "multiline needs quotes", USAGE),
    any_job("--config={tmp}/none.yaml", "none.yaml cannot be read"),
    any_job("--config={tmp}", "cannot be read: is a directory"),
    any_job("--config={tmp}/bytes.parquet", "is not YAML"),
    any_job("--config={tmp}/code.yaml", "is not YAML"),
    any_job("--config={tmp}/loop.yaml", "a value or a list of values"),
    any_job("--config={tmp}/list.yaml", "must be a mapping"),
    any_job("--config={tmp}/nested.yaml", "config"),
    any_job("--config={tmp}/twice.yaml", "has epsilon twice: give each flag once"),
    any_job("--input={tmp}/none-*.csv", "no file matches", FAILURE),
    any_job("--input=", "no file matches", FAILURE),
    any_job("--input={tmp}", "is a directory: give its files", FAILURE),
    any_job("--input=s3://x/y.csv", "pip install 'apache-beam[aws]'", FAILURE),
    any_job("--input=nosuch://x", "no filesystem for such a path", FAILURE),
    any_job("--input={tmp}/link.csv", "link.csv", FAILURE),
    any_job("--input={tmp}/pipe.csv", "is not a regular file", FAILURE),
    any_job("--input=/dev/zero", "is not a regular file", FAILURE),
    *(any_job(f"--output={directory}", "cannot be written", FAILURE) for directory in UNWRITABLE),
    any_job("--output=", "output must be a directory"),
    any_job("--output=out*", "output must be a directory"),
    Fault(("--input_format=parquet",), "is not a Parquet file"),
    only("release", "cannot be read: no such file", "--frequency_list={tmp}/none.csv"),
    only("release", "cannot be read: is a directory", "--frequency_list={tmp}"),
    usage("release", "either --input", "--frequency_list=a.csv", "--input=b.csv"),
    usage("release", "is for --input", "--frequency_list=a.csv", "--user_column=user"),
    Fault(
        ("--frequency_list=a.csv",),
        "it is your promise that no user",
        USAGE,
        ("release",),
        without="--max_partitions_per_user",
    ),
    counted("--exact_total and --max_total, not both", "--exact_total=5", "--max_total=7"),
    counted("--bounds_width goes with --bounds_reference", "--bounds_width=5"),
    counted("either --bounds_width or --bounds_distance", "--bounds_reference={tmp}/counts.csv"),
    counted("cannot be read", "--bounds_reference=none.csv", "--bounds_width=3", code=FAILURE),
    counted("leave out --exact_total", "--exact_total=100", "--report"),
    counted("contradicts total: give a public number", "--exact_total=90000", code=FAILURE),
    counted("only the decoder of --mechanism=frob", "--max_total=5", EXPONENTIAL),
    counted("only the decoder of --mechanism=frob", "--max_total=5", "--mechanism=geometric"),
    counted("--exact_total does not go with --mechan", "--exact_total=5", "--mechanism=geometric"),
    counted("--query is for --input", "--query=SELECT 1"),
    by_period("release", FIRST_LAST, "--periods=2026-01-05"),
    by_period("select", FIRST_LAST, "--periods=2026"),
    by_period("release", FIRST_LAST, "--periods=2026-01-05..2026-01-04"),
    by_period("release", "more than 10,000 periods", "--periods=1900-01-05..2026-01-04"),
    by_period("release", "--periods is needed", without="--periods"),
    by_period("release", "--time_column is needed", without="--time_column"),
    by_period("release", "--max_periods_per_user is needed", without="--max_periods_per_user"),
    by_period("select", "--max_periods_per_user is needed", without="--max_periods_per_user"),
    usage("release", "--time_column goes with --period", "--time_column=at"),
    by_period("release", "--max_total is for one list", "--max_total=10"),
    by_period("release", "--report is for one list", "--report"),
    by_period("select", "has no column 'at'", code=FAILURE),
    by_period("release", "groups and times must be different columns", "--time_column=page"),
    by_period("select", "--already_bounded does not go with --period", "--already_bounded"),
    by_period("select", "--public_partitions does not", "--public_partitions=x.csv"),
    usage("degrees", "--degree_bound is for --privacy_unit=node", "--degree_bound=3"),
    usage("degrees", COUNT, "--privacy_unit=node", "--degree_bound=0"),
    usage("degrees", "raise epsilon", "--privacy_unit=node", "--degree_bound=9999999"),
    usage("degrees", "must be different columns, got user", "--target_column=user"),
    usage("degrees", "invalid choice: 'both'", "--degree=both"),
    usage("degrees", "there is no flag --user_column", "--user_column=user"),
    usage("degrees", "no error bars for --nodes", "--nodes=60", "--report", EXPONENTIAL),
    usage("degrees", "is for --privacy_unit=edge", "--privacy_unit=node", "--nodes=5"),
    usage(GROUPS, "groups of age are not public: give their", "--group_by=device,age"),
    usage(GROUPS, "--epsilon_selection and --delta", "--group_by=device,age", "--delta=1e-6"),
    usage(GROUPS, "--delta is to select groups, but all", "--delta=1e-6"),
    usage(GROUPS, "--groups is for 'age', which is not in --group_by", "--groups=age=old"),
    usage(GROUPS, "--groups is given twice for 'device'", "--groups=device=a", "--groups=device=b"),
    usage(GROUPS, "must be COLUMN=NAME,..., got 'tv'", "--groups=tv"),
    usage(GROUPS, "must be different names", "--groups=device=a,a"),
    usage(GROUPS, "must be different names", "--groups=device=a\nb"),
    usage(GROUPS, "3 sizes for device, but --groups 1 names", "--group_sizes=device=1,2,3"),
    usage(GROUPS, COUNT, "--group_sizes=device=x"),
    usage(GROUPS, "--group_sizes is for 'age'", "--group_sizes=age=1"),
    only(GROUPS, "no column 'a'", "--group_by=device,a", "--groups=device=tv", "--groups=a=b"),
    usage(GROUPS, "must be different columns", "--group_by=page", "--groups=page=x"),
    only(GROUPS, "'1.50' has the text '1.5'", DECIMALS, "--groups=device=1.50"),
    only(GROUPS, "'m' is not of the type decimal", DECIMALS, "--groups=device=m"),
    usage(GROUPS, "raise epsilon", "--epsilon_groups=1e-7"),
    usage(KAPPA, "either --input or --released", "--released=x"),
    Fault(
        ("--bounds_width=5",),
        "--bounds_width needs --max_partitions_per_user",
        USAGE,
        ("release",),
        without="--max_partitions_per_user",
    ),
    usage(KAPPA, "epsilon must be at least", "--for_epsilon=0.0000001"),
    usage(KAPPA, COUNT, "--max_degree=0"),
    usage(KAPPA, "cannot be drawn: give a file in", "--plot={tmp}/none/a.png"),
    usage(KAPPA, "there are no pictures of the kind ", "--plot={tmp}/a.xyz"),
    only(KAPPA, "has no column 'pages'", "--partition_column=pages"),
    usage(KAPPA, "no flag --max_partitions_per_user", "--max_partitions_per_user=3"),
    # Names that are public, plots, ledgers.
    only("select", "cannot be read", "--public_partitions=none.csv"),
    only("select", "cannot be read", "--public_partitions="),  # as of a variable that is not set
    only("select", "write one on each line", "--public_partitions={tmp}/blank.csv"),
    only("select", "expected 1 fields", "--public_partitions={tmp}/records.csv"),
    only("select", "CSV in UTF-8", "--public_partitions={tmp}/bytes.parquet"),
    only("select", "CSV in UTF-8", "--public_partitions={tmp}/quote.csv"),
    flag("--public_threshold=1", "is for public", "select"),
    flag("--plot=a.png", "--plot is for --explain", "select"),
    flag("--explain", "--input does not go with --explain", "select"),
    by_period("select", "--public_threshold does not go with", "--public_threshold=0"),
    Fault(("--strategy=renyi_rounds", "--noisy_counts"), "renyi_rounds", USAGE, ("select", ALL)),
    only(ALL, "is not a ledger", "--ledger={tmp}/none"),
    only(ALL, "is not a ledger", "--ledger={tmp}"),
    only(ALL, "is not a privacy ledger", "--ledger={tmp}/records.csv"),
    Fault(("--ledger={tmp}/edges",), "all records of one edge", jobs=(*MAIN_JOBS, GROUPS)),
    only("degrees", "one edge", "--ledger={tmp}/ledger"),
    only("degrees", "one node", "--ledger={tmp}/ledger", "--privacy_unit=node", "--degree_bound=2"),
    only("select", "replace all records", "--ledger={tmp}/ledger", "--neighbours=replace"),
    only("select", "is another job's release", "--output={tmp}/released", "--overwrite"),
    only("release", "report.html exists: give another --output", "--output={tmp}/drawn"),
    only(ALL, "is left", "--epsilon=2", "--ledger={tmp}/ledger", code=4),
    Fault(("--job_id=x",), "goes with --ledger", USAGE, ("release",), without="--ledger"),
    Fault(("--label=x",), "goes with --ledger", USAGE, ("release",), without="--ledger"),
]

NEEDED = {
    "release": ["--input", "--user_column", "--partition_column", "--epsilon", "--output"],
    "select": ["--epsilon", "--delta"],
    ALL: ["--delta", "--output"],
    "degrees": ["--source_column", "--target_column"],
    GROUPS: ["--group_by", "--epsilon_all", "--epsilon_groups"],
    KAPPA: ["--for_epsilon", "--epsilon"],
}

FAULTS = {" ".join(fault.flags): fault for fault in FAULTS_OF_FLAGS} | {
    f"{job} without {flag}": Fault((), flag, USAGE, jobs=(job,), without=flag)
    for job, flags in NEEDED.items()
    for flag in flags
}
OPEN_QUOTE = RECORDS + f'ann,"{PRIVATE}\n' + 9 * "a,b\n"
WIDE = ",".join(f"c{i}" for i in range(20_000))
FAULTS |= {
    # Delimited text.
    "no column": Fault(("--user_column=uid",), "no column 'uid'"),
    "no such position": Fault(("--no_header", "--user_column=9", "--partition_column=1"), "9"),
    "another delimiter": Fault(("--delimiter=;",), "1 column with the delimiter ';'"),
    "a first line of nothing": text("\n" + RECORDS, "nothing on its first line"),
    "a line too short": text(RECORDS + f"{PRIVATE}\n", "does not have 2 fields"),
    "a line too long": text(RECORDS + f"{PRIVATE},a,b\n", "does not have 2 fields"),
    "the same column twice": text(f"user,page,page\na,{PRIVATE},c\n", "more than one column"),
    "no user": text(RECORDS + f",{PRIVATE}\n", "--drop_nulls"),
    "no partition": text(RECORDS + f"{PRIVATE},\n", "--drop_nulls"),
    "not UTF-8": text(RECORDS.encode() + f"{PRIVATE},".encode() + b"\xff\n", "--encoding"),
    "UTF-16": text(RECORDS.encode("utf-16"), "records.csv"),
    "an open quote": text(OPEN_QUOTE, "--no_quotes"),
    "a line break in quotes": text(RECORDS + f'ann,"{PRIVATE}\nb"\n', "--multiline"),
    "an open quote among line breaks": text(OPEN_QUOTE, "quote", "--multiline"),
    "line ends of old": text(RECORDS.replace("\n", "\r"), "end lines with"),
    "a 10 MB key": text(f"user,page\nann,{PRIVATE}{10**7 * 'k'}\n", "longer than", "--multiline"),
    "20,000 columns, the wrong ones": text(f"{WIDE}\n{19_999 * ','}\n", "no column 'user'"),
    "a short line": text(f"user,page,{WIDE}\nann,{PRIVATE}\n", "does not have 20002 fields"),
    "gzip cut short": parquet("cut.csv.gz", "cut short, damaged"),
    "not gzip": parquet("text.csv.gz", "cut short, damaged"),
    "a gzip bomb": parquet("bomb.csv.gz", "a line is longer than 64 MiB"),
    "a zip archive": parquet("archive.csv.zip", "is a zip archive"),
    "Parquet that is none": parquet("text.parquet", "is not a Parquet file, or is cut short"),
    "bytes in Parquet's magic": parquet("bytes.parquet", "is not a Parquet file"),
    "Parquet cut short": parquet("cut.parquet", "is not a Parquet file, or is cut short"),
    "a damaged page": parquet("damaged.parquet", "cannot be read to its end"),
    "Parquet without the column": parquet("good.parquet", "no column 'uid'", "--user_column=uid"),
    "NaN and floats": parquet("floats.parquet", "store it as a string or an integer"),
    "lists as users": parquet("lists.parquet", "store it as a string or an integer"),
    "null users": parquet("nulls.parquet", "--drop_nulls"),
    "types that differ between files": parquet("mixed-*.parquet", "give both the same type"),
    "text among Parquet": parquet("*.parquet", "parquet"),
}

LISTS = {
    "nothing": "",
    "no header": "7712,1\n",
    "another header": "a,b\n7712,1\n",
    "one column": "frequency\n7712\n",
    "three columns": COUNTS + "7712,1,1\n",
    "words": COUNTS + f"7712,{PRIVATE}\n",
    "a fraction": COUNTS + "7712.5,1\n",
    "NaN": COUNTS + "nan,7712\n",
    "infinity": COUNTS + "inf,7712\n",
    "a frequency of 0": COUNTS + "7712,1\n0,7712\n",
    "a negative frequency": COUNTS + "7712,1\n-7712,1\n",
    "a negative multiplicity": COUNTS + "7712,-7712\n",
    "a multiplicity of 0": COUNTS + "7712,0\n",
    "ascending": COUNTS + "7712,1\n77120,1\n",
    "a frequency twice": COUNTS + "7712,1\n7712,1\n",
    "a frequency above 64 bits": COUNTS + f"{7712 * 10**16},1\n",
    "a multiplicity above 64 bits": COUNTS + f"7712,{7712 * 10**16}\n",
    "a total above 64 bits": COUNTS + f"{7712 * 10**13},{10**9}\n",
    "5,000 digits": COUNTS + 1250 * "7712" + ",1\n",
    "a NUL": COUNTS + "7712\0,1\n",
    "an open quote": COUNTS + '"7712,1\n',
    "not UTF-8": COUNTS.encode() + b"7712,\xff\n",
    "UTF-16": (COUNTS + "7712,1\n").encode("utf-16"),
    "a field of 1 MB": COUNTS + 250_000 * "7712" + ",1\n",
}
NO_LIST = "records.csv is not a frequency list: the first line must be"
FAULTS |= {
    f"a list: {name}": text(content, NO_LIST, "--frequency_list={tmp}/records.csv")
    for name, content in LISTS.items()
}

FILES = {
    "text.parquet": RECORDS.encode(),
    "bytes.parquet": b"PAR1" + bytes(range(256)) * 4 + b"PAR1",
    "text.csv.gz": RECORDS.encode(),
    "archive.csv.zip": b"PK\3\4" + bytes(60),
    "blank.csv": b"\n\n",
    "quote.csv": b'home\n"about\n',
    "counts.csv": f"{COUNTS}7,1\n1,2\n".encode(),
    "grouped.csv": f"user,page,device\nann,{PRIVATE},tv\n".encode(),
    "code.yaml": b"epsilon: !!python/object/apply:os.getcwd []\n",
    "loop.yaml": b"epsilon: &a [*a]\n",
    "list.yaml": b"- epsilon\n",
    "nested.yaml": b"config: other.yaml\n",
    "twice.yaml": b"epsilon: 1\nepsilon: 5\n",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A directory with the files that the faults name."""
    directory = tmp_path_factory.mktemp("files")
    for name, content in FILES.items():
        (directory / name).write_bytes(content)
    compressed = gzip.compress((RECORDS * 999).encode(), mtime=0)
    (directory / "cut.csv.gz").write_bytes(compressed[: len(compressed) // 2])
    # 80 MiB of one line in 80 KiB.
    (directory / "bomb.csv.gz").write_bytes(gzip.compress(b"user,page\n" + bytes(80 << 20), 9))

    def table(name, users):
        columns = pa.table({"user": users, "page": users, "device": users})
        path = directory / f"{name}.parquet"
        pq.write_table(columns, path, compression="none", use_dictionary=False)
        return path.read_bytes()

    good = table("good", [f"{PRIVATE}{i}" for i in range(1000)])
    (directory / "cut.parquet").write_bytes(good[: len(good) // 2])
    (directory / "damaged.parquet").write_bytes(good[:4] + bytes(200) + good[204:])
    table("floats", [1.0, float("nan")])
    table("lists", [[1], [2, 3]])
    table("decimals", [decimal.Decimal("1.50")])
    table("nulls", [None, PRIVATE])
    table("mixed-1", [PRIVATE])
    table("mixed-2", [1])
    os.mkfifo(directory / "pipe.csv")
    (directory / "link.csv").symlink_to(directory / "none")
    Ledger.create(directory / "ledger", 1, 1e-5, free_failures=10_000)
    Ledger.create(directory / "large", 1000, 0.999, free_failures=10_000)
    Ledger.create(directory / "edges", 100, 1e-5, unit=PrivacyUnit.EDGE, free_failures=10_000)
    for folder, name in (("released", "released_frequencies.csv"), ("drawn", "report.html")):
        (directory / folder).mkdir()
        (directory / folder / name).write_text("")
    return directory


INPUT = "--input={tmp}/records.csv --output={out}"
COLUMNS = "--user_column=user --partition_column=page"
USUAL = {
    "release": f"{INPUT} {COLUMNS} {BOUND}1 --epsilon=1 --ledger={{tmp}}/large",
    "select": f"{INPUT} {COLUMNS} {BOUND}1 --epsilon=1 --delta=1e-6 --ledger={{tmp}}/large",
    ALL: f"{INPUT} {COLUMNS} {BOUND}1 --epsilon=1 --delta=1e-6 --ledger={{tmp}}/ledger",
    "degrees": f"{INPUT} --source_column=user --target_column=page --epsilon=1 "
    "--ledger={tmp}/ledger",
    GROUPS: f"--input={{tmp}}/grouped.csv --output={{out}} {COLUMNS} {BOUND}1 --epsilon_all=0.5 "
    "--epsilon_groups=0.5 --group_by=device --groups=device=tv --ledger={tmp}/ledger",
    KAPPA: f"{INPUT} {COLUMNS} --epsilon=1 --for_epsilon=1 --ledger={{tmp}}/ledger",
}


def run(job, files, output, flags, without=""):
    text = USUAL[job].format(tmp=files, out=output)
    usual = dict(flag.split("=", 1) for flag in text.split())
    usual.pop(without, None)
    try:
        return main([job, *flags_over(usual, *flags)])
    except SystemExit as stop:
        return stop.code


def everything(directory, *but):
    """Names, kinds and times of all files below a directory, but of some."""
    return {
        path: (path.lstat().st_mode, path.lstat().st_size, path.lstat().st_mtime_ns)
        for path in pathlib.Path(directory).rglob("*")
        if path.name not in but
    }


# Faults that all jobs find in the same code meet these in turns, and all others each of theirs.
CASES = [
    (name, job)
    for turn, (name, fault) in enumerate(FAULTS.items())
    for place, job in enumerate(fault.jobs)
    if fault.jobs not in (MAIN_JOBS, JOBS) or place == turn % len(fault.jobs)
]


@pytest.mark.parametrize(("name", "job"), CASES)
def test_a_fault_is_one_line_and_leaves_nothing(files, tmp_path, capfd, name, job):
    fault = FAULTS[name]
    records = fault.records
    (files / "records.csv").write_bytes(records if isinstance(records, bytes) else records.encode())
    # What a job reserved it has given back, unless the fault depends on values. A fault of flags is
    # found before.
    ledgers = ("ledger", "large")
    # A row says that first lines are read, which are records without a header; it is given back.
    changed = ledgers if fault.code == FAILURE or name == "--no_header" else ()
    before = everything(files, *changed)
    spent = {name: Ledger.open(files / name).spent() for name in ledgers}
    flags = [flag.replace("{tmp}", str(files)) for flag in fault.flags]
    code = run(job, files, tmp_path / "out", flags, fault.without)
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("error: ") and err.count("\n") == 1 and err.endswith("\n"), err
    assert fault.says in err
    assert code == fault.code
    assert PRIVATE not in err and FREQUENCY not in err
    assert len(err) < 1000
    assert everything(files, *changed) == before
    is_charged = "the list contradicts" in err or "the --query failed while" in err
    if is_charged:
        spent["large"] += PrivacyBudget(1)
    assert {name: Ledger.open(files / name).spent() for name in ledgers} == spent
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("change", ["grows", "shrinks", "goes away"])
def test_a_file_that_changes_while_it_is_read(files, tmp_path, failure, monkeypatch, change):
    records = tmp_path / "records.csv"
    records.write_text(RECORDS)
    read = DelimitedText.read

    def read_and_change(self, part, columns):
        yield from read(self, part, columns)
        if change == "goes away":
            records.unlink()
        else:
            records.write_text(RECORDS * 2 if change == "grows" else "user,page\n")

    monkeypatch.setattr(DelimitedText, "read", read_and_change)
    says = (
        f"error: {records} {'cannot be opened' if change == 'goes away' else 'has changed while'}"
    )
    failure(FAILURE, says, run, "release", files, tmp_path / "out", [f"--input={records}"])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("job", "flag"),
    [
        pytest.param("select", "--epsilon=1e-12", marks=pytest.mark.thorough),
        ("release", "--input={tmp}/long.csv"),
    ],
)
def test_what_looks_hostile_and_is_in_order(files, tmp_path, capfd, job, flag):
    (files / "long.csv").write_text(f"user,page\nann,{10_000_000 * 'k'}\nbob,home\n")
    (files / "records.csv").write_text(RECORDS)
    assert run(job, files, tmp_path / "out", [flag.replace("{tmp}", str(files))]) == 0
    assert capfd.readouterr().err == ""
