"""Time of one release between bounds, or of a public total: python -m benchmarks.engine_variants

The list is RockYou's. Times are CPU seconds of one thread for one release, with the messages that
it needs, after the bounds are made; the middle one of three. *dist* is half the L1 distance.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence

from benchmarks.harness import page_parser, write_page
from dp_transforms.mechanisms import (
    DistanceBoundedPartitionMechanism,
    ExactTotalMechanism,
    FrequencyList,
    IntegerPartitionMechanism,
    MaximumTotalMechanism,
    PartitionBounds,
)
from dp_transforms.mechanisms.partition.mechanism import PartitionMechanism
from dp_transforms.sample_data import rockyou

RELEASES = 3

Make = Callable[[float], PartitionMechanism]


def variants(private: FrequencyList) -> dict[str, Make]:
    """The variants to measure: names, and mechanisms by epsilon."""
    total = private.total
    bounds = {
        "x_i <= N / i": PartitionBounds.of_total(total),
        "within 10 of a reference, at every rank": PartitionBounds.around(private, 10),
        "within distance 1,000 of a reference": PartitionBounds.within_distance(private, 1000),
    }
    found: dict[str, Make] = {"all lists": lambda epsilon: IntegerPartitionMechanism(epsilon)}
    for name, limits in bounds.items():
        found[name] = lambda epsilon, limits=limits: IntegerPartitionMechanism(
            epsilon, bounds=limits
        )
    found["near the private list, delta = 1e-9"] = lambda epsilon: (
        DistanceBoundedPartitionMechanism(epsilon, max_total=total, delta=1e-9)
    )
    found["total at most N"] = lambda epsilon: MaximumTotalMechanism(epsilon, max_total=total)
    found["total exactly N"] = lambda epsilon: ExactTotalMechanism(epsilon, total=total)
    return found


def row(name: str, private: FrequencyList, mechanism: PartitionMechanism) -> str:
    """One line of the table."""
    times, distances = [], []
    for _ in range(RELEASES):
        start = time.process_time()
        released = mechanism.release(private)
        times.append(time.process_time() - start)
        distances.append(released.l1_distance(private) / 2)
    return (
        f"| {name} | {mechanism.epsilon_cost:g} | {statistics.median(times):.2f} s "
        f"| {statistics.median(distances):,.0f} |"
    )


def report(epsilons: Sequence[float]) -> Iterator[str]:
    """The lines of the page."""
    private = rockyou()
    yield "# Variants of the mechanism on RockYou"
    yield ""
    yield "CPU time of one release, with its messages; the middle one of three. 2 cores, shared."
    yield ""
    yield "| possible lists | epsilon | time | dist |"
    yield "| --- | ---: | ---: | ---: |"
    for name, make in variants(private).items():
        for epsilon in epsilons:
            yield row(name, private, make(epsilon))


def main() -> None:
    parser = page_parser("engine_variants", __doc__)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1, 0.1])
    flags = parser.parse_args()
    write_page(flags.output / "engine_variants.md", report(flags.epsilons))


if __name__ == "__main__":
    main()
