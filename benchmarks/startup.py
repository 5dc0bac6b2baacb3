"""Times the start of commands, and of the imports that they need at least, in turns.

    python -m benchmarks.startup [--turns=5] [--output=benchmarks/results]

Times are CPU seconds of whole processes, the best of some turns. Every command needs numpy and
gmpy2. A command that works on Beam also imports Beam.
"""

from __future__ import annotations

import argparse
import math
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from benchmarks.harness import page_parser, write_page

RECORDS = "user,item\n" + "".join(f"u{i},p{i % 3}\n" for i in range(6))
LIST = "frequency,multiplicity\n3,1\n2,2\n1,40\n"
RELEASE = ["release", "--epsilon=1", "--max_partitions_per_user=1", "--overwrite"]
OF_RECORDS = ["--input=records.csv", "--user_column=user", "--partition_column=item"]
NUMBERS, BEAM = "import numpy, gmpy2", "import apache_beam"
IMPORTS = (NUMBERS, BEAM)
TYPO = "release, a flag's typo"
COMMANDS = {
    "--help": (["--help"], NUMBERS),
    "release --help": (["release", "--help"], NUMBERS),
    TYPO: (["release", "--epsilom=1"], NUMBERS),
    "ledger show": (["ledger", "show", "budget.ledger"], NUMBERS),
    "release, a ready list": ([*RELEASE, "--frequency_list=list.csv", "--output=of_list"], NUMBERS),
    "release, six records of CSV": ([*RELEASE, *OF_RECORDS, "--output=of_records"], BEAM),
    "the same on Beam's runner": (
        [*RELEASE, *OF_RECORDS, "--output=on_beam", "--runner=FnApiRunner"],
        BEAM,
    ),
}


def cpu_seconds(arguments: list[str], directory: str, code: int = 0) -> float:
    """Returns the CPU seconds of a new process, which must end with this exit code."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, *arguments], cwd=directory, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != code:
        raise RuntimeError(done.stderr.decode())
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def best(turns: int) -> dict[str, float]:
    """Returns the CPU seconds of each import and command, by title: the best of all turns."""
    work = {title: ["-c", title] for title in IMPORTS}
    work |= {
        title: ["-m", "dp_transforms.pipelines", *arguments]
        for title, (arguments, _) in COMMANDS.items()
    }
    seconds = dict.fromkeys(work, math.inf)
    with tempfile.TemporaryDirectory() as directory:
        pathlib.Path(directory, "records.csv").write_text(RECORDS)
        pathlib.Path(directory, "list.csv").write_text(LIST)
        create = ["ledger", "create", "budget.ledger", "--epsilon=9"]
        cpu_seconds(["-m", "dp_transforms.pipelines", *create], directory)
        for _ in range(turns):
            for title, arguments in work.items():
                code = 2 if title == TYPO else 0
                seconds[title] = min(seconds[title], cpu_seconds(arguments, directory, code))
    return seconds


def page(turns: int) -> Iterator[str]:
    yield "# How long commands take to start\n"
    yield (
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before. CPU seconds of whole "
        f"processes, the best of {turns} in turns.\n"
    )
    yield "| | CPU | beside | times |"
    yield "| --- | ---: | --- | ---: |"
    seconds = best(turns)
    for title in IMPORTS:
        yield f"| `{title}` | {seconds[title]:.2f} s | | |"
    for title, (_, needed) in COMMANDS.items():
        times = seconds[title] / seconds[needed]
        yield f"| {title} | {seconds[title]:.2f} s | `{needed}` | {times:.1f} |"


def main() -> None:
    parser = page_parser("startup", __doc__)
    parser.add_argument("--turns", type=int, default=5)
    flags: argparse.Namespace = parser.parse_args()
    write_page(flags.output / "startup.md", page(flags.turns))


if __name__ == "__main__":
    main()
