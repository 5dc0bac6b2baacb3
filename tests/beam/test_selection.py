import hashlib
import math
import random
from fractions import Fraction

import apache_beam as beam
import gmpy2
import numpy as np
import pyarrow as pa
import pytest

import dp_transforms as dp
from dp_transforms.beam import shuffle
from dp_transforms.columnar.counting import distinct_users
from dp_transforms.engines import local_shuffle
from dp_transforms.engines.other_users import noisy_users, users_of_others
from dp_transforms.mechanisms.selection import STRATEGIES, OptimalSelection, make_strategy
from dp_transforms.releases import NamesSpec
from tests import reference
from tests.beam_runs import of_kind, rows_of, run, steps_of, table_of
from tests.cases import refused, thorough_unless
from tests.in_process_engine import in_process
from tests.selection_reference import RECORDS, SECRET, as_tables, is_kept, selected
from tests.statistical import distributions

ON_BEAM = ("gaussian", "measured")
"""One strategy of each kind runs on both engines."""
NOISY = [name for name, strategy in STRATEGIES.items() if strategy.has_noisy_counts]


@pytest.fixture(autouse=True)
def few_buckets(monkeypatch):
    """Small tables in few parts: a run is a matter of overhead."""
    monkeypatch.setattr(shuffle, "DEFAULT_BUCKETS", 3)
    monkeypatch.setattr(local_shuffle, "buckets_by_size", lambda number, *_: (number, 1 << 25))


@pytest.mark.parametrize("max_partitions", [1, 3, 50])
@pytest.mark.parametrize("name", thorough_unless(STRATEGIES, set(STRATEGIES) - {"measured"}))
def test_selections_agree_with_the_reference(name, max_partitions):
    strategy = make_strategy(name, 2.0, 1e-2, max_partitions_per_user=max_partitions)
    secret = dp.JobSecret.insecure_for_testing(100)
    expected = selected(RECORDS, strategy, secret)
    assert 0 < len(expected) < 30
    tables, *_ = in_process(as_tables(RECORDS), secret).names(NamesSpec(strategy))
    on_beam = name in ON_BEAM and max_partitions == 3
    if on_beam:
        transform = dp.SelectPartitions(2.0, 1e-2, max_partitions, strategy=name, secret=secret)
        assert transform.strategy == strategy
        tables += run(as_tables(RECORDS), transform, element_type=pa.Table)
    assert all(table.column_names == ["partition"] for table in tables)
    names = [name for (name,) in rows_of(tables)]
    assert len(names) == len(set(names)) * (2 if on_beam else 1)
    assert set(names) == expected


def test_one_user_moves_the_number_of_other_users_by_one():
    named = [pa.table({"partition": ["item0", "item3"]})]
    users = distinct_users(users_of_others(table_of(RECORDS), named)).num_rows
    gone = []
    for user in {user for user, _ in RECORDS}:
        rest = table_of([record for record in RECORDS if record[0] != user])
        gone.append(users - users_of_others(rest, named).num_rows)
    assert set(gone) == {0, 1}
    assert users_of_others(table_of(RECORDS), []).num_rows == 120


@pytest.mark.parametrize("epsilon", [0.5, 2])
def test_the_number_of_other_users_has_the_noise_of_its_epsilon(epsilon):
    spec = NamesSpec(OptimalSelection(1, 1e-2), others_epsilon=epsilon)
    draws = [noisy_users(3, spec, dp.JobSecret.insecure_for_testing(n)) for n in range(3000)]
    q = math.exp(-epsilon)
    # What is below 1 is 0.
    expected = {n: (1 - q) / (1 + q) * q ** abs(n - 3) for n in range(1, 25)}
    distributions.assert_follows(draws, expected | {0: q**3 / (1 + q)})


def test_another_number_of_other_users_has_other_noise_under_the_same_secret():
    # Equal noise in all ten would have probability below 0.1 ** 9.
    spec = NamesSpec(OptimalSelection(1, 1e-2), others_epsilon=0.1)
    assert len({noisy_users(users, spec, SECRET) - users for users in range(1000, 1010)}) > 1


def names_of(records, strategy, **options):
    tables, *_ = in_process(as_tables(records), SECRET).names(NamesSpec(strategy, **options))
    return rows_of(tables)


@pytest.mark.parametrize("name", NOISY)
def test_noisy_counts_come_with_the_same_partitions(name):
    strategy = make_strategy(name, 2.0, 1e-2, max_partitions_per_user=3)
    noisy = dict(names_of(RECORDS, strategy, noisy_counts=True))
    assert set(noisy) == selected(RECORDS, strategy)
    counts = reference.count(reference.bound(RECORDS, 3, SECRET.key("bound contributions")))
    key = SECRET.key(f"selection by {strategy!r}")
    for partition, count in noisy.items():
        digest = hashlib.blake2b(partition.encode(), key=key).digest()
        lower = Fraction(int.from_bytes(digest, "big"), 2**512)
        noise = count - counts[partition]
        # The noise inverts the same uniform number: P[X < noise] <= U < P[X <= noise].
        assert distribution(strategy.distribution.noise, noise - 1) <= lower
        assert lower < distribution(strategy.distribution.noise, noise)
        assert count >= strategy.distribution.threshold + (strategy.distribution.tie == 0)


@pytest.mark.thorough
def test_intervals_come_with_noisy_counts_in_every_kind_of_record():
    strategy = make_strategy("laplace", 2.0, 1e-2, max_partitions_per_user=3)
    options = {"strategy": strategy, "noisy_counts": True, "secret": SECRET}
    transform = dp.SelectPartitions(**options, intervals=True)
    plain = run(RECORDS, dp.SelectPartitions(**options))
    low, high = strategy.count_intervals(np.array([noisy for _, noisy in plain]))
    expected = [(*pair, *ends) for pair, *ends in zip(plain, low, high, strict=True)]
    for kind in ("tuples", "rows", "tables"):
        elements = run(of_kind(kind, RECORDS), transform)
        assert rows_of(elements) == expected
        if kind == "rows":
            assert list(elements[0].as_dict()) == ["partition", "noisy_count", "low", "high"]


def distribution(noise, x):
    """P[X <= x]."""
    tail = noise.tail(x, 300)[0] if x >= 0 else 1 - gmpy2.mpq(noise.tail(-x - 1, 300)[0])
    return Fraction(*map(int, (1 - gmpy2.mpq(tail)).as_integer_ratio()))


def test_counts_alone():
    strategy = make_strategy("optimal", 1.0, 1e-2)
    counts = [(f"p{n}", n) for n in range(1, 40)]
    key = SECRET.key(f"selection by {strategy!r}")
    expected = {p for p, n in counts if is_kept(strategy.distribution, n, p, key)}
    for kind in ("tuples", "rows", "tables"):
        given = of_kind(kind, counts, ("partition", "count"))
        select = dp.SelectFromCounts(strategy, secret=SECRET)
        elements = run(given, dp.DeclareBounded(1, counted=True), select)
        names = elements if kind == "tuples" else [name for (name,) in rows_of(elements)]
        assert set(names) == expected


def test_declared_bounds_count_users_once_and_no_further_than_needed():
    strategy = OptimalSelection(1, 1e-3)
    cap = strategy.saturation_count
    # Far more users than the cap, everyone several times, and partitions beside the threshold.
    records = [(user, "huge") for user in range(3000)] * 2
    records += [(-1 - user, f"p{n}") for n in range(1, cap) for user in range(n)] * 3
    random.Random(2).shuffle(records)
    transform = dp.SelectPartitions(1, 1e-3, 1, already_bounded=True, secret=SECRET)
    pipeline = beam.Pipeline()
    _ = pipeline | beam.Create(records[:1]) | transform
    steps = " ".join(step.full_label for step in steps_of(pipeline.transforms_stack[0]))
    assert "Bound" not in steps and "Distinct" in steps
    counts = {"huge": cap} | {f"p{n}": n for n in range(1, cap)}
    key = SECRET.key(f"selection by {strategy!r}")
    expected = {p for p, n in counts.items() if is_kept(strategy.distribution, n, p, key)}
    assert set(run(records, transform)) == expected and "huge" in expected


@pytest.mark.parametrize("name", ["optimal", "measured"])
def test_nothing_is_selected_from_nothing(name):
    assert run([], dp.SelectPartitions(1, 1e-2, 2, strategy=name)) == []


@pytest.mark.thorough
def test_purposes_and_strategies_have_numbers_of_their_own():
    strategy, other = OptimalSelection(1, 1e-2, 2), OptimalSelection(1, 1e-2)
    assert len({*map(repr, (strategy, other, make_strategy("laplace", 1, 1e-2)))}) == 3
    selections = set()
    for context in ("selection", "other", "third"):
        select = dp.SelectPartitions(strategy=strategy, context=context, secret=SECRET)
        selections.add(frozenset(run(RECORDS, select)))
    assert len(selections) > 1


PUBLIC = make_strategy("truncated_geometric", 1.0, 1e-2)
K = PUBLIC.distribution.threshold
USUAL = {"epsilon": 1, "delta": 1e-2, "max_partitions_per_user": 1}
test_arguments_are_checked_at_once = refused(
    lambda arguments: dp.SelectPartitions(**USUAL | arguments),
    ({"delta": None}, "delta must be given"),
    ({"epsilon": -1}, "epsilon must be"),
    ({"strategy": "best"}, "strategy must be 'auto' or one of"),
    ({"strategy": "renyi_rounds", "noisy_counts": True}, "has no noisy counts"),
    ({"strategy": OptimalSelection(1, 1e-3)}, "has its budget and bounds in it already"),
    ({"strategy": "laplace", "intervals": True}, "intervals are those of noisy_counts"),
    ({"public_partitions": ["a"], "strategy": "laplace"}, "public_partitions are for the strat"),
    ({"public_partitions": ["a"], "pre_threshold": 2}, "exclude each other"),
    ({"public_partitions": ["a"], "public_threshold": K + 1}, rf"\[-{K + 1}, {K}\], got {K + 1}"),
    ({"public_partitions": ["a"], "public_threshold": 0.5}, "must be an integer, got 0.5"),
    ({"public_partitions": "secret"}, "public_partitions must be several names, such as a list"),
    ({"public_partitions": []}, "public_partitions has no names"),
    ({"public_partitions": pa.array([], pa.string())}, "public_partitions has no names"),
    ({"public_partitions": ["secret", 1]}, "the values of 'public_partitions' must be of one type"),
    ({"public_partitions": ["secret", None]}, "public_partitions has a name that is None"),
    ({"public_partitions": [1.5]}, "column 'public_partitions' has type double"),
    ({"strategy": "optimal", "public_threshold": 0}, "public"),
    ({"context": ""}, "context must be a text that is not empty"),
    ({"context": 3}, "context must be a text that is not empty, got 3"),
    error=(TypeError, ValueError),
    hides=["secret"],
)


@pytest.mark.parametrize("names", [[1, 2], [b"jazz"], [("jazz", 1)]], ids=str)
def test_public_names_have_the_declared_type_of_the_partitions(names):
    records = beam.Pipeline() | beam.Create([("ann", "jazz")])
    with pytest.raises(TypeError, match="but partitions are declared as str: give names of this"):
        _ = records | dp.SelectPartitions(**USUAL, public_partitions=names)
    counts = records.pipeline | "Counts" >> beam.Create([("jazz", 4)])
    with pytest.raises(TypeError, match="but partitions are declared as str: give names of this"):
        _ = (
            counts
            | dp.DeclareBounded(1, counted=True)
            | dp.SelectFromCounts(PUBLIC, public_partitions=names)
        )


ROUNDS = make_strategy("renyi_rounds", 1, 1e-3)
test_counts_are_refused = refused(dp.SelectFromCounts, (ROUNDS, "needs users' records"))


@pytest.mark.parametrize("name", STRATEGIES)
def test_pre_thresholds_are_never_undercut(name):
    records = [(f"{p}/{user}", p) for p in range(200) for user in range(p % 8)]
    names = names_of(records, make_strategy(name, 30, 0.5, pre_threshold=5))
    assert names and min(p % 8 for (p,) in names) >= 5


@pytest.mark.thorough
def test_distributions_of_both_kinds_hold_in_one_release():
    listed, empty = ([f"{kind} {i}" for i in range(1500)] for kind in ("listed", "empty"))
    unlisted = [f"other {i}" for i in range(3000)]
    records = [(f"{name}/{u}", name) for name in listed for u in range(2)]
    records += [(f"{name}/{u}", name) for name in unlisted for u in range(4)]
    options = {"public_partitions": listed + empty, "public_threshold": 1, "secret": SECRET}
    select = dp.SelectPartitions(1.0, 1e-2, 1, noisy_counts=True, intervals=True, **options)
    counts_of = {name: counts for name, *counts in run(records, select)}
    public = PUBLIC.public_distribution(1)
    for names, users, kept, least in (
        (listed, 2, public, 2),
        (empty, 0, public, 2),
        (unlisted, 4, PUBLIC.distribution, K + 1),
    ):
        counts = [counts_of[name] for name in names if name in counts_of]
        chance = kept.keep_enclosure(users, 128)
        distributions.assert_probability(len(counts), len(names), chance, 1e-7)
        noisy, *ends = np.transpose(counts)
        assert noisy.min() == least
        assert np.array_equal(ends, kept.count_intervals(noisy))


@pytest.mark.parametrize("argument", ["noisy_counts", "already_bounded", "intervals"])
def test_a_text_is_not_taken_for_true(argument):
    # "False" switched the bounding off.
    with pytest.raises(ValueError, match=f"{argument} must be True or False, got 'False'"):
        dp.SelectPartitions(1, 1e-3, 1, strategy="truncated_geometric", **{argument: "False"})


def test_a_selection_with_entries_returns_a_dictionary_in_any_case():
    for bounded in (False, True):
        with beam.Pipeline() as pipeline:
            records = pipeline | beam.Create([("ann", "a")])
            if bounded:
                records |= dp.BoundContributions(1)
            selected = records | dp.SelectPartitions(1, 1e-3, 1, with_entries=True)
            assert "partitions" in selected
