"""The file of released lists of groups: attribute,group,frequency,multiplicity."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from dp_transforms.mechanisms import FrequencyList
from pipelines.files.names import LISTS_HEADER

Lists = dict[tuple[str, str], FrequencyList]


def grouped_lines(attribute: str, group: str, released: FrequencyList) -> bytes:
    """The lines of one list; an empty list has none.

    >>> grouped_lines("gender", "f", FrequencyList([7, 1], [1, 20]))
    b'gender,f,7,1\\ngender,f,1,20\\n'
    """
    text = io.StringIO()
    rows: Iterable[Sequence[Any]] = ((attribute, group, *pair) for pair in released)
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def parse_grouped_lists(content: bytes) -> Lists:
    """The lists in the bytes of a file, by (attribute, group); ("", "") is that of all users.

    Raises:
      ValueError: these are not the bytes of such a file.
    """
    if not content.startswith(LISTS_HEADER):
        raise ValueError(f"the file must begin with the line {LISTS_HEADER.decode().strip()}")
    rows = csv.reader(io.StringIO(content[len(LISTS_HEADER) :].decode(), newline=""))
    pairs: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for attribute, group, frequency, multiplicity in rows:
        pairs.setdefault((attribute, group), []).append((int(frequency), int(multiplicity)))
    return {
        name: FrequencyList(*map(list, zip(*rows_of_list, strict=True)))
        for name, rows_of_list in pairs.items()
    }
