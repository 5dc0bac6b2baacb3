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
    # Three thirds are a whole, which they are not in binary.
    assert release(job("list")) == 0
    assert select(job("names", "--delta=1e-6")) == 0
    assert release([*counted, f"--output={tmp_path}/counted"]) == 0
    assert Ledger.open(path).remaining() == PrivacyBudget(0)
    for name, lines in (("list", 1), ("names", 2), ("counted", 3)):
        said = statement(tmp_path, name)
        assert (said["epsilon"], said["epsilon_exact"]) == (0.333333333333334, "1/3")
        assert len(said["budget"]["ledger"]) == lines
    assert said["rate_exact"] == "1/3"
    spent = [(line.state.value, str(line.cost.budget.delta)) for line in Ledger.open(path).lines()]
    assert spent == [("committed", delta) for delta in ("0", "0.000001", "0")]
    capsys.readouterr()
    assert main(["show", path]) == 0
    assert capsys.readouterr().out == f"{ledger_table(Ledger.open(path))}\n"
    more = [*counted, f"--output={tmp_path}/more"]
    failure(1, "only epsilon 0, delta 0 is left", release, more)
    assert not (tmp_path / "more").exists()
