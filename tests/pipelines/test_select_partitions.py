import csv
import datetime
import decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_transforms.budget import Ledger, PrivacyBudget
from dp_transforms.mechanisms.selection import make_strategy
from dp_transforms.releases.base import library_versions
from pipelines import release_all, select_partitions
from pipelines.select_partitions import main
from tests.jobs import job_flags, statement

# At this budget a partition that 40 users have is selected with near certainty, and one that a
# single user has with probability 1e-12 at most.
CLEAR = ["--epsilon=20", "--delta=1e-12", "--max_partitions_per_user=3"]
TIME = datetime.datetime(2026, 1, 31, 8, 30, tzinfo=datetime.timezone.utc)


def lines(users, *names):
    return "".join(f"{name}-{user},{name}\n" for name in names for user in range(users))


def command(tmp_path, *flags, records="user,page\n", privacy=CLEAR):
    (tmp_path / "records.csv").write_text(records)
    return main(job_flags(tmp_path, *privacy, *flags))


def parquet(tmp_path, pages):
    """Writes a file in which each record is of a user of its own; gives its flag."""
    table = pa.table({"user": range(len(pages)), "page": pages})
    pq.write_table(table, tmp_path / "a.parquet")
    return f"--input={tmp_path}/a.parquet"


def public(tmp_path, text):
    """Writes a file of public partitions; gives its flag."""
    (tmp_path / "public.csv").write_text(text)
    return f"--public_partitions={tmp_path}/public.csv"


def released(tmp_path):
    with open(tmp_path / "out" / "released_partitions.csv", newline="") as file:
        return list(csv.reader(file))


def test_popular_partitions_are_released_and_rare_ones_are_not(tmp_path, capsys):
    awkward = 'a "quoted, name"'
    records = "user,page\n" + lines(40, "home", "naïve😀") + lines(1, "rare")
    records += "".join(f'{user},"a ""quoted, name"""\n' for user in range(40))
    assert command(tmp_path, records=records) == 0
    assert released(tmp_path) == [["page"], [awkward], ["home"], ["naïve😀"]]
    assert capsys.readouterr() == (f"{tmp_path}/out/released_partitions.csv\n", "")


@pytest.mark.thorough
def test_noisy_counts_and_users_of_other_partitions_for_a_part_of_epsilon(tmp_path):
    flags = ["--noisy_counts", "--others_share=0.75"]
    privacy = ["--epsilon=40", "--delta=1e-12", "--max_partitions_per_user=2"]
    records = "user,page\n" + lines(500, "home") + lines(300, "about")
    records += "".join(f"{i},own {i}\n" for i in range(7))
    assert command(tmp_path, *flags, records=records, privacy=privacy) == 0
    header, *rows = released(tmp_path)
    assert header == ["page", "noisy_count", "low", "high"]
    assert [name for name, *_ in rows] == ["home", "about"]
    assert all(abs(int(rows[i][1]) - n) < 20 for i, n in ((0, 500), (1, 300)))
    assert all(int(low) <= int(noisy) <= int(high) for _, noisy, low, high in rows)
    stated = statement(tmp_path)
    assert stated["noisy_counts"] is True and stated["count_intervals"]["confidence"] == 0.95
    assert stated["noisy_counts_are_of"].endswith("partitions, chosen at random")
    # Noise at epsilon 30, which is 0 but for one run in 10**12; so are names of one user.
    assert stated["users_of_other_partitions"] == 7
    assert (stated["epsilon"], stated["other_partitions"]["epsilon"]) == (10, 30)
    spent = [(line["purpose"], line["epsilon"]) for line in stated["budget"]["ledger"]]
    assert spent == [("names of partitions", "10"), ("users of other partitions", "30")]


@pytest.mark.parametrize("more", [[], ["--output_format=jsonl"]])
def test_a_name_that_is_no_text_is_written_by_its_bytes(tmp_path, more):
    records = parquet(tmp_path, pa.array([b"\xff secret"] * 40))
    assert command(tmp_path, records, *more) == 0
    written = (tmp_path / "out" / "released_partitions.csv").read_text()
    assert written == "page\n\\xff secret\n"


def test_a_text_that_is_not_utf_8_is_not_shown(tmp_path, capfd):
    # Parquet does not make sure that strings are UTF-8, but they are read before any noise.
    book = tmp_path / "book.ledger"
    Ledger.create(book, 50, 0.5)
    records = parquet(tmp_path, pa.array([b"\xff secret"] * 40).view(pa.string()))
    assert command(tmp_path, records, f"--ledger={book}") == 1
    out, err = capfd.readouterr()
    assert out == "" and err.startswith("error: ") and err.count("\n") == 1
    assert "not UTF-8" in err and "secret" not in err
    assert not list((tmp_path / "out").glob("*"))
    assert Ledger.open(book).spent() == PrivacyBudget(0)


def test_the_statement_says_this_and_no_more(tmp_path):
    privacy = ["--epsilon=1", "--delta=1e-5", "--max_partitions_per_user=1"]
    assert command(tmp_path, "--already_bounded", privacy=privacy) == 0
    stated = statement(tmp_path)
    assert stated.pop("created").endswith("Z")
    assert stated.pop("sha256").keys() == {"released_partitions.csv"}
    assert stated == {
        "mechanism": "partition selection",
        "strategy": "optimal",
        "not_named": {"users_at_most": 13, "confidence": 0.95},
        "epsilon": 1.0,
        "epsilon_exact": "1",
        "delta": 1e-5,
        "delta_exact": "0.00001",
        "neighbours": "add or remove all records of one user",
        "max_partitions_per_user": 1,
        "max_partitions_per_user_is": "declared",
        "noisy_counts": False,
        "pre_threshold": 1,
        "composition": "tight",
        "epsilon_per_partition": 1.0,
        "delta_per_partition": 1e-5,
        "saturation_count": 23,
        "partition_columns": ["page"],
        "partition_types": ["string"],
        "versions": library_versions(),
    }


def test_the_statement_of_the_automatic_choice_names_it(tmp_path):
    assert command(tmp_path, "--neighbours=replace") == 0
    stated = statement(tmp_path)
    assert stated["strategy"] == "measured"
    assert stated["look_epsilon"] in [stated["epsilon"] / (8 << i) for i in range(6)]
    chosen = stated["choice"]["chosen"]
    assert chosen["partitions_per_user"] == stated["plan"]["partitions"] <= 3
    assert chosen == stated["choice"]["compared"][0]
    assert stated["neighbours"] == "replace all records of one user by another's"
    assert stated["max_partitions_per_user_is"] == "enforced in each round"


def test_kappa_is_chosen_where_it_is_not_declared(tmp_path, failure):
    records = "user,page\n" + lines(500, "home") + lines(300, "about")
    (tmp_path / "records.csv").write_text(records)

    def flags(*more):
        every = job_flags(tmp_path, "--epsilon=40", "--delta=1e-12", *more)
        return [flag for flag in every if "max_partitions" not in flag]

    assert main(flags("--noisy_counts")) == 0
    stated = statement(tmp_path)
    assert stated["max_partitions_per_user"] == stated["plan"]["partitions"] < 256
    assert stated["max_partitions_per_user_is"].startswith("chosen by the look")
    assert [name for name, *_ in released(tmp_path)[1:]] == ["home", "about"]
    failure(2, "max_partitions_per_user", main, flags("--strategy=optimal", "--overwrite"))


def test_a_line_that_names_the_columns_is_no_public_partition(tmp_path, failure):
    (tmp_path / "records.csv").write_text("user,page\n1,x\n")
    flags = job_flags(tmp_path, "--delta=1e-6", public(tmp_path, "page\nx\n"))
    failure(1, "public.csv: the first line names the columns", main, flags)
    # A name may well be that of the column.
    flags = [*flags[:-1], public(tmp_path, "x\npage\n"), "--public_threshold=-5"]
    assert main(flags) == 0
    assert statement(tmp_path)["public_partitions"] == 2


@pytest.mark.parametrize(
    ("job", "column", "flags"),
    [
        (select_partitions, "low", ["--noisy_counts"]),
        (select_partitions, "period", ["--period=day"]),
        (select_partitions, "week", ["--period=week"]),
        (release_all, "users", []),
        (release_all, "noisy_count", ["--noisy_counts"]),
    ],
)
def test_columns_of_names_are_not_those_that_are_added(tmp_path, failure, job, column, flags):
    job_of = job_flags(tmp_path, f"--partition_column={column}", "--delta=1e-6", *flags)
    failure(2, f"the release adds a column '{column}'", job.main, job_of)


def test_public_partitions_of_several_columns(tmp_path):
    records = "user,country,device\nu,no,rare\n" + "".join(f"{u},no,tv\n" for u in range(5))
    flags = [public(tmp_path, 'no,tv\nno,"empty, but listed"\n\n'), "--public_threshold=2"]
    flags += ["--partition_column=country", "--partition_column=device"]
    assert command(tmp_path, *flags, records=records) == 0
    # At epsilon = 20 / 3 noise exceeds 2 with a probability of e**-20.
    assert released(tmp_path) == [["country", "device"], ["no", "tv"]]
    stated = statement(tmp_path)
    assert stated["strategy"] == "truncated_geometric"
    assert (stated["public_partitions"], stated["public_threshold"]) == (2, 2)


@pytest.mark.parametrize(
    ("value", "kind", "written", "name"),
    [
        (decimal.Decimal("1.50"), pa.decimal128(9, 2), "+1.500", "1.5"),
        (2**64 - 1, pa.uint64(), "018446744073709551615", "18446744073709551615"),
        (7, pa.dictionary(pa.int32(), pa.int32()), "8", "7"),
        (b"7", pa.binary(), "8", "7"),
        (True, pa.bool_(), "TRUE", "true"),
        (TIME.replace(tzinfo=None), pa.timestamp("ns"), "2026-01-31T08:30", "2026-01-31 08:30:00"),
        (TIME, pa.timestamp("ms", "Asia/Tokyo"), "2026-01-31 09:30+01", "2026-01-31 08:30:00Z"),
    ],
)
def test_public_partitions_are_found_however_they_are_written(tmp_path, value, kind, written, name):
    # Six users are enough for a public partition alone: others need more at this delta.
    records = parquet(tmp_path, pa.array([value] * 6, kind))
    names = public(tmp_path, f"{written}\n{name}\n")
    assert command(tmp_path, records, names, "--public_threshold=2") == 0
    assert released(tmp_path) == [["page"], [name]]


@pytest.mark.parametrize(
    ("kind", "written"),
    [
        (pa.decimal128(9, 2), "1,50"),
        (pa.int32(), "9223372036854775808"),
        (pa.date32(), "31.01.2026"),
        (pa.timestamp("s"), "2026-01-31 08:30:00Z"),
        (pa.timestamp("s", "UTC"), "2026-01-31 08:30:00"),
    ],
)
def test_public_partitions_that_no_record_can_have_are_refused(tmp_path, failure, kind, written):
    records, names = parquet(tmp_path, pa.nulls(1, kind)), public(tmp_path, f'"{written}"\n')
    says = f"public.csv, line 1: {written!r} is not of the type"
    assert "write it like" in failure(1, says, command, tmp_path, names, records)


@pytest.mark.thorough
def test_the_explanation_needs_no_data(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    privacy = ["--epsilon=1", "--delta=1e-5", "--max_partitions_per_user=10"]
    assert main(["--explain", *privacy, f"--plot={tmp_path}/curves.png"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].endswith("epsilon = 1, delta = 1e-05, 10 partitions per user")
    assert "measured *" in out[1] and "renyi_rounds" in out[1]
    assert out[-1] == f"{tmp_path}/curves.png"
    assert (tmp_path / "curves.png").stat().st_size > 10_000
    assert main(["--explain", *privacy, "--noisy_counts"]) == 0
    assert "renyi_rounds" not in capsys.readouterr().out
    for name in ("curves.magic", "missing/curves.png"):
        assert main(["--explain", *privacy, f"--plot={tmp_path}/{name}"]) == 1
        assert capsys.readouterr().err.startswith(f"error: {tmp_path}/{name} cannot be drawn: ")


def test_two_jobs_do_not_share_their_numbers(tmp_path):
    # Fifty partitions at the median: two jobs agree on all with probability 2**-50.
    median = make_strategy("optimal", 1, 0.01).median_users
    records = "user,page\n" + lines(median, *(f"p{i}" for i in range(50)))
    flags = ["--epsilon=1", "--delta=0.01", "--max_partitions_per_user=1", "--already_bounded"]
    outcomes = []
    for _ in range(2):
        assert command(tmp_path, "--overwrite", records=records, privacy=flags) == 0
        outcomes.append(released(tmp_path))
    assert outcomes[0] != outcomes[1]


@pytest.mark.parametrize(("delta", "warned"), [("0.5", True), ("1e-3", True), ("1e-4", False)])
def test_a_delta_that_protects_nobody_is_warned_of(tmp_path, capsys, delta, warned):
    flags = [f"--delta={delta}", "--strategy=optimal", "--dry_run"]
    assert command(tmp_path, *flags, privacy=["--epsilon=1"]) == 0
    err = capsys.readouterr().err
    assert err.startswith("warning: --delta=") == warned
    assert err.count("\n") == warned
