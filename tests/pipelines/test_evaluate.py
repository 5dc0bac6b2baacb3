import pytest

from dp_transforms.mechanisms import FrequencyList
from dp_transforms.sample_data import yahoo
from pipelines.evaluate import main


def test_the_yahoo_list_has_the_metrics_of_the_paper(tmp_path, capsys):
    # Blocki, Datta and Bonneau (NDSS 2016), Table III, the row of all passwords.
    path = tmp_path / "yahoo.csv"
    yahoo().to_csv(path)
    assert main([f"--original={path}", f"--released={path}"]) == 0
    rows = {line.split()[0]: line.split()[1:] for line in capsys.readouterr().out.splitlines()[1:]}
    printed = {"lambda_1": 6.5, "lambda_10": 9.1, "lambda_100": 11.4, "G_0.25": 17.6, "G_0.5": 21.6}
    for name, value in printed.items():
        assert abs(float(rows[name][0]) - value) < 0.1
        assert rows[name][2] == "0.00"


def test_the_distance(tmp_path, capsys):
    original, released = tmp_path / "a.csv", tmp_path / "b.csv"
    FrequencyList([9, 2], [1, 3]).to_csv(original)
    FrequencyList([6, 2], [1, 2]).to_csv(released)
    assert main([f"--original={original}", f"--released={released}"]) == 0
    assert "dist (half the L1 distance): 2.5\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read"),
        ("a,b\n777,1\n", "is not a frequency list"),
        ("frequency,multiplicity\n", "is empty"),
    ],
)
def test_faults_are_exit_code_1_and_do_not_tell_of_the_data(tmp_path, content, message, failure):
    path = tmp_path / "a.csv"
    if content is not None:
        path.write_text(content)
    code, error = failure(main, [f"--original={path}", f"--released={path}"])
    assert code == 1 and message in error and "777" not in error
