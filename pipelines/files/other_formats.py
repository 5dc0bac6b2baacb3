"""A release in other formats, beside its CSV file: what is in that file, and nothing else."""

from __future__ import annotations

import csv
import io
import json

PARQUET, JSON_LINES = "parquet", "jsonl"
FORMATS = (PARQUET, JSON_LINES)


def names_beside(file_name: str, formats: tuple[str, ...] = FORMATS) -> list[str]:
    """What the files beside a CSV file are called.

    >>> names_beside("list.csv")
    ['list.parquet', 'list.jsonl']
    """
    return [f"{file_name.removesuffix('.csv')}.{name}" for name in formats]


def converted(text: bytes, name: str, numbers: int) -> bytes:
    """The content of a CSV file in another format.

    Args:
      text: the CSV file, its header first.
      name: one of ``FORMATS``.
      numbers: how many columns hold integers, the last ones; others are text.

    >>> print(converted(b"page,users\\nhome,7\\n", "jsonl", 1).decode(), end="")
    {"page": "home", "users": 7}
    """
    header, *rows = csv.reader(io.StringIO(text.decode(), newline=""))
    texts = len(header) - numbers
    records = [(*row[:texts], *map(int, row[texts:])) for row in rows]
    if name == JSON_LINES:
        objects = (dict(zip(header, record, strict=True)) for record in records)
        return "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in objects).encode()
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = [pa.string()] * texts + [pa.int64()] * numbers
    columns = [pa.array([record[i] for record in records], kind) for i, kind in enumerate(types)]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns, header), sink)
    return sink.getvalue().to_pybytes()
