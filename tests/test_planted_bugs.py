"""Planted bugs must still have a place, or ``make mutants`` would be a test of nothing."""

import pytest

from tests.mutants import mutated_text
from tests.planted_bugs import MUTANTS


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.bug)
def test_every_planted_bug_has_its_place(mutant):
    compile(mutated_text(mutant), mutant.path, "exec")
