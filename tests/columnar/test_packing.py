import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dp_transforms.columnar.scattering import pack, unpack

ROWS = st.lists(
    st.tuples(st.text(max_size=300), st.binary(max_size=9), st.integers(-(2**63), 2**63 - 1))
)


def table_of(rows):
    text, binary, numbers = (list(part) for part in zip(*rows, strict=True)) if rows else ([],) * 3
    columns = [
        pa.array(text, pa.string()),
        pa.array(binary, pa.binary()),
        pa.array(numbers, pa.int64()),
    ]
    composite = pa.StructArray.from_arrays(columns, names=["text", "binary", "number"])
    return pa.table([*columns, composite], names=["a", "b", "c", "d"])


@given(ROWS, st.integers(0, 5), st.integers(0, 20), st.booleans())
def test_unpacking_gives_the_table_back(rows, start, length, compress):
    table = table_of(rows).slice(start, length)
    again = unpack(pack(table, compress))
    assert again.equals(table)
    again.validate(full=True)
