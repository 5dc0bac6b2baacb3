"""Measures how fast partitions are selected, beside other packages.

    python -m benchmarks.selection_speed [--peers_python=peers/bin/python]
        [--output=benchmarks/results]

Other packages are measured if there is a Python that has them, see
benchmarks/partition_selection_peers.py.
"""

from __future__ import annotations

import functools
import logging
import math
import tempfile
from collections.abc import Iterator

import apache_beam as beam
import numpy as np

from benchmarks.harness import cpu_seconds, page_parser, write_page
from benchmarks.partition_selection import (
    DELTA,
    EPSILON,
    SIPS,
    UNIVERSE,
    Peers,
    ask_peers,
    made,
    table,
)
from dp_transforms import SelectPartitions
from dp_transforms.beam.reading import ReadRecords
from dp_transforms.files.record_files import RecordFiles
from dp_transforms.mechanisms import RandomTape
from dp_transforms.mechanisms.selection import (
    CountStrategy,
    RenyiRoundsSelection,
    SelectionStrategy,
    make_strategy,
)
from dp_transforms.mechanisms.selection.choice import AUTO

DECISIONS = 10_000_000
PEER_CALLS = 1_000_000
ROWS = (200_000, 2_000_000)
ROUND_ROWS = 5_000_000
TURNS = 3
PEER = "pipeline-dp 0.3.1"


def main() -> None:
    parser = page_parser("selection_speed", __doc__, "peers_python")
    flags = parser.parse_args()
    logging.disable(logging.WARNING)
    write_page(flags.output / "selection_speed.md", report(flags.peers_python))


def report(peers_python: str | None) -> Iterator[str]:
    """Yields the lines of the page."""
    peers = functools.partial(ask_peers, peers_python)
    yield f"# Speed of partition selection\n\nCPU seconds, the best of {TURNS}.\n"
    yield f"{DECISIONS:,} decisions by counts of 1 to 30 users, in one process:\n"
    yield table(["", "time", "a second"], decision_rows(peers))
    yield "From a CSV file to names in a file, kappa = 10, Beam's in-process runner:\n"
    columns = ["records", AUTO, "gaussian", SIPS]
    columns += [PEER, "pipeline-dp : auto"] if peers_python else []
    yield table(columns, pipeline_rows(peers))
    yield "The same by renyi_rounds, of one round and of two:\n"
    yield table(["records", "one round", "two rounds", "two : one"], round_rows())


def decision_rows(peers: Peers) -> list[list[str]]:
    """Returns rows of decisions from counts per second of CPU, with the making of uniform numbers;
    the best of three times."""
    largest = 30
    users = np.random.default_rng(1).integers(1, largest + 1, DECISIONS)
    rows, rates = [], {}
    for name in ("optimal", "truncated_geometric", "laplace", "gaussian"):
        strategy = make_strategy(name, EPSILON, DELTA)
        assert isinstance(strategy, CountStrategy)
        seconds = min(
            cpu_seconds(lambda s=strategy: s.select(users, RandomTape.from_os()))
            for _ in range(TURNS)
        )
        rates[name] = DECISIONS / seconds
        rows.append([name, f"{seconds:.2f} s", f"{rates[name] / 1e6:.1f} million"])
    parameters = {"epsilon": EPSILON, "delta": DELTA, "max_partitions": 1, "largest": largest}
    other = peers("decide", calls=PEER_CALLS, **parameters)
    if other:
        rate = PEER_CALLS / other["cpu"]
        rows.append(["python-dp", f"{DECISIONS / rate:.2f} s", f"{rate / 1e6:.1f} million"])
        rows.append(["optimal : python-dp", "", f"{rates['optimal'] / rate:.1f}"])
    return rows


def pipeline_rows(peers: Peers) -> list[list[str]]:
    """Returns rows of CPU seconds of the whole pipeline, from a CSV file to names in a file; the
    best of three times, taken in turns."""
    rows = []
    with tempfile.TemporaryDirectory() as directory:
        for count in ROWS:
            path = write_records(count, f"{directory}/records.csv")
            times: dict[str, float] = {}
            for _ in range(TURNS):
                for name in (AUTO, "gaussian", SIPS):
                    work = functools.partial(select_file, path, name, f"{directory}/{name}")
                    times[name] = min(times.get(name, math.inf), cpu_seconds(work))
                parameters = {"epsilon": EPSILON, "delta": DELTA, "max_partitions": 10}
                other = peers("select", path=path, output=f"{directory}/p", **parameters)
                if other:
                    times[PEER] = min(times.get(PEER, math.inf), other["cpu"])
            cells = [f"{seconds:.1f} s" for seconds in times.values()]
            if PEER in times:
                cells.append(f"{times[PEER] / times[AUTO]:.1f}")
            rows.append([f"{count:,}", *cells])
    return rows


def round_rows() -> list[list[str]]:
    """Returns a row of the same for one and for two adaptive rounds, with their ratio."""
    times: dict[int, float] = {}
    with tempfile.TemporaryDirectory() as directory:
        path = write_records(ROUND_ROWS, f"{directory}/records.csv")
        for _ in range(TURNS):
            for rounds in (1, 2):
                strategy = RenyiRoundsSelection(EPSILON, DELTA, 10, number_of_rounds=rounds)
                work = functools.partial(select_file, path, strategy, f"{directory}/{rounds}")
                times[rounds] = min(times.get(rounds, math.inf), cpu_seconds(work))
    return [
        [f"{ROUND_ROWS:,}", *(f"{times[n]:.1f} s" for n in (1, 2)), f"{times[2] / times[1]:.2f}"]
    ]


def select_file(path: str, strategy: str | SelectionStrategy, output: str) -> None:
    """Selects the partitions of a CSV file's records, at kappa = 10."""
    if isinstance(strategy, str):
        strategy = made(strategy, EPSILON, DELTA, 10)
    with beam.Pipeline() as pipeline:
        _ = (
            pipeline
            | ReadRecords(RecordFiles(path, "user", ["item"]))
            | SelectPartitions(strategy=strategy)
            | beam.FlatMap(lambda table: table["partition"].to_pylist())
            | beam.io.WriteToText(output)
        )


def write_records(count: int, path: str) -> str:
    """Writes a CSV file of ``count`` records, about twelve for each user, and returns its path."""
    rng = np.random.default_rng(2)
    users = rng.integers(0, count // 12, count)
    weights = np.cumsum(1 / np.arange(1, UNIVERSE + 1))
    items = np.searchsorted(weights, rng.random(count) * weights[-1])
    with open(path, "w", encoding="utf-8") as file:
        file.write("user,item\n")
        file.writelines(f"user{u},item{i}\n" for u, i in zip(users, items, strict=True))
    return path


if __name__ == "__main__":
    main()
