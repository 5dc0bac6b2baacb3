"""A page to look at: what was released, what it promises, and how much the noise may have done.

Everything is computed from the released files alone, so a report costs no privacy. It draws with
matplotlib (extra: report).
"""

from __future__ import annotations

import argparse
import base64
import html
import importlib.util
import io
import json
import math
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems

from dp_transforms import guessing, guessing_error
from dp_transforms.frequency_error import distinct_interval
from dp_transforms.guessing_error import Interval, ReleaseError
from dp_transforms.mechanisms import FrequencyList
from dp_transforms.rank_error import rank_frequency_interval
from pipelines.command_line import FAILURE, SUCCESS, OneLineParser
from pipelines.errors import InputError
from pipelines.files import local_path, reason
from pipelines.output import FREQUENCIES_FILE, PRIVACY_FILE
from pipelines.report_words import Wording, privacy_words, wording

REPORT_FILE = "report.html"
RANKS_FILE = "rank_frequency.png"
CURVE_FILE = "guessing_curve.png"

_CONFIDENCE = 0.99
_GUESSES = (1, 10, 100, 1000)
_ALPHAS = ("0.25", "0.5")
_POINTS = 200

_STYLE = """\
body { margin: 0 auto; max-width: 1200px; padding: 16px; color: #1a1a1a; background: #fff;
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: break-word }
h1 { font-size: 1.7em; line-height: 1.2 } h2 { font-size: 1.25em; margin-top: 1.6em }
p, li { max-width: 70ch }
figure { margin: 0; max-width: 640px } figcaption { font-size: .9em; max-width: 60ch }
img { width: 100%; height: auto }
.plots { display: grid; gap: 24px;
  grid-template-columns: repeat(auto-fit, minmax(min(320px, 100%), 1fr)) }
.wide { overflow-x: auto }
table { border-collapse: collapse } th { text-align: left; font-weight: 600 }
th, td { padding: 4px 12px 4px 0; border-bottom: 1px solid #ddd; vertical-align: top }
td.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums }
blockquote { margin: 0; padding: 4px 16px; border-left: 4px solid #1f77b4; background: #f4f8fb;
  max-width: 72ch }
"""


def write_report(directory: str) -> str:
    """Writes the page and its pictures beside a released frequency list; returns the page's path.

    Args:
      directory: of any filesystem of Beam's, with released_frequencies.csv and privacy.json.

    Raises:
      InputError: these can not be read or are not of this kind, or the report can not be written.
      ImportError: matplotlib is not installed.
    """
    directory = local_path(directory)
    try:
        released = _frequency_list(_read(directory, FREQUENCIES_FILE))
        statement = json.loads(_read(directory, PRIVACY_FILE))
        float(statement["epsilon"]), int(statement["sensitivity"])
    except (BeamIOError, OSError) as error:
        raise InputError(f"{directory} can not be read: {reason(error)}") from None
    except (ValueError, KeyError, TypeError):
        raise InputError(
            f"{directory} does not hold a released frequency list with its {PRIVACY_FILE}"
        ) from None
    pictures = _pictures(released, statement) if len(released) else {}
    page = report_page(released, statement, pictures)
    files = {**pictures, REPORT_FILE: page.encode()}
    try:
        for name, content in files.items():
            with FileSystems.create(FileSystems.join(directory, name)) as file:
                file.write(content)
    except (BeamIOError, OSError) as error:
        raise InputError(f"{directory} can not be written: {reason(error)}") from None
    return FileSystems.join(directory, REPORT_FILE)


def add_report_flag(group: Any) -> None:
    """The flag of jobs that release a frequency list, for a group of a parser's flags."""
    group.add_argument(
        "--report",
        action="store_true",
        help=f"draw the list as well: {REPORT_FILE} and pictures (matplotlib, extra: report)",
    )


def check_available() -> None:
    """Makes sure, before a budget is spent, that a report can be drawn.

    Raises:
      ValueError: matplotlib is not installed.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise ValueError("--report needs matplotlib: install dp-frequency-lists[report]")


def report_page(
    released: FrequencyList, statement: dict[str, Any], pictures: dict[str, bytes]
) -> str:
    """The whole page, pictures included, as HTML."""
    words = wording(statement)
    content = "<p>The released list is empty: there is nothing to draw.</p>"
    if len(released):
        content = _plots(pictures, words)
    number = _number(released, statement, words.items) if words.guessing else ""
    if len(released) and words.guessing:
        content += _metrics(released, _error(released, statement))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{words.title}</title>
<style>
{_STYLE}</style>
</head>
<body>
<h1>{words.title}</h1>
<p>{released.total:,} {words.total} {released.distinct:,} {words.items}, as released: the true
numbers differ by the noise that makes the list private. It does not say which {words.items}.
{number}</p>
{content}
<h2>Privacy statement</h2>
<blockquote>{_paragraphs(privacy_words(statement))}</blockquote>
<h2>Privacy budget</h2>
{_budget(statement)}
</body>
</html>
"""


def _pictures(released: FrequencyList, statement: dict[str, Any]) -> dict[str, bytes]:
    try:
        from matplotlib.figure import Figure
    except ImportError as fault:
        raise ImportError("reports need matplotlib: pip install matplotlib") from fault

    def draw(title: str, x: str, y: str, curve: Callable[[Any], None]) -> bytes:
        # Small in inches, so that its text is legible on a phone's width.
        figure = Figure(figsize=(4.6, 3.7), layout="constrained")
        axes = figure.add_subplot()
        curve(axes)
        axes.set(title=title, xlabel=x, ylabel=y)
        axes.grid(alpha=0.3)
        axes.legend()
        buffer = io.BytesIO()
        figure.savefig(buffer, dpi=240)
        return buffer.getvalue()

    words, error = wording(statement), _error(released, statement)
    ranks = np.unique(np.geomspace(1, released.distinct, _POINTS).round().astype(np.int64)).tolist()
    band = f"where the true one is ({_CONFIDENCE:.0%} confidence)"

    def rank_frequency(axes: Any) -> None:
        lower, upper = rank_frequency_interval(released, ranks, error)
        ends = np.cumsum(released.multiplicities)
        frequencies = released.frequencies[np.searchsorted(ends, ranks)]
        axes.fill_between(ranks, np.maximum(lower, 0.5), upper, alpha=0.25, lw=0, label=band)
        axes.loglog(ranks, frequencies, label="as released")
        axes.set_ylim(bottom=0.5)

    def guessing_curve(axes: Any) -> None:
        bounds = [guessing_error.success_rate_interval(released, rank, error) for rank in ranks]
        rates = [guessing.success_rate(released, rank) for rank in ranks]
        axes.fill_between(ranks, *zip(*bounds, strict=True), alpha=0.25, lw=0, label=band)
        axes.semilogx(ranks, rates, label="as released")
        axes.set_ylim(-0.02, 1.02)
        axes.yaxis.set_major_formatter(lambda rate, _: f"{rate:.0%}")

    pictures = {RANKS_FILE: draw(words.ranks_title, "rank", words.frequency, rank_frequency)}
    if words.guessing:
        pictures[CURVE_FILE] = draw(
            "Guessing curve",
            "most frequent partitions (guesses)",
            "part of all contributions",
            guessing_curve,
        )
    return pictures


def _error(released: FrequencyList, statement: dict[str, Any]) -> ReleaseError:
    return ReleaseError.of_release(
        released, float(statement["epsilon"]), int(statement["sensitivity"]), _CONFIDENCE
    )


def _plots(pictures: dict[str, bytes], words: Wording) -> str:
    captions = {
        RANKS_FILE: f"{words.ranks_caption} The shaded band holds the true numbers; its lower end "
        "is cut off at a half.",
        CURVE_FILE: "The part of all contributions that the most frequent partitions make up: for "
        "passwords, the accounts that so many guesses break.",
    }
    figures = "\n".join(
        f'<figure><img src="data:image/png;base64,{base64.b64encode(pictures[name]).decode()}" '
        f'alt="{html.escape(caption)}"><figcaption>{html.escape(caption)}</figcaption></figure>'
        for name, caption in captions.items()
        if name in pictures
    )
    return f'<h2>The list</h2>\n<div class="plots">\n{figures}\n</div>\n'


def _number(released: FrequencyList, statement: dict[str, Any], items: str) -> str:
    """How many items the private list has, in words."""
    lower, upper = distinct_interval(
        released, float(statement["epsilon"]), int(statement["sensitivity"]), _CONFIDENCE
    )
    return f"There are between {lower:,} and {upper:,} {items} ({_CONFIDENCE:.0%} confidence)."


def _metrics(released: FrequencyList, error: ReleaseError) -> str:
    rows = [
        (
            f"Success rate of {guesses:,} guess{'es' if guesses > 1 else ''}",
            guessing.success_rate_bits(released, guesses),
            guessing_error.success_rate_bits_interval(released, guesses, error),
        )
        for guesses in _GUESSES
    ]
    rows += [
        (
            f"Guesswork to reach {float(alpha):.0%}",
            guessing.alpha_guesswork_bits(released, alpha),
            guessing_error.alpha_guesswork_bits_interval(released, alpha, error),
        )
        for alpha in _ALPHAS
    ]
    cells = "\n".join(
        f'<tr><td>{name}</td><td class="number">{value:.2f}</td>'
        f'<td class="number">{_range(interval)}</td></tr>'
        for name, value, interval in rows
    )
    return f"""<h2>How hard to guess</h2>
<p>Effective key lengths in bits (Bonneau, IEEE S&amp;P 2012). Each interval holds the value of the
true list; all hold together with {_CONFIDENCE:.0%} confidence, over the noise alone.</p>
<div class="wide"><table>
<tr><th>Metric</th><th>Bits</th><th>Interval</th></tr>
{cells}
</table></div>
"""


def _range(interval: Interval) -> str:
    # Rounded outwards: what is printed holds as well.
    lower = f"{math.floor(100 * interval.lower) / 100:.2f}"
    if interval.upper == math.inf:
        return f"{lower} or more"
    return f"{lower} to {math.ceil(100 * interval.upper) / 100:.2f}"


def _budget(statement: dict[str, Any]) -> str:
    lines = {
        "Mechanism": statement.get("mechanism", ""),
        "epsilon": f"{statement['epsilon']:g}",
        "delta": f"{statement['delta']:g}",
        "Neighbours": statement["neighbours"],
    }
    about = {
        "max_partitions_per_user": "Partitions per user, at most",
        "degree": "Degree",
        "degree_bound": "Bound on degrees",
    }
    lines |= {label: statement[key] for key, label in about.items() if key in statement}
    lines["Sensitivity (L1)"] = statement["sensitivity"]
    base_2 = statement.get("base_2")
    if base_2:
        lines["Base 2"] = f"(x, y, z) = ({base_2['x']}, {base_2['y']}, {base_2['z']})"
    for name, version in statement.get("versions", {}).items():
        lines[f"Version of {name}"] = version
    rows = "\n".join(
        f"<tr><th>{html.escape(name)}</th><td>{html.escape(str(value))}</td></tr>"
        for name, value in lines.items()
    )
    return f'<div class="wide"><table>\n{rows}\n</table></div>\n{_ledger(statement)}'


def _ledger(statement: dict[str, Any]) -> str:
    """The releases that shared a budget with this one, where the statement lists them."""
    budget = statement.get("budget")
    if not budget:
        return ""
    names = ("purpose", "epsilon", "delta", "state")
    rows = "\n".join(
        "<tr>" + "".join(f"<td>{html.escape(str(line[name]))}</td>" for name in names) + "</tr>"
        for line in budget["ledger"]
    )
    return f"""<p>It is a part of a budget of epsilon = {budget["epsilon"]} and delta =
{budget["delta"]}, with these releases when it was made:</p>
<div class="wide"><table>
<tr>{"".join(f"<th>{name}</th>" for name in names)}</tr>
{rows}
</table></div>"""


def _paragraphs(texts: list[str]) -> str:
    return "\n".join(f"<p>{html.escape(text)}</p>" for text in texts)


def _read(directory: str, name: str) -> bytes:
    with FileSystems.open(FileSystems.join(directory, name)) as file:
        return bytes(file.read())


def _frequency_list(content: bytes) -> FrequencyList:
    header, *lines = content.decode().splitlines()
    if header != "frequency,multiplicity":
        raise ValueError("not a frequency list")
    pairs = [tuple(map(int, line.split(","))) for line in lines]
    return FrequencyList([value for value, _ in pairs], [count for _, count in pairs])


def main(argv: Sequence[str] | None = None) -> int:
    parser = OneLineParser(
        prog="python -m pipelines.report",
        description="Draw a released frequency list, with error bars from the release alone: "
        f"{REPORT_FILE} (one self-contained page), {RANKS_FILE} and {CURVE_FILE} beside it.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument(
        "release", metavar="DIR", help=f"holds {FREQUENCIES_FILE} and {PRIVACY_FILE}"
    )
    flags = parser.parse_args(argv)
    try:
        check_available()
        print(write_report(os.fspath(flags.release)))
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return FAILURE
    return SUCCESS


if __name__ == "__main__":
    sys.exit(main())
