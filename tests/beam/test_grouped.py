import collections
import datetime
import enum
import random
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import dp_transforms as dp
from dp_transforms.beam.grouped import ReleaseGroupedLists
from dp_transforms.budget import PrivacyBudget
from dp_transforms.mechanisms import FrequencyList
from dp_transforms.mechanisms.partition.frobenius import FrobeniusMechanism
from dp_transforms.mechanisms.selection import make_strategy
from dp_transforms.mechanisms.selection.choice import AUTO
from dp_transforms.releases import Attribute
from dp_transforms.releases.lists import ALL_USERS
from dp_transforms.runtime.job_secret import JobSecret, release_frequency_list
from tests import reference
from tests.beam_runs import of_kind, run
from tests.cases import refused
from tests.selection_reference import as_tables, selected

KAPPA = 2
SECRET = JobSecret.insecure_for_testing(17)
PUBLIC = (Attribute("gender", ("f", "m", "nobody")), Attribute("language", ("no", "it", "sq")))
TO_SELECT = (Attribute("gender", ("f", "m")), Attribute("age"), Attribute("language"))
SELECTION = PrivacyBudget(2, "1e-2")
Language = enum.Enum("Language", {"NORWEGIAN": "no"}, type=str)
AGES = ("<20", "20-30", "a=b", "100 and, more")
BUDGET = {"epsilon_all": 1.0, "epsilon_groups": "0.5", "max_partitions_per_user": KAPPA}


def make_records(ages):
    """Users, of whom some have no values, several, or such as are not public."""
    rng = random.Random(4)
    pages = [f"page{i}" for i in range(12)]
    records = []
    for user in range(150):
        gender = rng.choice(["f", "m", "m", "unknown", None])
        language = rng.choice(["no", "it", "xx", ""])
        age = AGES[0] if user % 20 else rng.choice(AGES)
        for page in rng.sample(pages, rng.randint(1, 4)):
            # A user may change, and a record may come twice.
            now = rng.choice([gender, gender, "f"])
            record = (f"user{user}", page, now, *((age,) if ages else ()), language)
            records += [record] * rng.randint(1, 2)
    rng.shuffle(records)
    return records


def expected(records, attributes, selection=None):
    pairs = reference.bound([r[:2] for r in records], KAPPA, SECRET.key("bound contributions"))
    groups = {(ALL_USERS, ALL_USERS): collections.Counter(partition for _, partition in pairs)}
    names, labels = [], {}
    for i, attribute in enumerate(attributes):
        key = SECRET.key(f"value of attribute {attribute.name!r}")
        values = [(r[0], r[2 + i]) for r in records if r[2 + i]]
        if attribute.groups is not None:
            values = [(user, value) for user, value in values if value in attribute.groups]
            groups |= {(attribute.name, group): collections.Counter() for group in attribute.groups}
        of_user = dict(reference.bound(values, 1, key))
        for user, partition in pairs:
            if user in of_user:
                group = groups.setdefault((attribute.name, of_user[user]), collections.Counter())
                group[partition] += 1
        if attribute.groups is None:
            names += [(user, f"{i}={value}") for user, value in of_user.items()]
            labels |= {f"{i}={value}": (attribute.name, value) for value in of_user.values()}
    if selection is not None:
        to_select = sum(attribute.groups is None for attribute in attributes)
        bounds = {"already_bounded": True, "max_partitions_per_user": to_select}
        strategy = make_strategy(AUTO, selection.epsilon, selection.delta, **bounds)
        dropped = labels.keys() - selected(names, strategy, SECRET, "names of groups")
        assert 0 < len(dropped) < len(labels)
        for name in dropped:
            del groups[labels[name]]
    lists = {}
    for (attribute, group), counter in groups.items():
        epsilon = 1.0 if attribute == ALL_USERS else Fraction(1, 2) / len(attributes)
        lists[attribute, group] = release_frequency_list(
            FrequencyList.from_counts(counter.values()),
            FrobeniusMechanism(epsilon=epsilon, sensitivity=KAPPA),
            SECRET,
            f"frequency list of {attribute!r} {group!r}",
        )
    return lists


def release(attributes, **options):
    return ReleaseGroupedLists(attributes, **BUDGET | options, secret=SECRET)


def released(records, transform, **options):
    lists = run(records, transform, **options)
    by_group = {(attribute, group): frequencies for attribute, group, frequencies in lists}
    assert len(by_group) == len(lists)
    return by_group


@pytest.mark.thorough
def test_selected_groups_in_tables():
    records = make_records(ages=True)
    columns = ["user", "partition", *(attribute.name for attribute in TO_SELECT)]
    tables = as_tables(records, 3, columns)
    transform = release(TO_SELECT, selection=SELECTION, num_buckets=5)
    lists = released(tables, transform, element_type=pa.Table)
    assert lists == expected(records, TO_SELECT, SELECTION)


@pytest.mark.thorough
def test_public_groups_of_rows():
    records = make_records(ages=False)
    texts = [(user, page, gender or "", language) for user, page, gender, language in records]
    rows = of_kind("rows", texts, ("user", "partition", "gender", "language"))
    # Groups without users are released too: that they have none is private.
    lists = released(rows, release(PUBLIC))
    assert lists == expected(records, PUBLIC)
    assert {("gender", "nobody"), ("language", "sq")} < lists.keys()
    assert released([], release(PUBLIC)).keys() == lists.keys()


def test_values_of_tuples_are_read_as_those_of_tables():
    attributes = [Attribute(name, ("7", "true", "2026-01-31", "no")) for name in "abcde"]
    record = ("ann", "jazz", 7, True, datetime.date(2026, 1, 31), b"no", "no")
    equal_values = (np.int64(7), np.bool_(True), *record[4:6], Language.NORWEGIAN)
    table = pa.table([[value] for value in record], ["user", "partition", *"abcde"])
    # With hardly any noise, so that a value that is lost shows.
    epsilons = {"epsilon_all": 20, "epsilon_groups": 100}
    of_tuples, of_table = (
        released(records, release(attributes, **epsilons), element_type=element_type)
        for records, element_type in (([(*record[:2], *equal_values)], None), ([table], pa.Table))
    )
    assert of_tuples == of_table
    named = zip("abcde", ("7", "true", "2026-01-31", "no", "no"), strict=True)
    assert {group for group, released_list in of_table.items() if released_list.distinct} == {
        (ALL_USERS, ALL_USERS),
        *named,
    }


test_arguments_are_checked_when_it_is_made = refused(
    lambda make: make(),
    (lambda: release([]), "attributes must have different names, one at least"),
    (lambda: release([Attribute("a", ("x",))] * 2), "different names"),
    (lambda: release([Attribute("a")]), "selection must be given if, and only if"),
    (lambda: release([Attribute("a", ("x",))], selection=SELECTION), "selection must be given"),
    (lambda: release([Attribute("a")], selection=PrivacyBudget(1)), "delta"),
    (lambda: release([Attribute("a")], selection=1), "must be a PrivacyBudget, got int"),
    (lambda: Attribute("user"), "cannot be called 'user': rename"),
    (lambda: Attribute("a", ()), "groups of 'a' must be different names"),
    (lambda: Attribute("a", ("x", "x")), "groups of 'a' must be different names"),
    (lambda: Attribute("a", ("",)), "groups of 'a' must be different names"),
    (lambda: Attribute("a", (1, 2)), "groups of 'a' must be different names, as text"),
    (lambda: Attribute(5, ("a",)), "an attribute cannot be called 5"),
    (lambda: Attribute("a", "no"), "groups of 'a' must be several names, got 'no'"),
    error=(TypeError, ValueError),
)


def test_records_without_a_user_are_refused():
    with pytest.raises(ValueError, match="nulls"):
        run([(None, "jazz", "f")], release([Attribute("gender", ("f",))]))


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"epsilon_all": 0}, ValueError, "epsilon_all must be a positive finite number, got 0"),
        ({"epsilon_groups": -1}, ValueError, "epsilon_groups must be a positive finite number"),
        ({"max_partitions_per_user": None}, ValueError, "max_partitions_per_user must be a pos"),
        ({"attributes": dp.Attribute("tongue", ["no"])}, TypeError, "must be several Attributes"),
    ],
)
def test_errors_have_the_name_of_the_argument(given, error, says):
    usual = {"epsilon_all": 1, "epsilon_groups": 1, "max_partitions_per_user": 2}
    usual["attributes"] = [dp.Attribute("tongue", ["no"])]
    with pytest.raises(error, match=says):
        dp.ReleaseGroupedLists(**usual | given)
