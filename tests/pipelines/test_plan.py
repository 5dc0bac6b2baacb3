from dp_transforms.mechanisms.partition.registry import partition_mechanism
from dp_transforms.postprocessing.planning import zipf_list
from pipelines.plan import main


def test_tables_and_plot(tmp_path, capsys):
    plot = tmp_path / "plan.png"
    arguments = ["--users=5000", "--epsilon=1,0.5", "--delta=1e-5", f"--plot={plot}"]
    assert main([*arguments, "--max_partitions_per_user=2", "--records=3000000"]) == 0
    text = capsys.readouterr().out
    assert "at most 2 per user" in text
    assert text.count("\n    0.5  ") == 3
    assert "about 3 seconds" in text
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_what_each_mechanism_would_do_and_which_is_the_default(tmp_path, capsys):
    assert main(["--users=500", "--epsilon=1,2,3", "--max_partitions_per_user=2"]) == 0
    text = capsys.readouterr().out
    header, *rows = text.partition("Expected dist by --mechanism")[2].splitlines()[1:5]
    assert header.split() == ["epsilon", "geometric", "frobenius", "exponential"]
    starred = [[i for i, cell in enumerate(row.split()) if cell == "*"] for row in rows]
    # After the numbers of the Frobenius and of the geometric mechanism.
    assert starred == [[3], [3], [2]]
    assert "geometric works from 2.1973 on" in text
    there = partition_mechanism(2.1973, 2).distribution.expected_l1(zipf_list(1000)) / 2
    assert "An epsilon of 2.1973, just above ln 3 * KAPPA, would buy the geometric" in text
    assert f"mechanism: expected dist {there:,.0f}.\n" in text
    reference = tmp_path / "public.csv"
    reference.write_text("frequency,multiplicity\n90,1\n4,20\n1,300\n")
    assert main([f"--reference={reference}", "--epsilon=3"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("the reference list: 470 contributions, 321 partitions")
    assert "Selection" not in text and "would buy" not in text
