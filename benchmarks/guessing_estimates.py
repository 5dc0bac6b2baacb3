"""How good guessing metrics with the bias taken out are: python -m benchmarks.guessing_estimates

For each list and epsilon, over many releases: the error of each metric as released and as estimated
by ``GuessingEstimates``, and how often its 95% interval holds the private list's value. RockYou's
list, and samples of Yahoo!'s, had a part in the choice of the estimator's constants, and the others
were looked at: these numbers are not those of lists that nobody has seen.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.harness import page_parser, write_page
from dp_transforms.mechanisms import FrequencyList, IntegerPartitionMechanism
from dp_transforms.postprocessing.guessing_estimates import GuessingEstimates
from dp_transforms.postprocessing.guessing_metrics import alpha_guesswork_bits, success_rate_bits
from dp_transforms.postprocessing.planning import zipf_list
from dp_transforms.postprocessing.smoothing import thinned
from dp_transforms.sample_data import rockyou, yahoo

GUESSES = (1, 10, 100)
ALPHAS = ("0.25", "0.5")
NAMES = [f"λ_{guesses}" for guesses in GUESSES] + [f"G_{alpha}" for alpha in ALPHAS]
SMALL = 0.25 / 22


class Case(NamedTuple):
    """A list and an epsilon to release it with; a reference, and what that is."""

    name: str
    private: FrequencyList
    epsilon: float
    reference: FrequencyList | None = None


def cases(lists: pathlib.Path | None = None) -> Iterator[Case]:
    """Of the package's lists, and of CSV files in a directory."""
    passwords = {"rockyou": rockyou(), "yahoo": yahoo()}
    for name, other in (("rockyou", "yahoo"), ("yahoo", "rockyou")):
        sample = thinned(passwords[name], 1_000_000)
        yield Case(f"{name}, a million", sample, SMALL)
        yield Case(f"{name}, a million, like {other}", sample, SMALL, passwords[other])
    yield Case("rockyou, a hundred thousand", thinned(passwords["rockyou"], 100_000), 0.1)
    yield Case("zipf, a million", zipf_list(1_000_000), SMALL)
    yield Case("none below 5", FrequencyList([1000, 300, 50, 5], [3, 10, 100, 20_000]), 0.25)
    yield Case("stairs", FrequencyList(list(range(50, 0, -1)), [1] * 50), 0.25)
    for path in sorted(lists.glob("*.csv")) if lists else ():
        yield Case(path.stem, thinned(FrequencyList.from_csv(path), 1_000_000), SMALL)


def rows(case: Case, releases: int) -> Iterator[str]:
    """The table's rows of one case: a metric each."""
    mechanism = IntegerPartitionMechanism(epsilon=case.epsilon)
    true = _metrics(case.private)
    raw, corrected, covered = [], [], []
    for released in mechanism.release_many(case.private, releases):
        estimates = GuessingEstimates(released, mechanism, reference=case.reference)
        found = [estimates.success_rate_bits(guesses) for guesses in GUESSES] + [
            estimates.alpha_guesswork_bits(alpha) for alpha in ALPHAS
        ]
        raw.append(_metrics(released) - true)
        corrected.append(np.array([one.value for one in found]) - true)
        covered.append([one.lower <= t <= one.upper for one, t in zip(found, true, strict=True)])
    columns = zip(
        NAMES,
        true,
        *(f(errors, axis=0) for errors in (raw, corrected) for f in (np.mean, np.std)),
        np.mean(covered, axis=0),
        strict=True,
    )
    for name, bits, before, spread, after, left, hits in columns:
        yield (
            f"| {case.name} | {case.epsilon:.3g} | {name} | {bits:.2f} | {before:+.2f} | "
            f"{spread:.2f} | {after:+.2f} | {left:.2f} | {hits:.0%} |"
        )


def report(releases: int, chosen: Sequence[Case]) -> Iterator[str]:
    yield "# Guessing metrics with the bias taken out"
    yield ""
    yield (
        f"{releases} releases each. Errors in bits: their mean and their standard deviation, of "
        "the metric as released and of its estimate from the release alone. With a reference "
        '("like"), that list\'s shape is taken for what is expected. Coverage is that of the 95% '
        "intervals."
    )
    yield ""
    yield (
        "| list | epsilon | metric | bits | released: error | deviation | corrected: error "
        "| deviation | coverage |"
    )
    yield "| --- | ---: | --- " + "| ---: " * 6 + "|"
    for case in chosen:
        yield from rows(case, releases)


def _metrics(one: FrequencyList) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array(
        [success_rate_bits(one, guesses) for guesses in GUESSES]
        + [alpha_guesswork_bits(one, alpha) for alpha in ALPHAS]
    )


def main() -> None:
    parser = page_parser("guessing_estimates", __doc__)
    parser.add_argument("--lists", type=pathlib.Path, metavar="DIR", help="more lists, CSV files")
    parser.add_argument("--releases", type=int, default=20)
    flags = parser.parse_args()
    write_page(
        flags.output / "guessing_estimates.md", report(flags.releases, list(cases(flags.lists)))
    )


if __name__ == "__main__":
    main()
