"""What Coq computes from the definitions of ``proofs/`` is what the Python computes.

The theorems are about these definitions, so this is where proofs and code meet. Needs Coq and the
compiled proofs: ``make proof``.
"""

import ast
import itertools
import random
import re
import subprocess
from fractions import Fraction

import numpy as np
import pytest

from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.noisy_coordinates import COLUMNS, ROWS, FrobeniusCoordinates
from dp_transforms.mechanisms.partition.frobenius import EndingRule
from proofs import check
from tests.enumeration import as_list, l1_distance, partitions_of_at_most

pytestmark = pytest.mark.coq

SIZE = 9
INDICES = np.arange(1, SIZE + 1)


@pytest.fixture
def computed(repository, tmp_path):
    """What Coq computes from a function for each of some arguments, as Python's values."""

    def of(function, arguments, scope="nat"):
        cases = "; ".join(map(coq, arguments))
        (tmp_path / "Compute.v").write_text(
            "From Coq Require Import List ZArith. Import ListNotations.\n"
            f"From Proofs Require Import {' '.join(check.FILES)}.\n"
            "Set Printing Depth 1000000.\n"
            f"Eval vm_compute in (map ({function}) ([{cases}])%{scope}).\n"
        )
        command = ["coqc", "-Q", repository / "out" / "proofs", "Proofs", "Compute.v"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        value = done.stdout.partition("=")[2].rpartition("\n     :")[0]
        value = re.sub(r"Some\s|%Z", "", value).replace(";", ",")
        return ast.literal_eval(value.strip())

    return of


def coq(value):
    """A number, or a list or tuple of such, as Coq writes it."""
    if isinstance(value, (list, tuple)):
        left, separator, right = ("[", "; ", "]") if isinstance(value, list) else ("(", ", ", ")")
        return left + separator.join(map(coq, value)) + right
    return str(value)


def test_lists_are_sorted_counts_and_coordinates_those_of_the_python(computed):
    counts = [[*values, 0] for values in partitions_of_at_most(8)]
    for values in counts:
        random.Random(len(values)).shuffle(values)
    function = (
        "fun n => let f := frequency_list n in let all g := map g (seq 1 9) in "
        "(f, all (rank f), all (at_least f), all (rows f), all (columns f))"
    )
    for values, coqs in zip(counts, computed(function, counts), strict=True):
        private = as_list(values)
        coordinates = FrobeniusCoordinates(private)
        lists = [private.at_ranks(INDICES), private.at_least(INDICES)]
        lists += [coordinates.of(arm, INDICES) for arm in (ROWS, COLUMNS)]
        assert coqs == (sorted(filter(None, values), reverse=True), *map(np.ndarray.tolist, lists))


def test_distances_are_those_of_the_python(computed):
    pairs = list(itertools.combinations(map(list, partitions_of_at_most(5)), 2))
    function = "fun xy => l1 9 (rank (fst xy)) (rank (snd xy))"
    for (values, other_values), distance in zip(pairs, computed(function, pairs), strict=True):
        assert distance == l1_distance(values, other_values)
        assert distance == as_list(values).l1_distance(as_list(other_values))


def rule_of(longest, stride, refuted):
    """The rule of the Python with these numbers in place of those of its rate."""
    rule = EndingRule(Decay(Fraction(1)))
    rule.longest, rule._slowest = longest, np.arange(1, longest + 1)
    rule._stride, rule._refuted = stride, refuted
    return rule


@pytest.mark.parametrize(
    "rule",
    [EndingRule(Decay(Fraction(10))), rule_of(4, 1, 6), rule_of(5, 2, 9), rule_of(7, 3, 5)],
    ids=["c = 10", "every", "every second", "every third"],
)
def test_arms_end_where_the_python_ends_them(computed, rule):
    draws = random.Random(rule.longest)
    arms = [[draws.randint(-3, 5) for _ in range(30)] for _ in range(1000 // rule.longest)]
    arms += [sorted(arm, reverse=True) for arm in arms] + [[99] * 30, [0] * 2, []]
    ending = f"ending_rule {rule.longest} {rule._stride} {rule._refuted}"
    prefixes = computed(f"fun z => released ({ending}) z", arms, scope="Z")
    ends = set()
    for arm, prefix in zip(arms, prefixes, strict=True):
        end = rule.end(np.array(arm), 0)
        assert prefix == (None if end is None else arm[:end])
        ends.add(end)
    assert None in ends and len(ends) > 5


@pytest.mark.parametrize(("t", "most"), [(3, 3), (4, 3)])
def test_cheapest_first_lifts_as_many_as_any_way(computed, t, most):
    costs = range(1, min(t - 1, most) + 1)
    deficits = [
        values for n in range(5) for values in itertools.combinations_with_replacement(costs, n)
    ]
    cases = [(pairs, list(values)) for values in deficits for pairs in range(12)]

    def ways(pairs, values):
        """Numbers of partitions that so many pairs lift: some of these, and new ones at t each."""
        for count in range(len(values) + 1):
            for some in itertools.combinations(values, count):
                if sum(some) <= pairs:
                    yield count + ((pairs - sum(some)) // t if t <= most else 0)

    lifted = computed(f"fun c => lifted {most} {t} (fst c) (snd c)", cases)
    assert lifted == [max(ways(*case)) for case in cases]
