import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_transforms.columnar import grouping
from dp_transforms.columnar.grouping import group, order

VALUES = st.lists(st.sampled_from(["", "a", "b", "é", "aa"])).map(
    lambda values: pa.array(values, pa.string())
) | st.lists(st.integers(-3, 3)).map(lambda values: pa.array(values, pa.int64()))
WIDE = st.lists(st.sampled_from([-(2**63), -5, 0, 1, 7 << 40, 2**63 - 1]) | st.integers(0, 9))


def struct(*columns):
    return pa.StructArray.from_arrays(list(map(pa.array, columns)), list("abc")[: len(columns)])


def assert_groups(array):
    groups = group(array)
    values = groups.values.to_pylist()
    assert groups.codes.dtype == np.int32
    assert [values[code] for code in groups.codes] == array.to_pylist()
    assert len(set(map(str, values))) == len(values)


@given(VALUES)
def test_codes_name_the_values(values):
    assert_groups(values)


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2), st.sampled_from("xy")), min_size=1)
)
def test_composites(rows):
    assert_groups(struct(*zip(*rows, strict=True)))


@pytest.mark.parametrize("repeated", [15_001, 0])
def test_values_that_look_distinct_at_first(repeated):
    # A few thousand rows are checked first.
    values = [f"user{i}" for i in range(20_000)]
    values.append(values[repeated])
    assert_groups(pa.array(values))


@given(WIDE.map(lambda numbers: pa.array(numbers, pa.int64())) | VALUES)
def test_values_that_are_sorted(array):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grouping, "_SAMPLE_ROWS", 0)
        patch.setattr(grouping, "_is_worth_sorting", lambda array: True)
        patch.setattr(grouping, "_DENSE", 0)
        if len(array):
            assert_groups(array)


@pytest.mark.parametrize("bits", [0, 1, 64])
def test_equal_hashes_change_nothing(monkeypatch, bits):
    hashes, mask = grouping.hash_rows, np.uint64(-1 << 64 - bits & 2**64 - 1)
    monkeypatch.setattr(grouping, "_SAMPLE_ROWS", 0)
    monkeypatch.setattr(grouping, "_is_worth_sorting", lambda array: True)
    monkeypatch.setattr(grouping, "hash_rows", lambda array, key: hashes(array, key) & mask)
    assert_groups(pa.array(["a", "b", "a", "c"]))
    assert_groups(pa.array([2**62, -(2**62), 2**62, 3]))
    assert_groups(struct(["a", "b", "a"], [1, 1, 1]))


@given(st.sets(st.text(max_size=3), min_size=1))
def test_order_is_that_of_the_values(values):
    values = list(values)
    ranks = order(pa.array(values))
    # UTF-8 sorts as code points do.
    assert [values[i] for i in np.argsort(ranks)] == sorted(values)


def test_order_of_composites():
    assert order(struct(["b", "a", "b"], [1, 2, -1])).tolist() == [2, 0, 1]
