"""Pictures of released lists. They need matplotlib, which is in the extra ``report``."""

from __future__ import annotations

import os
from typing import Any

from dp_transforms.mechanisms.laws.release_law import ReleaseLaw
from dp_transforms.mechanisms.released_list import ReleasedList
from dp_transforms.postprocessing.rank_intervals import rank_frequency_band


def plot_released_list(
    released: ReleasedList, path: str | os.PathLike[str] | None = None, confidence: float = 0.99
) -> Any:
    """The frequency of each rank, on logarithmic axes, with proven error bars.

    All error bars hold together with at least the given probability, whatever the private list was.
    Where no ``law`` of the mechanism is known (see ``rank_intervals``), or no mechanism, as of a
    list from a file, there are none.

    Args:
      released: what a mechanism returned.
      path: write an image there.
      confidence: of the error bars.

    Returns:
      The ``matplotlib`` figure.

    Raises:
      ImportError: matplotlib is not installed.
    """
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained")
    axes = figure.subplots()
    law = _law(released)
    if law is not None and len(released):
        grid, lower, upper = rank_frequency_band(released, law, confidence)
        label = f"error bars, {confidence:.0%} together"
        axes.fill_between(grid, lower, upper, alpha=0.3, label=label)
    # A run of equal frequencies is a step, from its first rank to its last.
    ends = released.multiplicities.cumsum().tolist()
    ranks: list[int] = []
    users: list[int] = []
    for end, (frequency, multiplicity) in zip(ends, released, strict=True):
        ranks += [end - multiplicity + 1, end]
        users += [frequency, frequency]
    axes.plot(ranks, users, label="released")
    axes.set(xscale="log", yscale="log", xlabel="rank", ylabel="users")
    axes.legend()
    if path is not None:
        figure.savefig(path)
    return figure


def _law(released: ReleasedList) -> ReleaseLaw | None:
    try:
        return None if released.mechanism is None else released.mechanism.law
    except ValueError:
        return None
