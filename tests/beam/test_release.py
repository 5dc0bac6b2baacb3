import collections
import types
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.portability.common_urns import resource_hints
from apache_beam.transforms.display import DisplayData

import dp_transforms as dp
from dp_transforms.mechanisms import Eta, FrequencyList
from dp_transforms.mechanisms.partition.exponential import IntegerPartitionMechanism
from dp_transforms.mechanisms.partition.frobenius import FrobeniusMechanism
from dp_transforms.mechanisms.user_degrees import UserDegreeMechanism
from tests.beam_runs import of_kind, run, same, table_of
from tests.cases import refused

SECRET = dp.JobSecret.insecure_for_testing(5)
MECHANISM = FrobeniusMechanism(epsilon=0.5, sensitivity=2)
COUNTS = {"a": 40, "b": 40, "c": 7, "d": 1, "e": 1, "f": 1}
# User u has u % 7 + 1 partitions, and one record twice.
RECORDS = [(f"u{u}", p) for u in range(90) for p in (*range(u % 7 + 1), 0)]


def release(counts, *steps, element_type=None, **options):
    given = {"epsilon": 0.5, "max_partitions_per_user": 2, "secret": SECRET} | options
    steps = *(steps or [dp.DeclareBounded(2, counted=True)]), dp.ReleaseFrequencyList(**given)
    (released,) = run(counts, *steps, element_type=element_type)
    return released


def expected(counts, mechanism=MECHANISM):
    return dp.release_frequency_list(FrequencyList.from_counts(counts), mechanism, SECRET)


@pytest.mark.parametrize("kind", ["tuples", "rows", "tables"])
def test_the_transform_releases_what_the_function_does(kind):
    counts = of_kind(kind, [*COUNTS.items()], ("partition", "count"))
    assert release(counts) == expected(COUNTS.values())


def test_counts_of_rows_go_by_name():
    rows = [beam.Row(count=count, partition=99) for count in COUNTS.values()]
    assert release(rows) == expected(COUNTS.values())
    undeclared = beam.Map(same).with_output_types(Any), dp.DeclareBounded(2, counted=True)
    assert release(rows, *undeclared, max_partitions_per_user=None) == expected(COUNTS.values())
    with pytest.raises(ValueError, match="rows have no field 'count', only name, number"):
        release([beam.Row(name="secret", number=5)])


@pytest.mark.parametrize(
    ("steps", "element_type"),
    [
        ([dp.DeclareBounded(2, counted=True)], None),
        ([dp.DeclareBounded(2, counted=True)], pa.Table),
        ([dp.BoundContributions(2), dp.CountDistinctUsers()], None),
    ],
)
def test_no_counts_and_no_records_at_all_still_give_one_release(steps, element_type):
    assert release([], *steps, element_type=element_type) == expected([])


def test_no_released_frequency_exceeds_a_cap_on_counts():
    records = [(user, partition) for partition in range(50) for user in range(40)]
    steps = dp.DeclareBounded(2), dp.CountDistinctUsers(cap=6)
    capped = release(records, *steps, epsilon="0.1")
    assert 1 <= capped.frequencies.max() <= 6
    assert capped.mechanism.possible_lists()["possible_lists"] == "between public bounds"


def test_a_mechanism_of_one_s_own():
    mechanism = IntegerPartitionMechanism(eta=Eta(3, 2, 1), sensitivity=3)
    pairs = list(COUNTS.items())
    assert release(pairs, epsilon=None, mechanism=mechanism) == expected(COUNTS.values(), mechanism)


def test_a_tape_serves_one_list_of_one_mechanism():
    words = collections.Counter()

    def keep(frequency_list, tape):
        words[int(tape.words("any", 1)[0])] += 1

    lists = [FrequencyList.from_counts(counts) for counts in ([5, 5], [2] * 5, [], [5, 5])]
    for name in ("one", "two"):
        mechanism = types.SimpleNamespace(name=name, release=keep)
        for secret in (SECRET, dp.JobSecret.insecure_for_testing(6)):
            for frequency_list in lists:
                dp.release_frequency_list(frequency_list, mechanism, secret)
    # Each of four pairs of mechanism and secret has three lists, of which one comes twice.
    assert sorted(words.values()) == [1] * 8 + [2] * 4


@pytest.mark.parametrize("count", [0, -1])
def test_counts_must_be_positive_and_are_not_shown(count):
    for counts in ([("secret", count)], [table_of([("secret", count)], ("partition", "count"))]):
        with pytest.raises(ValueError, match="counts must be positive integers") as error:
            release(counts)
        shown = str(error.value).split(" [while running")[0]
        assert str(count) not in shown
        assert "secret" not in shown


test_arguments_are_checked_at_once = refused(
    lambda options: dp.ReleaseFrequencyList(**{"max_partitions_per_user": 1} | options),
    ({}, "give either epsilon or mechanism"),
    ({"epsilon": 1.0, "mechanism": MECHANISM}, "give either epsilon or mechanism"),
    ({"epsilon": 1.0, "max_partitions_per_user": 0}, "max_partitions_per_user must be"),
    ({"epsilon": -1.0}, "epsilon must be"),
    ({"mechanism": MECHANISM, "max_partitions_per_user": 3}, "sensitivity must be at least"),
    ({"epsilon": 1.0, "context": ""}, "context must be a text that is not empty"),
)
test_contexts_of_degrees_are_texts = refused(
    lambda context: dp.ReleaseUserDegrees(1, context=context), (7, "context must be a text .*got 7")
)


def test_display_data():
    transform = dp.ReleaseFrequencyList(0.5, 2, secret=SECRET)
    shown = {item.key: item.value for item in DisplayData.create_from(transform).items}
    parameters = {"mechanism": "FrobeniusMechanism", "max_partitions_per_user": 2}
    assert shown == parameters | {"epsilon": 0.5, "delta": 0.0}


def test_hints_are_for_the_release_alone():
    pipeline = beam.Pipeline()
    counts = pipeline | beam.Create([("a", 1)]) | dp.DeclareBounded(1, counted=True)
    _ = counts | dp.ReleaseFrequencyList(epsilon=1, max_partitions_per_user=1) | beam.Map(repr)
    parts = pipeline.to_runner_api().components
    steps = [step for step in parts.transforms.values() if step.environment_id]
    hints = {s.unique_name: parts.environments[s.environment_id].resource_hints for s in steps}
    assert {name: dict(some) for name, some in hints.items() if some} == {
        "ReleaseFrequencyList/Release": {
            resource_hints.MIN_RAM_BYTES.urn: b"16000000000",
            resource_hints.MAX_ACTIVE_BUNDLES_PER_WORKER.urn: b"1",
        }
    }


@pytest.mark.parametrize("kind", ["tuples", "rows", "tables", "none"])
def test_the_transform_releases_the_degrees_that_the_mechanism_does(kind):
    degrees = collections.Counter(u % 7 + 1 for u in range(90) if kind != "none")
    expected = UserDegreeMechanism(0.3, max_degree=5).release_under(degrees, SECRET.tape)
    records = of_kind(kind, RECORDS if kind != "none" else [])
    assert run(records, dp.ReleaseUserDegrees(0.3, 5, secret=SECRET)) == [expected]
