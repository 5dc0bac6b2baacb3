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


@pytest.mark.parametrize("size", [0, 1, 12, 16, 17, 33, 256, 257])
def test_values_of_one_length_hash_as_row_by_row(size):
    values = [bytes([i]) * size for i in range(9)]
    array = pa.array(values, pa.binary())[2:]
    assert hash_rows(array, KEY).tolist() == [reference.row_hash(v, KEY) for v in values[2:]]


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


@pytest.mark.parametrize("array", [pa.array([], pa.string()), pa.array([], pa.int64())])
def test_no_rows(array):
    assert hash_rows(array, KEY).shape == (0,)


@pytest.mark.parametrize(
    ("size", "mac"),
    [
        (0, "028962f61b7bf89efc6b551f4667d983"),
        (16, "28a7023f452e8f82bd4bf28d8c37c35c"),
        (40, "aaf3d8f1de5640c232f5b169b9c911e6"),
        (64, "e1992190549f6ed5696a2c056c315410"),
    ],
)
def test_hashes_are_the_published_values_of_cmac(size, mac):
    # NIST SP 800-38B, appendix D.3: AES-256.
    key = bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
    message = bytes.fromhex(
        "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
        "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710"
    )
    (found,) = hash_rows(pa.array([message[:size]]), key).tolist()
    assert found.to_bytes(8, "little").hex() == mac[:16]


def test_pairs_are_encrypted_as_row_by_row():
    words = np.arange(1, 40_001, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    values = prf(KEY, words, ~words)
    for i in range(0, len(words), 4999):
        assert int(values[i]) == reference.pair_prf(KEY, int(words[i]), int(~words[i]))
