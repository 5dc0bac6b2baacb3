import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_transforms.budget import Ledger, PrivacyUnit
from dp_transforms.mechanisms import FrequencyList
from dp_transforms.releases import DegreesSpec
from dp_transforms.releases.lists import distribution_of_statement
from pipelines.release_degree_list import main
from tests.jobs import flags_over, statement
from tests.tapes import InsecureSeededTape

EDGES = [("hub", f"leaf{i}") for i in range(5)]


def command(tmp_path, *flags, edges=EDGES):
    path = tmp_path / "edges.csv"
    path.write_text("from,to\n" + "".join(f"{a},{b}\n" for a, b in edges))
    usual = {"--source_column": "from", "--target_column": "to", "--epsilon": "1"}
    return main(flags_over(usual | {"--input": path, "--output": tmp_path / "out"}, *flags))


# At epsilon = 100 and sensitivity 2, a degree changes with probability below 1e-10.
def test_self_loops_and_repeats_do_not_count(tmp_path, capsys):
    edges = [*EDGES, *EDGES, ("leaf0", "hub"), ("hub", "hub"), ("alone", "alone")]
    assert command(tmp_path, "--epsilon=100", edges=edges) == 0
    out, err = capsys.readouterr()
    assert (out, err) == (f"{tmp_path}/out/released_frequencies.csv\n", "")
    assert FrequencyList.from_csv(out.strip()) == FrequencyList([5, 1], [1, 5])
    assert command(tmp_path, "--epsilon=100", "--degree=in", "--overwrite", edges=edges) == 0
    assert FrequencyList.from_csv(out.strip()) == FrequencyList([1], [6])


@pytest.mark.parametrize(("degree", "sensitivity"), [("undirected", 14), ("out", 21)])
def test_the_statement_for_nodes(tmp_path, degree, sensitivity):
    flags = ["--privacy_unit=node", "--degree_bound=7", f"--degree={degree}"]
    assert command(tmp_path, *flags) == 0
    stated = statement(tmp_path)
    assert stated["neighbours"] == "add or remove one node with all its edges"
    assert (stated["privacy_unit"], stated["degree_bound"]) == ("node", 7)
    assert (stated["degree"], stated["sensitivity"]) == (degree, sensitivity)


def test_a_shared_ledger_pays_and_the_statement_says_so(tmp_path):
    path = tmp_path / "ledger"
    Ledger.create(path, 0.15, unit=PrivacyUnit.EDGE)
    assert command(tmp_path, f"--ledger={path}", "--epsilon=0.1") == 0
    (line,) = Ledger.open(path).lines()
    assert (line.state.value, line.purpose) == ("committed", "undirected degrees, edge-private")
    stated = statement(tmp_path)
    assert stated["neighbours"] == stated["budget"]["neighbours"]
    assert stated["neighbours"] == "add or remove all records of one edge"
    assert (stated["privacy_unit"], stated["degree"]) == ("edge", "undirected")
    assert stated["sensitivity"] == 2
    assert "degree_bound" not in stated
    (paid,) = stated["budget"]["ledger"]
    assert (paid["unit"], paid["epsilon"]) == ("edge", "0.1")


def test_ends_of_different_types_are_refused(tmp_path, failure):
    table = pa.table({"from": ["1", "2"], "to": [2, 3]})
    pq.write_table(table, tmp_path / "edges.parquet")
    says = "'from' is read as string, but 'to' as int64: give both"
    failure(1, says, command, tmp_path, f"--input={tmp_path}/edges.parquet")


@pytest.mark.parametrize("epsilon", [0.5, 2, 4])
def test_a_public_number_of_nodes_is_kept_at_no_cost(epsilon):
    release = DegreesSpec(epsilon, nodes=5)
    private = FrequencyList([4, 1], [1, 3])
    for seed in range(15):
        released = release.mechanism.release(private, InsecureSeededTape(seed))
        assert released.distinct <= 5
        assert not len(released) or released.frequencies[0] <= 4
    statement = release.statement(None)
    assert statement["epsilon"] == epsilon
    assert statement["possible_lists"] == "between public bounds"
    assert release.mechanism.decodes == (epsilon < 4)
    if not release.mechanism.decodes:
        assert distribution_of_statement(statement) == release.mechanism.distribution
        assert release.mechanism.distribution.walled
    with pytest.raises(ValueError, match="nodes must be a positive integer"):
        DegreesSpec(1, nodes=0)
