import pytest

from dp_transforms import load
from dp_transforms.budget import Ledger
from pipelines.release_hierarchy import main
from tests.jobs import flags_over, job_flags, statement

HOMES = """\
user,page,state,county
1,10,Oak,Ames
2,10,Oak,Ames
3,11,Oak,Bell
4,12,Elm,Ford
5,13,,
"""
COUNTIES = "state,county\nOak,Ames\nOak,Bell\nElm,Ford\nElm,Gray\n"


def command(tmp_path, *flags, counties=COUNTIES):
    (tmp_path / "records.csv").write_text(HOMES)
    (tmp_path / "counties.csv").write_text(counties)
    usual = {"--levels": "state,county", "--groups": f"{tmp_path}/counties.csv", "--epsilon": "99"}
    return main(job_flags(tmp_path, *flags_over(usual, *flags)))


# At this epsilon a frequency changes with probability below 1e-10.
def test_lists_add_up_and_records_outside_are_dropped(tmp_path, capsys):
    assert command(tmp_path, "--shares=1,1,1") == 0
    assert capsys.readouterr() == (f"{tmp_path}/out/released_hierarchy.csv\n", "")
    lines = (tmp_path / "out" / "released_hierarchy.csv").read_text().splitlines()
    assert lines == [
        "state,county,frequency,multiplicity",
        ",,2,1",
        ",,1,2",
        "Elm,,1,1",
        "Oak,,2,1",
        "Oak,,1,1",
        "Elm,Ford,1,1",
        "Elm,Gray,0,0",
        "Oak,Ames,2,1",
        "Oak,Bell,1,1",
    ]
    levels = statement(tmp_path)["levels"]
    assert [(level["level"], level["groups"], round(level["epsilon"])) for level in levels] == [
        ("all", 1, 33),
        ("state", 2, 33),
        ("county", 4, 33),
    ]
    assert list(load(tmp_path / "out")["Elm", "Gray"].released) == []


def test_a_file_of_partitions_needs_no_columns_of_levels(tmp_path):
    counties = "page,state,county\n10,Oak,Ames\n13,Elm,Ford\n"
    assert command(tmp_path, counties=counties) == 0
    lists = load(tmp_path / "out")
    assert list(lists["Oak",].released) == [(2, 1)]
    assert list(lists["Elm", "Ford"].released) == [(1, 1)]


WITHOUT_HEADER = ["--no_header", "--user_column=1", "--partition_column=2"]


def test_levels_without_a_header_are_positions_or_columns_of_partitions_groups(tmp_path, capsys):
    (tmp_path / "bare.csv").write_text(HOMES.partition("\n")[2])
    ledger = Ledger.create(tmp_path / "ledger", 400)
    bare = [f"--input={tmp_path}/bare.csv", *WITHOUT_HEADER, f"--ledger={tmp_path}/ledger"]
    assert command(tmp_path, *bare) == 2
    assert capsys.readouterr().err == (
        "error: --levels: columns must be positions counted from 1 when there is no header, got "
        "'state'; or give --groups a column 2, with a line for each partition\n"
    )
    assert not list(ledger.lines())
    of_partitions = "2,state,county\n10,Oak,Ames\n13,Elm,Ford\n"
    assert command(tmp_path, *bare, counties=of_partitions) == 0
    assert list(load(tmp_path / "out")["Oak",].released) == [(2, 1)]
    assert list(load(tmp_path / "out")["Elm", "Ford"].released) == [(1, 1)]
    by_position = COUNTIES.replace("state,county", "3,4")
    again = [*bare, "--levels=3,4", "--overwrite"]
    assert command(tmp_path, *again, counties=by_position) == 0
    assert list(load(tmp_path / "out")["Oak",].released) == [(2, 1), (1, 1)]


def test_what_is_wrong_is_named_before_records_are_read(tmp_path, capsys):
    assert command(tmp_path, counties="state,town\nOak,Ames\n") != 0
    assert "groups has no column 'county'" in capsys.readouterr().err
    # The records themselves are no public table of groups.
    assert command(tmp_path, counties="user,page,state,county\n1,10,Oak,Ames\n") != 0
    assert "groups has the column 'user' of users" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        command(tmp_path, "--levels=state,state")
    assert "--levels: must be different names" in capsys.readouterr().err
    assert command(tmp_path, "--shares=1,1") != 0
    assert "shares must be 3 positive numbers" in capsys.readouterr().err
    assert command(tmp_path, f"--groups={tmp_path}/none.csv") != 0
    assert "none.csv" in capsys.readouterr().err
