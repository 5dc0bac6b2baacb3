"""The engine of one process, on records of a test."""

from dp_transforms import JobSecret
from dp_transforms.engines.in_process import InProcess

SECRET = JobSecret.insecure_for_testing(5)


class Records:
    """Some tables as a source."""

    estimated_rows = 0

    def __init__(self, tables, num_buckets=3):
        self._tables, self.num_buckets = list(tables), num_buckets

    def check_ends(self):
        pass

    def tables(self):
        return iter(self._tables)


def in_process(tables, secret=SECRET, num_buckets=3):
    """The engine, whose records are split into a few parts."""
    return InProcess(Records(tables, num_buckets), secret)


class NoNoise:
    """In the place of a mechanism: shows what it is given."""

    def __init__(self, sensitivity=5):
        self.sensitivity = sensitivity

    def release(self, frequency_list, tape):
        return frequency_list
