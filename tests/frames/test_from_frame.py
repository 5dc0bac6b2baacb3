"""Frames at the beginning of pipelines."""

import polars as pl
import pytest
from apache_beam.internal import pickler

import dp_transforms as dp
from dp_transforms import JobSecret
from dp_transforms.transforms.reading import _held
from tests.beam_runs import run

FRAME = pl.DataFrame(
    {"who": [i // 2 for i in range(40_000)], "page": [f"p{i % 7}" for i in range(40_000)]}
)
COLUMNS = {"user": "who", "partition": "page"}


def test_a_frame_in_a_pipeline_is_that_of_the_function():
    secret = JobSecret.insecure_for_testing(5)
    source = dp.FromFrame(FRAME, **COLUMNS)
    (found,) = run(
        lambda pipeline: pipeline | source,
        dp.BoundContributions(max_partitions_per_user=1, secret=secret),
        dp.CountDistinctUsers(secret=secret),
        dp.ReleaseFrequencyList(epsilon=60, max_partitions_per_user=1, secret=secret),
    )
    secret = JobSecret.insecure_for_testing(5)
    same = dp.release(FRAME, **COLUMNS, epsilon=60, max_partitions_per_user=1, secret=secret)
    assert found == same.released and found.total == 20_000


def test_the_description_of_a_job_has_no_records():
    held = dp.FromFrame(FRAME, **COLUMNS)._held
    token = pickler.dumps(held)
    assert len(token) < 1000 and pickler.loads(token) is held
    with pytest.raises(ValueError, match="this worker is another"):
        _held("0" * 32)
    with pytest.raises(ValueError, match="no column"):
        dp.FromFrame(FRAME, user="who", partition="url")
