"""Whatever is given in the place of an argument, no error shows anything of the data in it.

A short text or a number may be repeated, since names of columns and parameters are such.
"""

import collections
import inspect

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import dp_transforms as dp

MARKER = "ann.smith"
VALUES = [MARKER, f"{MARKER} 2"]
Row = collections.namedtuple("Row", ["who", "page"])


class Edges(collections.abc.Set, collections.abc.Mapping):
    """A view of edges such as that of networkx, a set and a mapping at once."""

    def __iter__(self):
        return iter([(MARKER, "b"), ("b", "c")])

    def __len__(self):
        return 2

    def __contains__(self, edge):
        return edge in list(self)

    def __getitem__(self, edge):
        return {"weight": MARKER}


def failing():
    yield {"who": MARKER, "page": "x"}
    raise RuntimeError(MARKER)


HOLDERS = [
    list,
    tuple,
    set,
    frozenset,
    np.array,
    pd.Series,
    pd.Index,
    pl.Series,
    pa.array,
    iter,
    collections.Counter,
    lambda values: dict.fromkeys(values, 1),
    lambda values: dict.fromkeys(values, VALUES),
    lambda values: {"who": values, "page": values},
    lambda values: {values[0]: values, values[1]: values},
    lambda values: pd.DataFrame({"who": values, "page": values}),
    lambda values: pd.DataFrame({values[0]: [1], values[1]: [2]}),
    lambda values: pd.DataFrame({"who": values, "page": [1.5, 2]}).set_index("who"),
    lambda values: pd.DataFrame({"who": [[value] for value in values], "page": values}),
    lambda values: pl.DataFrame({"who": values, "spending": values}),
    lambda values: pl.DataFrame({values[0]: [1], values[1]: [2]}),
    lambda values: pl.LazyFrame({"who": values}).cast(pl.Int64),
    lambda values: pa.table({"who": values, "page": values}),
    lambda values: [{"who": value, "page": value} for value in values],
    lambda values: [{value: value} for value in values],
    lambda values: [Row(value, 1.5) for value in values],
    lambda values: [(value,) for value in values],
    lambda values: {"year": values, values[0]: None},
    lambda values: {tuple(values): values},
    lambda values: "\n".join(values) * 100,
    lambda values: "\n".join(values).encode(),
    lambda values: type("Holder", (), {"__repr__": lambda self: values[0]})(),
    lambda values: ValueError(values[0]),
    lambda values: lambda: values,
    lambda values: Edges(),
    lambda values: failing(),
]
TYPES = [str, str.encode, lambda text: (text, 1), lambda text: {"of": text}]
VISITS = {"who": [1, 2, 3], "page": ["a", "b", "b"], "year": [1, 1, 2], "day": ["2026-01-01"] * 3}
COMMON = {"user": "who", "partition": "page", "max_partitions_per_user": 1}
DAYS = {"time": "day", "period": "day", "periods": "2026-01-01..2026-01-02"}
A_LIST = dp.release_counts([2, 1], epsilon=1, max_partitions_per_user=1)
CALLS = {
    "release": COMMON | {"data": VISITS, "epsilon": 1, "mechanism": "auto"},
    "select": COMMON | {"data": VISITS, "epsilon": 1, "delta": 1e-6, "strategy": "auto"},
    "release_by_period": COMMON | DAYS | {"data": VISITS, "epsilon": 1, "max_periods_per_user": 1},
    "release_and_select": COMMON | {"data": VISITS, "epsilon": 1, "delta": 1e-6},
    "select_by_period": COMMON
    | DAYS
    | {"data": VISITS, "epsilon": 1, "delta": 1e-6, "max_periods_per_user": 1},
    "release_groups": COMMON
    | {"data": VISITS, "groups": {"year": ["1"]}, "epsilon_all": 1, "epsilon_groups": 1},
    "release_attributes": {"data": VISITS, "user": "who", "attributes": ["page"], "epsilon": 1},
    "release_hierarchy": COMMON
    | {"data": VISITS, "levels": ["year"], "groups": [("1",), ("2",)], "epsilon": 1},
    "degrees": {"edges": VISITS, "source": "who", "target": "year", "epsilon": 1},
    "choose_kappa": {"data": VISITS, "user": "who", "partition": "page", "epsilon": 50}
    | {"for_epsilon": 1, "max_degree": 4},
    "release_counts": {"counts": [2, 1], "epsilon": 1, "max_partitions_per_user": 1},
    "plan": {"epsilons": 1, "users": 100},
    "Session": {"epsilon": 1},
    "load": {"directory": "no_such_directory"},
    "compare": {"first": A_LIST, "second": A_LIST, "numbers": ["top 5"]},
}
RELEASES = [name for name in CALLS if name in vars(dp.Session)]
PLACES = [
    (name, place) for name in CALLS for place in inspect.signature(getattr(dp, name)).parameters
]


def texts(error):
    """The texts of an error and of all errors behind it."""
    while error is not None:
        yield f"{error} {error.args!r}"
        error = error.__cause__ or error.__context__


def check(place, hold, change, by_session):
    name, argument = place
    if argument in ("groups", "numbers") and change is str:
        return  # names of columns and of numbers, which may be shown
    if place == ("plan", "epsilons"):
        return  # short texts, which are numbers here
    try:
        value = hold([change(member) for member in VALUES])
    except TypeError:
        return  # a holder of texts alone
    if by_session and name in RELEASES and argument != "session":
        function = getattr(dp.Session(1000, 0.5), name)
    else:
        function = getattr(dp, name)
    options = CALLS[name] | {argument: value}
    try:
        if "data" in options:
            function(options.pop("data"), **options)
        else:
            function(**options)
    except Exception as error:
        for text in texts(error):
            assert MARKER not in text, (place, text)


@pytest.mark.thorough
@settings(max_examples=300)
@given(st.sampled_from(PLACES), st.sampled_from(HOLDERS), st.sampled_from(TYPES), st.booleans())
@example(("release", "user"), pd.Series, str, False)
@example(("release", "epsilon"), pd.Series, str, False)
@example(("release", "partition"), list, str, True)
@example(("release", "partition"), lambda values: pl.DataFrame({values[0]: [1]}), str, False)
@example(("degrees", "edges"), lambda values: Edges(), str, False)
@example(("degrees", "privacy_unit"), lambda values: pl.LazyFrame({values[0]: [1]}), str, False)
@example(("release_hierarchy", "levels"), lambda values: failing(), str, False)
@example(("release_hierarchy", "groups"), lambda values: failing(), str, True)
@example(("release_hierarchy", "shares"), list, str, False)
@example(("release_hierarchy", "most_partitions"), lambda values: failing(), str, False)
@example(("load", "directory"), lambda values: "\n".join(values) * 100, str, False)
@example(("compare", "confidence"), list, str, False)
def test_any_argument_in_any_place(place, hold, change, by_session):
    check(place, hold, change, by_session)
