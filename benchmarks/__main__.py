"""The benchmark book: runs every benchmark, and writes RESULTS.md from what they wrote.

    python -m benchmarks [--lists=DIR] [--edges=DIR] [--pairs=DIR] [--peers_python=PYTHON]
        [--data=DIR] [--draws=SEED] [--only NAME ... | --resume] [--assemble]

Each benchmark has a process of its own and a limit of time, and writes its page and plots into
benchmarks/results. Benchmarks that time something run first, one after another; the others share
the cores. If a benchmark fails or takes too long, RESULTS.md says so, and shows the page of an
earlier run. It also says which peers did not run, and by which commit each page was made.
``--resume`` runs only benchmarks whose pages are by another commit. ``make bench`` makes the
environments, with peers, and runs this.

What is drawn follows from the name of the page, and from ``--draws``. So a page is the same each
time, but for its times; ``--draws=1`` gives other draws, and ``--draws=fresh`` new ones each time.
Other packages draw from the operating system in any case, and so do commands in processes of their
own, of which only time, memory and files are measured.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import datetime
import importlib.metadata
import json
import os
import pathlib
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.harness import DRAWS

HERE = pathlib.Path(__file__).resolve().parent
RESULTS = HERE / "results"
RUNS = RESULTS / "runs.json"
WHOLE = "all of them"
BOOK = HERE / "RESULTS.md"
WRITTEN = ("benchmarks/results", "benchmarks/RESULTS.md")
_RELATIVE_LINK = re.compile(r"\]\((?=\w[^:)]*\))")
PACKAGES = ("apache-beam", "pyarrow", "numpy", "gmpy2", "duckdb")
PEERS = ("pipeline-dp", "python-dp", "opendp", "apache-beam")

# The engine's small matrices gain nothing from threads, and on a busy machine threads waste CPU
# time while they wait.
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}


class Benchmark(NamedTuple):
    """One benchmark.

    Attributes:
      page: the name of its page of results, without .md, which is also that of its module.
      about: its heading in the book.
      minutes: its limit of time.
      options: the options of this command that are passed on to it.
      arguments: further arguments of its command line.
      timed: whether its page has times, so that it must run alone.
    """

    page: str
    about: str
    minutes: float
    options: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    timed: bool = True


BENCHMARKS = (
    Benchmark(
        "frequency_lists", "Accuracy beside other mechanisms", 50, ("lists", "edges", "pairs")
    ),
    Benchmark("answers", "Answers: errors, and coverage of intervals", 40, ("edges",), timed=False),
    Benchmark("engine", "Time and memory of one release, and growth with N", 15),
    Benchmark("throughput", "From records to a release", 20, ("peers_python", "data")),
    Benchmark(
        "throughput_shapes",
        "Shapes of records, drawn at random",
        40,
        ("data",),
        ("--sizes", "12x20", "--text_sizes", "4x5"),
    ),
    Benchmark("cost_model", "What a job will cost", 6),
    Benchmark(
        "clusters",
        "Jobs on Flink beside the same in process",
        30,
        ("data",),
        ("--millions=200",),
    ),
    Benchmark("startup", "How long commands take to start", 5),
    Benchmark("selection_speed", "Speed of partition selection", 10, ("peers_python",)),
    Benchmark("thresholded_counts", "Names with noisy counts", 5, ("peers_python",)),
    # The longest first, since two run at a time.
    Benchmark(
        "partition_selection",
        "Selection of partitions",
        60,
        ("pairs", "peers_python"),
        ("--runs=3",),
        timed=False,
    ),
    Benchmark("looks", "Names by what a look tells", 50, ("pairs",), timed=False),
    Benchmark(
        "name_counts",
        "Users of named partitions",
        50,
        ("pairs",),
        ("--repeats=2",),
        timed=False,
    ),
    Benchmark("yahoo_retelling", "Yahoo!'s release, retold", 25, timed=False),
    Benchmark("node_degrees", "Degrees that protect nodes", 15, ("edges",), timed=False),
    Benchmark(
        "all_records",
        "Lists of all records",
        40,
        ("pairs", "edges"),
        ("--repeats=6",),
        timed=False,
    ),
    Benchmark("hierarchy", "Lists that add up", 40, (), ("--repeats=4",), timed=False),
    Benchmark("count_intervals", "Intervals of noisy counts", 5, timed=False),
)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--lists", metavar="DIR", help="more frequency lists, as CSV files")
    parser.add_argument("--edges", metavar="DIR", help="graphs, as .csv.gz files of edges src,dst")
    parser.add_argument("--pairs", metavar="DIR", help="pairs user,item, as CSV files")
    parser.add_argument("--peers_python", metavar="PYTHON", help="an environment with the peers")
    parser.add_argument("--data", metavar="DIR", help="keeps the records that are made")
    parser.add_argument("--draws", **DRAWS)
    pages = [benchmark.page for benchmark in BENCHMARKS]
    parser.add_argument("--only", nargs="+", action="extend", choices=pages)
    parser.add_argument("--resume", action="store_true", help="only pages of other commits")
    parser.add_argument("--assemble", action="store_true", help="write the book, run nothing")
    flags = parser.parse_args(argv)
    runs = json.loads(RUNS.read_text(encoding="utf-8")) if RUNS.exists() else {}
    commit, peers, faults = version_of_code(), peer_versions(flags.peers_python), {}
    made = {
        name for name, last_run in runs.items() if flags.resume and last_run["commit"] == commit
    }
    wanted = flags.only or [
        benchmark.page for benchmark in BENCHMARKS if benchmark.page not in made
    ]
    chosen = [benchmark for benchmark in BENCHMARKS if benchmark.page in wanted]

    @contextlib.contextmanager
    def record(name: str, **more: Any) -> Iterator[None]:
        begun, start = datetime.datetime.now(datetime.timezone.utc), time.monotonic()
        yield
        seconds = round(time.monotonic() - start)
        print(f"{name}: {seconds} s", flush=True)
        if name not in faults and not (name == WHOLE and faults):
            made = {"begun": f"{begun:%Y-%m-%d %H:%M}", "seconds": seconds, "commit": commit}
            runs[name] = {**made, "draws": flags.draws, **more}
            RUNS.write_text(json.dumps(runs, indent=1) + "\n", encoding="utf-8")

    async def make(benchmark: Benchmark) -> None:
        print(f"{benchmark.page}: at most {benchmark.minutes} minutes", flush=True)
        with record(benchmark.page, peers=peers if "peers_python" in benchmark.options else None):
            if fault := await run(benchmark, vars(flags)):
                faults[benchmark.page] = fault

    async def make_all() -> None:
        for benchmark in chosen:
            if benchmark.timed:
                await make(benchmark)
        cores = asyncio.Semaphore(os.cpu_count() or 1)

        async def make_on_free_core(benchmark: Benchmark) -> None:
            async with cores:
                await make(benchmark)

        await asyncio.gather(
            *(make_on_free_core(benchmark) for benchmark in chosen if not benchmark.timed)
        )

    with tempfile.TemporaryDirectory() as directory:
        flags.data = flags.data or directory
        if flags.only or made:
            asyncio.run(make_all())
        elif not flags.assemble:
            with record(WHOLE):
                asyncio.run(make_all())
    BOOK.write_text("\n".join(book(runs, faults)) + "\n", encoding="utf-8")
    print(BOOK)
    return 1 if faults else 0


async def run(benchmark: Benchmark, options: Mapping[str, Any]) -> str | None:
    """Runs a benchmark, and returns what went wrong, or None.

    Args:
      benchmark: what to run.
      options: the options of this command, by name.
    """
    command = [sys.executable, "-m", f"benchmarks.{benchmark.page}", *benchmark.arguments]
    command += [f"--{name}={options[name]}" for name in benchmark.options if options[name]]
    command.append(f"--draws={options['draws']}")
    environment = {**os.environ, **ONE_THREAD}
    # Many images set this. Each command that is timed would then compile its modules anew.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=HERE.parent,
        env=environment,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        code = await asyncio.wait_for(process.wait(), 60 * benchmark.minutes)
    except asyncio.TimeoutError:
        return f"took more than {benchmark.minutes} minutes"
    finally:
        # Processes that the benchmark has started are ended too, so as not to disturb the next one.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    return f"ended with exit code {code}" if code else None


def version_of_code() -> str:
    """Returns the commit that is checked out, with "-dirty" if anything but results has changed
    since; an empty text without git."""

    def git(*arguments: str) -> str:
        command = ["git", *arguments]
        done = subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        commit = git("rev-parse", "--short", "HEAD")
        changed = git("status", "--porcelain", "--", ".", *(f":!{path}" for path in WRITTEN))
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f"{commit}-dirty" if changed else commit


def peer_versions(peers_python: str | None) -> dict[str, str]:
    """Returns the versions of the peers that a Python has, by name."""
    if not peers_python:
        return {}
    code = (
        "import importlib.metadata as m, json; "
        "print(json.dumps({d.name.lower(): d.version for d in m.distributions()}))"
    )
    done = subprocess.run([peers_python, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    versions = json.loads(done.stdout)
    return {name: versions[name] for name in PEERS if name in versions}


def book(runs: Mapping[str, Mapping[str, Any]], faults: Mapping[str, str]) -> Iterator[str]:
    """Yields the lines of RESULTS.md.

    Args:
      runs: for each page, when and by which commit it was made, and with which peers.
      faults: for each page whose last run failed, what went wrong.
    """
    yield "# Results of the benchmarks\n"
    yield (
        f"Made by `make bench`, on {os.cpu_count()} cores ({platform.machine()}), with Python "
        f"{platform.python_version()}, {', '.join(versions())}. Times depend on the machine, and "
        f"on what else runs there; peers ran beside in the same run, so ratios say more. Times "
        f"and errors are better if they are lower, for peers too: the tables say where they are.\n"
    )
    yield "| benchmark | begun, UTC | took | limit | commit |"
    yield "| --- | --- | ---: | ---: | --- |"
    for benchmark in BENCHMARKS:
        made = runs.get(benchmark.page)
        cells = [f"[{benchmark.about}](#{anchor(benchmark.about)})"]
        cells += [made["begun"], f"{made['seconds']} s"] if made else ["by itself", ""]
        cells += [f"{benchmark.minutes} min", made["commit"] if made else ""]
        yield f"| {' | '.join(cells)} |"
    made = runs.get(WHOLE)
    if made and all(
        runs.get(benchmark.page, made)["commit"] == made["commit"] for benchmark in BENCHMARKS
    ):
        minutes = f"{made['seconds'] / 60:.0f} min"
        yield f"| {WHOLE}, by one command | {made['begun']} | {minutes} | | {made['commit']} |"
    yield ""
    yield f"{about_draws(runs)}\n"
    if any(benchmark.page not in runs for benchmark in BENCHMARKS):
        yield "What is by itself was not made by this command, but by the benchmark's own.\n"
    yield (
        "Apart from these: [planted bugs and the tests that catch them](results/mutants.md), "
        "[jobs killed at random moments](results/kills.md), "
        "[faults on a cluster](results/cluster_faults.md), and [large jobs](results/large.md)."
    )
    for benchmark in BENCHMARKS:
        yield f"\n## {benchmark.about}\n"
        if benchmark.page in faults:
            yield f"**The last run {faults[benchmark.page]}: what follows is of an earlier run.**\n"
        if "peers_python" in benchmark.options and benchmark.page in runs:
            yield f"{about_peers(runs[benchmark.page]['peers'])}\n"
        yield from page(RESULTS / f"{benchmark.page}.md")


def about_draws(runs: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns a sentence on the pages whose draws were not those that this command has without a
    seed.

    >>> about_draws({"answers": {"draws": "0"}, "looks": {"draws": "fresh"}})
    'What is drawn is the same in each run, except on these pages: looks.'
    """
    others = [
        page
        for page, made in runs.items()
        if page != WHOLE and made.get("draws") != DRAWS["default"]
    ]
    exception = f", except on these pages: {', '.join(others)}" if others else ""
    return f"What is drawn is the same in each run{exception}."


def about_peers(versions: Mapping[str, str]) -> str:
    """Returns a sentence on the peers that ran, and those that are missing.

    >>> about_peers({"pipeline-dp": "0.3.1", "python-dp": "1.1.5", "apache-beam": "2.77.0"})
    'Peers: pipeline-dp 0.3.1, python-dp 1.1.5, apache-beam 2.77.0. **Missing: opendp.**'
    """
    if not versions:
        return "**Peers did not run: there was no --peers_python.**"
    text = f"Peers: {', '.join(f'{name} {version}' for name, version in versions.items())}."
    missing = [name for name in PEERS if name not in versions]
    return f"{text} **Missing: {', '.join(missing)}.**" if missing else text


def page(path: pathlib.Path) -> Iterator[str]:
    """Yields the lines of a page as a part of the book: without its title, with headings a level
    lower, and with links from the book's directory."""
    if not path.exists():
        yield "No results yet."
        return
    for line in path.read_text(encoding="utf-8").strip().splitlines():
        if line.startswith("# "):
            continue
        line = f"#{line}" if line.startswith("#") else line
        yield _RELATIVE_LINK.sub("](results/", line)


def versions() -> Iterator[str]:
    """Yields the names and versions of packages that the results depend on."""
    for name in PACKAGES:
        try:
            yield f"{name} {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            continue


def anchor(heading: str) -> str:
    """Returns the anchor of a heading, for links.

    >>> anchor("Time and memory, and growth")
    'time-and-memory-and-growth'
    """
    kept = "".join(c for c in heading.lower() if c.isalnum() or c in " -")
    return kept.replace(" ", "-")


if __name__ == "__main__":
    # Exits by an exception, so that the benchmark that runs is ended too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sys.exit(main())
