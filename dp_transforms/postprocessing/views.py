"""Released lists in the form of other libraries, none of which is needed before it is asked for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from dp_transforms.postprocessing.estimates import GRID
from dp_transforms.postprocessing.intervals import intervals_of

if TYPE_CHECKING:
    from dp_transforms.mechanisms.released_list import ReleasedList
    from dp_transforms.postprocessing.estimates import ReleaseIntervals


def to_arrow(released: ReleasedList) -> Any:
    """A ``pyarrow.Table`` with the columns frequency and multiplicity, and what the release cost as
    metadata of its schema.

    Raises:
      ImportError: pyarrow is not installed.
    """
    import pyarrow as pa

    columns = {name: pa.array(values, pa.int64()) for name, values in released.to_dict().items()}
    cost = {name: str(value) for name, value in (released.cost or {}).items()}
    return pa.table(columns).replace_schema_metadata(cost)


def to_pandas(released: ReleasedList) -> Any:
    """A ``pandas.DataFrame`` with these columns, and what the release cost as its ``attrs``.

    Raises:
      ImportError: pandas is not installed.
    """
    try:
        import pandas
    except ImportError:
        raise ImportError("to_pandas needs pandas: pip install pandas") from None
    frame = pandas.DataFrame(released.to_dict(), dtype="int64")
    frame.attrs.update(released.cost or {})
    return frame


def plot_released_list(
    released: ReleasedList,
    path: str | os.PathLike[str] | None = None,
    confidence: float = 0.99,
    intervals: ReleaseIntervals | None = None,
) -> Any:
    """The frequency of each rank, on logarithmic axes, with proven error bars.

    All error bars hold together with at least the given probability, whatever the private list was.
    Where there are no intervals (see ``intervals_of``), as for a list from a file, there are none.

    Args:
      released: what a mechanism returned.
      path: write an image there.
      confidence: of the error bars.
      intervals: where these come from; by default what the list itself knows.

    Returns:
      The ``matplotlib`` figure.

    Raises:
      ImportError: matplotlib is not installed; it is in the extra ``report``.
    """
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained")
    axes = figure.subplots()
    try:
        bands = (intervals or intervals_of(released)).bands(confidence) if len(released) else None
    except ValueError:
        bands = None
    if bands is not None:
        grid = GRID[GRID <= bands[1].distinct]
        label = f"error bars, {confidence:.0%} together"
        lower, upper = (band.at_ranks(grid) for band in bands)
        axes.fill_between(grid, lower, upper, alpha=0.3, label=label)
    # A run of equal frequencies is a step, from its first rank to its last.
    ends = released.multiplicities.cumsum()
    ranks = np.stack([ends - released.multiplicities + 1, ends], axis=1).ravel()
    axes.plot(ranks, released.frequencies.repeat(2), label="released")
    scale = "log" if len(released) else "linear"
    axes.set(xscale=scale, yscale=scale, xlabel="rank", ylabel="users")
    axes.legend()
    if path is not None:
        figure.savefig(path)
    return figure
