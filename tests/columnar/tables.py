"""Small tables of records."""

import pyarrow as pa

from dp_transforms.runtime.job_secret import JobSecret

KEY = JobSecret.insecure_for_testing(1).key("test")


def table_of(records):
    users, partitions = zip(*records, strict=True)
    return pa.table({"user": pa.array(users), "partition": pa.array(partitions)})


def pairs_of(table):
    return list(zip(table["user"].to_pylist(), table["partition"].to_pylist(), strict=True))
