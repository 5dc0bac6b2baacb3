import json

import pytest

import dp_transforms as dp
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.partition.registry import NAMED_MECHANISMS, partition_mechanism
from dp_transforms.postprocessing.entropies import shannon_entropy
from dp_transforms.postprocessing.planning import zipf_list
from pipelines.plan import main


@pytest.mark.thorough
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
    assert header.split() == ["epsilon", *NAMED_MECHANISMS]
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


@pytest.mark.thorough
def test_attributes_share_each_epsilon(capsys):
    arguments = ["--users=3000", "--epsilon=2,4", "--attributes=8"]
    assert main(arguments) == 0
    text = capsys.readouterr().out
    assert "One of 8 attributes, if its list is like this one" in text
    assert "\n      2          0.25 " in text and "\n   0.25 " in text and "\n    0.5 " in text
    assert main([*arguments, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [plan["epsilon"] for plan in printed["plans"]] == [0.25, 0.5]
    widths = [plan["entropy"]["high"] - plan["entropy"]["low"] for plan in printed["attributes"]]
    # The list itself is within, and more epsilon tells more.
    bits = shannon_entropy(zipf_list(3000))
    assert all(
        attribute["entropy"]["low"] <= bits <= attribute["entropy"]["high"]
        for attribute in printed["attributes"]
    )
    assert widths[1] < widths[0] < 5
    assert [plan.epsilon for plan in dp.plan([2, 4], users=3000, attributes=8)] == [0.25, 0.5]
    assert main([*arguments, "--max_partitions_per_user=2"]) == 2
    assert "--attributes is for lists in which a user has one value" in capsys.readouterr().err


@pytest.mark.thorough
def test_levels_of_a_hierarchy(capsys):
    arguments = ["--users=30000", "--epsilon=3,1.5", "--groups=20,300", "--levels=state,county"]
    assert main([*arguments, "--group_sizes=50"]) == 0
    text = capsys.readouterr().out
    assert "small groups err less" in text and "Expected dist by --mechanism" not in text
    plans = dp.plan(["3", 1.5], users=30_000, groups={"state": 20, "county": 300}, group_sizes=[50])
    assert text.endswith("\n\n".join(map(str, plans)) + "\n")
    assert [plan["county"].epsilon_of_level for plan in plans] == [1, 0.5]
    assert [plan["state"].contributions for plan in plans] == [1_500] * 2
    assert main([*arguments, "--shares=1,1,4", "--json"]) == 0
    levels = json.loads(capsys.readouterr().out)["levels"]
    assert [level["epsilon_of_level"] for level in levels] == [0.5, 0.5, 2, 0.25, 0.25, 1]
    assert main([*arguments, "--delta=1e-6"]) == 2
    assert "--groups is for the lists of a hierarchy" in capsys.readouterr().err
    assert main([*arguments, "--zipf_exponent=2"]) == 2
    assert "--zipf_exponent is for one list" in capsys.readouterr().err
    assert main([*arguments[:3], "--levels=state"]) == 2
    assert "as many names as numbers" in capsys.readouterr().err
    for alone in ("--shares=1,1", "--levels=state,county", "--group_sizes=40"):
        assert main(["--users=30", "--epsilon=1", alone]) == 2
        assert "give --groups" in capsys.readouterr().err


def test_a_hierarchy_like_a_public_list(tmp_path, capsys):
    reference = tmp_path / "public.csv"
    reference.write_text("frequency,multiplicity\n4,2000\n1,4000\n")
    assert main([f"--reference={reference}", "--epsilon=1", "--groups=100", "--json"]) == 0
    top, county = json.loads(capsys.readouterr().out)["levels"]
    assert (top["contributions"], county["contributions"]) == (12_000, 120)
    assert top["other_dists"] == {}
    (plan,) = dp.plan(1, reference=FrequencyList([4, 1], [2000, 4000]), groups=[100])
    assert plan["level 1"].expected_dist == county["expected_dist"]
