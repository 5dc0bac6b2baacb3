import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_transforms.columnar.hashing import hash_rows, prf
from tests import reference

KEY = bytes(range(7, 39))
TEXT = st.text(max_size=40) | st.text("ab", min_size=240, max_size=300)
INTEGERS = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(TEXT, min_size=1), st.integers(0, 3))
def test_strings_hash_as_row_by_row(values, skipped):
    array = pa.array(values, pa.string())[skipped:]
    assert hash_rows(array, KEY).tolist() == [
        reference.row_hash(value, KEY) for value in values[skipped:]
    ]


@given(st.lists(st.tuples(st.binary(max_size=20), INTEGERS), min_size=1))
def test_composites_hash_as_row_by_row(values):
    fields = [pa.array([v[0] for v in values]), pa.array([v[1] for v in values])]
    array = pa.StructArray.from_arrays(fields, names=["a", "b"])
    assert hash_rows(array, KEY).tolist() == [reference.row_hash(value, KEY) for value in values]


def test_many_rows_of_many_lengths():
    # More than one chunk, in which most values are short and a few are not.
    values = [("x" * (i % 7) if i % 50 else "y" * (i % 300)) + str(i) for i in range(40_000)]
    hashes = hash_rows(pa.array(values), KEY)
    assert len(set(hashes.tolist())) == len(values)
    for i in range(0, len(values), 997):
        assert int(hashes[i]) == reference.row_hash(values[i], KEY)


def test_hashes_fall_evenly_into_buckets():
    # Consecutive numbers, as text and as integers. 255 degrees of freedom: the chi-square statistic
    # is above 362 with a probability of 1e-5.
    numbers = np.arange(100_000)
    for array in (pa.array(numbers), pa.array([f"user{i}" for i in numbers])):
        for shift in (0, 56):
            buckets = (hash_rows(array, KEY) >> np.uint64(shift)).astype(np.uint8)
            expected = len(numbers) / 256
            assert (np.bincount(buckets, minlength=256) - expected).__pow__(
                2
            ).sum() < 362 * expected


@pytest.mark.parametrize("array", [pa.array([], pa.string()), pa.array([], pa.int64())])
def test_no_rows(array):
    assert hash_rows(array, KEY).shape == (0,)


def test_other_keys_give_other_hashes():
    array = pa.array(["a", "b", ""])
    assert not set(hash_rows(array, KEY)) & set(hash_rows(array, KEY[::-1]))


def test_the_reference_agrees_with_the_published_values_of_siphash():
    # The paper's appendix A, and the 17th of the reference implementation's test vectors.
    key = bytes(range(16))
    assert reference.siphash_2_4(key, bytes(range(15))) == 0xA129CA6149BE45E5
    assert reference.siphash_2_4(key, bytes(range(16))) == 0x3F2ACC7F57C29BDB


def test_prf_is_siphash():
    key = bytes(range(16))
    left, right = np.frombuffer(bytes(range(16)), "<u8").reshape(2, 1)
    assert prf(key, left, right).tolist() == [0x3F2ACC7F57C29BDB]
    words = np.arange(1, 40_001, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    values = prf(KEY, words, ~words)
    for i in range(0, len(words), 4999):
        message = int(words[i]).to_bytes(8, "little") + int(~words[i]).to_bytes(8, "little")
        assert int(values[i]) == reference.siphash_2_4(KEY, message)
