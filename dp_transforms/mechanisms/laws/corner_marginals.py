"""Marginals and bias of the corner-weighted mechanism at a given list; see ``marginals``."""

from __future__ import annotations

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray, IntArray
from dp_transforms.mechanisms.labelled_walk.labels import KINDS
from dp_transforms.mechanisms.laws.integer_law import IntegerLaw
from dp_transforms.mechanisms.laws.labelled_sums import LabelledSums, window_for
from dp_transforms.mechanisms.laws.marginals import Marginals, conjugate
from dp_transforms.mechanisms.sampler.walk import Blocks


class CornerMarginals(Marginals):
    """The law of single frequencies of x, and the bias E[x_i] - f_i, at a list f.

    Args:
      frequency_list: f.
      rate: c, at most ln 3.

    >>> from dp_transforms.mechanisms import FrequencyList
    >>> found = CornerMarginals(FrequencyList([100, 1], [1, 10**6]), rate=0.893297)
    >>> found.law_of_frequency(1).quantile(0.975)
    103
    """

    def law_of_distinct(self) -> IntegerLaw:
        """The law of how many items x has."""
        return CornerMarginals(conjugate(self._frequency_list), self._rate).law_of_frequency(1)

    def _window_for(self, rate: float) -> int:
        return window_for(rate)

    def _make_sums(self, up: complex, down: complex) -> LabelledSums:
        return LabelledSums(up, down, self._window)

    def _log_total(self, up: complex, down: complex) -> complex:
        return self._make_sums(up, down).log_total(Blocks.of(self._frequency_list))

    def _make_inside(self, block: int) -> tuple[IntArray, IntArray, FloatArray]:
        bit, length = self._blocks[block]
        near, far = min(length, self._margin), min(max(length - self._margin, 0), self._margin)
        places = np.append(np.arange(1, near + 1), np.arange(length - far + 1, length + 1))
        before, after = self._before[block], self._after[block + 1]
        if length > near + far:
            start, end = (vector.real for vector in self._sums_at.at_zero)
            if bit:
                start, end = start[::-1], end[::-1]
            law = np.concatenate(
                [
                    self._labelled_between(before, end, bit, near),
                    self._labelled_between(start, after, bit, far),
                ]
            )
        else:
            law = self._labelled_between(before, after, bit, length)
        ranks = self._ranks[block] + (places if bit else np.zeros_like(places))
        return self._starts[block] - places, ranks, law

    def _labelled_between(
        self, before: FloatArray, after: FloatArray, bit: int, count: int
    ) -> FloatArray:
        forward, backward = np.empty((2, count, len(before)))
        for place in range(count):
            forward[place] = before = self._sums_at.advance(bit, before).real
        for place in range(count - 1, -1, -1):
            backward[place] = after
            after = self._sums_at.step(bit, after).real
        law: FloatArray = (forward * backward).reshape(count, -1, KINDS)[:, 1:-1].sum(axis=2)
        law /= law.sum(axis=1, keepdims=True)
        return law
