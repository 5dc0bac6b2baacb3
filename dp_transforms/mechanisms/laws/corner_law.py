"""What is known of a corner-weighted release's distribution from public numbers alone; its
marginals at a list; and the laws of all mechanisms."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.labelled_walk.labels import KINDS
from dp_transforms.mechanisms.laws.labelled_sums import LabelledSums, expected_l1, window_for
from dp_transforms.mechanisms.laws.marginals import Marginals
from dp_transforms.mechanisms.laws.release_law import (
    ROUNDING,
    ExponentialLaw,
    GeometricLaw,
    ReleaseLaw,
    corner_chains,
)
from dp_transforms.mechanisms.sampler.walk import Blocks


class CornerMarginals(Marginals):
    """The marginals of the corner-weighted mechanism, at a rate of at most ln 3: see ``Marginals``.

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


@dataclass(frozen=True)
class CornerWeightedLaw(ReleaseLaw):
    """Pr_f[x] = q**||x - f||_1 w(x) / Z_f, q > 1/3: see docs/proofs/corner_weighted.md.

    Notation as there: a = 1/3, r = q / a, k, G, rho, and the law nu of Y proportional to q**d(Y, F)
    k**rho(Y, F). For every f, i and n >= 1, Pr[x_i >= f_i + n] and Pr[x_i <= f_i - n] are at most

        sum over j = 0..n of (h_j - h_{j-1}) t_j,    h_j = min(1, 4 a**(n-j) / 3), h_{-1} = 0,
        t_0 = 1, t_j = g_j / (1 + g_j),      g_j = G - prod_{l < j} (1 + k q**l / (1 - q**l)).

    Proof. In the first step there, sort the pairs (X, S) by Y alone: x is drawn from Y, which has
    the law nu, by Pr_Y proportional to a**d(X, Y) w(X), given that X agrees with Y at the m =
    rho(Y, F) extreme cells. (1) Let b be n cells beyond row i of Y. If X has b it is not below an
    extreme cell of F \\ Y. Y with all cells up to b, say k' more, has as corners b and the extreme
    cells except the c that b covers, none of them consecutive; so Pr_Y[X has b | X agrees] =
    a**k' (1 + a)**(c - 1). Covered cells lie in rows up to i: one may be in row i, one in the
    column of b, and each other in a row where a cell is missing; so k' >= n + max(0, c - 2), and
    the probability is at most a**n (1 + a). (2) Let i be the first row of its frequency. By the
    injection of the third step, nu(lambda in a set) is at most the sum of q**|lambda| k**corners
    over the set, times nu(lambda empty), which is at most 1 - nu(lambda in the set) if the set
    lacks the empty one. The partitions with a part of j or more add up to g_j. So nu(y_i >= f_i +
    j) <= t_j, also for later rows of that frequency. (3) x_i >= f_i + n needs x_i - y_i >= n - j
    where y_i = f_i + j, with a probability of at most h_j, which rises in j. Below, turn the
    picture by 180 degrees. QED.

    ``log_weight``: Z_f >= 1, the term of Y = F. ``log_head``: with s = e**t, E_f[s**W_b] Z_f is the
    sum over Y of the product, over the cells of Y xor F, of q s in the first b rows and q in the
    others, times k for each extreme cell outside these rows, and at most 1 for one inside. Let h be
    the first b rows of Y and v the rest. The sum over all h is ((1+u) / (1-u))**b. Of the extreme
    cells of v alone, h covers at most one, in the row next to it: so E Z is at most this power
    times V / k, V the sum over all v of q**distance k**rho. Z_f is at least the part of V with v_1
    <= f_b. Any v is min(v, f_b) and a partition that sticks out, which covers at most one extreme
    cell and has corners of its own: V is at most that part times 1 + (G - 1) / k. QED.

    Attributes:
      walled: the lists are those between public bounds. Fewer corners count in w, so that
        ``log_weight`` is 0. ``expected_l1`` and ``marginals`` depend on the bounds, which a law
        does not know: they raise a ValueError. ``evaluation.expected_l1`` takes the mechanism.
    """

    walled: bool = False
    words = "corner-weighted mechanism for integer partitions"

    def largest_excess(self, failure: float) -> int:
        failure *= ROUNDING
        reach = math.ceil(
            (math.log(1e3 / failure) - 2 * math.log(-math.expm1(-self.rate))) / self.rate
        )
        factors = self._log_factors(reach + math.ceil(40 / self.rate))
        # G - prod_{l < j} = G (1 - e**-(sum of the logarithms from j on))
        rest = np.cumsum(factors[::-1])[::-1][: reach + 1]
        beyond = math.exp(factors.sum()) * -np.expm1(-rest)
        tails = np.append(1.0, beyond / (1 + beyond))
        for moved in range(reach + 2):
            places = np.arange(moved + 2)
            steps = np.minimum(1.0, 4 / 3 * 3.0 ** -(moved + 1.0 - places))
            if np.diff(steps, prepend=0.0) @ tails[: moved + 2] <= failure:
                return moved
        raise AssertionError("the tails fall below any failure probability")

    def log_weight(self, released: FrequencyList) -> float:
        if self.walled:
            return 0.0
        chains = corner_chains(released)
        return float((np.log(chains + 2) - (chains + 1) * math.log(2)).sum()) * ROUNDING

    @property
    def log_head(self) -> float:
        total = math.exp(self._log_factors(math.ceil(60 / self.rate)).sum())
        share = self._share
        return math.log((1 + (total - 1) / share) / share) / ROUNDING

    def expected_l1(self, frequency_list: FrequencyList) -> float:
        self._check_all_lists()
        return expected_l1(Blocks.of(frequency_list), self.rate)

    def marginals(self, frequency_list: FrequencyList) -> CornerMarginals:
        self._check_all_lists()
        return CornerMarginals(frequency_list, self.rate)

    def _check_all_lists(self) -> None:
        if self.walled:
            raise ValueError(
                "the law of a corner-weighted release between bounds depends on them: "
                "evaluation.expected_l1 computes its mean distance, and its marginals are not known"
            )

    @property
    def _share(self) -> float:
        """k."""
        return 0.75 - math.exp(self.rate) / 4

    def _log_factors(self, count: int) -> FloatArray:
        """ln(1 + k q**l / (1 - q**l)) for l = 1..count."""
        powers = np.exp(-self.rate * np.arange(1, count + 1))
        factors: FloatArray = np.log1p(self._share * powers / (1 - powers))
        return factors


LAWS: dict[str, type[ReleaseLaw]] = {
    law.words: law for law in (ExponentialLaw, CornerWeightedLaw, GeometricLaw)
}
"""By the name that a privacy statement gives the mechanism."""
