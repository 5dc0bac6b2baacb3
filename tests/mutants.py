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

from tests.planted_bugs import MUTANTS, Mutant

TREE = Path(__file__).resolve().parents[1]
OUTPUT = TREE / "benchmarks" / "results" / "mutants.md"

_COPIED = ("dp_transforms", "pipelines", "tests", "benchmarks", "examples", "runner_configs")
_SECONDS = 300


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--only", metavar="TEXT", help="mutants whose description has this")
    flags = parser.parse_args(argv)
    chosen = [mutant for mutant in MUTANTS if not flags.only or flags.only in mutant.bug]
    # Before anything runs: a planted bug that is nowhere would be a test of nothing.
    mutated = {mutant: mutated_text(mutant) for mutant in chosen}
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory)
        for name in _COPIED:
            shutil.copytree(TREE / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        for path in filter(Path.is_file, TREE.iterdir()):
            shutil.copy(path, copy)
        targets = sorted({target for mutant in chosen for target in mutant.targets})
        failed, _ = first_failure(copy, targets, seconds=len(targets) * _SECONDS)
        if failed:
            print(f"error: without any planted bug, this fails: {failed}", file=sys.stderr)
            return 1
        caught = {}
        for mutant in chosen:
            path = copy / mutant.path
            path.write_text(mutated[mutant], encoding="utf-8")
            caught[mutant], seconds = first_failure(copy, mutant.targets)
            shutil.copy(TREE / mutant.path, path)
            print(f"{seconds:5.0f} s  {mutant.bug}: {caught[mutant] or 'SURVIVES'}", flush=True)
    survivors = [mutant for mutant in chosen if caught[mutant] is None]
    if not flags.only:
        OUTPUT.write_text(table(caught), encoding="utf-8")
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} caught")
    return 1 if survivors else 0


def mutated_text(mutant: Mutant) -> str:
    """The file with the bug in it; a LookupError if it has no place, or several."""
    text = (TREE / mutant.path).read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        raise LookupError(
            f"{mutant.path} has {text.count(mutant.old)} times, and not once, the text that the "
            f"mutant {mutant.bug!r} replaces: {mutant.old!r}"
        )
    return text.replace(mutant.old, mutant.new)


def first_failure(
    directory: Path, targets: Sequence[str], seconds: float = _SECONDS
) -> tuple[str | None, float]:
    """Runs tests in a copy until one fails, or does not end: (its name or None, seconds)."""
    command = [sys.executable, "-B", "-m", "pytest", "-x", "-q", "-rfE", "-p", "no:cacheprovider"]
    command += ["-m", "not slow and not law and not coq and not flink and not spark"]
    environment = {**os.environ, "PYTHONPATH": str(directory)}
    options = {"cwd": directory, "env": environment, "capture_output": True, "text": True}
    start = time.monotonic()
    try:
        done = subprocess.run([*command, *targets], timeout=seconds, check=False, **options)
    except subprocess.TimeoutExpired:
        return f"no end within {seconds} s", seconds
    seconds = time.monotonic() - start
    if done.returncode == 0:
        return None, seconds
    match = re.search(r"^(?:FAILED|ERROR) (\S+?\.py(?:::\w+)*)", done.stdout, re.MULTILINE)
    if done.returncode != 1 or not match:
        raise RuntimeError(f"pytest did not run: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return match[1], seconds


_HEAD = """\
# Planted bugs and the tests that catch them

Made by `make mutants`: each bug is planted in a copy of the tree, and the first test
that fails there is named.

| planted bug | in | caught by |
| --- | --- | --- |
"""


def table(caught: dict[Mutant, str | None]) -> str:
    """The table in Markdown."""
    rows = []
    for mutant, test in caught.items():
        where = mutant.path.removeprefix("dp_transforms/")
        rows.append(f"| {mutant.bug} | `{where}` | {f'`{test}`' if test else 'NONE'} |\n")
    return _HEAD + "".join(rows)


if __name__ == "__main__":
    sys.exit(main())
