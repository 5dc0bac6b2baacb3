import collections
import datetime
import random
from fractions import Fraction

import apache_beam as beam
import pyarrow as pa
import pytest

from dp_transforms.beam.attributes import ReleaseAttributes
from dp_transforms.engines.attribute_kernels import joined_values, keep_one_value, one_value_rule
from dp_transforms.mechanisms import FrequencyList
from dp_transforms.mechanisms.partition.frobenius import FrobeniusMechanism
from dp_transforms.runtime.job_secret import JobSecret, release_frequency_list
from tests import reference
from tests.beam_runs import of_kind, run
from tests.cases import refused

SECRET = JobSecret.insecure_for_testing(17)
COLUMNS = ("os", "font", "size")
ATTRIBUTES = ["os", "font", ("os", "font", "size")]
SHARES = {"os": 2}


def make_records():
    """Users, of whom some have no values, or several in several records."""
    rng = random.Random(4)
    records = []
    for user in range(200):
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            font = f"font{int(rng.paretovariate(0.7))}"
            record = rng.choice(["linux", "bsd", None]), rng.choice([font, font, ""]), user % 7
            records += [(f"user{user}", *record)] * rng.randint(1, 2)
    rng.shuffle(records)
    return records


def expected(records):
    """By the definition: one value of each user, and of combinations where all columns have one."""
    prices = dict(zip(("os", "font", "os + font + size"), (2, 1, 1), strict=True))
    lists = {}
    for label, price in prices.items():
        values = []
        for user, *fields in records:
            named = dict(zip(COLUMNS, fields, strict=True))
            parts = [named[name] for name in label.split(" + ")]
            if all(part not in (None, "") for part in parts):
                text = str(parts[0])
                if len(parts) > 1:
                    text = "".join(f"{len(str(part))}:{part}" for part in parts)
                values.append((user, text))
        kept = reference.bound(values, 1, SECRET.key(f"value of attribute {label!r}"))
        counts = collections.Counter(value for _, value in kept)
        lists[label] = release_frequency_list(
            FrequencyList.from_counts(counts.values()),
            FrobeniusMechanism(Fraction(price, 4)),
            SECRET,
            f"list of attribute {label!r}",
        )
    return lists


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["tuples", "tables", "rows"])
def test_lists_are_those_of_the_definition(kind):
    records = make_records()
    if kind == "rows":  # rows have no nulls
        records = [(user, os or "", *values) for user, os, *values in records]
    transform = ReleaseAttributes(ATTRIBUTES, epsilon=1, shares=SHARES, secret=SECRET)
    elements = of_kind(kind, records, ("user", *COLUMNS))
    lists = run(elements, transform, element_type=pa.Table if kind == "tables" else None)
    assert [label for label, _ in lists] == ["os", "font", "os + font + size"]
    assert dict(lists) == expected(records)


def test_values_of_several_types_are_text():
    record = ("ann", b"a", datetime.date(2026, 1, 31), True)
    tables = [pa.table([[value] for value in record], ["user", *"abc"])]
    attributes = ["a", "b", ("c", "a")]
    for elements, kind in (([record], None), (tables, pa.Table)):
        lists = run(elements, ReleaseAttributes(attributes, epsilon=300), element_type=kind)
        assert [list(released) for _, released in lists] == [[(1, 1)]] * 3


def test_combinations_are_equal_only_where_all_their_values_are():
    texts = ["", "1", "1:", ":1", "11:", "1:1", "é"]
    pairs = [(a, b) for a in texts for b in texts]
    joined = joined_values([pa.array(part) for part in zip(*pairs, strict=True)]).to_pylist()
    valued = [text for (a, b), text in zip(pairs, joined, strict=True) if a and b]
    assert len(set(valued)) == len(valued) == 36
    assert set(joined) - set(valued) == {""}


def test_what_a_user_keeps_can_be_chosen_in_parts_and_depends_on_no_other_user():
    spec = ReleaseAttributes(["a", "b"], epsilon=1).spec
    keep = one_value_rule(spec, SECRET)
    rng = random.Random(1)
    rows = [(rng.randrange(9), rng.choice("xyz"), rng.choice(["", "u", "v"])) for _ in range(60)]

    def table(rows):
        kinds = pa.int64(), pa.string(), pa.string()
        columns = zip(zip(*rows, strict=True), kinds, strict=True)
        return pa.table([pa.array(part, kind) for part, kind in columns], ["user", "0", "1"])

    def kept(given):
        kept_rows = keep(given).to_pylist()
        assert len({row["user"] for row in kept_rows}) == len(kept_rows)
        return sorted(kept_rows, key=lambda row: row["user"])

    whole = kept(table(rows))
    parts = pa.concat_tables([keep(table(rows[:25])), keep(table(rows[20:]))])
    assert kept(parts) == whole and kept(keep(table(rows))) == whole
    for kept_row in whole:
        assert kept(table([row for row in rows if row[0] == kept_row["user"]])) == [kept_row]
        own = [row for row in rows if row[0] == kept_row["user"]]
        assert kept_row["1"] in {row[2] for row in own}
        assert kept_row["1"] or not any(row[2] for row in own)
    assert keep_one_value(table(rows), {}).column_names == ["user"]


test_arguments_are_checked_when_it_is_made = refused(
    lambda make: make(),
    (lambda: ReleaseAttributes([], epsilon=1), "attributes must be one at least"),
    (lambda: ReleaseAttributes("os", epsilon=1), "attributes must be a list of columns, got 'os'"),
    (lambda: ReleaseAttributes(["a", "a"], epsilon=1), "attributes must be different"),
    (lambda: ReleaseAttributes(["a + b", ("a", "b")], epsilon=1), "must be different"),
    (lambda: ReleaseAttributes([("a", "a")], epsilon=1), "must have different columns"),
    (lambda: ReleaseAttributes([()], epsilon=1), "must have different columns"),
    (lambda: ReleaseAttributes([""], epsilon=1), "must have different columns"),
    (lambda: ReleaseAttributes([7], epsilon=1), "name of a column, or a tuple"),
    (lambda: ReleaseAttributes(["user"], epsilon=1), "cannot be called 'user': rename"),
    (lambda: ReleaseAttributes(["a"], epsilon=0), "epsilon"),
    (lambda: ReleaseAttributes(["a"], epsilon=1, shares=[1]), "shares must map attributes"),
    (lambda: ReleaseAttributes(["a"], epsilon=1, shares={"b": 1}), "not released: these are 'a'"),
    (lambda: ReleaseAttributes(["a"], epsilon=1, shares={"a": 0}), "each of shares must be"),
    error=(TypeError, ValueError),
)


def test_records_without_a_user_are_refused():
    with pytest.raises(ValueError, match="nulls"):
        run([(None, "f")], ReleaseAttributes(["sex"], epsilon=1))


@pytest.mark.parametrize(
    "records",
    [
        [beam.Row(user="ann", sex="secret")],
        [{"user": "ann", "sex": "secret"}],
        [pa.table({"user": ["ann"], "sex": ["secret"]})],
    ],
    ids=["rows", "dictionaries", "tables"],
)
def test_a_column_that_is_not_there_is_not_for_to_records(records):
    # ToRecords would leave out the columns of all attributes.
    with pytest.raises(ValueError, match=r"no (field|column) .*'os'.*: check the name") as error:
        run(records, ReleaseAttributes(["os"], epsilon=1))
    assert not any(text in str(error.value) for text in ("ToRecords", "secret"))
