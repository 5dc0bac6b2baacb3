from collections import Counter

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.testing.util import assert_that, equal_to

from dp_transforms import BoundContributions, CountDistinctUsers, JobSecret, ReleaseUserDegrees
from dp_transforms.mechanisms.user_degrees import UserDegreeMechanism

SECRET = JobSecret.insecure_for_testing(5)
# User u has u % 7 + 1 partitions, and one record twice.
RECORDS = [(f"u{u}", p) for u in range(90) for p in (*range(u % 7 + 1), 0)]
DEGREES = Counter(u % 7 + 1 for u in range(90))
MECHANISM = UserDegreeMechanism(0.3, max_degree=5)


def table(records):
    users, partitions = zip(*records, strict=True)
    return pa.table({"user": users, "partition": partitions})


@pytest.mark.parametrize("kind", ["tuples", "rows", "tables", "none"])
def test_the_transform_releases_what_the_mechanism_does(kind):
    records, degrees = RECORDS, DEGREES
    if kind == "rows":
        records = [beam.Row(user=user, partition=partition) for user, partition in RECORDS]
    elif kind == "tables":
        records = [table(RECORDS[:100]), table(RECORDS[100:])]
    elif kind == "none":
        records, degrees = [], {}
    expected = MECHANISM.release_under(degrees, SECRET.secret)
    with beam.Pipeline() as pipeline:
        released = pipeline | beam.Create(records) | ReleaseUserDegrees(0.3, 5, secret=SECRET)
        assert_that(released, equal_to([expected]))


def test_counts_and_windows_are_refused():
    pipeline = beam.Pipeline()
    records = pipeline | beam.Create(RECORDS)
    counts = records | BoundContributions(2) | CountDistinctUsers()
    with pytest.raises(ValueError, match="these are counts"):
        _ = counts | ReleaseUserDegrees(1)
    windowed = records | beam.WindowInto(beam.window.FixedWindows(60))
    with pytest.raises(ValueError, match="window"):
        _ = windowed | "Windowed" >> ReleaseUserDegrees(1)
