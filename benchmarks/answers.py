"""Measures the answers of a release: their errors, beside peers, and how often intervals hold.

    python -m benchmarks.answers [--edges=DIR] [--releases=6] [--means=48] [--others=60]
        [--output=benchmarks/results]

Errors are measured on the lists of the picture in ``frequency_lists``. ``coverage`` measures how
often intervals hold.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

import dp_transforms as dp
from benchmarks.baselines import PEERS
from benchmarks.coverage import ALPHA, TOP, coverage_part, exact, job_secrets, lists, others_part
from benchmarks.frequency_lists import Input, Mean, distances, number, peer_distances, peer_releases
from benchmarks.harness import page_parser, write_page
from dp_transforms.mechanisms import FrequencyList, partition_mechanism
from dp_transforms.postprocessing.estimates import Answers, Estimate
from dp_transforms.sample_data import rockyou, yahoo

MEAN_RATES = (1, 0.1)
DISTS = 32
LEAST = 100
COMPARED = ("cumulative histogram, L1", "cumulative histogram, L2", "sorted counts", "PrivHist")


def asked(facts: Answers, top: Sequence[Estimate] | None = None) -> dict[str, list[Estimate]]:
    """Returns the answers to each question of the tables of errors. ``top`` has the largest
    frequencies, if they are known better than by ``facts``."""
    return {
        "partitions": [facts.number_of_partitions()],
        f"the {TOP} largest": [*(top or (facts.frequency_at(rank + 1) for rank in range(TOP)))],
        f"partitions with at least {LEAST}": [facts.partitions_with_at_least(LEAST)],
        f"share of the top {LEAST}, %": [_percent(facts.share_of_top(LEAST))],
        "guesswork G_0.5, bits": [facts.alpha_guesswork_bits(ALPHA)],
    }


def _percent(share: Estimate) -> Estimate:
    return Estimate(100 * share.value, 100 * share.low, 100 * share.high)


def errors(answers: Mapping[str, list[Estimate]], private: FrequencyList) -> dict[str, float]:
    """Returns the mean absolute error of the answers to each question."""
    true = asked(exact(private))
    return {
        name: float(np.mean(np.abs(np.subtract(values(estimates), values(true[name])))))
        for name, estimates in answers.items()
    }


def values(estimates: Sequence[Estimate]) -> list[float]:
    return [estimate.value for estimate in estimates]


def error_rows(case: Input, rate: float, releases: int) -> Iterator[str]:
    """Yields a row for each question: the error of our answer, and that of the best peer's list."""
    errors_by_question: dict[str, dict[str, list[float]]] = {}
    widths: dict[str, list[float]] = {}

    def add(kind: str, answers: Mapping[str, list[Estimate]]) -> None:
        for name, error in errors(answers, case.private).items():
            errors_by_question.setdefault(name, {}).setdefault(kind, []).append(error)

    for secret in job_secrets(releases):
        release = dp.release_counts(
            case.private,
            epsilon=rate * case.max_partitions,
            max_partitions_per_user=case.max_partitions,
            secret=secret,
        )
        estimates = asked(release.intervals, release.top(TOP))
        add("answer", estimates)
        for name, answers in estimates.items():
            wide = float(np.mean([answer.high - answer.low for answer in answers]))
            widths.setdefault(name, []).append(wide)
    for peer in COMPARED:
        for released in itertools.islice(peer_releases(peer, case, rate), releases):
            add(peer, asked(exact(released)))
    true = {
        name: ", ".join(number(value) for value in values(answers[:1]))
        + " ..." * (len(answers) > 1)
        for name, answers in asked(exact(case.private)).items()
    }
    for name, kinds in errors_by_question.items():
        means = {kind: Mean.of(values) for kind, values in kinds.items()}
        best = min(COMPARED, key=lambda peer: means[peer].value)
        cells = [str(means[kind]) for kind in ("answer", best)]
        wide = number(float(np.mean(widths[name])))
        yield f"| {name} | {true[name]} | {rate:g} | {' | '.join(cells)} | {best} | {wide} |"


def dist_rows() -> Iterator[str]:
    """Yields a row for each of ``lists``: dist of our release, and of the best peer's."""
    yield "| | c | ours | best peer | it | best peer : ours |"
    yield "| --- | ---: | ---: | ---: | --- | ---: |"
    for name, private in lists():
        for rate in MEAN_RATES:
            case, mechanism = Input.users(name, private), partition_mechanism(rate)
            ours = Mean.of(itertools.islice(distances(mechanism, private), DISTS))
            means = {
                peer: Mean.of(itertools.islice(peer_distances(peer, case, rate), DISTS))
                for peer in PEERS
            }
            best = min(means, key=lambda peer: means[peer].value)
            ratio = means[best].by(ours)
            yield (
                f"| {name} | {rate:g} | {ours} | {means[best]} | {best} "
                f"| {ratio.value:.2f} +- {ratio.error:.2f} |"
            )


def report(flags: argparse.Namespace) -> Iterator[str]:
    yield "# Answers from one release: errors, and coverage of intervals"
    yield from errors_part(flags)
    yield from coverage_part(flags)
    yield from others_part(flags)
    yield from dist_part()


def errors_part(flags: argparse.Namespace) -> Iterator[str]:
    yield "\n## Errors beside peers\n"
    yield (
        f"Mean absolute errors of the default release, +- one standard error, in {flags.means} "
        "releases, at c = epsilon / kappa. A peer's answer is that of its list; the best of four "
        "is shown, chosen by these means for each question, so that chance favours it. PrivHist "
        "is told the number of users. The cyclic Laplace is left out: it is told the number of "
        "partitions. *Width* is that of the 95% interval; those of the largest frequencies hold "
        "together."
    )
    cases = [Input.users("rockyou", rockyou()), Input.users("yahoo_all", yahoo())]
    cases += map(Input.degrees, sorted(flags.edges.glob("*.csv.gz")) if flags.edges else ())
    for case in cases:
        yield f"\n### {case.name}\n"
        yield "| | true | c | answer | best peer | it | width |"
        yield "| --- | ---: | ---: | ---: | ---: | --- | ---: |"
        for rate in MEAN_RATES:
            yield from error_rows(case, rate, flags.means)


def dist_part() -> Iterator[str]:
    yield "\n## Accuracy on the same lists\n"
    yield (
        "Mean dist of the default release and of the best peer, +- one standard error, as "
        "in [accuracy](frequency_lists.md), on the lists whose coverage is above.\n"
    )
    yield from dist_rows()


def main() -> None:
    parser = page_parser("answers", __doc__, "edges")
    parser.add_argument("--releases", type=int, default=6, help="of each list, for coverage")
    parser.add_argument("--means", type=int, default=48, help="releases of which errors are")
    parser.add_argument("--others", type=int, default=60, help="runs for other intervals")
    flags = parser.parse_args()
    write_page(flags.output / "answers.md", report(flags))


if __name__ == "__main__":
    main()
