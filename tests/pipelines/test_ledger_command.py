import pytest

from dp_transforms.budget import Ledger, PrivacyBudget
from pipelines.ledger import main
from pipelines.release_frequency_list import main as release
from pipelines.select_partitions import main as select
from tests.jobs import job_flags, statement


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "budget.ledger")


def test_a_ledger_is_made_once_and_spent_by_several_jobs(path, tmp_path, capsys):
    assert main(["create", path, "--epsilon=0.3", "--delta=1e-6"]) == 0
    assert capsys.readouterr().out == f"{path}\n"
    records = tmp_path / "records.csv"
    records.write_text("user,page\nann,home\nbob,home\n")
    job = job_flags(tmp_path, "--epsilon=0.1", f"--ledger={path}")
    # Three tenths are a whole, which they are not in binary.
    assert release([*job, f"--output={tmp_path}/list"]) == 0
    assert select([*job, "--delta=1e-6", f"--output={tmp_path}/names"]) == 0
    counts = tmp_path / "counts.csv"
    counts.write_text("frequency,multiplicity\n9,1\n")
    counted = [f"--frequency_list={counts}", f"--ledger={path}", "--epsilon=0.1"]
    assert release([*counted, f"--output={tmp_path}/counted"]) == 0
    assert Ledger.open(path).remaining() == PrivacyBudget(0)
    for name, lines in (("list", 1), ("names", 2), ("counted", 3)):
        said = statement(tmp_path, name)
        assert said["epsilon"] == 0.1
        assert len(said["budget"]["ledger"]) == lines
    capsys.readouterr()
    assert main(["show", path]) == 0
    assert [line.split()[:4] for line in capsys.readouterr().out.splitlines()] == [
        ["id", "state", "epsilon", "delta"],
        ["1", "committed", "0.1", "0"],
        ["2", "committed", "0.1", "0.000001"],
        ["3", "committed", "0.1", "0"],
        ["left", "0", "0", "of"],
    ]
    assert release([*counted, f"--output={tmp_path}/more"]) == 1
    assert "only epsilon 0, delta 0 is left" in capsys.readouterr().err
    assert not (tmp_path / "more").exists()


FAULTS = {
    "again": (["create", "{path}", "--epsilon=1"], 1, "exists: a ledger is never replaced"),
    "no directory": (["create", "{path}/x", "--epsilon=1"], 1, "cannot be made: "),
    "none": (["show", "{path}.none"], 1, "cannot be read: no such file"),
    "epsilon": (["create", "{path}.new", "--epsilon=0"], 2, "--epsilon: must be a number above 0"),
    "composition": (
        ["create", "{path}.new", "--epsilon=1", "--composition_delta=0.1"],
        2,
        "composition_delta",
    ),
    "damaged": (["show", "{path}.damaged"], 1, "is not a privacy ledger"),
    "no reservation": (["abandon", "{path}", "7", "--nothing_came_out"], 2, "7 of"),
    "no word": (["abandon", "{path}", "1"], 2, "gives budget back on your word"),
    "command": (["drop", "{path}"], 2, "invalid choice"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_one_line(path, capsys, failure, name):
    arguments, expected, says = FAULTS[name]
    assert main(["create", path, "--epsilon=1"]) == 0
    with open(path + ".damaged", "w") as file:
        file.write("not a ledger\n")
    capsys.readouterr()
    code, err = failure(main, [argument.replace("{path}", path) for argument in arguments])
    assert code == expected and says in err
