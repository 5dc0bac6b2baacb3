"""Draws what selection strategies would keep, from public parameters alone."""

from __future__ import annotations

import os

from dp_transforms.mechanisms.partition_selection.explanation import Explanation, evenly
from pipelines.reports import page

_POINTS = 200


def plot_explanation(explanation: Explanation, path: str | os.PathLike[str]) -> None:
    """Draws keep-probability against users for every strategy, as ``explain`` compares them.

    Args:
      explanation: from ``mechanisms.partition_selection.explain``.
      path: the file to write; its ending says the format, such as .png or .svg.

    Raises:
      ImportError: matplotlib is not installed.
    """
    figure, axes = page.new_figure(8, 5)
    users = evenly(1, explanation.users[-1], _POINTS)
    for i, strategy in enumerate(explanation.strategies):
        chosen = strategy.name == explanation.chosen
        axes.plot(
            users,
            [strategy.keep_probability(n) for n in users],
            # Curves may coincide: those with gaps let the others through.
            linestyle=("-", "--")[i % 2],
            zorder=2 + i % 2,
            label=strategy.name + (' (what "auto" takes)' if chosen else ""),
            linewidth=2.4 if chosen else 1.4,
        )
    axes.axhline(0.5, color="0.8", linewidth=0.8, zorder=0)
    axes.set(
        title=f"Keeping a partition, {explanation.budget}",
        xlabel="users of the partition",
        ylabel="probability of being kept",
        xlim=(0, None),
        ylim=(-0.02, 1.02),
    )
    axes.legend(loc="lower right")
    figure.savefig(path, dpi=150)
