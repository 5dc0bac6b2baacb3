"""Adds two-sided geometric noise to the Frobenius coordinates of a list: the Frobenius mechanism.

Theorem. Let a_1, a_2, ... and b_1, b_2, ... be the Frobenius coordinates of a frequency list, its
two arms (``noisy_coordinates``). Let 0 < q < 1, and let z be these numbers plus independent noise
with Pr[n] = (1 - q) / (1 + q) q**|n|. Draw each arm from its first coordinate on, until a rule ends
it. The rule looks only at the drawn z and at public parameters, and ends each arm with probability
1. If one user counts in at most kappa partitions, then the release of both finite prefixes is
(kappa ln(1/q))-differentially private for adding or removing all records of one user.

Proof. The rule is a function of z. So if it does not end at a pair of prefixes, their probability
is 0 for every list. If it ends there, let R and S be their lengths: the probability is the product
of (1 - q) / (1 + q) q**|z_i - a_i| over i <= R and of the same over the S numbers of the other arm.
For two lists X and Y the ratio of two such products is at most q**-(|a(X) - a(Y)|_1 + |b(X) -
b(Y)|_1) = q**-|X - Y|_1, by the triangle inequality and the isometry of the coordinates. Adding a
user adds one to at most kappa counts, and sorting does not increase the L1 distance. So |X - Y|_1
is at most kappa for neighbours. The probabilities of these countably many pairs sum to 1, so the
bound holds for every event. QED.

Coq checks the theorem for all finite sets of pairs, and that the bound is attained
(``proofs/Release.v``). ``docs/exactness.md`` lists the assumptions between that and a release:
above all that drawing ends with probability 1, that the sampler is exact, and that the tape is
random.

The bound is attained by two lists that differ in kappa cells of drawn coordinates. Neither the side
D of the largest square nor the total enters the rule, so nothing private decides how much is drawn.
The list and all intervals are decoded from z: this is post-processing, which costs nothing.

The rule. End an arm at the first R for which some k <= m satisfies

    S_k = sum of |z_(R+1-t)| - |z_(R+1-t) - t| over t = 1, ..., k  <=  -60 ln(2) / c, c = ln(1/q).

Among the arms that are still positive at R, the slowest falling one is (k, ..., 2, 1) on the last k
coordinates. q**-S_k is the likelihood ratio of this arm to an arm that has ended. If a_R >= 1 then
a_(R+1-t) >= t, and |z| - |z - t| does not fall in z, so each factor of q**S_k has a mean of at most
1. The factors are independent. By Ville's inequality along k, the rule ends an arm at a given R
with a_R >= 1 with a probability of at most 2**-60, and at any of them with at most 2 D 2**-60.
Ending early would cost accuracy and no privacy. With probability bounded away from 0 the next m
coordinates behind D end the arm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from dp_transforms.mechanisms.arrays import IntArray
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.decoding.decoder import Posterior
from dp_transforms.mechanisms.discrete_noise import noise_of_decay
from dp_transforms.mechanisms.enclosure import rounding_pair
from dp_transforms.mechanisms.frequency_list import FrequencyList, ReleasedList
from dp_transforms.mechanisms.noisy_coordinates import (
    COLUMNS,
    ROWS,
    FrobeniusCoordinates,
    NoisyCoordinates,
)
from dp_transforms.mechanisms.partition.mechanism import WithinBounds, check_total
from dp_transforms.mechanisms.randomness import RandomTape

_REFUTING_BITS = 60
_LARGEST_SQUARE = 2**24
_FIRST_BATCH, _LARGEST_BATCH = 1 << 6, 1 << 16
_CHUNK_CELLS = 1 << 21


@dataclass(frozen=True)
class FrobeniusMechanism(WithinBounds):
    """Releases a list decoded from noisy Frobenius coordinates: the most accurate release for
    epsilon / sensitivity below ln 3.

    The noise of each coordinate has q = e**(-epsilon / sensitivity): the budget is not divided
    among them. A list of N contributions takes O(sqrt(N) + c**(-2/3)) random numbers, c = epsilon /
    sensitivity.

    Privacy. The release is pure epsilon-DP, by the theorem of the module. With q = 2**-eta it is
    (eta * sensitivity)-DP in base 2. Public bounds help the decoder and cost nothing.

    Args:
      epsilon, sensitivity, eta: see ``PartitionMechanism``.
      bounds: public bounds, between which the released list lies; none by default.
      max_total: a public upper bound on the sum of all frequencies; none by default. The released
        list keeps to it, unless ``bounds`` are given too, and force a larger total.

    Raises:
      ValueError: see ``PartitionMechanism``, here for c below 2**-20; or a bound is out of range.

    Source: this project's.

    >>> private = FrequencyList([1000, 300, 1], [1, 2, 5000])
    >>> released = FrobeniusMechanism(epsilon=0.5).release(private)
    >>> released.l1_distance(private) < 400
    True
    """

    stable_name: ClassVar[str] = "FrobeniusMechanism"

    max_total: int | None = field(default=None, kw_only=True)

    title = "two-sided geometric noise on Frobenius coordinates of integer partitions"
    min_rate: ClassVar[Fraction] = Fraction(1, 2**20)
    factors: ClassVar[int] = 1
    decodes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_total is not None:
            check_total("max_total", self.max_total)

    def possible_lists(self) -> dict[str, Any]:
        possible = super().possible_lists()
        if self.max_total is None:
            return possible
        return possible | {"possible_lists": "as declared", "max_total": self.max_total}

    def noisy_coordinates(
        self, frequency_list: FrequencyList, tape: RandomTape | None = None
    ) -> NoisyCoordinates:
        """Returns the coordinates of a release without decoding them; see ``release``."""
        drawn: NoisyCoordinates
        (drawn,) = self._drawn(frequency_list, [tape or RandomTape.from_os()])
        return drawn

    def _draw(self, frequency_list: FrequencyList) -> Callable[[RandomTape], NoisyCoordinates]:
        coordinates = FrobeniusCoordinates(frequency_list)
        if coordinates.square > _LARGEST_SQUARE:
            raise ValueError(
                "the list has more than 2**24 partitions of more than 2**24 users each"
            )
        noise = noise_of_decay(self.decay)
        rule = EndingRule(self.decay)

        def draw_arm(arm: str, tape: RandomTape) -> IntArray:
            drawn: IntArray = np.empty(0, np.int64)
            end = None
            while end is None:
                begin = len(drawn)
                # The size of a batch does not matter: each coordinate has noise of its own address.
                count = min(max(_FIRST_BATCH, begin), _LARGEST_BATCH)
                indices = np.arange(begin + 1, begin + count + 1)
                noisy = coordinates.of(arm, indices) + noise.sample(tape, arm, count, begin)
                drawn = np.append(drawn, noisy)
                end = rule.end(drawn, begin)
            return drawn[:end]

        return lambda tape: NoisyCoordinates(
            draw_arm(ROWS, tape), draw_arm(COLUMNS, tape), self.decay, self.sensitivity
        )

    def _released(self, drawn: NoisyCoordinates) -> ReleasedList:
        # From here on only the noisy coordinates are used, which are public.
        decoded = Posterior(drawn, self.bounds).median(self.max_total)
        return ReleasedList(decoded.frequencies, decoded.multiplicities, self, drawn)


class EndingRule:
    """Applies the rule of the module, in integers, so that all machines agree.

    If m (``longest``) is above 512, it tries only every 2nd, 3rd, ... coordinate as the last one.
    That keeps its cost linear and can only end an arm later.
    """

    def __init__(self, decay: Decay):
        down, up = rounding_pair(64)
        slow = decay.log_enclosure(64)[0]
        self._refuted = int(up.ceil(up.div(up.mul(_REFUTING_BITS, up.const_log2()), slow)))
        # Without noise S_k is at most -k (k + 1) / 2, or about -c k**3 / 6 where c k is small.
        self.longest = 60 + 3 * int(up.ceil(up.cbrt(up.div(250, down.square(slow)))))
        self._stride = -(-self.longest // 512)
        self._slowest = np.arange(1, self.longest + 1)

    def end(self, arm: IntArray, begin: int) -> int | None:
        """Returns the first R > begin at which the rule ends an arm, or None if more coordinates
        are needed."""
        # In front of the arm its coordinates count as very large, which never ends it.
        padded = np.append(np.full(self.longest, self.longest), np.clip(arm, 0, self.longest))
        windows = np.lib.stride_tricks.sliding_window_view(padded, self.longest)[:, ::-1]
        ends = np.arange(begin + self._stride - begin % self._stride, len(arm) + 1, self._stride)
        step = max(1, _CHUNK_CELLS // self.longest)
        for start in range(0, len(ends), step):
            chunk = ends[start : start + step]
            last = windows[chunk]
            ratios = np.cumsum(2 * np.minimum(last, self._slowest) - self._slowest, axis=1)
            ending = np.flatnonzero(ratios.min(axis=1) <= -self._refuted)
            if ending.size:
                return int(chunk[ending[0]])
        return None
