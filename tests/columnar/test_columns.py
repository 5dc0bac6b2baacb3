import pyarrow as pa
import pytest

from dp_transforms.columnar.columns import coded_table, plain, plain_table, without_nulls

WORDS = ["b", "", "é", "b"]
HALVES = [WORDS[:2], WORDS[2:]]
BYTES = [b"ab", b"\xff\0"]
CODED_VIEWS = pa.DictionaryArray.from_arrays(pa.array(range(4)), pa.array(WORDS, pa.string_view()))
PAIRS = [{"a": "x", "b": 0}, {"a": "a", "b": 1}]
MANY = list(map(str, range(198)))
STRUCT = pa.struct([("a", pa.string())])
NULLS = r"column 'user' has nulls: .*drop_nulls"
OTHERS = r"column 'user' has type .*: cast the column first"


def struct_of(values):
    return pa.array([{"a": value} for value in values], STRUCT)


def _in_bytes(values):
    return pa.DictionaryArray.from_arrays(pa.array(range(len(values)), pa.int8()), values)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (pa.array(WORDS, pa.large_string()), WORDS),
        (pa.array(WORDS, pa.string_view()), WORDS),
        (pa.array(WORDS).dictionary_encode(), WORDS),
        (pa.array(WORDS, pa.large_string()).dictionary_encode(), WORDS),
        (CODED_VIEWS, WORDS),
        (pa.chunked_array(HALVES), WORDS),
        (pa.chunked_array([pa.array(part).dictionary_encode() for part in HALVES]), WORDS),
        (pa.chunked_array([_in_bytes(MANY[:99]), _in_bytes(MANY[99:])]), MANY),
        (pa.array(["left out", *WORDS])[1:], WORDS),
        *((pa.array([3, 1], kind), [3, 1]) for kind in ("int8", "int32", "uint32", "uint64")),
        *((pa.array(BYTES, k), BYTES) for k in (pa.large_binary(), pa.binary(2), pa.binary_view())),
        (pa.array(PAIRS, pa.struct({"a": pa.large_string(), "b": pa.int8()}))[1:], PAIRS[1:]),
    ],
)
def test_columns_become_plain(column, values):
    assert plain(column, "user").equals(pa.array(values))


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array(["secret", None]), NULLS),
        (pa.array(["secret", None]).dictionary_encode(), NULLS),
        (pa.array([None, None]), NULLS),
        (struct_of(["secret", None]), NULLS),
        (pa.array([{"a": "secret"}, None], STRUCT), NULLS),
        (pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["secret", None])), NULLS),
        *((pa.array([value]), OTHERS) for value in (1.5, True, ["secret"])),
        (pa.array([2**64 - 3], pa.uint64()), "'user' of type uint64 does not fit int64"),
    ],
)
def test_what_cannot_be_a_name_is_refused_without_a_word_about_the_data(column, message):
    with pytest.raises((TypeError, ValueError), match=message) as error:
        plain(column, "user")
    assert not any(shown in str(error.value) for shown in ("secret", "2", str(2**64 - 3)))
    assert error.value.__context__ is None or error.value.__suppress_context__


def test_a_missing_column_is_named():
    with pytest.raises(ValueError, match="no column 'user': rename yours"):
        plain_table(pa.table({"account": ["a"]}), ["user"])


def test_rows_with_nulls_are_left_out():
    partition = pa.array([{"a": "x"}, {"a": None}, None, {"a": "y"}], STRUCT)
    table = pa.table({"user": pa.array(["ann", "bob", "cyd", None]), "partition": partition})
    assert without_nulls(table).to_pylist() == [{"user": "ann", "partition": {"a": "x"}}]
    assert without_nulls(table.slice(0, 1)).num_rows == 1


INDICES = pa.array([0, 1, 2])
VIEWS = pa.array(["a", None, "b"], pa.string_view())
WITH_NULLS = {
    "views": VIEWS,
    "codes of views": pa.DictionaryArray.from_arrays(INDICES, VIEWS),
    "codes of composites": pa.DictionaryArray.from_arrays(INDICES, struct_of(["a", None, "b"])),
}


@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize("name", WITH_NULLS)
def test_nulls_of_views_and_codes_are_left_out_also_within_composites(name, within):
    column = WITH_NULLS[name]
    if within:
        column = pa.StructArray.from_arrays([column], names=["part"])
    whole = without_nulls(pa.table({"user": column}))
    coded = coded_table([whole], ["user"])["user"]
    assert coded.to_pylist() == [column[0].as_py(), column[2].as_py()]
