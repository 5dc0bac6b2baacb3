"""The benchmark book: runs every benchmark, and writes RESULTS.md from what they wrote.

    python -m benchmarks [--lists=DIR] [--peers_python=PYTHON] [--only=NAME ...] [--assemble]

Each benchmark has a process of its own and a limit of time, and writes its page and plots into
benchmarks/results. One that fails or takes too long is named in RESULTS.md, and its page is the one
of an earlier run. ``make bench`` makes the environments, peers included, and runs this.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import pathlib
import platform
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
RESULTS = HERE / "results"
BOOK = HERE / "RESULTS.md"
_RELATIVE_LINK = re.compile(r"\]\((?=\w[^:)]*\))")
PACKAGES = ("apache-beam", "pyarrow", "numpy", "gmpy2", "duckdb")


class Benchmark(NamedTuple):
    """One benchmark.

    Attributes:
      page: of the results it writes, without .md.
      about: its heading in the book.
      module: in this package.
      minutes: its limit.
      arguments: of its command line.
      lists: whether it takes --lists=DIR.
      peers: whether it takes --peers_python=PYTHON.
    """

    page: str
    about: str
    module: str
    minutes: int
    arguments: tuple[str, ...] = ()
    lists: bool = False
    peers: bool = False


BENCHMARKS = (
    Benchmark("frequency_lists", "Accuracy against epsilon", "frequency_lists", 20, lists=True),
    Benchmark("baselines", "Other mechanisms for frequency lists", "baseline_tables", 20),
    Benchmark(
        "engine", "Time and memory of a release, and growth with N", "engine", 30, lists=True
    ),
    Benchmark("engine_variants", "Releases between bounds", "engine_variants", 20),
    Benchmark("release_estimates", "The noise, told from a release", "release_estimates", 20),
    Benchmark("row_dynamic_program", "The published row program", "row_dynamic_program", 20),
    Benchmark("exponential_mechanism", "Base-2 exponential mechanism", "exponential_mechanism", 20),
    Benchmark(
        "throughput",
        "From records to a release",
        "throughput",
        60,
        ("--data=out/throughput",),
        peers=True,
    ),
    Benchmark("cost_model", "What a job will cost", "cost_model", 20),
    Benchmark(
        "yahoo_retelling",
        "Yahoo!'s release, retold",
        "yahoo_retelling",
        30,
        ("--output=benchmarks/results",),
    ),
    Benchmark(
        "partition_selection", "Selection of partitions", "partition_selection", 30, peers=True
    ),
    Benchmark(
        "thresholded_counts", "Names with noisy counts", "thresholded_counts", 20, peers=True
    ),
)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--lists", metavar="DIR", help="more frequency lists, as CSV files")
    parser.add_argument("--peers_python", metavar="PYTHON", help="an environment with the peers")
    parser.add_argument("--only", nargs="+", choices=[one.page for one in BENCHMARKS])
    parser.add_argument("--assemble", action="store_true", help="write the book, run nothing")
    flags = parser.parse_args(argv)
    faults = {}
    for one in BENCHMARKS:
        if not flags.assemble and (not flags.only or one.page in flags.only):
            fault = run(one, flags.lists, flags.peers_python)
            if fault:
                faults[one.page] = fault
    BOOK.write_text("\n".join(book(faults)) + "\n", encoding="utf-8")
    print(BOOK)
    return 1 if faults else 0


def run(one: Benchmark, lists: str | None, peers_python: str | None) -> str | None:
    """Runs a benchmark; what went wrong, or None."""
    command = [sys.executable, "-m", f"benchmarks.{one.module}", *one.arguments]
    if one.lists and lists:
        command.append(f"--lists={lists}")
    if one.peers and peers_python:
        command.append(f"--peers_python={peers_python}")
    print(f"{one.page}: at most {one.minutes} minutes", flush=True)
    start = time.monotonic()
    try:
        done = subprocess.run(
            command,
            cwd=HERE.parent,
            timeout=60 * one.minutes,
            stdout=subprocess.DEVNULL,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"took more than {one.minutes} minutes"
    print(f"{one.page}: {time.monotonic() - start:.0f} s", flush=True)
    return f"ended with exit code {done.returncode}" if done.returncode else None


def book(faults: dict[str, str]) -> Iterator[str]:
    """The lines of RESULTS.md.

    Args:
      faults: what went wrong, by page.
    """
    yield "# Results of the benchmarks"
    yield ""
    yield (
        f"Made by `make bench`, on {os.cpu_count()} cores ({platform.machine()}), with Python "
        f"{platform.python_version()}, {', '.join(versions())}. Times depend on the machine, and "
        f"on what else runs there; peers ran beside in the same run, so ratios say more. Times "
        f"and errors are better if they are lower, for peers too: the tables say where they are."
    )
    yield ""
    for one in BENCHMARKS:
        yield f"* [{one.about}](#{anchor(one.about)})"
    yield "* [Planted bugs and the tests that catch them](results/mutants.md)"
    for one in BENCHMARKS:
        yield ""
        yield f"## {one.about}"
        yield ""
        if one.page in faults:
            yield f"**The last run {faults[one.page]}: what follows is of an earlier run.**"
            yield ""
        yield from page(RESULTS / f"{one.page}.md")


def page(path: pathlib.Path) -> Iterator[str]:
    """A page of the results as a part of the book: without its title, headings below the book's."""
    if not path.exists():
        yield "No results yet."
        return
    for line in path.read_text(encoding="utf-8").strip().splitlines():
        if line.startswith("# "):
            continue
        line = f"#{line}" if line.startswith("#") else line
        yield _RELATIVE_LINK.sub("](results/", line)


def versions() -> Iterator[str]:
    """Names and versions of packages that matter here."""
    for name in PACKAGES:
        try:
            yield f"{name} {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            continue


def anchor(heading: str) -> str:
    """What a heading's link is called.

    >>> anchor("Time and memory, and growth")
    'time-and-memory-and-growth'
    """
    kept = "".join(c for c in heading.lower() if c.isalnum() or c in " -")
    return kept.replace(" ", "-")


if __name__ == "__main__":
    sys.exit(main())
