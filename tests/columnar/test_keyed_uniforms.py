"""Uniform numbers by name: repeatable, independent of the table, and uniform."""

import hashlib

import numpy as np
import pyarrow as pa
import pytest

from dp_transforms.columnar.hashing import KeyedUniforms, name_bytes

KEY = bytes(range(32))


def test_a_number_is_a_keyed_hash_of_its_name():
    uniforms = KeyedUniforms(pa.array(["", "jazz", "ÿ"]), KEY)
    for i, name in enumerate([b"", b"jazz", "ÿ".encode()]):
        digest = hashlib.blake2b(name, key=KEY).digest()
        assert int(uniforms.words[i]) == int.from_bytes(digest[:8], "big")
        assert uniforms.prefix(i, 512) == int.from_bytes(digest, "big")


@pytest.mark.parametrize("bits", [1, 63, 64, 65, 128, 511, 512, 513, 1500])
def test_prefixes_agree(bits):
    uniforms = KeyedUniforms(pa.array([b"a", b"b"]), KEY)
    long = uniforms.prefix(1, 2048)
    assert uniforms.prefix(1, bits) == long >> (2048 - bits)
    assert uniforms.prefix(1, 64) == int(uniforms.words[1])


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
        pa.StructArray.from_arrays(
            [pa.array(["a", "ab", "", "abc", "a"]), pa.array(["bc", "c", "abc", "", "cb"])],
            names=["x", "y"],
        ),
        pa.StructArray.from_arrays([pa.array([1, 1, 2]), pa.array(["1", "2", "1"])], ["x", "y"]),
    ],
    ids=["integers", "strings", "bytes", "pairs", "mixed pairs"],
)
def test_different_values_have_different_names(column):
    assert len(set(name_bytes(column))) == len(column)
    # A slice has the names of its rows, whatever buffers it shares.
    assert name_bytes(column.slice(1, 2)) == name_bytes(column)[1:3]


def test_no_rows():
    assert KeyedUniforms(pa.array([], pa.string()), KEY).words.shape == (0,)


def test_short_keys_are_refused():
    with pytest.raises(ValueError, match="key must have 32 bytes, got 16"):
        KeyedUniforms(pa.array(["a"]), bytes(16))
