"""Users of named partitions in ALL records: estimates beside plain noisy counts.

    python -m benchmarks.name_counts --pairs=DIR [--epsilons 0.25 1 4] [--repeats=3]
        [--output=benchmarks/results]

DIR has files .csv.gz with the header user,item, each pair once. A tenth of epsilon buys degrees, by
which choose-kappa recommends a kappa; half of the rest is for a list, and half, with delta 1e-5,
for names with noisy counts. Errors are means over names, of |number - users in all records|.
PRIVATE evaluation: it needs the true numbers.
"""

from __future__ import annotations

import pathlib
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from benchmarks.harness import integer_pairs, numbered_tapes, page_parser, write_page
from benchmarks.partition_selection import table
from dp_transforms.mechanisms import FrequencyList, RandomTape, partition_mechanism
from dp_transforms.mechanisms.selection import NoisyCountStrategy, make_strategy
from dp_transforms.mechanisms.user_degrees import UserDegreeMechanism
from dp_transforms.postprocessing.all_records import estimate_all_records
from dp_transforms.postprocessing.degree_survey import DegreeSurvey
from dp_transforms.postprocessing.dropped_users import DroppedUsers
from dp_transforms.postprocessing.kappa_choice import choose_kappa
from dp_transforms.postprocessing.name_counts import (
    CountModel,
    NameCounts,
    ThresholdedCounts,
    agreeing,
    noise_deviation,
    rank_deviation,
)
from dp_transforms.postprocessing.unnamed import most_unnamed_users

DELTA = "1e-5"
KAPPAS = (3, 10, 30)


class Pairs:
    """The private pairs of a file."""

    def __init__(self, path: pathlib.Path):
        pairs = integer_pairs(path)
        self.name = path.name.removesuffix(".csv.gz")
        self._users = np.unique(pairs[:, 0], return_inverse=True)[1]
        self._items = np.unique(pairs[:, 1], return_inverse=True)[1]
        self.users_by_degree = Counter(np.bincount(self._users).tolist())
        self.counts = np.bincount(self._items)

    def bounded(self, kappa: int, random: np.random.Generator) -> Any:
        """Users of each partition whose record a bound of kappa keeps."""
        order = np.lexsort((random.random(len(self._users)), self._users))
        users = self._users[order]
        starts = np.flatnonzero(np.append(True, np.diff(users)))
        degrees = np.diff(np.append(starts, len(users)))
        kept = np.arange(len(users)) - np.repeat(starts, degrees) < kappa
        return np.bincount(self._items[order][kept], minlength=len(self.counts))


def main() -> None:
    parser = page_parser("name_counts", __doc__, "repeats", "pairs")
    parser.add_argument("--epsilons", nargs="+", default=["0.25", "1", "4"])
    flags = parser.parse_args()
    files = sorted(flags.pairs.glob("*.csv.gz")) if flags.pairs else []
    if not files:
        parser.error("--pairs=DIR must be a directory with .csv.gz files")
    write_page(flags.output / "name_counts.md", report(files, flags.epsilons, flags.repeats))


def report(files: list[pathlib.Path], epsilons: list[str], repeats: int) -> Iterator[str]:
    """The lines of the page."""
    yield "# Users of named partitions\n\n`python -m benchmarks.name_counts` writes this.\n"
    yield (
        "Mean error of the users of named partitions, about all records: of plain noisy counts, "
        "and of estimates with intervals. A star marks the kappa that choose-kappa recommends. "
        "Coverage of proved 95% intervals: of all names, of the tenth with the smallest and the "
        "tenth with the largest noisy counts; then of the model's. Unnamed beyond: the share of "
        "the partitions beyond the stated bound that were not named.\n"
    )
    heads = ["pairs", "epsilon", "kappa", "kept", "names", "plain", "estimate", "ratio"]
    heads += ["proved", "smallest", "largest", "model", "unnamed beyond"]
    rows, random, tapes = [], np.random.default_rng(0), numbered_tapes()
    for path in files:
        pairs = Pairs(path)
        for text in epsilons:
            epsilon = Fraction(text)
            degrees = UserDegreeMechanism(epsilon / 10).release(pairs.users_by_degree, next(tapes))
            best = choose_kappa(degrees, epsilon * 9 / 20, Fraction(DELTA)).recommended
            for kappa in sorted({*KAPPAS, best}):
                runs = [one_run(pairs, epsilon, kappa, random, next(tapes)) for _ in range(repeats)]
                named = f"{kappa}*" if kappa == best else str(kappa)
                rows.append([pairs.name, text, named, *cells(runs)])
    yield table(heads, rows)


def one_run(
    pairs: Pairs, epsilon: Fraction, kappa: int, random: np.random.Generator, tape: RandomTape
) -> dict[str, Any]:
    """Errors and coverage of one release."""
    degrees = UserDegreeMechanism(epsilon / 10).release(pairs.users_by_degree, tape.branch("d"))
    half = epsilon * 9 / 20
    bounded = pairs.bounded(kappa, random)
    of_list = FrequencyList.from_counts(bounded[bounded > 0])
    released = partition_mechanism(half, kappa).release(of_list, tape.branch("l"))
    strategy = make_strategy("auto", half, DELTA, True, max_partitions_per_user=kappa)
    assert isinstance(strategy, NoisyCountStrategy)
    words = tape.branch("n").words("names", len(bounded))
    keep, noisy = strategy.decide_with_counts(
        bounded, words, lambda i, bits: tape.branch("n").prefix("names", i, bits)
    )
    truth, noisy = pairs.counts[keep], noisy[keep]
    bound = most_unnamed_users(strategy).users
    assert bound is not None
    results: dict[str, Any] = {
        "kept": bounded.sum() / pairs.counts.sum(),
        "names": int(keep.sum()),
        "unnamed": float((bounded[~keep] > bound).sum()) / max((bounded > bound).sum(), 1),
    }
    if not len(truth):
        return results
    survey = DegreeSurvey.of(degrees)
    noise = ThresholdedCounts(strategy)
    counts = NameCounts(noisy, noise, CountModel.of_list(released, kappa, survey))
    (low, _), (_, high) = (noise.intervals(noisy, sure) for sure in ("0.95", "0.975"))
    high = DroppedUsers(degrees, kappa, 0.00625).most_users(high, 0.00625)
    everything = estimate_all_records(released, kappa, survey)
    better = rank_deviation(released) < noise_deviation(noise.noise)
    users, _ = agreeing(counts.means(), low, high, everything, better)
    order = np.argsort(noisy, kind="stable")
    tenth = max(len(order) // 10, 1)
    proved = (low <= truth) & (truth <= high)
    model_low, model_high = counts.model_intervals()
    results |= {
        "plain": np.abs(noisy - truth).mean(),
        "estimate": np.abs(users - truth).mean(),
        "proved": proved.mean(),
        "smallest": proved[order[:tenth]].mean(),
        "largest": proved[order[-tenth:]].mean(),
        "model": ((model_low <= truth) & (truth <= model_high)).mean(),
    }
    return results


def cells(runs: list[dict[str, Any]]) -> list[str]:
    """The numbers of several runs, as text; runs without a name have no errors."""
    some = [run for run in runs if "plain" in run]

    def mean(name: str, of: list[dict[str, Any]]) -> float:
        return float(np.mean([run[name] for run in of]))

    first = [f"{mean('kept', runs):.2f}", f"{mean('names', runs):,.0f}"]
    unnamed = f"{mean('unnamed', runs):.3f}"
    if not some:
        return [*first, *7 * ["-"], unnamed]
    plain, estimate = mean("plain", some), mean("estimate", some)
    shares = (mean(name, some) for name in ("proved", "smallest", "largest", "model"))
    errors = [f"{plain:,.1f}", f"{estimate:,.1f}", f"{plain / estimate:.2f}"]
    return [*first, *errors, *(f"{share:.3f}" for share in shares), unnamed]


if __name__ == "__main__":
    main()
