"""Shared by benchmarks: the flags of each, and its page of results, shown as it grows."""

from __future__ import annotations

import argparse
import hashlib
import itertools
import pathlib
from collections.abc import Iterable, Iterator

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


def numbered_tapes() -> Iterator[RandomTape]:
    """Tapes that anyone can repeat, so that a page is the same each time."""
    keys = (hashlib.sha256(b"insecure test tape %d" % i).digest() for i in itertools.count())
    return map(RandomTape, keys)
