"""OpenDP's thresholded counts, run by the Python of an environment that has it.

    python -m venv peers && peers/bin/pip install opendp

This file imports nothing of this project; ``benchmarks.thresholded_counts`` starts it with a task
as JSON on standard input, and reads its answer as JSON from standard output.
"""

import json
import sys
import time

SINGLE_THRESHOLD, SINGLE_KEYS = 4, 200_000


def main():
    """Means over runs of how many keys are released, and the best time of one release."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    task = json.load(sys.stdin)
    space = (
        dp.map_domain(dp.atom_domain(T=str), dp.atom_domain(T=int)),
        dp.l01inf_distance(dp.absolute_distance(T=int)),
    )
    max_partitions, epsilon, delta = task["max_partitions"], task["epsilon"], task["delta"]

    def make(threshold):
        return dp.m.make_laplace_threshold(*space, max_partitions / epsilon, threshold)

    # One user changes at most kappa counts, by one each.
    change = (max_partitions, max_partitions, 1)
    threshold = dp.binary_search(lambda t: make(t).map(change)[1] <= delta, bounds=(2, 1_000_000))
    measurement = make(threshold)
    released, seconds = [], []
    for counts in task["runs"]:
        start = time.perf_counter()
        released.append(len(measurement(counts)))
        seconds.append(time.perf_counter() - start)
    # How often does a key of one user appear, and how often may it, by the package's own account?
    low = dp.m.make_laplace_threshold(*space, 1.0, SINGLE_THRESHOLD)
    singles = low({str(i): 1 for i in range(SINGLE_KEYS)})
    single = {"allowed": low.map((1, 1, 1))[1], "measured": len(singles) / SINGLE_KEYS}
    answer = {"released": sum(released) / len(released), "seconds": min(seconds)}
    json.dump({**answer, "single": single, "version": dp.__version__}, sys.stdout)


if __name__ == "__main__":
    main()
