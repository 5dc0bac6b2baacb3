"""Runs other packages, by the Python of an environment that has them.

    python -m venv peers && peers/bin/pip install pipeline-dp==0.3.1 python-dp apache-beam opendp

This file imports nothing of this project; ``partition_selection.ask_peers`` starts it with a task
as JSON on standard input, and reads its answer as JSON from standard output.
"""

import glob
import json
import os
import random
import sys
import time

SINGLE_THRESHOLD, SINGLE_KEYS = 4, 200_000


def release(task):
    """Returns the mean number of partitions that python-dp and OpenDP release from lists of counts,
    by strategy. pipeline-dp selects by python-dp."""
    from pydp.algorithms.partition_selection import create_partition_strategy

    results = {}
    for name in ("truncated_geometric", "laplace", "gaussian"):
        strategy = create_partition_strategy(
            name, task["epsilon"], task["delta"], task["max_partitions"]
        )
        kept = sum(strategy.should_keep(count) for run in task["runs"] for count in run)
        results[f"python-dp {name}"] = kept / len(task["runs"])
    mechanism = opendp_laplace(task["epsilon"], task["delta"], task["max_partitions"])
    kept = sum(len(mechanism(dict(enumerate(run)))) for run in task["runs"])
    return results | {"OpenDP laplace": kept / len(task["runs"])}


def opendp_laplace(epsilon, delta, max_partitions):
    """Returns OpenDP's mechanism with Laplace noise of scale kappa / epsilon, and with the smallest
    threshold that delta allows."""
    import opendp.prelude as dp

    dp.enable_features("contrib", "idealized-numerics", "honest-but-curious")
    space = (
        dp.map_domain(dp.atom_domain(T="i32"), dp.atom_domain(T="u32")),
        dp.l01inf_distance(dp.absolute_distance(T="u32")),
    )

    def private(threshold):
        mechanism = space >> dp.m.then_laplace_threshold(
            scale=max_partitions / epsilon * (1 + 1e-12), threshold=threshold
        )
        costs = mechanism.map((max_partitions, max_partitions, 1))
        return mechanism if costs[0] <= epsilon and costs[1] <= delta else None

    low, high = 1, 1 << 20
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if private(middle) else (middle, high)
    return private(high)


def count(task):
    """Releases counts by key with OpenDP; returns the mean number of keys, and the best time."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
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
    # How often a key of one user appears, and how often it may by the package's own account.
    low = dp.m.make_laplace_threshold(*space, 1.0, SINGLE_THRESHOLD)
    singles = low({str(i): 1 for i in range(SINGLE_KEYS)})
    single = {"allowed": low.map((1, 1, 1))[1], "measured": len(singles) / SINGLE_KEYS}
    answer = {"released": sum(released) / len(released), "seconds": min(seconds)}
    return {**answer, "single": single, "version": dp.__version__}


def decide(task):
    """Returns the CPU seconds that python-dp takes for ``calls`` calls of should_keep, the best of
    three."""
    from pydp.algorithms.partition_selection import create_partition_strategy

    strategy = create_partition_strategy(
        "truncated_geometric", task["epsilon"], task["delta"], task["max_partitions"]
    )
    rng = random.Random(1)
    counts = [rng.randint(1, task["largest"]) for _ in range(task["calls"])]
    seconds = []
    for _ in range(3):
        start = time.process_time()
        for count in counts:
            strategy.should_keep(count)
        seconds.append(time.process_time() - start)
    return {"cpu": min(seconds)}


def select(task):
    """Returns the seconds, and CPU seconds, that pipeline-dp takes from a CSV file to names on a
    local runner; and the seconds of imports before."""
    begin = time.perf_counter()
    import apache_beam as beam
    import pipeline_dp

    start, cpu = time.perf_counter(), time.process_time()
    with beam.Pipeline(runner=task.get("runner", "FnApiRunner")) as pipeline:
        budget = pipeline_dp.NaiveBudgetAccountant(task["epsilon"], task["delta"])
        engine = pipeline_dp.DPEngine(budget, pipeline_dp.BeamBackend())
        lines = pipeline | beam.io.ReadFromText(task["path"], skip_header_lines=1)
        selected = engine.select_partitions(
            lines | beam.Map(lambda line: line.split(",")),
            pipeline_dp.SelectPartitionsParams(max_partitions_contributed=task["max_partitions"]),
            pipeline_dp.DataExtractors(
                partition_extractor=lambda record: record[1],
                privacy_id_extractor=lambda record: record[0],
            ),
        )
        budget.compute_budgets()
        _ = selected | beam.io.WriteToText(task["output"])
    seconds = time.perf_counter() - start
    if not any(os.path.getsize(path) for path in glob.glob(f"{task['output']}-*")):
        raise RuntimeError("pipeline-dp selected nothing")
    cpu = time.process_time() - cpu
    return {"seconds": seconds, "cpu": cpu, "imports": start - begin}


if __name__ == "__main__":
    tasks = {"release": release, "count": count, "decide": decide, "select": select}
    json.dump(tasks[sys.argv[1]](json.load(sys.stdin)), sys.stdout)
