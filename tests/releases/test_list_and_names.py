"""A list and names of the same records under one budget."""

from fractions import Fraction

import pytest

from dp_transforms.budget import PrivacyBudget
from dp_transforms.releases import ListAndNamesSpec


@pytest.mark.parametrize("kappa", [None, 1, 7])
@pytest.mark.parametrize("share", ["0.5", "0.3", Fraction(1, 3), 0.999])
def test_both_together_cost_the_budget(kappa, share):
    # The requests are summed here, as the job's statement and a ledger do.
    for epsilon in (1, "0.7", Fraction(22, 7)):
        whole = PrivacyBudget(epsilon, "1e-6")
        both = ListAndNamesSpec.of(
            whole, share, kappa, mechanism="auto", strategy="auto", noisy_counts=True
        )
        spent = sum((request.cost.budget for request in both.requests), PrivacyBudget(0))
        assert spent == whole
        assert both.names.cost.epsilon == whole.epsilon * Fraction(str(share))
