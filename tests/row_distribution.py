"""The distribution of the integer-partition mechanism by its rows: a dynamic program over ranks and
values.

Nothing of the walk is in here. Lists are cut off at so many ranks and so large a value that what is
lost is far below what any number of draws could show.
"""

import numpy as np


class RowDistribution:
    """Probability proportional to q**||x - f||_1 over lists of at most ``reach`` ranks and values;
    f, the private list, is a descending tuple."""

    def __init__(self, private, q, reach):
        values = np.arange(reach + 1)
        padded = [*private, *[0] * (reach - len(private))]
        distances = np.abs(values - np.array(padded)[:, None])
        self._weights = (q**values)[distances]
        # suffix[i][v] sums over x_{i+2..} <= v (ranks from 1), prefix[i][v] over x_{1..i} >= v.
        suffix, prefix = np.ones((reach, reach + 1)), np.ones((reach, reach + 1))
        for i in range(reach - 2, -1, -1):
            suffix[i] = (self._weights[i + 1] * suffix[i + 1]).cumsum()
        for i in range(1, reach):
            prefix[i] = (self._weights[i - 1] * prefix[i - 1])[::-1].cumsum()[::-1]
        self._suffix = suffix
        marginals = prefix * self._weights * suffix
        self.total = marginals[0].sum()
        self.marginals = marginals / self.total
        """P(x_i = v) at [i - 1, v]."""

        self.expected_l1 = float((self.marginals * distances).sum())
        self.expected_total = float((self.marginals * values).sum())

    def of_rank(self, rank):
        """The distribution of x_rank."""
        return dict(enumerate(self.marginals[rank - 1].tolist()))

    def of_length(self):
        """The distribution of how many values are positive."""
        at_least = np.concatenate([[1], 1 - self.marginals[:, 0], [0]])
        return dict(enumerate((at_least[:-1] - at_least[1:]).tolist()))

    def of_two_largest(self, width):
        """The distribution of (x_1 // width, x_2 // width)."""
        joint = np.outer(self._weights[0], self._weights[1] * self._suffix[1])
        first, second = np.indices(joint.shape)
        joint[first < second] = 0
        cells = {}
        starts = np.arange(0, len(joint), width)
        binned = np.add.reduceat(np.add.reduceat(joint, starts, axis=0), starts, axis=1)
        for cell in np.argwhere(binned > 0).tolist():
            cells[cell[0], cell[1]] = float(binned[tuple(cell)] / self.total)
        return cells
