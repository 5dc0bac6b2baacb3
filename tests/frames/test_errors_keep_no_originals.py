"""Errors of public functions carry no earlier errors, whose text may show private values."""

import pandas as pd
import pytest

import dp_transforms as dp
from dp_transforms.mechanisms import (
    Eta,
    ExponentialMechanism,
    FrequencyList,
    GeometricPartitionMechanism,
    RandomTape,
)
from dp_transforms.mechanisms.exponential import ClampedLaplace
from dp_transforms.runtime.job_secret import JobSecret, release_histogram

PRIVATE = "ann has the virus"
COLUMNS = {"user": "user", "partition": "item"}
LIST = COLUMNS | {"epsilon": 1, "max_partitions_per_user": 1}
GROUPS = COLUMNS | {
    "max_partitions_per_user": 1,
    "groups": {"kind": ["a"]},
    "epsilon_all": 1,
    "epsilon_groups": 1,
}
NAMES = LIST | {"delta": 1e-6}
MECHANISM, TAPE = ExponentialMechanism(Eta(1, 1, 1), 0, 9, max_outcomes=3), RandomTape.from_os()
LAPLACE = ClampedLaplace(Eta(1, 1, 1), 0, 9, 1)
MIXED = {"user": [1, PRIVATE], "item": [b"\xff", 2.5]}
FRAME = pd.DataFrame({"user": pd.Series([1, PRIVATE], dtype=object), "item": [[1], PRIVATE]})


class Failing:
    def __arrow_c_stream__(self, requested_schema=None):
        raise RuntimeError(PRIVATE)


def records():
    yield {"user": 1, "item": 2}
    raise RuntimeError(PRIVATE)


def csv(directory):
    path = directory / "visits.csv"
    path.write_text(f"user,item\n1,2\n3,{PRIVATE},{PRIVATE}\n")
    return str(path)


def json_lines(directory):
    path = directory / "visits.jsonl"
    path.write_text('{"user": 1, "item": 2}\n{"user": "' + PRIVATE + '", "item": 2}\n')
    return str(path)


def frequencies(directory):
    path = directory / "list.csv"
    path.write_text(f"frequency,multiplicity\n{PRIVATE},1\n")
    return str(path)


FILES = (csv, json_lines, frequencies)


def failing(function, *arguments, **options):
    return lambda directory: function(
        *(each(directory) if callable(each) and each in FILES else each for each in arguments),
        **options,
    )


FAILURES = {
    "columns of several types": failing(dp.release, MIXED, **LIST),
    "a frame of several types": failing(dp.release, FRAME, **LIST),
    "a frame that cannot be read": failing(dp.select, Failing(), **NAMES),
    "a generator that fails": failing(dp.select, records(), **NAMES),
    "a file with too many fields": failing(dp.release, csv, **LIST),
    "a file of several types": failing(dp.select, json_lines, **NAMES),
    "counts that are none": failing(
        dp.release_counts, [1, PRIVATE], epsilon=1, max_partitions_per_user=1
    ),
    "periods of private text": failing(
        dp.release_by_period,
        MIXED,
        **LIST,
        time="user",
        period="day",
        periods=PRIVATE,
        max_periods_per_user=1,
    ),
    "edges of several types": failing(dp.degrees, MIXED, source="user", target="item", epsilon=1),
    "degrees of several types": failing(
        dp.choose_kappa, MIXED, **COLUMNS, epsilon=1, for_epsilon=1
    ),
    "groups of several types": failing(dp.release_groups, MIXED | {"kind": ["a", "b"]}, **GROUPS),
    "utilities of private text": failing(MECHANISM.sample, [1, PRIVATE], TAPE),
    "a utility that is none": failing(MECHANISM.choose, "abc", {"a": 0, "b": None}.get, TAPE, "b"),
    "a value that is none": failing(LAPLACE.release, PRIVATE, TAPE),
    "a histogram that is none": failing(
        release_histogram, {PRIVATE: 1}, GeometricPartitionMechanism(2), JobSecret.from_os()
    ),
    "a file that is no list": failing(FrequencyList.from_csv, frequencies),
}


def texts(error):
    """The texts of an error, and of all errors that it carries."""
    links, seen = [error], []
    while links:
        link = links.pop()
        if link is not None and link not in seen:
            seen.append(link)
            links += [link.__context__, link.__cause__]
    return [repr(link) for link in seen]


@pytest.mark.parametrize("name", FAILURES)
def test_no_original_travels_with_an_error(name, tmp_path):
    with pytest.raises(Exception) as failure:
        FAILURES[name](tmp_path)
    assert len(texts(failure.value)) == 1
