from fractions import Fraction

from dp_transforms.releases import PeriodListsSpec


def test_no_stated_cost_is_below_the_exact_one():
    spec = PeriodListsSpec(
        periods=("2026-01-01", "2026-01-02"),
        epsilon=Fraction(1, 3),
        max_periods_per_user=2,
        max_partitions_per_user=1,
    )
    statement = spec.statement(None)
    of_all = statement["periods"]
    assert of_all["epsilon_of_all_exact"] == "1/3" and statement["epsilon_exact"] == "1/6"
    assert Fraction(of_all["epsilon_of_all"]) >= Fraction(1, 3)
    assert Fraction(statement["epsilon"]) >= Fraction(1, 6)
