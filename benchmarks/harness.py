"""Shared by benchmarks: flags, processes, and the page of results, shown as it grows."""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import pathlib
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from dp_transforms.mechanisms import RandomTape

RESULTS = pathlib.Path(__file__).resolve().parent / "results"


def page_parser(module: str, about: str) -> argparse.ArgumentParser:
    """The parser of ``python -m benchmarks.module``; ``--output`` is the directory of its page."""
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{module}",
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--output", type=pathlib.Path, default=RESULTS)
    return parser


def write_page(path: pathlib.Path, lines: Iterable[str]) -> None:
    """Prints each line as soon as it is there, and writes all of them to a file."""
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
    """The answer of a process to a task: JSON, as the last line of its standard output and on its
    standard input.

    Raises:
      RuntimeError: it failed, and wrote this to its standard error.
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


def cpu_seconds(work: Callable[[], object]) -> float:
    """CPU seconds of this process, in all of its threads."""
    start = time.process_time()
    work()
    return time.process_time() - start


def numbered_tapes() -> Iterator[RandomTape]:
    """Tapes that anyone can repeat, so that a page is the same each time."""
    keys = (hashlib.sha256(b"insecure test tape %d" % i).digest() for i in itertools.count())
    return map(RandomTape, keys)
