"""Planted bugs must still have a place, or ``make mutants`` would be a test of nothing."""

from tests.mutants import mutated_text
from tests.planted_bugs import MUTANTS


def test_every_planted_bug_has_its_place():
    for mutant in MUTANTS:
        compile(mutated_text(mutant), mutant.path, "exec")
