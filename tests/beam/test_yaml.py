import json
import pathlib

import pytest

pytest.importorskip("jinja2", reason="needs the extra 'yaml'")
pytest.importorskip("jsonschema", reason="needs the extra 'yaml'")
pytest.importorskip("docstring_parser", reason="needs the extra 'yaml'")

import apache_beam as beam
import yaml
from apache_beam.yaml import main as yaml_main
from apache_beam.yaml.yaml_transform import expand_pipeline

from dp_transforms.beam import yaml as our_yaml
from tests.quick_beam import IN_PROCESS

ROOT = pathlib.Path(our_yaml.__file__).parents[2]
PROVIDERS = yaml.safe_load((ROOT / "dp_transforms/beam_yaml_providers.yaml").read_text())


def step(name, **config):
    return {"type": name, "config": config}


def expand(pipeline, elements, *steps):
    chain = {"type": "chain", "transforms": [step("Create", elements=elements), *steps]}
    expand_pipeline(pipeline, yaml.safe_dump({"pipeline": chain, "providers": PROVIDERS}))


def run(steps, tmp_path, records):
    """The rows that a chain of YAML transforms makes of records with account, item and size."""
    names = ("account", "item", "size")
    rows = [dict(zip(names, record, strict=True)) for record in records]
    with beam.Pipeline() as pipeline:
        expand(pipeline, rows, *steps, step("WriteToJson", path=str(tmp_path / "rows")))
    lines = [line for path in tmp_path.glob("rows*") for line in path.read_text().splitlines()]
    return [json.loads(line) for line in lines]


USERS = 300
RECORDS = [(f"user{u}", f"item{i}", i) for u in range(USERS) for i in range(4)] * 2
NAMED = step("ToRecords", user="account", partition=["item"])


def test_counts_of_composite_partitions(tmp_path):
    steps = [
        step("ToRecords", user="account", partition=["item", "size"]),
        step("BoundContributions", max_partitions_per_user=3),
        step("CountDistinctUsers", cap=1_000),
    ]
    rows = run(steps, tmp_path, RECORDS)
    assert sum(row["count"] for row in rows) == 3 * USERS
    partitions = {(row["partition"]["item"], row["partition"]["size"]) for row in rows}
    assert partitions == {(f"item{i}", i) for i in range(4)}


def test_partitions_are_selected(tmp_path):
    budget = {"epsilon": 4.0, "delta": 1e-6, "max_partitions_per_user": 4}
    # At an epsilon of 1 for each partition, 300 users are missed with a probability below e**-250.
    select = step("SelectPartitions", **budget, noisy_counts=True)
    rows = run([NAMED, select], tmp_path, [*RECORDS, ("hermit", "cave", 0)])
    assert {row["partition"] for row in rows} == {f"item{i}" for i in range(4)}
    assert all(isinstance(row["noisy_count"], int) for row in rows)


def test_lists_of_groups(tmp_path):
    """At 50 for each part a frequency changes with a probability below 1e-9."""
    named = step("MapToFields", fields={"user": "account", "partition": "item", "size": "size"})
    records = [(f"user{u}", "item", u % 2) for u in range(USERS)] + [("hermit", "cave", 7)]
    budget = {"epsilon_all": 50.0, "epsilon_groups": 50.0, "epsilon_selection": 10.0, "delta": 1e-6}
    release = step("ReleaseGroupedLists", attributes=["size"], max_partitions_per_user=1, **budget)
    rows = run([named, release], tmp_path, records)
    lists = {(r["attribute"], r["group"], r["frequency"], r["multiplicity"]) for r in rows}
    of_all = {("", "", USERS, 1), ("", "", 1, 1)}
    assert lists == of_all | {("size", group, USERS // 2, 1) for group in "01"}


DAY = 24 * 60 * 60
DAYS = {"start": "2026-01-30", "stop": "2026-02-01T00:00:00Z"}
FIRST = 1769731200  # 2026-01-30T00:00:00Z
IN_WINDOWS = [
    step("AssignTimestamps", timestamp="size"),
    NAMED,
    step("WindowInto", windowing={"type": "fixed", "size": "1d"}),
]
# On the first day each user has two items, on the second one half has one; a day later all do.
VISITS = [(f"user{u}", f"item{i}", FIRST + u) for u in range(USERS) for i in range(2)]
VISITS += [(f"user{u}", "item0", FIRST + DAY) for u in range(USERS // 2)]
VISITS += [(f"user{u}", "late", FIRST + 2 * DAY) for u in range(USERS)]


def test_a_list_for_each_window(tmp_path):
    """At 50 for each partition of a window a frequency changes with a probability below 1e-9."""
    bounds = {"max_windows_per_user": 2, "max_partitions_per_user": 2}
    release = step("ReleaseWindowedLists", epsilon=200.0, **DAYS, **bounds)
    rows = run([*IN_WINDOWS, release], tmp_path, VISITS)
    lists = {(row["window"], row["frequency"], row["multiplicity"]) for row in rows}
    first, second = ("2026-01-30T00:00:00Z", USERS, 2), ("2026-01-31T00:00:00Z", USERS // 2, 1)
    assert lists == {first, second}


@pytest.mark.parametrize("counts", [False, True])
def test_names_of_each_window(counts, tmp_path):
    budget = {"epsilon": 8.0, "delta": 1e-6, "max_windows_per_user": 2}
    select = step(
        "SelectWindowedPartitions",
        **budget, **DAYS, max_partitions_per_user=2, noisy_counts=counts,
    )  # fmt: skip
    rows = run([*IN_WINDOWS, select], tmp_path, [*VISITS, ("hermit", "cave", FIRST)])
    # At an epsilon of 2 for each pair, 150 users are missed with a probability below e**-250.
    assert {(row["window"][:10], row["partition"]) for row in rows} == {
        ("2026-01-30", "item0"), ("2026-01-30", "item1"), ("2026-01-31", "item0"),
    }  # fmt: skip
    assert all(isinstance(row.get("noisy_count"), int if counts else type(None)) for row in rows)


@pytest.mark.parametrize(
    ("epsilon", "bound", "degrees"),
    # A hub and its 300 neighbours; of 5 edges at the hub, each has a neighbour of its own.
    [(100.0, {}, {(USERS, 1), (1, USERS)}), (1_000.0, {"degree_bound": 5}, {(5, 1), (1, 5)})],
    ids=["edges", "nodes"],
)
def test_degrees(epsilon, bound, degrees, tmp_path):
    """At 50 and more by sensitivity a frequency changes with a probability below 1e-9."""
    named = step("MapToFields", fields={"source": "account", "target": "item"})
    edges = [("hub", f"item{i}", 0) for i in range(USERS)] * 2 + [("hub", "hub", 0)]
    release = step("ReleaseDegreeList", epsilon=epsilon, **bound)
    rows = run([named, release], tmp_path, edges)
    assert {(row["frequency"], row["multiplicity"]) for row in rows} == degrees


def test_the_example_runs(tmp_path, monkeypatch):
    visits = (f"v{v},p{p},3\n" for v in range(50) for p in range(2))
    (tmp_path / "visits.csv").write_text("visitor,page,hour\n" + "".join(visits))
    variables = {"input": str(tmp_path / "visits.csv"), "output": str(tmp_path / "released")}
    flags = [f"--yaml_pipeline_file={ROOT / 'examples' / 'frequency_list.yaml'}"]
    flags += [f"--runner={IN_PROCESS}", f"--jinja_variables={json.dumps(variables)}"]
    monkeypatch.chdir(tmp_path)
    yaml_main.run(flags)
    (released,) = tmp_path.glob("released*")
    header, *lines = released.read_text().splitlines()
    assert header == "frequency,multiplicity"
    # Two pages of 50 visitors; epsilon is 1 and kappa 2. Farther away with a probability of 1e-7.
    assert 20 < int(lines[0].split(",")[0]) < 120


BOUND = step("BoundContributions", max_partitions_per_user=2)
COUNT = step("CountDistinctUsers")
RELEASE = step("ReleaseFrequencyList", epsilon=1.0)


def build(*steps):
    expand(beam.Pipeline(), [{"user": "ann", "partition": "jazz"}], *steps)


def test_wrong_parameters_are_named():
    sizes = {"attributes": ["size"], "epsilon_all": 1.0, "epsilon_groups": 1.0}
    bounds = {"max_partitions_per_user": 1}
    windowed = DAYS | bounds | {"epsilon": 1.0, "max_windows_per_user": 1}
    for name, config, message in (
        (
            "ReleaseGroupedLists",
            sizes | bounds | {"groups": {"gender": ["f"]}},
            "not one of attrib",
        ),
        ("ReleaseGroupedLists", sizes | bounds | {"delta": 1e-6}, "epsilon_selection and delta"),
        ("BoundContributions", {"max_partitions_per_user": 0}, "must be a positive integer"),
        ("ReleaseWindowedLists", windowed | {"stop": "tomorrow"}, "stop must be a text such as"),
        ("ReleaseWindowedLists", windowed, "must be in beam.window.FixedWindows"),
        ("BoundContributions", bounds | {"secret": "x"}, "secret"),
    ):
        with pytest.raises(Exception, match=message):
            build(step(name, **config))


def test_bounds_travel_with_rows():
    build(BOUND, COUNT, RELEASE)
    build(BOUND, step("SelectPartitions", epsilon=1.0, delta=1e-5))
    build(step("DeclareBounded", max_partitions_per_user=1), COUNT, RELEASE)
    max_partitions = step("ReleaseFrequencyList", epsilon=1.0, max_partitions_per_user=1)
    with pytest.raises(ValueError, match="it is not known how many partitions"):
        build(COUNT, max_partitions)
    with pytest.raises(ValueError, match="up to 2 of each user"):
        build(BOUND, COUNT, max_partitions)
