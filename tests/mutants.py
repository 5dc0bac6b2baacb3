"""Planted bugs that the test suite must catch: ``python -m tests.mutants``, or ``make mutants``.

Each mutant replaces a piece of the library's text in a copy of the tree, and runs the tests that
should notice. The working tree is not touched. A mutant whose text has gone from the library, or
that no test catches, is an error. The result is a table of which test catches which bug.
"""

from __future__ import annotations

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

TREE = Path(__file__).resolve().parents[1]
DEFAULT_OUTPUT = TREE / "benchmarks" / "results" / "mutants.md"

_COPIED = ("dp_transforms", "pipelines", "tests", "benchmarks", "examples", "runner_configs")
_SECONDS = 300
_SELECTION = "dp_transforms/mechanisms/partition_selection"
_TEST_SELECTION = "tests/mechanisms/partition_selection"


class Mutant(NamedTuple):
    """A planted bug.

    Attributes:
      bug: what it does wrong, in a few words.
      path: the file that has it.
      old: a piece of that file, which occurs in it once.
      new: what stands there instead.
      tests: files or tests that should notice.
    """

    bug: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...]


MUTANTS = (
    Mutant(
        "sensitivity off by a factor of two: epsilon / sensitivity for epsilon / (2 sensitivity)",
        "dp_transforms/mechanisms/partition_mechanism.py",
        "Decay(epsilon / (2 * sensitivity))",
        "Decay(epsilon / sensitivity)",
        ("tests/test_auditing.py",),
    ),
    Mutant(
        "node privacy with the sensitivity of the degrees of one end",
        "dp_transforms/mechanisms/degree_projection.py",
        "(3 if directed else 2) * degree_bound",
        "(2 if directed else 1) * degree_bound",
        ("tests/mechanisms/test_degree_projection.py",),
    ),
    Mutant(
        ">= for > at the threshold of noisy counts",
        f"{_SELECTION}/threshold_law.py",
        "lo, hi = self._at_most(self.threshold - statistic, precision)",
        "lo, hi = self._at_most(self.threshold - statistic - 1, precision)",
        (f"{_TEST_SELECTION}/test_noisy_thresholds.py", f"{_TEST_SELECTION}/test_audits.py"),
    ),
    Mutant(
        "> for >= where a number equals the probability of being dropped",
        f"{_SELECTION}/keep_law.py",
        "keep = words > last[cells]",
        "keep = words >= last[cells]",
        (f"{_TEST_SELECTION}/test_keep_law.py",),
    ),
    Mutant(
        "one partition more than kappa: <= for <",
        "dp_transforms/columnar/bounding.py",
        "np.repeat(starts, sizes) < at_most",
        "np.repeat(starts, sizes) <= at_most",
        ("tests/columnar/test_bounding.py",),
    ),
    Mutant(
        "every job draws the same secret",
        "dp_transforms/job_secret.py",
        "return cls(secrets.token_bytes(SECRET_BYTES))",
        "return cls(bytes(SECRET_BYTES))",
        ("tests/test_job_secret.py",),
    ),
    Mutant(
        "all purposes under one secret share their noise",
        "dp_transforms/mechanisms/randomness.py",
        "hashlib.shake_256(prefix + secret + purpose.encode())",
        "hashlib.shake_256(prefix + secret)",
        ("tests/test_job_secret.py", "tests/test_frequency_release.py"),
    ),
    Mutant(
        "all channels of a tape share their numbers",
        "dp_transforms/mechanisms/randomness.py",
        'index.to_bytes(16, "big") + channel.encode()',
        'index.to_bytes(16, "big")',
        ("tests/mechanisms/test_discrete_noise.py", "tests/statistical"),
    ),
    Mutant(
        "kappa is not enforced where a user's records are bounded for a frequency list",
        "dp_transforms/contributions.py",
        'distinct_pairs, at_most=self._kappa, key=secret.key("bound contributions")',
        'distinct_pairs, key=secret.key("bound contributions")',
        ("tests/test_contributions.py::test_no_user_is_in_more_than_kappa_partitions",),
    ),
    Mutant(
        "kappa is not enforced in rounds with weights",
        "dp_transforms/weighted_rounds.py",
        "            at_most=self._strategy.max_partitions_per_user,\n",
        "            at_most=None,\n",
        ("tests/test_selection.py", "tests/test_selection_laws.py"),
    ),
    Mutant(
        "kappa is not enforced in a selection from records that are not bounded",
        "dp_transforms/selection.py",
        "if not self._already_bounded:",
        "if self._already_bounded:",
        ("tests/test_selection.py",),
    ),
    Mutant(
        "walks that leave the window are cut off, without a delta",
        "dp_transforms/mechanisms/walk.py",
        "            raise Undecided(width if width < 1 else 1.0)\n    raise Undecided(1.0)",
        "            raise Undecided(width if width < 1 else 1.0)\n    return len(lo) - 1",
        (
            "tests/mechanisms/test_walk.py",
            "tests/mechanisms/test_integer_partition.py",
        ),
    ),
    Mutant(
        "messages beyond the window's edge count as nothing",
        "dp_transforms/mechanisms/float_messages.py",
        "return values.item(last, 1), ratio * (1 + 2.0**-18)",
        "return 0.0, ratio * (1 + 2.0**-18)",
        ("tests/mechanisms/test_float_messages.py",),
    ),
    Mutant(
        "a question that floats do not settle is guessed",
        "dp_transforms/mechanisms/walk.py",
        "if upper <= below:",
        "if upper <= (below + above) / 2:",
        ("tests/mechanisms/test_walk.py", "tests/mechanisms/test_integer_partition.py"),
    ),
    Mutant(
        "moves from the two ends of a run may collide",
        "dp_transforms/mechanisms/block_filling.py",
        "accepted = inside <= lengths[waiting]",
        "accepted = inside <= lengths[waiting] + 1",
        ("tests/mechanisms/test_block_filling.py",),
    ),
    Mutant(
        "long runs weigh as much from the wrong side of zero as their upper bounds say",
        "dp_transforms/mechanisms/float_transfer.py",
        "            product[self.centre + 1 :, 0] = 0\n",
        "            pass\n",
        ("tests/mechanisms/test_float_messages.py",),
    ),
    Mutant(
        "dist taken as L1: distances are halved",
        "dp_transforms/mechanisms/frequency_list.py",
        "return sum(width * abs(a - b)",
        "return sum(width * abs(a - b) // 2",
        ("tests/mechanisms/test_walk.py", "tests/statistical"),
    ),
    Mutant(
        "dist taken as L1: an evaluation prints the L1 distance as dist",
        "pipelines/evaluate.py",
        "original.l1_distance(released) / 2",
        "original.l1_distance(released)",
        ("tests/pipelines/test_evaluate.py",),
    ),
    Mutant(
        "1 - pi in floats, at epsilon = 20",
        f"{_SELECTION}/optimal.py",
        "return down.sub(1, hi), up.sub(1, lo)",
        "return (gmpy2.mpq(1 - float(hi)),) * 2",
        (f"{_TEST_SELECTION}/test_optimal_law.py",),
    ),
    Mutant(
        "1 - pi in floats, past the crossover at epsilon = 20",
        f"{_SELECTION}/optimal.py",
        "return self._shrinking(n - self.crossover, precision)",
        "return (1 - gmpy2.mpq(float(1 - self._shrinking(n - self.crossover, precision)[0])),) * 2",
        (f"{_TEST_SELECTION}/test_optimal_law.py",),
    ),
    Mutant(
        "both releases get the whole budget",
        "pipelines/release_all.py",
        "for_list = whole - for_selection",
        "for_list = PrivacyBudget(whole.epsilon)",
        ("tests/pipelines/test_release_all.py",),
    ),
    Mutant(
        "each of kappa partitions gets the whole budget",
        f"{_SELECTION}/composition.py",
        "return epsilon / parts, delta / parts",
        "return epsilon, delta",
        (f"{_TEST_SELECTION}/test_audits.py",),
    ),
    Mutant(
        "what is reserved but not committed is spent again",
        "dp_transforms/budget/filter.py",
        "costs = [*spent, cost]\n",
        "costs = [cost]\n",
        ("tests/budget/test_ledger.py",),
    ),
    Mutant(
        "the PRF that bounds users leaves out the partition",
        "dp_transforms/columnar/bounding.py",
        "prf(key[16:], owner_hashes[owner[positions]], member_hashes[member[positions]])",
        "prf(key[16:], owner_hashes[owner[positions]], owner_hashes[owner[positions]])",
        ("tests/columnar/test_bounding.py",),
    ),
    Mutant(
        "the PRF that bounds users leaves out the user",
        "dp_transforms/columnar/bounding.py",
        "prf(key[16:], owner_hashes[owner[positions]], member_hashes[member[positions]])",
        "prf(key[16:], member_hashes[member[positions]], member_hashes[member[positions]])",
        ("tests/columnar/test_bounding.py", "tests/test_contributions.py"),
    ),
    Mutant(
        "the noise of a partition does not depend on its name",
        "dp_transforms/columnar/named_uniforms.py",
        "            state.update(name)\n",
        "",
        ("tests/columnar/test_named_uniforms.py",),
    ),
    Mutant(
        "a retry draws the list's noise again",
        "dp_transforms/frequency_release.py",
        "return release_frequency_list(frequency_list, mechanism, secret, purpose)",
        "return release_frequency_list(frequency_list, mechanism, JobSecret.from_os(), purpose)",
        ("tests/test_frequency_release.py",),
    ),
    Mutant(
        "a retry bounds a user in another way",
        "dp_transforms/columnar/bounding.py",
        "    priorities = prf(key[16:], ",
        '    priorities = prf(__import__("os").urandom(16), ',
        ("tests/columnar/test_bounding.py", "tests/test_contributions.py"),
    ),
    Mutant(
        "a retry decides about a partition again",
        "dp_transforms/selection.py",
        "uniforms = NamedUniforms(partitions, key, needed)",
        'uniforms = NamedUniforms(partitions, __import__("os").urandom(32), needed)',
        ("tests/test_selection.py",),
    ),
    Mutant(
        "an error tells what a record holds",
        "pipelines/delimited_text.py",
        'raise InputError(f"{part.path}: {self._fault(error, layout)}") from None',
        'raise InputError(f"{part.path}: {error}") from None',
        ("tests/pipelines/test_bad_inputs.py",),
    ),
)


class Verdict(NamedTuple):
    """What became of a mutant: the first test that failed, or None."""

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
        targets = sorted({target for mutant in chosen for target in mutant.tests})
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
    command += ["-m", "not slow and not law and not flink", *targets]
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
        return Verdict(mutant, *first_failure(copy, mutant.tests))
    finally:
        path.write_text(original, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
