"""A release whose steps went by different outcomes of its survey or look is not made."""

import dataclasses
import functools

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest

import dp_transforms as dp
from dp_transforms.beam import all_records, rounds
from dp_transforms.beam.same_choice import (
    MARK,
    decide_checked,
    histogram_by_choice,
    mark_of_plan,
    marked,
    marked_histogram,
    marked_histograms,
    weigh_marked,
)
from dp_transforms.columnar.columns import concat
from dp_transforms.columnar.counting import add_histograms, sum_counts
from dp_transforms.errors import InputError, input_error_message
from dp_transforms.mechanisms.selection import MeasuredSelection
from dp_transforms.mechanisms.selection.population import Look
from tests.beam_runs import run

OTHER = "two workers of this job came to different choices"
VISITS = [(user, f"page {page}") for user in range(300) for page in range(user % 4 + 1)]


def choices():
    """A choice of a look, and the same with the plan that is the second best."""
    strategy = MeasuredSelection(1, 1e-5, 4)
    users = (5_000,) * 3 + (0,) * (len(strategy.edges) - 2)
    look = Look(users, (1_500,) * 8 + (0,) * 32, strategy.edges, (10.0, 30.0))
    choice = strategy.choice_of(look)
    second = next(row for row in choice.compared if row.plan != choice.plan)
    return choice, dataclasses.replace(choice, chosen=second)


def counted(names, choice):
    """Sums of one user for each name."""
    assert choice
    return pa.table({"partition": names, "weight": [1] * len(names), "count": [1] * len(names)})


def decided(table, choice, **_):
    assert choice and MARK not in table.column_names
    return table


def test_steps_of_one_plan_agree_and_those_of_two_do_not():
    choice, other = choices()
    assert mark_of_plan(choice) != mark_of_plan(other)
    by_choice = weigh_marked(counted, ["a", "b"], choice)
    both = concat([by_choice, weigh_marked(counted, ["b", "c"], other)])
    agreeing = sum_counts(concat([by_choice, by_choice]))
    assert decide_checked(decided, agreeing, choice)["count"].to_pylist() == [2, 2]
    for sums, at in ((agreeing, other), (sum_counts(both), choice), (sum_counts(both), other)):
        with pytest.raises(InputError, match=OTHER):
            decide_checked(decided, sums, at)


def test_histograms_are_those_of_one_kappa():
    tables = [pa.table({"partition": ["a", "b"], "count": [users, 2]}) for users in (1, 3)]
    histograms = [marked_histogram(sum_counts(marked(table, 5))) for table in tables]
    assert histogram_by_choice(add_histograms(histograms), 5) == {1: 1, 2: 2, 3: 1}
    assert histogram_by_choice({}, 5) == {}
    mixed = concat([marked(table, kappa) for table, kappa in zip(tables, (5, 6), strict=True)])
    for kappa in (5, 6):
        with pytest.raises(InputError, match=OTHER):
            histogram_by_choice(marked_histogram(sum_counts(mixed)), kappa)


def test_histograms_of_lists_are_those_of_each_lists_kappa():
    pairs = pa.array([{"list": name, "partition": number} for name in "ab" for number in (1, 2)])
    counts = pa.table({"partition": pairs, "count": [3, 1, 1, 1]})
    by_list = dict(marked_histograms(marked(counts, np.array([4, 4, 7, 7]))))
    assert by_list == {"a": {(3, 12): 1, (1, 4): 1}, "b": {(1, 7): 2}}


def bounded_by_another_kappa(pairs, bound, choice, _count=all_records._count_kept):
    return _count(pairs, bound, choice._replace(kappa=choice.kappa + 1))


def weighed_by_another_plan(weigh, table, choice, _weigh=weigh_marked, **side_inputs):
    second = next(row for row in choice.compared if row.plan != choice.plan)
    return _weigh(weigh, table, dataclasses.replace(choice, chosen=second), **side_inputs)


LIST = functools.partial(dp.ReleaseAllRecords, epsilon=40, max_degree=8)
NAMES = functools.partial(dp.SelectPartitions, epsilon=40, delta=1e-3)
COUNTED_NAMES = functools.partial(NAMES, noisy_counts=True)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("transform", "module", "step", "by_another_choice"),
    [
        (LIST, all_records, "_count_kept", bounded_by_another_kappa),
        (NAMES, rounds, "weigh_marked", weighed_by_another_plan),
        (COUNTED_NAMES, rounds, "weigh_marked", weighed_by_another_plan),
    ],
    ids=["list", "names", "names with counts"],
)
def test_nothing_is_released_if_one_step_goes_by_another_choice(
    transform, module, step, by_another_choice, monkeypatch
):
    assert run(lambda begin: begin | beam.Create(VISITS) | transform())
    monkeypatch.setattr(module, step, by_another_choice)
    with pytest.raises(Exception) as error:
        run(lambda begin: begin | beam.Create(VISITS) | transform())
    assert OTHER in input_error_message(error.value)
