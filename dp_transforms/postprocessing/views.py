"""Released lists in the form of other libraries, none of which is needed before it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dp_transforms.postprocessing.pictures import plot_released_list as plot_released_list

if TYPE_CHECKING:
    from dp_transforms.mechanisms.released_list import ReleasedList


def to_arrow(released: ReleasedList) -> Any:
    """A ``pyarrow.Table`` with the columns frequency and multiplicity, and what the release cost as
    metadata of its schema.

    Raises:
      ImportError: pyarrow is not installed.
    """
    import pyarrow as pa

    columns = {name: pa.array(values, pa.int64()) for name, values in released.to_dict().items()}
    cost = {name: str(value) for name, value in (released.cost or {}).items()}
    return pa.table(columns).replace_schema_metadata(cost)


def to_pandas(released: ReleasedList) -> Any:
    """A ``pandas.DataFrame`` with these columns, and what the release cost as its ``attrs``.

    Raises:
      ImportError: pandas is not installed.
    """
    try:
        import pandas
    except ImportError:
        raise ImportError("to_pandas needs pandas: pip install pandas") from None
    frame = pandas.DataFrame(released.to_dict(), dtype="int64")
    frame.attrs.update(released.cost or {})
    return frame
