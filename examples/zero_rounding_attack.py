"""The zero-rounding attack (Ilvento 2019): a weight that underflows tells two databases apart.

Whoever chooses the utility function shifts all utilities up to where 2**(-eta * u) is the smallest
positive float. One record more, and one outcome's weight is zero: an outcome that differential
privacy requires to stay possible can no longer occur. The exact mechanism cannot underflow.

    python -m examples.zero_rounding_attack
"""

from __future__ import annotations

from dp_transforms.mechanisms import Eta, ExponentialMechanism, RandomTape
from examples import naive_exponential

ETA = Eta(1, 1, 1)
SMALLEST = 1074
"""2**-1074 is the smallest positive float."""

WITHOUT_RECORD = [SMALLEST, SMALLEST]
WITH_RECORD = [SMALLEST, SMALLEST + 1]
"""Utilities of the outcomes "no" and "yes": the record makes one of them worse by 1."""

MECHANISM = ExponentialMechanism(ETA, 0, SMALLEST + 1, max_outcomes=2)


def exact_frequency(utilities: list[int], tape: RandomTape, choices: int) -> float:
    """How often the exact mechanism chooses the second outcome."""
    return sum(MECHANISM.sample(utilities, tape, f"{i}") for i in range(choices)) / choices


def naive_frequency(utilities: list[int], seed: int, choices: int) -> float:
    """How often the float mechanism chooses the second outcome."""
    return float(naive_exponential.sample(utilities, 1.0, choices, seed).mean())


def main() -> None:
    print('How often "yes" is chosen in 1,000 choices. At eta = 1 and sensitivity 1 its')
    print("probability may change by a factor of at most 4:\n")
    print(f"{'':24}{'without the record':>20}{'with it':>12}")
    databases = (WITHOUT_RECORD, WITH_RECORD)
    naive = [naive_frequency(utilities, 1, 1000) for utilities in databases]
    print(f"{'floats':24}{naive[0]:20.3f}{naive[1]:12.3f}")
    exact = [exact_frequency(utilities, RandomTape.from_os(), 1000) for utilities in databases]
    print(f"{'exact':24}{exact[0]:20.3f}{exact[1]:12.3f}")
    distribution = [MECHANISM.probabilities(utilities)[1] for utilities in databases]
    print(f"{'exact, probability':24}{distribution[0]!s:>20}{distribution[1]!s:>12}")


if __name__ == "__main__":
    main()
