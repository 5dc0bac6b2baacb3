"""Marginals and bias of the corner-weighted mechanism at a given list; see ``marginals``."""

from __future__ import annotations

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray
from dp_transforms.mechanisms.labelled_walk.labels import KINDS
from dp_transforms.mechanisms.laws.labelled_sums import LabelledSums, window_for
from dp_transforms.mechanisms.laws.marginals import Marginals


class CornerMarginals(Marginals):
    """The marginals of the corner-weighted mechanism.

    Args:
      frequency_list: f.
      rate: c, at most ln 3.

    >>> from dp_transforms.mechanisms import FrequencyList
    >>> found = CornerMarginals(FrequencyList([100, 1], [1, 10**6]), rate=0.893297)
    >>> found.law_of_frequency(1).quantile(0.975)
    103
    """

    def _window_for(self, rate: float) -> int:
        return window_for(rate)

    def _make_sums(self, up: complex, down: complex) -> LabelledSums:
        return LabelledSums(up, down, self._window)

    def _at_zero(self, bit: int) -> tuple[FloatArray, FloatArray]:
        before, behind = np.zeros((2, 2 * self._window + 3, KINDS))
        before[self._window + 1] = [0.5, 0.5, 0]
        behind[self._window + 1] = [1, 1, 0.5]
        turn = -1 if bit else 1
        return before.ravel()[::turn], behind.ravel()[::turn]

    def _by_state(self, products: FloatArray) -> FloatArray:
        levels: FloatArray = products.reshape(len(products), -1, KINDS)[:, 1:-1].sum(axis=2)
        return levels
