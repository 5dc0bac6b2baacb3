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
