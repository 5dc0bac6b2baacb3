"""How good estimates from a release alone are: python -m benchmarks.release_estimates

For each list and epsilon, over many releases: how often the 95% intervals of ``ReleaseEstimates``
hold the private list's numbers, the mean error of a released number as it is and with the estimated
bias taken out, and the estimated mean L1 distance by the exact one.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Iterator

import numpy as np

from benchmarks.harness import page_parser, write_page
from dp_transforms import evaluation
from dp_transforms.mechanisms import FrequencyList, IntegerPartitionMechanism
from dp_transforms.postprocessing.release_estimates import ReleaseEstimates
from dp_transforms.sample_data import rockyou

LISTS = {
    "rockyou": rockyou(),
    "none below 5": FrequencyList([1000, 300, 50, 5], [3, 10, 100, 20_000]),
    "one frequency": FrequencyList([1000], [1000]),
    "stairs": FrequencyList(list(range(50, 0, -1)), [1] * 50),
    "empty": FrequencyList(),
}
CASES = [("rockyou", 4, 40), ("rockyou", 1, 40)] + [
    (name, epsilon, 100) for name in LISTS if name != "rockyou" for epsilon in (4, 1, 0.25)
]
"""List, epsilon, releases."""


def row(name: str, epsilon: float, releases: int) -> str:
    private = LISTS[name]
    mechanism = IntegerPartitionMechanism(epsilon=epsilon)
    covered, raw, corrected, l1 = [], [], [], []
    for released in mechanism.release_many(private, releases):
        estimates = ReleaseEstimates(released, mechanism)
        pairs = [(estimates.distinct(), private.distinct), (estimates.total(), private.total)]
        covered.append([e.lower <= true <= e.upper for e, true in pairs])
        raw.append([released.distinct - private.distinct, released.total - private.total])
        corrected.append([e.value - true for e, true in pairs])
        l1.append(estimates.l1)
    hits = np.mean(covered, axis=0)
    before, after = np.mean(raw, axis=0), np.mean(corrected, axis=0)
    noise = np.std(raw, axis=0)
    ratio = np.mean(l1) / evaluation.expected_l1(mechanism, private)
    columns = " | ".join(
        f"{hits[i]:.0%} | {before[i]:+.1f} | {after[i]:+.1f} | {noise[i]:.1f}" for i in (0, 1)
    )
    return f"| {name} | {epsilon:g} | {releases} | {columns} | {ratio:.2f} |"


def report() -> Iterator[str]:
    yield "# Estimates from a release alone"
    yield ""
    yield (
        "Coverage is that of the 95% intervals: at 95%, its standard error is 2.2% with 100 "
        "releases and 3.4% with 40. Errors are means over the releases, of the released number as "
        "it is and with its estimated bias taken out, beside the standard deviation of one "
        "release. The last column is the estimated mean L1 distance by the exact one."
    )
    yield ""
    yield (
        "| list | epsilon | releases | distinct items: coverage | error | corrected | deviation "
        "| total: coverage | error | corrected | deviation | L1 |"
    )
    yield "| --- | ---: | ---: " + "| ---: " * 9 + "|"
    with concurrent.futures.ProcessPoolExecutor() as pool:
        yield from pool.map(row, *zip(*CASES, strict=True))


def main() -> None:
    flags = page_parser("release_estimates", __doc__).parse_args()
    write_page(flags.output / "release_estimates.md", report())


if __name__ == "__main__":
    main()
