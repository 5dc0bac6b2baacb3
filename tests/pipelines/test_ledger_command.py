import json

import pytest

from dp_transforms.budget import Ledger, PrivacyBudget
from pipelines.ledger import ledger_table, main
from pipelines.release_frequency_list import main as release
from pipelines.select_partitions import main as select
from tests.jobs import job_flags, statement


def test_a_ledger_is_made_once_and_spent_by_several_jobs(tmp_path, capsys, failure):
    path = str(tmp_path / "budget.ledger")
    assert main(["create", path, "--epsilon=1", "--delta=1e-6"]) == 0
    assert capsys.readouterr().out == f"{path}\n"
    (tmp_path / "records.csv").write_text("user,page\nann,home\nbob,home\n")
    (tmp_path / "counts.csv").write_text("frequency,multiplicity\n9,1\n")

    def job(name, *flags):
        cost = ("--epsilon=1/3", f"--ledger={path}", f"--output={tmp_path}/{name}")
        return job_flags(tmp_path, *cost, *flags)

    counted = [f"--frequency_list={tmp_path}/counts.csv", f"--ledger={path}", "--epsilon=1/3"]
    counted.append("--max_partitions_per_user=1")
    # Three thirds are a whole, which they are not in binary.
    assert release(job("list")) == 0
    assert select(job("names", "--delta=1e-6")) == 0
    assert release([*counted, f"--output={tmp_path}/counted"]) == 0
    assert Ledger.open(path).remaining() == PrivacyBudget(0)
    for name, lines in (("list", 1), ("names", 2), ("counted", 3)):
        stated = statement(tmp_path, name)
        assert (stated["epsilon"], stated["epsilon_exact"]) == (0.333333333333334, "1/3")
        assert len(stated["budget"]["ledger"]) == lines
    assert stated["rate_exact"] == "1/3"
    spent = [(line.state.value, str(line.cost.budget.delta)) for line in Ledger.open(path).lines()]
    assert spent == [("committed", delta) for delta in ("0", "0.000001", "0")]
    capsys.readouterr()
    assert main(["show", path]) == 0
    assert capsys.readouterr().out == f"{ledger_table(Ledger.open(path))}\n"
    more = [*counted, f"--output={tmp_path}/more"]
    failure(4, "only epsilon 0, delta 0 is left", release, more)
    assert not (tmp_path / "more").exists()


@pytest.mark.thorough
def test_a_ledger_in_postgresql(tmp_path, url, capsys, failure):
    assert main(["create", url, "--epsilon=1"]) == 0
    assert capsys.readouterr().out == f"{url}\n"
    failure(1, "exists: a ledger is never replaced", main, ["create", url, "--epsilon=1"])
    (tmp_path / "records.csv").write_text("user,page\nann,home\nbob,home\n")
    cost = "--epsilon=0.6", f"--ledger={url}"
    assert release(job_flags(tmp_path, *cost, "--runner=FnApiRunner")) == 0
    (line,) = Ledger.open(url).lines()
    assert line.begun and statement(tmp_path)["budget"]["reservations"] == [1]
    again = job_flags(tmp_path, *cost, f"--output={tmp_path}/again")
    failure(4, "only epsilon 0.4, delta 0 is left", release, again)
    Ledger.open(url).reserve(0.1, purpose="of a person")
    assert main(["abandon", url, "2", "--nothing_came_out"]) == 0
    assert main(["show", url, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out.partition("is left\n")[2])
    assert shown["left"]["epsilon"] == "0.4"
    assert [row["state"] for row in shown["reservations"]] == ["committed", "abandoned"]


def test_a_password_in_the_url_of_a_ledger_is_refused(tmp_path, failure):
    url = "postgresql://me:hunter2@localhost:1/shop"
    (tmp_path / "records.csv").write_text("user,page\nann,home\n")
    for command, flags in (
        (release, job_flags(tmp_path, f"--ledger={url}")),
        (main, ["create", url, "--epsilon=1"]),
        (main, ["show", url]),
    ):
        assert "hunter2" not in failure(2, "PGPASSWORD", command, flags)


def test_a_server_that_does_not_answer(tmp_path, failure):
    (tmp_path / "records.csv").write_text("user,page\nann,home\n")
    flags = job_flags(tmp_path, "--ledger=postgresql://me@localhost:1/shop")
    failure(1, "is not a ledger that can be read: the database failed", release, flags)
