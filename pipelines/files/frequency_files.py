"""Files of frequency lists, read with one set of errors."""

from __future__ import annotations

from dp_transforms.mechanisms.frequency_list import FrequencyList
from pipelines.errors import InputError
from pipelines.files.paths import local_path, reason


def read_frequency_list(path: str, public: bool = False, remedy: str = "") -> FrequencyList:
    """The list of a file on this machine, with the header frequency,multiplicity.

    Args:
      path: of the file; a leading ~ is expanded.
      public: errors may show what is in the file.
      remedy: more that the user can do about a private file that is no list.

    Raises:
      InputError: the file cannot be read, or is no frequency list.
    """
    path = local_path(path)
    try:
        return FrequencyList.from_csv(path)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {reason(error)}") from None
    except ValueError as error:
        if public:
            raise InputError(str(error)) from None
        raise InputError(
            f"{path} is not a frequency list: the first line must be frequency,multiplicity and "
            f"the others pairs of positive integers, frequencies descending{remedy}"
        ) from None


def parse_frequency_list(content: bytes) -> FrequencyList:
    """The list in the bytes of a file that a job has written.

    Raises:
      ValueError: these are not the bytes of such a file.
    """
    header, *lines = content.decode().splitlines()
    if header != "frequency,multiplicity":
        raise ValueError("not a frequency list")
    pairs = [tuple(map(int, line.split(","))) for line in lines]
    return FrequencyList([value for value, _ in pairs], [count for _, count in pairs])
