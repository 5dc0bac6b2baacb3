import hashlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_transforms.columnar.hashing import KeyedUniforms, hash_rows, name_bytes, prf
from tests import reference

KEY = bytes(range(7, 39))
TEXT = st.text(max_size=40) | st.text("ab", min_size=240, max_size=300)
INTEGERS = st.integers(-(2**63), 2**63 - 1)
PAIRS = [pa.array(["a", "ab", "", "abc", "a"]), pa.array(["bc", "c", "abc", "", "cb"])]


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
    assert hash_rows(array, KEY).shape == KeyedUniforms(array, KEY).words.shape == (0,)


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
    (hashed,) = hash_rows(pa.array([message[:size]]), key).tolist()
    assert hashed.to_bytes(8, "little").hex() == mac[:16]


def test_pairs_are_encrypted_as_row_by_row():
    words = np.arange(1, 40_001, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    values = prf(KEY, words, ~words)
    for i in range(0, len(words), 4999):
        assert int(values[i]) == reference.pair_prf(KEY, int(words[i]), int(~words[i]))


@pytest.mark.parametrize("bits", [1, 63, 64, 65, 128, 511, 512, 513, 1500])
def test_a_number_is_a_keyed_hash_of_its_name(bits):
    names = ["", "jazz", "ÿ"]
    uniforms = KeyedUniforms(pa.array(names), KEY)
    for i, name in enumerate(names):
        digest = int.from_bytes(hashlib.blake2b(name.encode(), key=KEY).digest(), "big")
        assert int(uniforms.words[i]) == digest >> 448
        assert uniforms.prefix(i, 512) == digest
        assert uniforms.prefix(i, bits) == uniforms.prefix(i, 2048) >> (2048 - bits)


def test_rows_that_need_no_number_change_nothing():
    names = pa.array([f"name {i}" for i in range(50)])
    needed = np.arange(50) % 3 == 1
    everything, some = KeyedUniforms(names, KEY), KeyedUniforms(names, KEY, needed)
    assert np.array_equal(some.words[needed], everything.words[needed])
    assert not some.words[~needed].any()
    assert all(some.prefix(i, 300) == everything.prefix(i, 300) for i in np.flatnonzero(needed))


@pytest.mark.parametrize(
    "column",
    [
        pa.array([-1, 0, 1, 2**63 - 1, -(2**63)]),
        pa.array(["", "a", "b", "ab", "a\0"]),
        pa.array([b"", b"\0", b"\0\0", b"a"]),
        pa.StructArray.from_arrays(PAIRS, ["x", "y"]),
        pa.StructArray.from_arrays([pa.array([1, 1, 2]), pa.array(["1", "2", "1"])], ["x", "y"]),
    ],
    ids=["integers", "strings", "bytes", "pairs", "mixed pairs"],
)
def test_different_values_have_different_names(column):
    assert len(set(name_bytes(column))) == len(column)
    # A slice has the names of its rows, whatever buffers it shares.
    assert name_bytes(column.slice(1, 2)) == name_bytes(column)[1:3]


def test_short_keys_are_refused():
    with pytest.raises(ValueError, match="key must have 32 bytes, got 16"):
        KeyedUniforms(pa.array(["a"]), bytes(16))
