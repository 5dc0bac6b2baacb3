"""Lists of groups of users, beside those of the job."""

import datetime
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dp_transforms as dp
from dp_transforms import JobSecret
from pipelines.__main__ import main
from tests.frames.shared import COMMON, PAGES, SECRET, USERS
from tests.jobs import statement


def test_groups_are_those_of_the_job(tmp_path, monkeypatch):
    monkeypatch.setattr(JobSecret, "from_os", lambda: SECRET)
    sexes = ["fm"[int(user[5:]) % 2] for user in USERS]
    data = {"who": USERS, "page": PAGES, "sex": sexes}
    data["tongue"] = [None if page == "/0" else "no" for page in PAGES]
    pq.write_table(pa.table(data), tmp_path / "a.parquet")
    prices = {"epsilon_all": 2, "epsilon_groups": 3, "epsilon_selection": 1, "delta": "0.01"}
    flags = ["--user_column=who", "--partition_column=page", "--group_by=sex,tongue"]
    flags += ["--groups=sex=f,m", "--max_partitions_per_user=3", f"--output={tmp_path}/job"]
    flags += [f"--{name}={price}" for name, price in prices.items()]
    assert main(["release-groups", f"--input={tmp_path}/a.parquet", *flags]) == 0
    session = dp.Session(epsilon=8, delta="0.02")
    groups = {"sex": ["f", "m"], "tongue": None}
    lists = session.release_groups(data, **COMMON, **prices, groups=groups)
    assert lists.labels == ["all users", "sex: f", "sex: m", "tongue: no"]
    assert (session.remaining.epsilon, float(session.remaining.delta)) == (2, 0.01)
    assert "epsilon 6 and delta 0.01; neighbouring data" in repr(lists)
    lists.save(tmp_path / "here")
    for name in ("released_lists.csv", "noisy_coordinates.csv"):
        assert (tmp_path / "here" / name).read_bytes() == (tmp_path / "job" / name).read_bytes()
    here, job = (statement(tmp_path, where) | {"budget": 0} for where in ("here", "job"))
    assert here == job
    loaded = dp.load(tmp_path / "here")
    assert dict(loaded) == dict(lists) and loaded.labels == lists.labels
    assert "Epsilon adds up from" in loaded.privacy
    release = lists["sex", "f"]
    assert (release.statement["epsilon"], release.statement["delta"]) == (1.5, 0)
    assert "1.5" in repr(release)
    assert "delta_exact" not in release.statement
    assert lists.to_arrow().column_names[:4] == ["attribute", "group", "rank", "frequency"]


def test_names_of_groups_are_those_that_records_can_have(tmp_path):
    data = {"who": [1, 2, 3], "page": ["a"] * 3, "year": [2024, 2025, 2025]}
    options = COMMON | {"epsilon_all": 90, "epsilon_groups": 90, "max_partitions_per_user": 1}
    lists = dp.release_groups(data, **options, groups={"year": [2024, 2025]})
    assert list(lists["year", "2025"].released) == [(2, 1)]
    assert "pure epsilon" in lists.privacy
    session = dp.Session(epsilon=200)
    pq.write_table(pa.table(data), tmp_path / "typed.parquet")
    for wrong, message in (
        (["02025"], "has the text '2025'"),
        ([None], "must be different names, as text"),
        (["next"], "is not of the type"),
        ("2025", "must be several names, got '2025'"),
        (2025, "must be several names, got 2025"),
    ):
        with pytest.raises(ValueError, match=message):
            session.release_groups(tmp_path / "typed.parquet", **options, groups={"year": wrong})
    with pytest.raises(ValueError, match="groups must map one column at least"):
        session.release_groups(data, **options, groups={})
    with pytest.raises(TypeError, match="groups must map columns to their values"):
        session.release_groups(data, **options, groups=["year"])
    rows = [*zip(*data.values(), strict=True)]
    by_position = options | {"user": 0, "partition": 1, "groups": {2: [2025]}}
    assert list(dp.release_groups(rows, **by_position)["2", "2025"].released) == [(2, 1)]
    for wrong in ({"groups": {"year": None}}, {"epsilon_selection": 1}, {"delta": 0.1}):
        with pytest.raises(ValueError, match="epsilon_selection and delta go with None"):
            session.release_groups(data, **options | {"groups": {"year": ["2025"]}} | wrong)
    assert session.remaining.epsilon == 200


@pytest.mark.parametrize(
    ("value", "text"),
    [(datetime.date(2026, 1, 2), "2026-01-02"), (np.int64(7), "7"), (True, "true")],
)
def test_lists_of_groups_and_those_that_add_up_take_the_same_names(value, text):
    data = {"who": [1, 2, 3], "page": ["a"] * 3, "of": [value] * 3}
    options = COMMON | {"max_partitions_per_user": 1}
    apart = dp.release_groups(
        data, **options, groups={"of": [value]}, epsilon_all=90, epsilon_groups=90
    )
    adding_up = dp.release_hierarchy(data, **options, levels=["of"], groups=[value], epsilon=180)
    assert list(apart["of", text].released) == list(adding_up[text,].released) == [(3, 1)]


@pytest.mark.parametrize("epsilon", [1, 99])  # with noisy coordinates, and without
def test_groups_with_an_empty_list_are_loaded(tmp_path, epsilon):
    data = {"who": [1, 2], "page": ["a", "b"], "sex": ["f", "f"]}
    prices = {"epsilon_all": epsilon, "epsilon_groups": epsilon}
    for where, users in (("some", data), ("none", {name: [] for name in data})):
        lists = dp.release_groups(users, **COMMON, **prices, groups={"sex": ["m", "f"]})
        lists.save(tmp_path / where)
        loaded = dp.load(tmp_path / where)
        assert list(loaded) == [("", ""), ("sex", "f"), ("sex", "m")]
        assert dict(loaded) == dict(lists) and loaded.labels == lists.labels
        # A selected group is named by its list alone.
        stated = statement(tmp_path, where)
        stated["lists"][1]["groups"] = "selected"
        (tmp_path / where / "privacy.json").write_text(json.dumps(stated))
        assert list(dp.load(tmp_path / where)) == list(lists)
        lists.report(tmp_path / "page.html")
