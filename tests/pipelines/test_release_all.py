import shutil
from fractions import Fraction

import apache_beam as beam
import pytest

import dp_transforms as dp
from dp_transforms.beam.engine import OnBeam
from dp_transforms.budget import Ledger
from dp_transforms.engines.in_process import InProcess
from dp_transforms.files.record_files import RecordFiles
from dp_transforms.mechanisms import FrequencyList
from dp_transforms.mechanisms.partition.exponential import IntegerPartitionMechanism
from dp_transforms.mechanisms.selection import make_strategy
from dp_transforms.releases import ListAndNamesSpec, ListSpec, NamesSpec
from dp_transforms.releases.name_statements import estimates_entry
from dp_transforms.runtime.job_secret import release_frequency_list
from pipelines import show
from pipelines.release_all import main
from tests import reference
from tests.jobs import job_flags, statement
from tests.selection_reference import RECORDS, SECRET, selected

KAPPA = 3
LIST = "frequency_list/released_frequencies.csv"
NAMES = "partitions/released_partitions.csv"


def write(directory):
    lines = [f"{user},{page}" for user, page in RECORDS]
    (directory / "records.csv").write_text("\n".join(["user,page", *lines, ""]))
    return str(directory / "records.csv")


def command(tmp_path, *flags):
    write(tmp_path)
    usual = ["--delta=1e-6", f"--max_partitions_per_user={KAPPA}"]
    return main(job_flags(tmp_path, *usual, *flags))


def statements(tmp_path):
    return [statement(tmp_path, f"out/{name}") for name in ("frequency_list", "partitions")]


@pytest.mark.parametrize("flags", [(), ("--noisy_counts",)])
def test_what_follows_from_both_is_stated_at_the_cost_of_both(tmp_path, flags):
    assert command(tmp_path, "--epsilon=2", "--selection_share=0.25", *flags) == 0
    of_list, of_names = statements(tmp_path)
    assert (of_list["epsilon"], of_names["epsilon"]) == (1.5, 0.5)
    estimates = of_names["estimates"]
    assert (estimates["epsilon_exact"], estimates["delta_exact"]) == ("2", "0.000001")
    assert (estimates.get("file") == "named_users.csv") == bool(flags)
    names = dp.load(tmp_path / "out").names
    assert "epsilon 2 with the estimates beside them" in repr(names)
    assert "together cost epsilon = 2, delta = 1e-06." in names.privacy
    alone = dp.load(tmp_path / "out/frequency_list")
    assert "estimates" not in alone.statement


def test_to_replace_a_user_moves_a_list_twice():
    of_list = ListSpec(IntegerPartitionMechanism(epsilon=0.3, sensitivity=1)).statement(None)
    for neighbours, epsilon in (("add_or_remove", "1.3"), ("replace", "1.6")):
        names = NamesSpec.of("optimal", 1, 1e-3, 1, neighbours=neighbours).statement(None)
        entry = estimates_entry(names, of_list, of_all_records=True)
        assert entry["estimates"]["epsilon_exact"] == epsilon


@pytest.mark.parametrize("name", ["gaussian", "renyi_rounds"])
def test_both_releases_are_of_the_same_bounded_records(tmp_path, name):
    list_spec = ListSpec(IntegerPartitionMechanism(epsilon=0.5, sensitivity=KAPPA))
    strategy = make_strategy(name, 2.0, 1e-2, max_partitions_per_user=KAPPA)
    names = NamesSpec(strategy, already_bounded=True)
    source = RecordFiles(write(tmp_path), "user", ["page"])
    (released,), tables = InProcess(source, SECRET).list_and_names(
        ListAndNamesSpec(list_spec, names)
    )
    # On Beam they are read once, and bounded once where the selection does not bound in rounds.
    pipeline = beam.Pipeline()
    OnBeam(pipeline, source, SECRET).list_and_names(ListAndNamesSpec(list_spec, names))
    steps = [step.full_label for step in pipeline.transforms_stack[0].parts]
    assert steps.count("ReadRecords") == steps.count("Bound") == 1
    records = [(user, str(page)) for user, page in RECORDS]
    bounded = reference.bound(records, KAPPA, SECRET.key("bound contributions"))
    counts = FrequencyList.from_counts(reference.count(bounded).values())
    assert released == release_frequency_list(counts, list_spec.mechanism, SECRET)
    named = {row for table in tables for row in table["partition"].to_pylist()}
    assert named == selected(bounded, strategy)


def test_the_budget_is_split_and_said_so(tmp_path, capsys):
    assert command(tmp_path, "--selection_share=0.3", "--epsilon=0.1", "--strategy=optimal") == 0
    files = [f"{tmp_path}/out/{LIST}\n", f"{tmp_path}/out/{NAMES}\n"]
    assert capsys.readouterr() == ("".join(files), "")
    of_list, of_names = statements(tmp_path)
    assert (of_list["epsilon"], of_list["delta"]) == (0.07, 0)
    assert (of_names["epsilon"], of_names["delta"]) == (0.03, 1e-6)
    assert {stated["max_partitions_per_user_is"] for stated in (of_list, of_names)} == {"enforced"}
    assert of_list["budget"] == of_names["budget"]
    budget = of_list["budget"]
    assert (budget["epsilon"], budget["delta"]) == ("0.1", "0.000001")
    assert [line["epsilon"] for line in budget["ledger"]] == ["0.07", "0.03"]
    assert sum(Fraction(line["delta"]) for line in budget["ledger"]) == Fraction(budget["delta"])


def test_a_shared_ledger_pays_for_both_or_for_neither(tmp_path, failure):
    path = tmp_path / "ledger"
    Ledger.create(path, 1.5, 1e-5)
    assert command(tmp_path, f"--ledger={path}") == 0
    assert [line.state.value for line in Ledger.open(path).lines()] == ["committed"] * 2
    # The list alone would still fit.
    more = f"--ledger={path}", f"--output={tmp_path}/more"
    failure(4, "only epsilon 0", command, tmp_path, *more)
    assert not (tmp_path / "more").exists()
    assert str(Ledger.open(path).remaining()) == "epsilon 0.5, delta 0.000009"


def test_a_list_and_names_of_two_jobs_are_refused(tmp_path, failure, monkeypatch):
    # The parameters are the same, and so are those of other data.
    for number, name in enumerate(("one", "other")):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", str(number))
        assert command(tmp_path, f"--output={tmp_path}/{name}") == 0
    parts = [tmp_path / "one/frequency_list", tmp_path / "other/partitions"]
    for part in parts:
        shutil.copytree(part, tmp_path / "mixed" / part.name)
    refused = f"{tmp_path}/mixed does not hold a list and names that one job has released"
    failure(1, refused, show.main, [f"{tmp_path}/mixed"])
    frequency_list, names = map(dp.load, parts)
    with pytest.raises(ValueError, match="released at different times"):
        dp.ListAndNames.of(frequency_list, names)
    # Somebody may know that they are of the same records.
    assert names.beside(frequency_list).frequency_list == frequency_list
    assert dp.load(tmp_path / "one").frequency_list.statement["created"] == "1970-01-01T00:00:00Z"


def test_an_earlier_release_is_not_replaced_by_accident(tmp_path, capsys):
    assert command(tmp_path) == 0
    assert command(tmp_path) == 3
    assert command(tmp_path, "--if_exists=skip") == 0
    assert "exists: give another --output" in capsys.readouterr().err
    # A part of a release is not one that is there already.
    (tmp_path / "out" / NAMES).unlink()
    assert command(tmp_path, "--if_exists=skip") == 1
    assert "exists: give another --output" in capsys.readouterr().err
    assert command(tmp_path, "--overwrite", "--noisy_counts") == 0
    assert statements(tmp_path)[1]["noisy_counts"] is True
