import json

import pytest

from dp_transforms.files.filenames import LISTS_HEADER
from dp_transforms.mechanisms import FrequencyList, FrobeniusMechanism
from dp_transforms.releases import Attribute, GroupsSpec
from dp_transforms.releases.lists import parse_lists
from pipelines.release_grouped_lists import main, warnings_of_small_groups
from tests.jobs import flags_over, job_flags, statement

PEOPLE = "user,page,sex,tongue\nann,home,f,no\nbob,home,m,no\ncy,home,m,\ndee,home,,no\n"


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
    assert command(tmp_path) == 0
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
    stated = statement(tmp_path)
    assert (stated["epsilon"], stated["delta"]) == (1.8, 1e-6)
    for entry, epsilon in zip(stated["lists"], ["0.3", "0.25", "0.25"], strict=True):
        mechanism = FrobeniusMechanism(epsilon)
        assert (entry.pop("mechanism"), entry.pop("rate")) == (mechanism.title, mechanism.rate)
        assert entry.pop("epsilon_exact") == entry.pop("rate_exact") == epsilon
    assert stated["lists"] == [
        {"of": "all users", "epsilon": 0.3},
        {"of": "groups", "attribute": "sex", "epsilon": 0.25, "groups": ["f", "m"]},
        {"of": "groups", "attribute": "tongue", "epsilon": 0.25, "groups": "selected"},
    ]
    assert stated["selection_of_groups"] == {
        "strategy": "optimal",
        "epsilon": 1,
        "epsilon_exact": "1",
        "delta": 1e-6,
        "delta_exact": "0.000001",
    }
    assert "zanzibari" not in json.dumps(stated)
    assert {line["purpose"]: line["epsilon"] for line in stated["budget"]["ledger"]} == {
        "list of all users": "0.3",
        "lists of groups by sex": "0.25",
        "lists of groups by tongue": "0.25",
        "names of groups": "1",
    }
    assert [float(line["loss_range"]) for line in stated["budget"]["ledger"]] == [0.6, 0.5, 0.5, 2]


@pytest.mark.thorough
def test_warnings_come_before_anything_is_read(tmp_path, capsys):
    small = ["--group_sizes=sex=2000000,300", "--epsilon_groups=0.004"]
    selected = ["--epsilon_selection=1", "--delta=0.5"]
    assert command(tmp_path, *small, *selected, "--input=nothing.csv") == 1
    of_delta, of_size, error = capsys.readouterr().err.splitlines()
    assert of_delta.startswith(
        "warning: --delta=0.5 allows the release to show what a single user has"
    )
    assert of_size.startswith("warning: sex=m has about 300 users: expect more noise than users")
    assert error.startswith("error: no file matches nothing.csv")


def test_the_size_from_which_there_is_no_warning():
    options = {"epsilon_all": 1, "epsilon_groups": 1, "max_partitions_per_user": 2}
    spec = GroupsSpec(attributes=[Attribute("sex", ("f", "m"))], **options)
    # The error falls with the square root of the number of users, about.
    (warning,) = warnings_of_small_groups(spec, {"sex": [100, 20_000]})
    assert warning.startswith("sex=f has about 100 users: expect an error of ")
    part = int(warning.partition(" of them")[0].rpartition(" ")[2].rstrip("%"))
    assert 10 < part < 50
