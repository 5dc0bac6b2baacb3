"""Accuracy and time of the integer-partition mechanism: python -m benchmarks.frequency_lists
LIST.csv ...

For each list and epsilon: the exact mean of dist = L1/2, the mean over releases with its standard
error, and the time of one release. Beside RockYou stands Table II of Blocki, Datta, Bonneau (NDSS
2016).
"""

import argparse
import pathlib
import resource
import statistics
import time

from dp_transforms.mechanisms import FrequencyList, IntegerPartitionMechanism

TABLE_II = {
    8: 28.8,
    4: 228.8,
    2: 663.5,
    1: 1330.5,
    0.5: 2328.2,
    0.25: 3768.1,
    0.2: 4355.7,
    0.1: 6752.6,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lists", nargs="+", type=pathlib.Path)
    parser.add_argument("--releases", type=int, default=200)
    parser.add_argument("--epsilons", type=float, nargs="+", default=list(TABLE_II))
    flags = parser.parse_args()
    print(
        "| list | epsilon | exact mean | mean of releases | errors apart | Table II | one release |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for path in flags.lists:
        private = FrequencyList.from_csv(path)
        for epsilon in flags.epsilons:
            row(path.stem, private, epsilon, flags.releases)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"\nPeak memory of all this: {peak:.0f} MiB")


def row(name: str, private: FrequencyList, epsilon: float, releases: int) -> None:
    mechanism = IntegerPartitionMechanism(epsilon=epsilon)
    start = time.perf_counter()
    mechanism.release(private)
    seconds = time.perf_counter() - start
    exact = mechanism.expected_l1(private) / 2
    released = mechanism.release_many(private, releases)
    distances = [private.l1_distance(x) / 2 for x in released]
    mean = statistics.fmean(distances)
    error = statistics.stdev(distances) / releases**0.5
    published = TABLE_II.get(epsilon, "") if name == "rockyou" else ""
    print(
        f"| {name} | {epsilon:g} | {exact:.2f} | {mean:.2f} +- {error:.2f} "
        f"| {(mean - exact) / error:+.1f} | {published} | {seconds:.2f} s |"
    )


if __name__ == "__main__":
    main()
