"""The periods in which times are."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from dp_transforms.columnar.columns import single
from pipelines.errors import InputError
from pipelines.files.logical_types import logical_name
from pipelines.files.period_names import FORMS

_TIME = r"^\d{4}-\d\d-\d\d([T ]([01]\d|2[0-3])(:\d\d.*)?)?$"
_HOUR = r"^\d{4}-\d\d-\d\d[T ]([01]\d|2[0-3])(:\d\d.*)?$"
_LOGICAL = ("string", "date", "timestamp", "timestamp of a time zone")


def check_times(path: str, field: pa.Field) -> None:
    """Checks that a column can hold times.

    Raises:
      InputError: it is of another type.
    """
    if logical_name(field) not in _LOGICAL:
        raise InputError(
            f"{path}: column {field.name!r} is read as {logical_name(field)}, not as a time: store "
            "it as a date, a timestamp, or text such as 2026-01-31 23:59"
        )


def periods_of(path: str, times: pa.ChunkedArray, period: str) -> pa.Array:
    """The names of the periods in which times are, each as it is written: text such as 2026-01-31,
    2026-01-31 23:59 or 2026-01-31T23:59:59Z.

    Raises:
      InputError: a time is missing, or is written in another way.

    >>> times = pa.chunked_array([["2026-01-31", "2026-02-01 23:59"]])
    >>> periods_of("visits.csv", times, "week").to_pylist()
    ['2026-01-26', '2026-01-26']
    """
    values = single(times)
    if not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    text = values.dictionary
    hour = period == "hour"
    try:
        if (
            times.null_count
            or False in pc.match_substring_regex(text, _HOUR if hour else _TIME).to_pylist()
        ):
            raise pa.ArrowInvalid
        days = pc.utf8_slice_codeunits(text, 0, 10).cast(pa.date32())
    except pa.ArrowInvalid:
        example = "2026-01-31 23:59" if hour else "2026-01-31 or 2026-01-31 23:59"
        raise InputError(
            f"{path}: not all records have a time that is written like {example}: write it so"
        ) from None
    if hour:
        names = pc.replace_substring(pc.utf8_slice_codeunits(text, 0, 13), " ", "T")
    else:
        begin = pc.floor_temporal(days.cast(pa.timestamp("s")), unit=period)
        names = pc.strftime(begin, FORMS[period])
    return names.take(values.indices)
