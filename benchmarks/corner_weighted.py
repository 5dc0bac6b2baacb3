"""Corner-weighted releases: accuracy beside known means, and CPU time of the first release.

    python -m benchmarks.corner_weighted [--lists=DIR] [--releases=200] [--repeats=3]
        [--output=benchmarks/results]

--lists is a directory with linkedin.csv. The known means of dist, half the L1 distance, are of an
independent computation; the exact ones are of ``evaluation.expected_l1``. Releases are seeded. A
mean more than 4 standard errors away, or a time above its limit, ends this with exit code 1.
"""

from __future__ import annotations

import os
import pathlib
import statistics
import sys
from collections.abc import Iterator

from benchmarks.engine import ONE_THREAD, measure_once
from benchmarks.engine_lists import named_list
from benchmarks.harness import page_parser, write_page
from dp_transforms import evaluation
from dp_transforms.mechanisms import FrequencyList, partition_mechanism
from dp_transforms.mechanisms.integer_partition.choice import CORNER_WEIGHTED
from dp_transforms.mechanisms.randomness import InsecureSeededTape

MEANS = {
    "rockyou": {1: 933.14, 0.8: 1501.93, 0.6: 2219.71},
    "yahoo_all": {1: 1175.94, 0.8: 1898.62, 0.6: 2818.73},
    "linkedin": {1: 1727.95, 0.8: 2878.59, 0.6: 4374.08},
}
"""Of dist, by epsilon."""

TIMES = [
    ("rockyou", 1, 0.15),
    ("rockyou", 0.6, 0.15),
    ("yahoo_all", 1, 0.15),
    ("linkedin", 1, 0.25),
    ("power law 100000000000 100000", 1, 4),
]
"""List, epsilon, and the most seconds that a release may take."""

MOST_ERRORS = 4


class Report:
    """The page, and whether all on it is as it should be.

    Args:
      lists: a directory with linkedin.csv, or None.
    """

    def __init__(self, lists: str | None):
        self._lists, self._directory = lists, pathlib.Path(lists) if lists else None
        self.faults = 0

    def lines(self, releases: int, repeats: int) -> Iterator[str]:
        yield "# Corner-weighted releases"
        yield ""
        yield (
            "CPU seconds of one thread for the first release in a process, without imports, on "
            f"{os.cpu_count()} cores shared with other work; the middle one of {repeats}."
        )
        yield ""
        yield "| list | N | frequencies | epsilon | seconds | at most | MiB |"
        yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
        # First, as a process is charged with the memory of the one that starts it.
        for name, epsilon, most in TIMES:
            if self._list(name):
                yield self._time_row(name, epsilon, most, repeats)
        yield ""
        yield (
            f"dist is half the L1 distance; {releases} releases a row, seeded. A right sampler "
            f"is more than {MOST_ERRORS} standard errors off in one row of 15,000."
        )
        yield ""
        yield "| list | epsilon | known mean | exact | mean of releases | standard errors apart |"
        yield "| --- | ---: | ---: | ---: | ---: | ---: |"
        for name, means in MEANS.items():
            private = self._list(name)
            if private:
                for epsilon, known in means.items():
                    yield self._mean_row(name, private, epsilon, known, releases)

    def _list(self, name: str) -> FrequencyList | None:
        try:
            return named_list(name, self._directory)
        except ValueError:
            return None

    def _mean_row(
        self, name: str, private: FrequencyList, epsilon: float, known: float, releases: int
    ) -> str:
        mechanism = partition_mechanism(epsilon, mechanism=CORNER_WEIGHTED)
        released = mechanism.release_many(
            private, releases, map(InsecureSeededTape, range(releases))
        )
        distances = [x.l1_distance(private) / 2 for x in released]
        mean, error = statistics.fmean(distances), statistics.stdev(distances) / releases**0.5
        apart = (mean - known) / error
        self.faults += abs(apart) > MOST_ERRORS
        exact = evaluation.expected_l1(mechanism, private) / 2
        return (
            f"| {name} | {epsilon:g} | {known:,.2f} | {exact:,.2f} | {mean:,.2f} +- {error:.2f} "
            f"| {apart:+.1f} |"
        )

    def _time_row(self, name: str, epsilon: float, most: float, repeats: int) -> str:
        runs = [
            measure_once(name, epsilon, 1, self._lists, CORNER_WEIGHTED) for _ in range(repeats)
        ]
        seconds = statistics.median(run.seconds for run in runs)
        self.faults += seconds > most
        private = named_list(name, self._directory)
        title = "power law" if name.startswith("power law") else name
        return (
            f"| {title} | {private.total:,} | {len(private):,} | {epsilon:g} | {seconds:.2f} "
            f"| {most:g} | {max(run.mebibytes for run in runs):.0f} |"
        )


def main() -> None:
    parser = page_parser("corner_weighted", __doc__)
    parser.add_argument("--lists", help="a directory with linkedin.csv")
    parser.add_argument("--releases", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=3)
    flags = parser.parse_args()
    if not ONE_THREAD.items() <= os.environ.items():
        # numpy reads these when it is imported.
        command = [sys.executable, "-m", "benchmarks.corner_weighted", *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, **ONE_THREAD})
    report = Report(flags.lists)
    write_page(flags.output / "corner_weighted.md", report.lines(flags.releases, flags.repeats))
    sys.exit(1 if report.faults else 0)


if __name__ == "__main__":
    main()
