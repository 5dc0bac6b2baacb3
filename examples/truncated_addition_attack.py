"""The truncated-addition attack (Ilvento 2019): small weights vanish beside a large one.

A large weight comes first, then very many small ones. Added one by one to a float, none of them
changes the sum, although together they matter: none of their outcomes can occur. One record that
halves the large weight lets all of them in. The exact mechanism adds without truncating.

    python -m examples.truncated_addition_attack
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dp_transforms.mechanisms import Eta, ExponentialMechanism, RandomTape
from examples import naive_exponential

ETA = Eta(1, 1, 1)
OUTCOMES = 1 + 2**20
SIGNIFICAND_BITS = {np.float32: 24, np.float64: 53}


def utilities(with_record: bool, dtype: type) -> npt.NDArray[np.int64]:
    """0 or, with the record, 1 for the first outcome; just too much to count for the others."""
    values = np.full(OUTCOMES, SIGNIFICAND_BITS[dtype])
    values[0] = 1 if with_record else 0
    return values


def naive_probability(with_record: bool, dtype: type) -> float:
    """The probability that the float mechanism chooses any other outcome than the first."""
    distribution = naive_exponential.probabilities(utilities(with_record, dtype), 1.0, dtype)
    return float(distribution[1:].sum())


def exact_probability(with_record: bool, dtype: type) -> float:
    """The same for the exact mechanism, whose other outcomes have equal weights."""
    first, other = utilities(with_record, dtype)[:2].tolist()
    rest = (OUTCOMES - 1) * ETA.base**other
    return float(rest / (ETA.base**first + rest))


def exact_frequency(with_record: bool, tape: RandomTape, choices: int) -> float:
    """How often the exact mechanism chooses another outcome, at the utilities for float32."""
    mechanism = ExponentialMechanism(ETA, 0, 64, max_outcomes=OUTCOMES)
    values = utilities(with_record, np.float32)
    return sum(mechanism.sample(values, tape, f"{i}") > 0 for i in range(choices)) / choices


def main() -> None:
    print("Probability of any outcome but the first. At eta = 1 and sensitivity 1 it may change")
    print("by a factor of at most 4:\n")
    print(f"{'':24}{'without the record':>20}{'with it':>12}")
    for dtype in (np.float32, np.float64):
        naive = [naive_probability(record, dtype) for record in (False, True)]
        print(f"{dtype.__name__:24}{naive[0]:20.3g}{naive[1]:12.3g}")
        exact = [exact_probability(record, dtype) for record in (False, True)]
        print(f"{'exact, same utilities':24}{exact[0]:20.3g}{exact[1]:12.3g}")
    drawn = [exact_frequency(record, RandomTape.from_os(), 100) for record in (False, True)]
    print(f"{'100 exact choices':24}{drawn[0]:20.3g}{drawn[1]:12.3g}   (utilities of float32)")


if __name__ == "__main__":
    main()
