"""What benchmarks share: flags, processes, inputs, and the writing of a page of results."""

from __future__ import annotations

import argparse
import gzip
import hashlib
import itertools
import json
import os
import pathlib
import resource
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from benchmarks import named_draws
from dp_transforms.mechanisms import RandomTape
from dp_transforms.mechanisms.arrays import IntArray

RESULTS = pathlib.Path(__file__).resolve().parent / "results"
DATA = pathlib.Path(__file__).resolve().parent / "data"


FLAGS: dict[str, dict[str, Any]] = {
    "repeats": {"type": int, "default": 3},
    "data": {
        "type": pathlib.Path,
        "default": pathlib.Path("out/throughput"),
        "help": "where files are kept; visits take 14 bytes a record",
    },
    "peers_python": {"metavar": "PYTHON", "help": "a Python that has the peers"},
    "edges": {"type": pathlib.Path, "metavar": "DIR", "help": "graphs, as .csv.gz files"},
    "pairs": {"type": pathlib.Path, "metavar": "DIR", "help": "pairs user,item, as .csv.gz files"},
}
"""The flags that several benchmarks have."""

DRAWS: dict[str, Any] = {
    "default": "0",
    "metavar": "SEED",
    "help": "what is drawn follows from the page and the seed, so it is the same each time (0); "
    f"{named_draws.FRESH}: it is drawn anew",
}
"""The flag that all benchmarks have, and the book."""


class PageParser(argparse.ArgumentParser):
    """The parser of the flags of a page. With them begin the draws of the page."""

    def __init__(self, page: str, about: str):
        super().__init__(
            prog=f"python -m benchmarks.{page}",
            description=about,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self._page = page

    def parse_args(self, *arguments: Any, **options: Any) -> argparse.Namespace:
        """Returns the flags, after the draws of this process were made to follow from the page's
        name and ``--draws``."""
        flags = super().parse_args(*arguments, **options)
        named_draws.begin(self._page, flags.draws)
        return flags


def page_parser(module: str, about: str, *flags: str) -> PageParser:
    """Returns the parser of ``python -m benchmarks.module``, with the named flags of ``FLAGS``,
    with ``--output`` for the directory of its page, and with ``--draws``."""
    parser = PageParser(module, about)
    parser.add_argument("--output", type=pathlib.Path, default=RESULTS)
    parser.add_argument("--draws", **DRAWS)
    for name in flags:
        parser.add_argument(f"--{name}", **FLAGS[name])
    return parser


def integer_pairs(path: pathlib.Path) -> IntArray:
    """Returns the rows below the header of a .csv.gz file with two columns of integers: shape
    (n, 2)."""
    with gzip.open(path, "rt") as file:
        return np.loadtxt(file, delimiter=",", skiprows=1, dtype=np.int64)


def pair_files(more: pathlib.Path | None) -> list[pathlib.Path]:
    """Returns the .csv.gz files of pairs in benchmarks/data, and those of a directory ``more`` that
    have other names."""
    files = {path.name: path for path in sorted(DATA.glob("*.csv.gz"))}
    for path in sorted(more.glob("*.csv.gz")) if more else []:
        files.setdefault(path.name, path)
    return list(files.values())


def title_of(path: pathlib.Path) -> str:
    """Returns the name that a page has for the data of a file.

    >>> title_of(pathlib.Path("git_jekyll_author_word.csv.gz"))
    'jekyll author word'
    """
    return path.name.split(".")[0].removeprefix("git_").replace("_", " ")


def write_page(path: pathlib.Path, lines: Iterable[str]) -> None:
    """Prints each line as soon as it is made, and writes all lines to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    written = []
    for line in lines:
        print(line, flush=True)
        written.append(line)
    path.write_text("\n".join(written) + "\n", encoding="utf-8")


def answer_of(
    *command: str | os.PathLike[str],
    task: object = None,
    environment: Mapping[str, str] | None = None,
) -> Any:
    """Returns the answer of a process to a task. The task is JSON on its standard input, and the
    answer is JSON in the last line of its standard output.

    Raises:
      RuntimeError: the process failed; the text is what it wrote to its standard error.
    """
    done = subprocess.run(
        command,
        input=json.dumps(task),
        capture_output=True,
        text=True,
        env={**os.environ, **(environment or {})},
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def in_new_process(
    work: Callable[..., object], *arguments: object, environment: Mapping[str, str] | None = None
) -> Any:
    """Returns the value of a module's function in a process of its own, whose draws are its own.
    Arguments and the value pass as JSON."""
    spec = sys.modules[work.__module__].__spec__
    assert spec is not None
    code = (
        f"import json, sys; from {spec.name} import {work.__name__} as work; "
        "from benchmarks.named_draws import following; name, arguments = json.load(sys.stdin); "
        "print(json.dumps(following(name, work, *arguments)))"
    )
    task = secrets.token_hex(), arguments
    return answer_of(sys.executable, "-c", code, task=task, environment=environment)


def peak_gibibytes() -> float:
    """Returns the peak memory of this process.

    On Linux it is read from /proc, since getrusage gives the peak of the parent process if that is
    larger.
    """
    status = pathlib.Path("/proc/self/status")
    if not status.exists():
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / 2 ** (30 if sys.platform == "darwin" else 20)
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 2**20


def cpu_seconds(work: Callable[[], object]) -> float:
    """Returns the CPU seconds that a function takes, in all threads of this process."""
    start = time.process_time()
    work()
    return time.process_time() - start


def numbered_tapes() -> Iterator[RandomTape]:
    """Returns tapes without end, whose keys follow from one draw and their numbers."""
    drawn = secrets.token_bytes()
    return (RandomTape(hashlib.sha256(drawn + b"%d" % i).digest()) for i in itertools.count())


def drawn_generator() -> np.random.Generator:
    """Returns a generator of numpy whose seed is drawn: for the noise of peers."""
    return np.random.default_rng(int.from_bytes(secrets.token_bytes(), "big"))
