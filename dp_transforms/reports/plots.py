"""Pictures of plans: strategies to select partitions, and values of kappa, which come as text too.
Pictures raise an ImportError if matplotlib is not installed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dp_transforms.mechanisms.selection.choice import Explanation, evenly
from dp_transforms.reports import page
from dp_transforms.reports.page import text_table

if TYPE_CHECKING:
    from dp_transforms.postprocessing.kappa_choice import KappaChoice

_POINTS = 200
_NEEDED = "users that a partition needs"
_ERROR = "expected dist"


def plot_explanation(explanation: Explanation, path: str | os.PathLike[str]) -> None:
    """Draws keep-probability against users for every strategy, as ``explain`` compares them, into a
    file whose ending says the format, such as .png or .svg."""
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


def kappa_table(choice: KappaChoice) -> str:
    """The comparison as text."""
    names = choice.plans[0].noise is None
    rows = [["kappa", "kept (95%)", "dropped", *([] if names else ["noise", "of other kinds"])]]
    rows[0].append(_NEEDED if names else _ERROR)
    for plan in choice.plans:
        row = [f"{plan.kappa:,}", f"{plan.kept.low:.1%} to {plan.kept.high:.1%}"]
        row.append(f"{plan.dropped:,.0f}")
        if plan.noise is not None and plan.other_noise is not None:
            low, high = plan.other_noise
            row += [f"{plan.noise:,.0f}", f"{low:,.0f} to {high:,.0f}"]
        row.append(f"{plan.error:,.0f}" + " *" * (plan.kappa == choice.recommended))
        rows.append(row)
    about = (
        "the users of all records with which a partition is named half of the time"
        if names
        else "at most about half the L1 distance to the list of all records, half of what\n"
        "is dropped and the noise on a Zipf list; noise on lists of other kinds stands beside it"
    )
    return (
        f"about {choice.users:,.0f} users, {choice.contributions:,.0f} contributions\n"
        f"{text_table(rows)}\n"
        f"kept: part of all pairs of a user and a partition, by the released degrees\n"
        f"* recommended: max_partitions_per_user={choice.recommended}\n"
        f"{_NEEDED if names else _ERROR}: {about}"
    )


def plot_kappas(choice: KappaChoice, path: str) -> None:
    """Draws the error against kappa, with what makes it up."""
    figure, axes = page.new_figure()
    kappas = [plan.kappa for plan in choice.plans]
    names = choice.plans[0].noise is None
    if not names:
        dropped = [plan.dropped / 2 for plan in choice.plans]
        axes.plot(kappas, dropped, "--", label="half of what is dropped")
        axes.plot(kappas, [plan.noise for plan in choice.plans], ":", label="noise")
    errors = [plan.error for plan in choice.plans]
    axes.plot(kappas, errors, marker="o", markersize=3, label=_NEEDED if names else _ERROR)
    axes.axvline(choice.recommended, color="grey", lw=0.8)
    axes.set(
        title=f"kappa = {choice.recommended} is recommended",
        xscale="log",
        xlabel="kappa (max_partitions_per_user)",
        ylabel="users",
    )
    if names:
        axes.set_ylim(bottom=0)
    else:
        axes.set_yscale("log")
    axes.xaxis.set_major_formatter(_whole)
    axes.yaxis.set_major_formatter(_whole)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    figure.savefig(path, dpi=240)


def _whole(value: float, _: int) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"
