"""Draws plans: expected errors, chances of being named, and choices of kappa."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dp_transforms.mechanisms.selection.choice import Explanation, evenly
from dp_transforms.reports.page import curves, new_figure

if TYPE_CHECKING:
    from dp_transforms.postprocessing.kappa_choice import KappaChoice
    from dp_transforms.postprocessing.planning import ReleasePlan

_POINTS = 200


def plot_releases(plans: Sequence[ReleasePlan], path: str) -> None:
    """Draws the error, and the users that a partition needs, against epsilon into a file."""
    plans = sorted(plans, key=lambda plan: plan.epsilon)
    epsilons = [plan.epsilon for plan in plans]
    panels = 2 if plans[0].selections else 1
    figure, axes = new_figure(5.5 * panels, 4.5, panels)
    axes = np.atleast_1d(axes)
    from matplotlib.ticker import LogLocator

    axes[0].loglog(epsilons, [plan.expected_dist for plan in plans], marker="o")
    axes[0].set(
        title="Expected error of the frequency list", ylabel="dist (half the L1 distance), users"
    )
    for index, selection in enumerate(plans[0].selections):
        users = [plan.selections[index].half_from for plan in plans]
        shown = [float("nan") if number is None else number for number in users]
        style = "--" if index % 2 else "-"  # Some strategies need equally many users.
        axes[1].loglog(epsilons, shown, style, marker="o", markersize=4, label=selection.strategy)
    if panels == 2:
        axes[1].set(
            title="Naming a partition half of the time", ylabel="users that the partition has"
        )
        axes[1].legend()
    for panel in axes:
        panel.set_xlabel("epsilon")
        panel.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
        panel.set_xticks([], minor=True)
        low, high = panel.get_ylim()
        # Over several powers of ten, further labels would overlap.
        panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 1000 * low else (1,)))
        panel.yaxis.set_major_formatter("{x:,.0f}")
        panel.yaxis.set_minor_formatter("")
        panel.grid(alpha=0.3, which="both")
    figure.savefig(path, dpi=150)


def plot_explanation(explanation: Explanation, path: str | os.PathLike[str]) -> None:
    """Draws the probability of keeping a partition against its users, for every strategy of
    ``explain``, into a file. The suffix of the path gives the format, such as .png or .svg."""
    users = evenly(1, explanation.users[-1], _POINTS)

    def draw(axes: Any) -> None:
        for i, strategy in enumerate(explanation.strategies):
            chosen = strategy.name == explanation.chosen
            axes.plot(
                users,
                [strategy.keep_probability(n) for n in users],
                # Curves may coincide. A dashed one in front leaves another one visible.
                linestyle=("-", "--")[i % 2],
                zorder=2 + i % 2,
                label=strategy.name + (' (what "auto" takes)' if chosen else ""),
                linewidth=2.4 if chosen else 1.4,
            )
        axes.axhline(0.5, color="0.8", linewidth=0.8, zorder=0)
        axes.set(xlim=(0, None), ylim=(-0.02, 1.02))

    title, y = f"Keeping a partition, {explanation.budget}", "probability of being kept"
    curves(title, "users of the partition", y, draw, width=8, height=5).savefig(path, dpi=150)


def plot_kappas(choice: KappaChoice, path: str) -> None:
    """Draws the expected error, and its parts, against kappa into a file."""
    from dp_transforms.postprocessing.kappa_choice import ERROR, NEEDED_USERS

    kappas = [plan.kappa for plan in choice.plans]
    is_about_names = choice.is_about_names

    def draw(axes: Any) -> None:
        if not is_about_names:
            dropped = [plan.dropped / 2 for plan in choice.plans]
            axes.plot(kappas, dropped, "--", label="half of what is dropped")
            axes.plot(kappas, [plan.noise for plan in choice.plans], ":", label="noise")
        errors = [plan.error for plan in choice.plans]
        label = NEEDED_USERS if is_about_names else ERROR
        axes.plot(kappas, errors, marker="o", markersize=3, label=label)
        axes.axvline(choice.recommended, color="grey", lw=0.8)
        axes.set(xscale="log", yscale="linear" if is_about_names else "log")
        if is_about_names:
            axes.set_ylim(bottom=0)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(lambda n, _: f"{n:,.0f}" if n >= 1 else f"{n:g}")

    title = f"kappa = {choice.recommended} is recommended"
    curves(title, "kappa (max_partitions_per_user)", "users", draw).savefig(path, dpi=240)
