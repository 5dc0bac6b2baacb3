import decimal
import json
from fractions import Fraction

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_transforms.budget import Ledger, PrivacyBudget
from dp_transforms.files.filenames import LISTS_HEADER
from dp_transforms.files.release_files import parse_lists
from dp_transforms.mechanisms import FrequencyList, FrobeniusMechanism
from dp_transforms.specs import Attribute, GroupsSpec
from pipelines.release_grouped_lists import main, warnings_of_small_groups
from tests.jobs import flags_over, job_flags, statement
from tests.transforms.test_grouped import KAPPA, SELECTION, TO_SELECT, release

PEOPLE = """\
user,page,sex,tongue
ann,home,f,no
ann,help,f,no
bob,home,m,no
cy,home,m,
dee,home,,no
"""


def command(tmp_path, *flags, records=PEOPLE):
    (tmp_path / "records.csv").write_text(records)
    public = [] if any("select" in flag for flag in flags) else ["--groups=tongue=no,it"]
    privacy = {"--group_by": "sex,tongue", "--epsilon_all": "60", "--epsilon_groups": "100"}
    flags = flags_over(privacy, "--groups=sex=f,m", *public, *flags)
    return main([flag for flag in job_flags(tmp_path, *flags) if not flag.startswith("--epsilon=")])


def lists(tmp_path):
    return parse_lists((tmp_path / "out" / "released_lists.csv").read_bytes(), LISTS_HEADER)


# At these epsilons a frequency changes with probability below 1e-10.
def test_users_without_a_value_are_in_no_group(tmp_path, capsys):
    people = "".join(line for line in PEOPLE.splitlines(True) if "help" not in line)
    assert command(tmp_path, records=people) == 0
    out, err = capsys.readouterr()
    assert (out, err) == (f"{tmp_path}/out/released_lists.csv\n", "")
    assert lists(tmp_path) == {
        ("", ""): FrequencyList([4], [1]),
        ("sex", "f"): FrequencyList([1], [1]),
        ("sex", "m"): FrequencyList([2], [1]),
        ("tongue", "it"): FrequencyList(),
        ("tongue", "no"): FrequencyList([3], [1]),
    }


def test_selected_names_and_the_statement(tmp_path):
    people = "user,page,sex,tongue\n" + "".join(
        f"user{i},home,f,{'no' if i else 'zanzibari'}\n" for i in range(200)
    )
    flags = ["--epsilon_selection=1", "--delta=1e-6", "--epsilon_all=0.3", "--epsilon_groups=0.5"]
    assert command(tmp_path, *flags, records=people) == 0
    assert {name for name in lists(tmp_path) if name[0] == "tongue"} == {("tongue", "no")}
    said = statement(tmp_path)
    assert (said["epsilon"], said["delta"]) == (1.8, 1e-6)
    assert {one.pop("mechanism") for one in said["lists"]} == {FrobeniusMechanism.title}
    rates = [one.pop("rate") for one in said["lists"]]
    assert rates == [FrobeniusMechanism(epsilon).rate for epsilon in (0.3, 0.25, 0.25)]
    exact = [(one.pop("epsilon_exact"), Fraction(one.pop("rate_exact"))) for one in said["lists"]]
    assert [epsilon for epsilon, _ in exact] == ["0.3", "0.25", "0.25"]
    assert [float(rate) for _, rate in exact] == rates
    assert said["lists"] == [
        {"of": "all users", "epsilon": 0.3},
        {"of": "groups", "attribute": "sex", "epsilon": 0.25, "groups": ["f", "m"]},
        {"of": "groups", "attribute": "tongue", "epsilon": 0.25, "groups": "selected"},
    ]
    assert said["selection_of_groups"] == {
        "strategy": "optimal",
        "epsilon": 1,
        "epsilon_exact": "1",
        "delta": 1e-6,
        "delta_exact": "0.000001",
    }
    assert "zanzibari" not in json.dumps(said)
    assert [line["epsilon"] for line in said["budget"]["ledger"]] == ["0.3", "0.25", "0.25", "1"]
    assert [float(line["loss_range"]) for line in said["budget"]["ledger"]] == [0.6, 0.5, 0.5, 2]


def test_a_shared_ledger_pays_for_all_or_for_nothing(tmp_path, capsys):
    path = tmp_path / "ledger"
    Ledger.create(path, 250)
    assert command(tmp_path, f"--ledger={path}") == 0
    assert [line.state.value for line in Ledger.open(path).lines()] == ["committed"] * 3
    capsys.readouterr()
    # The list of all users, and one attribute, would still fit.
    assert command(tmp_path, f"--ledger={path}", "--overwrite", "--epsilon_all=30") == 1
    assert "only epsilon 10" in capsys.readouterr().err
    assert str(Ledger.open(path).remaining()) == "epsilon 90, delta 0"


def test_small_groups_are_warned_of_before_anything_is_read(tmp_path, capsys):
    sizes = ["--group_sizes=sex=2000000,300", "--epsilon_groups=0.004", "--input=nothing.csv"]
    assert command(tmp_path, *sizes) == 1
    warning, error = capsys.readouterr().err.splitlines()
    assert warning.startswith("warning: sex=m has about 300 users: expect more noise than users")
    assert error.startswith("error: no file matches nothing.csv")


def test_a_large_delta_is_warned_of(tmp_path, capsys):
    flags = ["--epsilon_selection=1", "--delta=0.5", "--input=nothing.csv"]
    assert command(tmp_path, *flags) == 1
    warning, _ = capsys.readouterr().err.splitlines()
    assert warning.startswith("warning: --delta=0.5 allows to show what a single user has")


def test_the_size_from_which_there_is_no_warning():
    attribute = Attribute("sex", ("f", "m"))
    spec = GroupsSpec(
        attributes=[attribute], epsilon_all=1, epsilon_groups=1, max_partitions_per_user=KAPPA
    )
    # The error falls with the square root of the number of users, about.
    (warning,) = warnings_of_small_groups(spec, {"sex": [100, 20_000]})
    assert warning.startswith("sex=f has about 100 users: expect an error of ")
    part = int(warning.partition(" of them")[0].rpartition(" ")[2].rstrip("%"))
    assert 10 < part < 50


@pytest.mark.parametrize(
    ("group", "says"),
    [
        ("1.50", "'1.50' has the text '1.5' in column 'sex' of the records: name it so"),
        ("m", "'m' is not of the type decimal that column 'sex' of the records has"),
    ],
)
def test_groups_that_no_record_can_have_are_refused(tmp_path, failure, group, says):
    grades = pa.array([decimal.Decimal("1.50")] * 4, pa.decimal128(9, 2))
    names = ["ann", "bob", "cy", "dee"]
    table = pa.table({"user": names, "page": names, "sex": grades, "tongue": ["no"] * 4})
    pq.write_table(table, tmp_path / "a.parquet")
    given = [f"--input={tmp_path}/a.parquet", "--groups=tongue=no"]
    columns = ["--group_by=sex,tongue", "--user_column=user", "--partition_column=page"]
    privacy = ["--epsilon_all=9", "--epsilon_groups=9", "--max_partitions_per_user=1"]
    flags = [*given, *columns, *privacy, f"--output={tmp_path}/out"]
    code, said = failure(main, [*flags, f"--groups=sex={group}"])
    assert code == 1 and says in said
    assert main([*flags, "--groups=sex=1.5"]) == 0


def test_the_costs_add_up():
    spec = release(TO_SELECT, selection=SELECTION).spec
    assert [one.purpose for one in spec.requests] == [
        "list of all users",
        "lists of groups by gender",
        "lists of groups by age",
        "lists of groups by language",
        "names of groups",
    ]
    assert spec.cost == PrivacyBudget("1.5") + SELECTION
