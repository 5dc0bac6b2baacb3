"""Planted bugs must still have a place, or ``make mutants`` would be a test of nothing."""

from tests.mutants import TREE, mutated_text
from tests.planted_bugs import MUTANTS


def test_every_planted_bug_has_its_place():
    assert len(MUTANTS) >= 80
    for mutant in MUTANTS:
        compile(mutated_text(mutant), mutant.path, "exec")
        assert all((TREE / target.partition("::")[0]).exists() for target in mutant.targets)
