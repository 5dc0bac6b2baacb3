"""Makes the common parts of reports' pages."""

from __future__ import annotations

import base64
import datetime
import html
import importlib.util
import io
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from dp_transforms.postprocessing.estimates import CONFIDENCE, Estimate, percents, span_words
from dp_transforms.reports.entries import SURVEY
from dp_transforms.reports.phrases import (
    Nouns,
    Words,
    cost_words,
    meaning_of_nouns,
    of_all_records,
    wording,
)

Page = tuple[str, dict[str, bytes]]
"""The HTML of a page, which contains its pictures, and these pictures by the names of their
files."""

_MOST_BARS = 60
_MOST_TICKS = 8
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
td:first-child { min-width: 5.6em }
@media (max-width: 480px) { th, td { padding-right: 7px; font-size: .9em } }
td.number { text-align: right; white-space: pre-line; font-variant-numeric: tabular-nums }
blockquote { margin: 0; padding: 4px 16px; border-left: 4px solid #1f77b4; background: #f4f8fb;
  max-width: 72ch }
"""


class _Stated(Protocol):
    @property
    def statement(self) -> Mapping[str, Any]: ...

    def statement_words(self) -> list[str]: ...


def check_available() -> None:
    """Raises a ValueError, before a budget is spent, if matplotlib is not installed."""
    if importlib.util.find_spec("matplotlib") is None:
        raise ValueError("a report needs matplotlib: pip install 'dp-frequency-lists[report]'")


def check_picture(path: str) -> None:
    """Raises a ValueError, before a budget is spent, if no picture can be drawn into a file of this
    path."""
    check_available()
    from matplotlib.backend_bases import FigureCanvasBase

    kind = os.path.splitext(path)[1].removeprefix(".")
    if kind and kind not in FigureCanvasBase.get_supported_filetypes():
        raise ValueError(f"{path} cannot be drawn: there are no pictures of the kind .{kind}")
    directory = os.path.dirname(path) or os.curdir
    if os.path.isdir(path) or not os.access(directory, os.W_OK):
        raise ValueError(f"{path} cannot be drawn: give a file in a directory that can be written")


def document(kind: str, words: Words, content: str, releases: Mapping[str, _Stated]) -> str:
    """Wraps content into a whole HTML page.

    Args:
      kind: what is released; this is the title, unless the publisher's words have another one.
      words: the publisher's words.
      content: what comes between the title and the statements of privacy.
      releases: the releases on the page, by their names in titles.
    """
    title = html.escape(words.title or kind)
    today = datetime.datetime.now(datetime.timezone.utc).date()
    below = f"{kind}. " if words.title else ""
    privacy = "".join(_privacy(name, release, words) for name, release in releases.items())
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
{_STYLE}</style>
</head>
<body>
<h1>{title}</h1>
<p>{html.escape(below)}This page was made on {today}.</p>
{content}
{privacy}
</body>
</html>
"""


def _privacy(name: str, release: _Stated, words: Words) -> str:
    """Returns the sections about the privacy of a release, by its name in titles."""
    paragraphs = "".join(_cell(text, "p") for text in release.statement_words())
    meaning = meaning_of_nouns(wording(release.statement, words).nouns)
    return f"""<h2>Privacy statement{html.escape(name)}</h2>
{_cell(meaning, "p") if meaning else ""}
<blockquote>{paragraphs}</blockquote>
<h2>Privacy budget{html.escape(name)}</h2>
{_budget(release.statement)}"""


def figure(picture: bytes, caption: str) -> str:
    """Returns a PNG with its caption, as HTML."""
    return (
        f'<figure><img src="data:image/png;base64,{base64.b64encode(picture).decode()}" '
        f'alt="{html.escape(caption)}"><figcaption>{html.escape(caption)}</figcaption></figure>'
    )


def new_figure(width: float = 4.6, height: float = 3.7, panels: int = 1) -> tuple[Any, Any]:
    """Returns a matplotlib figure and its axes; if there are several panels, the axes of each.
    Width and height are in inches. A figure is small by default, so that its text is legible on a
    phone."""
    try:
        from matplotlib.figure import Figure
    except ImportError as fault:
        raise ImportError("plots need matplotlib: pip install matplotlib") from fault

    class Picture(Figure):
        """A figure that a notebook shows at the end of a cell. Other figures that are made without
        pyplot are not shown there."""

        def _repr_png_(self) -> bytes:
            return png(self, dpi=120)

    drawn = Picture(figsize=(width, height), layout="constrained")
    return drawn, drawn.subplots(1, panels)


def png(drawn: Any, dpi: int = 240) -> bytes:
    """Returns the bytes of a figure's PNG."""
    buffer = io.BytesIO()
    drawn.savefig(buffer, format="png", dpi=dpi)
    return buffer.getvalue()


def table(rows: Sequence[Sequence[str]], numbers: int) -> str:
    """Returns an HTML table of rows of text. The first row has the heads, and the last ``numbers``
    columns have numbers."""
    heads, *others = rows
    kinds = ["td"] * (len(heads) - numbers) + ['td class="number"'] * numbers
    return _table([_row(heads, ["th"] * len(heads)), *(_row(row, kinds) for row in others)])


def section(title: str, about: str, rows: Sequence[Sequence[str]]) -> str:
    """Returns a part of a page: a title, a paragraph and a table. The first column of the table has
    words, and the others have numbers."""
    return f"{_cell(title, 'h2')}\n{_cell(about, 'p')}\n{table(rows, numbers=len(rows[0]) - 1)}"


def _table(rows: Iterable[str]) -> str:
    lines = "\n".join(rows)
    return f'<div class="wide"><table>\n{lines}\n</table></div>\n'


def _row(cells: Iterable[Any], kinds: Sequence[str]) -> str:
    """Returns a row of a table. Its cells are elements of these kinds, such as "th"."""
    return f"<tr>{''.join(map(_cell, cells, kinds))}</tr>"


def _cell(content: Any, kind: str) -> str:
    return f"<{kind}>{html.escape(str(content))}</{kind.partition(' ')[0]}>"


def curves(title: str, x: str, y: str, draw: Callable[[Any], None], **size: Any) -> Any:
    """Returns a figure with a grid and a legend, on whose axes ``draw`` has drawn curves. ``size``
    has arguments of ``new_figure``."""
    figure, axes = new_figure(**size)
    draw(axes)
    axes.set(title=title, xlabel=x, ylabel=y)
    axes.grid(alpha=0.3)
    _take_literally(axes, *axes.legend().get_texts())
    return figure


def interval_bars(
    title: str, unit: str, bars: Sequence[tuple[str, Estimate]], end: float | None = None
) -> Any:
    """Draws a dot and a bar on a line for each estimate, or a band if there are many.

    Args:
      title: the title of the picture.
      unit: the label of the axis of values.
      bars: names and their estimates.
      end: the end of this axis; by default it is just beyond the largest finite number. Intervals
        without a high end reach to it.
    """
    estimates = [estimate for _, estimate in bars]
    values = [estimate.value for estimate in estimates]
    lows = [estimate.low for estimate in estimates]
    end = _end_of(estimates) if end is None else end
    highs = [min(estimate.high, end) for estimate in estimates]
    places = range(len(estimates))
    if len(estimates) > _MOST_BARS:
        figure, axes = new_figure()
        axes.fill_between(places, lows, highs, alpha=0.3)
        axes.plot(places, values)
        labelled = range(0, len(estimates), -(-len(estimates) // 3))  # three at most
        labels = [_shortened(bars[place][0], 13) for place in labelled]
        axes.set_xticks(labelled, labels, parse_math=False)
        axes.set(title=title, ylabel=unit, ylim=(0, end))
    else:
        figure, axes = new_figure(height=1 + 0.26 * len(estimates))
        axes.hlines(places, lows, highs, lw=5, alpha=0.3)
        axes.plot(values, places, "o", ms=4)
        axes.set_yticks(places, [_shortened(name) for name, _ in bars], parse_math=False)
        axes.set(title=title, xlabel=unit, xlim=(0, end), ylim=(len(estimates), -1))
        axes.locator_params(axis="x", nbins=5)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axes.grid(alpha=0.3)
    _take_literally(axes)
    return figure


def intervals_over_time(
    title: str,
    unit: str,
    kind: str,
    times: Sequence[datetime.datetime],
    estimates: Sequence[Estimate],
    end: float | None = None,
) -> Any:
    """Draws estimates of periods over time: a dot and a bar for each, or a band if there are many.

    Args:
      title, unit, end: see ``interval_bars``.
      kind: the kind of the periods, such as "day".
      times: the times at which the periods begin.
      estimates: an estimate for each period.
    """
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
    from matplotlib.ticker import FixedLocator

    values = [estimate.value for estimate in estimates]
    lows = [estimate.low for estimate in estimates]
    end = _end_of(estimates) if end is None else end
    highs = [min(estimate.high, end) for estimate in estimates]
    figure, axes = new_figure(width=6.4)
    if len(estimates) > _MOST_BARS:
        axes.fill_between(times, lows, highs, alpha=0.3)
        axes.plot(times, values)
    else:
        axes.vlines(times, lows, highs, lw=5, alpha=0.3)
        axes.plot(times, values, "o", ms=4)
    few = len(times) <= _MOST_TICKS
    locator = FixedLocator(date2num(times)) if few else AutoDateLocator(maxticks=_MOST_TICKS)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    about = f"{kind}, by its Monday" if kind == "week" else kind
    axes.set(title=title, xlabel=about, ylabel=unit, ylim=(0, end))
    axes.grid(alpha=0.3)
    _take_literally(axes)
    return figure


def _end_of(estimates: Sequence[Estimate]) -> float:
    """Returns the end of an axis that shows all estimates."""
    finite = [estimate.high for estimate in estimates if estimate.high < math.inf]
    return 1.03 * max([*(estimate.value for estimate in estimates), *finite, 1])


def _take_literally(axes: Any, *more: Any) -> None:
    """Makes matplotlib draw words of users and publishers as they are, and not as formulas."""
    for text in (axes.title, axes.xaxis.label, axes.yaxis.label, *more):
        text.set_parse_math(False)


def each_interval(statement: Mapping[str, Any], nouns: Nouns) -> str:
    """Returns sentences that say what the interval below each number of a list contains. The list
    is that of a privacy.json; if it has a survey, its numbers are those of all records."""
    contains = "number before noise", "over the noise alone"
    if SURVEY in statement:
        of_all = f"number of all records{of_all_records(statement, nouns)}"
        contains = of_all, "over the noise of the list and its survey"
    number, noise = contains
    return (
        f"The interval below each number contains the {number} with {CONFIDENCE:.0%} confidence, "
        f"{noise}. Each interval holds by itself."
    )


def count_text(estimate: Estimate) -> str:
    """Returns a whole number as text, with its interval below it.

    >>> count_text(Estimate(169, 160, 1_177))
    '169\\n160 to 1,177'
    """
    low, high = (f"{end:,}" for end in (estimate.low, estimate.high))
    return f"{estimate.value:,}\n{span_words(estimate, low, high)}"


def share_text(estimate: Estimate) -> str:
    """Returns a share as text, with its interval, rounded outwards, below it.

    >>> share_text(Estimate(0.12345, 0.12344, 0.12346))
    '12.35%\\n12.34% to 12.35%'
    """
    low, high = percents(estimate.low, estimate.high, 2)
    return f"{estimate.value:.2%}\n{low} to {high}"


def bits_text(estimate: Estimate) -> str:
    """Returns a number of bits as text, with its interval, rounded outwards, below it."""
    text = f"{estimate.value:.2f}\n{math.floor(100 * estimate.low) / 100:.2f}"
    if estimate.high == math.inf:
        return f"{text} or more"
    return f"{text} to {math.ceil(100 * estimate.high) / 100:.2f}"


def _shortened(label: str, most: int = 24) -> str:
    """Returns a label for a picture, made printable and not longer than ``most``."""
    printable = "".join(c if c.isprintable() else "?" for c in label)
    return printable if len(printable) <= most else printable[: most - 1] + "…"


def _budget(statement: Mapping[str, Any]) -> str:
    """Returns tables of what a statement says about the mechanism, its cost and the budget."""
    lines = {
        "Mechanism": statement["mechanism"],
        "Cost": cost_words(statement),
        "Neighbours": statement["neighbours"],
    }
    about = {
        "max_partitions_per_user": "Partitions per user, at most",
        "max_partitions_per_user_is": "The bound on partitions per user is",
        "degree": "Degree",
        "degree_bound": "Bound on degrees",
        "sensitivity": "Sensitivity (L1)",
        "strategy": "Strategy",
    }
    lines |= {label: statement[key] for key, label in about.items() if key in statement}
    base_2 = statement.get("base_2")
    if base_2:
        lines["Base 2"] = f"(x, y, z) = ({base_2['x']}, {base_2['y']}, {base_2['z']})"
    for name, version in statement.get("versions", {}).items():
        lines[f"Version of {name}"] = version
    content = _table(_row(line, ("th", "td")) for line in lines.items())
    budget = statement.get("budget")
    if not budget:
        return content
    names = ("purpose", "epsilon", "delta", "state")
    rows = [[str(line[name]) for name in names] for line in budget["ledger"]]
    return f"""{content}<p>It is a part of a budget of epsilon = {budget["epsilon"]} and delta =
{budget["delta"]}, with these releases when it was made:</p>
{table([names, *rows], numbers=0)}"""
