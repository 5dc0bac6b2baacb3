import json
import re

import pytest

from dp_transforms.budget import Ledger
from dp_transforms.files.filenames import DEGREES_FILE
from dp_transforms.postprocessing.kappa_choice import choose_kappa
from dp_transforms.releases.user_degrees import read_degrees
from pipelines import release_frequency_list, report, select_partitions, show
from pipelines.choose_kappa import main
from tests.jobs import flags_over, job_flags, statement


def command(tmp_path, *flags):
    """On records of 2,000 users of three partitions each, of 40."""
    lines = (f"u{u},p{(u * 7 + p * p) % 40}\n" for u in range(2000) for p in range(3))
    (tmp_path / "records.csv").write_text("user,page\n" + "".join(lines))
    given = job_flags(tmp_path, *flags_over({"--for_epsilon": "1", "--max_degree": "4"}, *flags))
    return main([flag for flag in given if flag != "--max_partitions_per_user=1"])


def test_the_release_the_table_and_the_ledger(tmp_path, capsys, failure):
    path = tmp_path / "ledger"
    Ledger.create(path, 1)
    flags = ["--epsilon=0.4", f"--ledger={path}", f"--plot={tmp_path}/kappa.png"]
    assert command(tmp_path, *flags) == 0
    out = capsys.readouterr().out
    first, users, contributions, *_ = out.splitlines()
    assert first == f"{tmp_path}/out/{DEGREES_FILE}"
    interval = r"[\d,]+ \([\d,]+ (to [\d,]+|or more), 95% confidence\)"
    assert re.fullmatch(f"users: {interval}", users)
    assert re.fullmatch(f"contributions, of at most 4 of each user: {interval}", contributions)
    assert "* recommended: max_partitions_per_user=3\n" in out
    assert (tmp_path / "kappa.png").read_bytes().startswith(b"\x89PNG")
    stated = statement(tmp_path)
    assert (stated["epsilon"], stated["delta"], stated["sensitivity"]) == (0.4, 0, 1)
    assert stated["neighbours"] == "add or remove all records of one user"
    (line,) = Ledger.open(path).lines()
    assert (line.purpose, str(line.cost.budget.epsilon)) == ("partitions per user", "0.4")
    more = "--epsilon=0.7", f"--ledger={path}", "--overwrite"
    failure(4, "only epsilon 0.6", command, tmp_path, *more)


def test_degrees_that_show_no_user_were_released_all_the_same(tmp_path, failure):
    (tmp_path / "records.csv").write_text("user,page\n")
    given = job_flags(tmp_path, *flags_over({"--for_epsilon": "1"}, "--epsilon=50"))
    flags = [flag for flag in given if flag != "--max_partitions_per_user=1"]
    path = tmp_path / "out" / DEGREES_FILE
    error = failure(1, "the released degrees show no user", main, flags)
    assert error.endswith(f"The degrees were released and paid for: {path}\n")
    assert not any(read_degrees(str(tmp_path / "out")).users)


@pytest.mark.thorough
def test_an_earlier_release_serves_again_at_no_cost(tmp_path, capsys):
    assert command(tmp_path, "--json") == 0
    first = json.loads(capsys.readouterr().out)
    assert first["files"] == [f"{tmp_path}/out/{DEGREES_FILE}"] and first["recommended"] == 3
    again = [f"--released={tmp_path}/out", "--for_epsilon=2", "--json"]
    assert main([*again, f"--plot={tmp_path}/k.png"]) == 0
    shown = json.loads(capsys.readouterr().out)
    expected = choose_kappa(read_degrees(str(tmp_path / "out")), 2)
    assert shown["plans"][0]["error"] == expected.plans[0].error
    assert (tmp_path / "k.png").exists()
    assert main([*again[:-1], "--for_delta=1e-6", f"--plot={tmp_path}/names.png"]) == 0
    assert "users that a partition needs" in capsys.readouterr().out


def test_a_release_tells_what_its_bound_has_dropped(tmp_path, capsys, failure):
    assert command(tmp_path, "--epsilon=50") == 0
    bounded = job_flags(tmp_path, "--epsilon=9", f"--output={tmp_path}/list")
    assert release_frequency_list.main(bounded) == 0
    capsys.readouterr()
    degrees = f"--degrees={tmp_path}/out"
    # All users have three partitions, of which one is left; the noise is next to nothing.
    sentence = "kappa = 1 kept 33.3% (33.3% to 33.4%, 95% confidence)"
    for tell in (show.main, report.main):
        assert tell([f"{tmp_path}/list", degrees]) == 0
        assert sentence in capsys.readouterr().out
        says = "released_user_degrees.csv cannot be read: no such file"
        failure(1, says, tell, [f"{tmp_path}/list", f"--degrees={tmp_path}/list"])
    failure(2, "for a job that bounds users once", report.main, [f"{tmp_path}/out", degrees])


@pytest.mark.thorough
@pytest.mark.parametrize("kappa", ["--max_partitions_per_user=2", None])
def test_degrees_go_with_names_that_were_selected_in_rounds(kappa, tmp_path, capsys):
    assert command(tmp_path, "--epsilon=50") == 0
    flags = ["--epsilon=9", "--delta=1e-3", "--noisy_counts", f"--output={tmp_path}/names"]
    usual = [flag for flag in job_flags(tmp_path, *flags) if not flag.startswith("--max_part")]
    assert select_partitions.main([*usual, *filter(None, [kappa])]) == 0
    degrees = f"--degrees={tmp_path}/out"
    capsys.readouterr()
    assert show.main([f"{tmp_path}/names", degrees, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    # Users were bounded in each round anew: there is no part of the records that was kept.
    assert len(shown["table"]) == 40 and "kept" not in shown
    for tell in (show.main, report.main):
        assert tell([f"{tmp_path}/names", degrees]) == 0
        assert "kappa" not in capsys.readouterr().out


def test_more_partitions_than_users_have_are_warned_of(tmp_path, capsys):
    assert command(tmp_path, "--dry_run", "--max_degree=1000000") == 0
    out, err = capsys.readouterr()
    assert err.startswith("warning: --max_degree=1000000 is far more")
    assert "\npartitions per user: epsilon 1" in out and not (tmp_path / "out").exists()
    assert command(tmp_path, "--dry_run", "--max_degree=5000") == 0
    assert capsys.readouterr().err == ""
