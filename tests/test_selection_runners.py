"""The same secret selects the same partitions on every runner, and after every failure."""

import os
import random

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to

from dp_transforms import SelectPartitions
from dp_transforms.mechanisms.partition_selection import (
    make_strategy,
)
from dp_transforms.runtime import shuffle
from dp_transforms.runtime.shuffle import OnThreads
from tests.selection_reference import RECORDS, SECRET, as_tables, selected


@pytest.fixture(autouse=True)
def few_buckets(monkeypatch):
    """Small tables in few parts: a run is a matter of overhead."""
    monkeypatch.setattr(shuffle, "DEFAULT_BUCKETS", 3)


MULTI_PROCESSING = ["--direct_num_workers=2", "--direct_running_mode=multi_processing"]


def check(pipeline):
    for name in ("gaussian", "renyi_rounds"):
        strategy = make_strategy(name, 2.0, 1e-2, max_partitions_per_user=3)
        tables = pipeline | f"Create {name}" >> beam.Create(as_tables(RECORDS))
        found = tables | f"Select {name}" >> SelectPartitions(strategy=strategy, secret=SECRET)
        rows = found | f"Rows {name}" >> beam.FlatMap(lambda table: table["partition"].to_pylist())
        assert_that(rows, equal_to(list(selected(RECORDS, strategy))), label=f"check {name}")


@pytest.mark.parametrize(
    ("runner", "flags"),
    [
        ("DirectRunner", []),
        pytest.param(None, MULTI_PROCESSING, marks=pytest.mark.slow),
        # Every bundle is run three times.
        (FnApiRunner(bundle_repeat=2), []),
    ],
    ids=["DirectRunner", "two processes", "repeated bundles"],
)
def test_runners_and_repeated_bundles_agree(runner, flags, monkeypatch):
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    monkeypatch.setenv("PYTHONPATH", root, prepend=os.pathsep)
    with beam.Pipeline(runner=runner, options=PipelineOptions(flags)) as pipeline:
        check(pipeline)


def test_failing_bundles_change_no_selection(monkeypatch):
    # This runner tries a bundle four times.
    rng, failures, on_end = random.Random(4), 0, 0
    submit, finish = OnThreads.submit, OnThreads.finish_bundle

    def flaky_submit(self, kernel, element):
        nonlocal failures, on_end
        if on_end < 3 and rng.random() < 0.4:
            on_end += 1
            failures += 1
            raise RuntimeError("injected")
        return submit(self, kernel, element)

    def finish_bundle(self):
        nonlocal on_end
        yield from finish(self)
        on_end = 0

    monkeypatch.setattr(OnThreads, "submit", flaky_submit)
    monkeypatch.setattr(OnThreads, "finish_bundle", finish_bundle)
    with beam.Pipeline(runner=BundleBasedDirectRunner()) as pipeline:
        check(pipeline)
    assert failures > 10
