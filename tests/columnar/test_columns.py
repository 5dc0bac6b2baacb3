import pyarrow as pa
import pytest

from dp_transforms.columnar.columns import coded_table, plain, plain_table, without_nulls

WORDS = ["b", "", "é", "b"]


@pytest.mark.parametrize(
    "column",
    [
        pa.array(WORDS, pa.large_string()),
        pa.array(WORDS, pa.string_view()),
        pa.array(WORDS).dictionary_encode(),
        pa.array(WORDS, pa.large_string()).dictionary_encode(),
        pa.DictionaryArray.from_arrays(pa.array(range(4)), pa.array(WORDS, pa.string_view())),
        pa.chunked_array([WORDS[:2], WORDS[2:]]),
        pa.chunked_array(
            [pa.array(WORDS[:2]).dictionary_encode(), pa.array(WORDS[2:]).dictionary_encode()]
        ),
        pa.array(["left out", *WORDS])[1:],
    ],
    ids=lambda column: str(column.type),
)
def test_strings_become_plain(column):
    array = plain(column, "user")
    assert array.type == pa.string()
    assert array.to_pylist() == WORDS


@pytest.mark.parametrize(
    ("values", "kind"),
    [([3, 1], kind) for kind in (pa.int8(), pa.int32(), pa.uint32(), pa.uint64())]
    + [([b"ab", b"\xff\0"], kind) for kind in (pa.large_binary(), pa.binary(2), pa.binary_view())],
    ids=str,
)
def test_integers_and_bytes_become_plain(values, kind):
    assert plain(pa.array(values, kind), "user").equals(pa.array(values))


def test_composites_become_plain():
    fields = [pa.array(["x", "a", "b"], pa.large_string()), pa.array([0, 1, 2], pa.int8())]
    struct = pa.StructArray.from_arrays(fields, names=["a", "b"])[1:]
    array = plain(struct, "partition")
    assert array.type == pa.struct([("a", pa.string()), ("b", pa.int64())])
    assert array.to_pylist() == [{"a": "a", "b": 1}, {"a": "b", "b": 2}]


def struct_of(values):
    return pa.array([{"a": v} for v in values], pa.struct([("a", pa.string())]))


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["secret", None]),
        pa.array(["secret", None]).dictionary_encode(),
        pa.array([None, None]),
        struct_of(["secret", None]),
        pa.array([{"a": "secret"}, None], pa.struct([("a", pa.string())])),
        pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["secret", None])),
    ],
    ids=lambda column: str(column.type),
)
def test_nulls_are_refused_without_a_word_about_the_data(column):
    with pytest.raises(ValueError, match=r"column 'user' has nulls: .*drop_nulls") as error:
        plain(column, "user")
    assert "secret" not in str(error.value)
    assert "2" not in str(error.value)


@pytest.mark.parametrize("column", [pa.array([1.5]), pa.array([True]), pa.array([["a"]])])
def test_other_types_are_refused(column):
    with pytest.raises(TypeError, match=r"column 'user' has type .*: cast the column first"):
        plain(column, "user")


def test_an_integer_that_does_not_fit_is_not_shown():
    with pytest.raises(ValueError, match="'user' of type uint64 does not fit int64") as error:
        plain(pa.array([2**64 - 3], pa.uint64()), "user")
    assert str(2**64 - 3) not in str(error.value)
    assert error.value.__suppress_context__


def test_a_missing_column_is_named():
    with pytest.raises(ValueError, match="no column 'user': rename yours"):
        plain_table(pa.table({"account": ["a"]}), ["user"])


def test_rows_with_nulls_are_left_out():
    partition = pa.array(
        [{"a": "x"}, {"a": None}, None, {"a": "y"}], pa.struct([("a", pa.string())])
    )
    table = pa.table({"user": pa.array(["ann", "bob", "cyd", None]), "partition": partition})
    assert without_nulls(table).to_pylist() == [{"user": "ann", "partition": {"a": "x"}}]
    assert without_nulls(table.slice(0, 1)).num_rows == 1


WITH_NULLS = {
    "views": pa.array(["a", None, "b"], pa.string_view()),
    "codes of views": pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 2]), pa.array(["a", None, "b"], pa.string_view())
    ),
    "codes of composites": pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 2]), struct_of(["a", None, "b"])
    ),
}


@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize("name", WITH_NULLS)
def test_nulls_of_views_and_codes_are_left_out_also_within_composites(name, within):
    column = WITH_NULLS[name]
    if within:
        column = pa.StructArray.from_arrays([column], names=["part"])
    whole = without_nulls(pa.table({"user": column}))
    found = coded_table([whole], ["user"])["user"]
    assert found.to_pylist() == [column[0].as_py(), column[2].as_py()]
