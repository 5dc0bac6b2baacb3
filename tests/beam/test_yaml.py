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

from dp_transforms import JobSecret
from dp_transforms.beam import pipeline_secret
from dp_transforms.beam import yaml as our_yaml
from dp_transforms.engines.in_process import InProcess
from dp_transforms.files.frame_records import RecordArguments
from dp_transforms.releases import AttributesSpec, HierarchySpec, NodeDegreesSpec
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


def test_lists_of_all_records_without_kappa(tmp_path):
    """At an epsilon of 500 for the survey and more for the list, there is no noise."""
    rows = run([NAMED, step("ReleaseAllRecords", epsilon=10_000.0)], tmp_path, RECORDS)
    assert [(row["frequency"], row["multiplicity"]) for row in rows] == [(USERS, 4)]


def test_lists_of_groups_without_kappa(tmp_path):
    named = step("MapToFields", fields={"user": "account", "partition": "item", "size": "size"})
    records = [(f"user{u}", f"item{i}", u % 2) for u in range(USERS) for i in range(2)]
    budget = {"epsilon_all": 1e4, "epsilon_groups": 1e4, "groups": {"size": ["0", "1"]}}
    release = step("ReleaseGroupedLists", attributes=["size"], **budget)
    rows = run([named, release], tmp_path, records)
    lists = {(r["attribute"], r["group"], r["frequency"], r["multiplicity"]) for r in rows}
    assert lists == {("", "", USERS, 2), *(("size", group, USERS // 2, 2) for group in "01")}


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


def test_a_list_of_all_records_for_each_window(tmp_path):
    release = step("ReleaseWindowedLists", epsilon=2e4, **DAYS, max_windows_per_user=2)
    rows = run([*IN_WINDOWS, release], tmp_path, VISITS)
    lists = {(row["window"], row["frequency"], row["multiplicity"]) for row in rows}
    first, second = ("2026-01-30T00:00:00Z", USERS, 2), ("2026-01-31T00:00:00Z", USERS // 2, 1)
    assert lists == {first, second}


BOUNDS = {"max_windows_per_user": 2, "max_partitions_per_user": 2}


@pytest.mark.parametrize(
    ("bound", "counts"),
    [(BOUNDS, False), (BOUNDS, True), ({}, True)],
)
def test_names_of_each_window(bound, counts, tmp_path):
    budget = {"epsilon": 8.0, "delta": 1e-6}
    select = step("SelectWindowedPartitions", **budget, **DAYS, **bound, noisy_counts=counts)
    rows = run([*IN_WINDOWS, select], tmp_path, [*VISITS, ("hermit", "cave", FIRST)])
    # At an epsilon of 2 for each pair, 150 users are missed with a probability below e**-250.
    assert {(row["window"][:10], row["partition"]) for row in rows} == {
        ("2026-01-30", "item0"), ("2026-01-30", "item1"), ("2026-01-31", "item0"),
    }  # fmt: skip
    assert all(isinstance(row.get("noisy_count"), int if counts else type(None)) for row in rows)


@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize(
    ("partition", "name"),
    [(["shelf"], 7), (["item", "shelf"], {"item": "late", "shelf": 7})],
    ids=["integers", "composites"],
)
def test_names_of_each_window_have_the_type_of_partitions(partition, name, counts, tmp_path):
    steps = [
        step("AssignTimestamps", timestamp="size"),
        step(
            "MapToFields",
            language="python",
            fields={"account": "account", "item": "item", "shelf": {"expression": "7"}},
        ),
        step("ToRecords", user="account", partition=partition),
        step("WindowInto", windowing={"type": "fixed", "size": "1d"}),
    ]
    visits = [(f"user{u}", "late", FIRST + u) for u in range(USERS)]
    select = step(
        "SelectWindowedPartitions", epsilon=8.0, delta=1e-6, **DAYS, **BOUNDS, noisy_counts=counts
    )
    (row,) = run([*steps, select], tmp_path, visits)
    assert row["partition"] == name and isinstance(row.get("noisy_count", 300), int)


@pytest.mark.parametrize(
    ("epsilon", "bound", "degrees"),
    # A hub and its 300 neighbours; of 5 edges at the hub, each has a neighbour of its own.
    [
        (100.0, {}, {(USERS, 1), (1, USERS)}),
        (1_000.0, {"degree_bound": 5}, {(5, 1), (1, 5)}),
        # The bound that is chosen is 512.
        (100_000.0, {"privacy_unit": "node"}, {(USERS, 1), (1, USERS)}),
    ],
    ids=["edges", "nodes", "nodes at a chosen bound"],
)
def test_degrees(epsilon, bound, degrees, tmp_path):
    """At 50 and more by sensitivity a frequency changes with a probability below 1e-9."""
    named = step("MapToFields", fields={"source": "account", "target": "item"})
    edges = [("hub", f"item{i}", 0) for i in range(USERS)] * 2 + [("hub", "hub", 0)]
    release = step("ReleaseDegreeList", epsilon=epsilon, **bound)
    rows = run([named, release], tmp_path, edges)
    assert {(row["frequency"], row["multiplicity"]) for row in rows} == degrees


def test_no_degree_exceeds_its_public_bound(tmp_path):
    named = step("MapToFields", fields={"source": "account", "target": "item"})
    edges = [(f"user{u}", f"item{u % 60}", 0) for u in range(USERS)]
    release = step("ReleaseDegreeList", epsilon=2.0, degree_bound=4)
    rows = run([named, release], tmp_path, edges)
    assert rows and all(row["frequency"] <= 4 for row in rows)


def test_lists_of_attributes(tmp_path):
    """At 50 and more for each list a frequency changes with a probability below 1e-9."""
    named = step("MapToFields", fields={"user": "account", "item": "item", "size": "size"})
    records = [(f"user{u}", f"item{u % 3}", u % 2) for u in range(USERS)]
    release = step(
        "ReleaseAttributes",
        attributes=["item", "size"],
        combinations=[["item", "size"]],
        epsilon=250.0,
        shares={"item + size": 3.0},
    )
    rows = run([named, release], tmp_path, records)
    lists = {(row["attribute"], row["frequency"], row["multiplicity"]) for row in rows}
    assert lists == {("item", 100, 3), ("size", 150, 2), ("item + size", 50, 6)}


def test_lists_of_a_hierarchy(tmp_path):
    """At 50 for each list a frequency changes with a probability below 1e-9."""
    fields = {"user": "account", "partition": "item", "county": "size"}
    fields["state"] = {"callable": "lambda row: 'Oak' if row.size < 2 else 'Elm'"}
    named = step("MapToFields", language="python", fields=fields)
    records = [(f"user{u}", f"item{u % 8}", u % 4) for u in range(USERS)]
    groups = [["Oak", "0"], ["Oak", "1"], ["Elm", "2"], ["Fir", "9"]]
    release = step(
        "ReleaseHierarchy",
        levels=["state", "county"],
        groups=groups,
        epsilon=200.0,
        max_partitions_per_user=1,
        shares=[1, 1, 2],
        most_partitions=[2, 2, 2, 2],
    )
    rows = run([named, release], tmp_path, records)
    names = ("state", "county", "frequency", "multiplicity")
    lists = {tuple(row[name] for name in names) for row in rows}
    # Items 0 to 3 have 38 users, and 4 to 7 have 37. Records of county 3 are left out.
    counties = {(*group, users, 1) for group in groups[:3] for users in (37, 38)}
    states = {("Oak", "", 38, 2), ("Oak", "", 37, 2), ("Elm", "", 38, 1), ("Elm", "", 37, 1)}
    assert lists == {("", "", 38, 3), ("", "", 37, 3)} | states | counties


SECRET = JobSecret.insecure_for_testing(5)
ACCOUNTS = [(f"user{u % 90}", f"item{int((1 + u) ** 0.7) % 40}", u % 5) for u in range(900)]


def attributes_by_yaml():
    spec = AttributesSpec(attributes=["page", "day", ("page", "day")], epsilon=3, shares={"day": 2})
    config = {"attributes": ["page", "day"], "combinations": [["page", "day"]], "epsilon": 3.0}
    yield (
        spec,
        {"attributes": spec.columns},
        None,
        step("ReleaseAttributes", **config, shares={"day": 2.0}),
    )


def hierarchy_by_yaml():
    config = {"levels": ["day"], "groups": [["0"], ["1"], ["2"], ["7"]]}
    config |= {"max_partitions_per_user": 3, "epsilon": 2.0}
    spec = HierarchySpec(**config | {"epsilon": 2})
    yield spec, {"groups": ("day",)}, "page", step("ReleaseHierarchy", **config)


def node_degrees_by_yaml():
    yield (
        NodeDegreesSpec(40),
        {},
        "page",
        step("ReleaseDegreeList", epsilon=40.0, privacy_unit="node"),
    )


@pytest.mark.parametrize("case", [attributes_by_yaml, hierarchy_by_yaml, node_degrees_by_yaml])
def test_rows_are_those_of_the_engine_without_beam(case, tmp_path, monkeypatch):
    """Under one secret."""
    ((spec, arguments, partition, release),) = case()
    (tmp_path / "records.csv").write_text(
        "user,page,day\n" + "".join(f"{user},{page},{day}\n" for user, page, day in ACCOUNTS)
    )
    records = RecordArguments(f"{tmp_path}/records.csv", "user", partition, False, **arguments)
    collections = spec.release(InProcess(records.open(), SECRET, num_buckets=3))
    (table,) = [
        table
        for name, table in spec.tables.make(collections[0], spec.guarantee(True)).items()
        if name == spec.tables.file_name
    ]
    released = [dict(zip(table.header, row, strict=True)) for row in table.rows]
    # Lists that are empty have no rows.
    expected = [row for row in released if row["frequency"]]
    assert len(expected) > 5

    ends = {"user": "account", "partition": "item", "page": "item", "day": "size"}
    if isinstance(spec, NodeDegreesSpec):
        ends = {"source": "account", "target": "item"}
    monkeypatch.setattr(pipeline_secret, "claimed", lambda *_: SECRET)
    rows = run([step("MapToFields", fields=ends), release], tmp_path, ACCOUNTS)
    assert sorted(rows, key=str) == sorted(expected, key=str)


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
        (
            "ReleaseAttributes",
            {"attributes": ["a"], "epsilon": 1.0, "shares": {"b": 2.0}},
            "shares are given for 'b'",
        ),
        (
            "ReleaseHierarchy",
            bounds | {"levels": ["frequency"], "groups": [["a"]], "epsilon": 1.0},
            "cannot have the name 'frequency'",
        ),
        ("ReleaseHierarchy", bounds | {"levels": ["a"], "groups": [[]], "epsilon": 1.0}, "at each"),
        ("ReleaseDegreeList", {"epsilon": 1.0, "privacy_unit": "user"}, "must be edge or node"),
        (
            "ReleaseDegreeList",
            {"epsilon": 1.0, "privacy_unit": "edge", "degree_bound": 3},
            "degree_bound protects nodes",
        ),
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
