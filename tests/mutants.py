"""Planted bugs that the test suite must catch: ``python -m tests.mutants``, or ``make mutants``.

Each mutant replaces a piece of the library's text in a copy of the tree, and runs the tests that
should notice. The working tree is not touched. A mutant whose text has gone from the library, or
that no test catches, is an error. The result is a table of which test catches which bug.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.planted_bugs import MUTANTS, Mutant

TREE = Path(__file__).resolve().parents[1]
DEFAULT_OUTPUT = TREE / "benchmarks" / "results" / "mutants.md"

_COPIED = ("dp_transforms", "pipelines", "tests", "benchmarks", "examples", "runner_configs")
_SECONDS = 300


class Verdict(NamedTuple):
    """The fate of a mutant: the first test that failed, or None."""

    mutant: Mutant
    caught_by: str | None
    seconds: float


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--only", metavar="TEXT", help="mutants whose description has this")
    parser.add_argument(
        "--output",
        type=Path,
        default=DEFAULT_OUTPUT,
        help="where the table goes (default: %(default)s)",
    )
    flags = parser.parse_args(argv)
    chosen = [mutant for mutant in MUTANTS if not flags.only or flags.only in mutant.bug]
    # Before anything runs: a planted bug that is nowhere would be a test of nothing.
    mutated = {mutant: mutated_text(mutant) for mutant in chosen}
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory)
        copy_tree(copy)
        targets = sorted({target for mutant in chosen for target in mutant.targets})
        failed, _ = first_failure(copy, targets, seconds=len(targets) * _SECONDS)
        if failed:
            print(f"error: without any planted bug, this fails: {failed}", file=sys.stderr)
            return 1
        verdicts = []
        for mutant in chosen:
            verdicts.append(_judge(copy, mutant, mutated[mutant]))
            caught_by, seconds = verdicts[-1][1:]
            print(f"{seconds:5.0f} s  {mutant.bug}: {caught_by or 'SURVIVES'}", flush=True)
    survivors = [verdict for verdict in verdicts if verdict.caught_by is None]
    if not flags.only:
        flags.output.write_text(table(verdicts), encoding="utf-8")
    print(f"{len(verdicts) - len(survivors)} of {len(verdicts)} caught")
    return 1 if survivors else 0


def mutated_text(mutant: Mutant) -> str:
    """The file with the bug in it.

    Raises:
      LookupError: the piece that it replaces is not there exactly once.
    """
    text = (TREE / mutant.path).read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        raise LookupError(
            f"{mutant.path} has {text.count(mutant.old)} times, and not once, the text that the "
            f"mutant {mutant.bug!r} replaces: {mutant.old!r}"
        )
    return text.replace(mutant.old, mutant.new)


def copy_tree(to: Path) -> None:
    """Copies what tests need."""
    for name in _COPIED:
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(TREE / name, to / name, ignore=ignore)
    for path in TREE.iterdir():
        if path.is_file():
            shutil.copy(path, to)


def first_failure(
    directory: Path, targets: Sequence[str], seconds: float = _SECONDS
) -> tuple[str | None, float]:
    """Runs tests in a copy until one fails: (its name, or None if none does; seconds).

    A run that never ends fails too.
    """
    command = [sys.executable, "-B", "-m", "pytest", "-x", "-q", "-rfE", "-p", "no:cacheprovider"]
    command += targets
    environment = {**os.environ, "PYTHONPATH": str(directory)}
    start = time.monotonic()
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            env=environment,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no end within {seconds} s", seconds
    seconds = time.monotonic() - start
    if done.returncode == 0:
        return None, seconds
    found = re.search(r"^(?:FAILED|ERROR) (\S+?\.py(?:::\w+)*)", done.stdout, re.MULTILINE)
    if done.returncode != 1 or not found:
        raise RuntimeError(f"pytest did not run: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return found[1], seconds


def table(verdicts: Sequence[Verdict]) -> str:
    """The table in Markdown."""
    lines = [
        "# Planted bugs and the tests that catch them",
        "",
        "Made by `make mutants`: each bug is planted in a copy of the tree, and the first test",
        "that fails there is named.",
        "",
        "| planted bug | in | caught by |",
        "| --- | --- | --- |",
    ]
    for mutant, caught_by, _ in verdicts:
        where = mutant.path.removeprefix("dp_transforms/")
        lines.append(f"| {mutant.bug} | `{where}` | {f'`{caught_by}`' if caught_by else 'NONE'} |")
    return "\n".join(lines) + "\n"


def _judge(copy: Path, mutant: Mutant, text: str) -> Verdict:
    path = copy / mutant.path
    original = path.read_text(encoding="utf-8")
    path.write_text(text, encoding="utf-8")
    try:
        return Verdict(mutant, *first_failure(copy, mutant.targets))
    finally:
        path.write_text(original, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
