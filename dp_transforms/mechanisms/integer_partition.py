"""The exponential mechanism for integer partitions: frequency lists under pure epsilon-DP,
exactly."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dp_transforms.mechanisms import evaluation
from dp_transforms.mechanisms.base2 import Eta, positive_rational
from dp_transforms.mechanisms.block_filling import fill_blocks, infinite_run_parts
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.float_level import AnyTransfer, FloatLevel
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.precise_level import PreciseLevel
from dp_transforms.mechanisms.randomness import RandomTape
from dp_transforms.mechanisms.scaled_transfer import ScaledTransfer
from dp_transforms.mechanisms.transfer import FloatTransfer, PreciseTransfer
from dp_transforms.mechanisms.walk import Blocks, Undecided, Walk

SCALED_RATE = Fraction(1, 40)
"""Below this c messages have an exponent for each state: see ``scaled_messages``."""

MIN_RATE = Fraction(1, 1024)
"""The smallest c = epsilon / (2 * sensitivity). Next to a large corner the walk goes as far as
ln(2) / c from zero, and time and memory grow with powers of that."""

MAX_TOTAL = 2**62
"""Lists up to this total leave room for what a release adds."""

_WIDEST_FLOAT_WINDOW = 2000


@dataclass(frozen=True)
class IntegerPartitionMechanism:
    """Releases a frequency list x with probability proportional to q**||x - f||_1, over all lists.

    All integer partitions x of all totals are possible outputs: nothing is cut off, so there is no
    delta, and the law does not depend on any public bound. The sampler is exact (see ``walk``).

    Privacy. Neighbours: add or remove all records of one user, who contributes to at most
    ``sensitivity`` partitions. That changes at most ``sensitivity`` counts by one each; sorting
    does not increase the L1 distance between the lists, so ||f - f'||_1 <= sensitivity. By the
    triangle inequality the weight of any x changes by a factor of at most q**-sensitivity, and so
    does the total weight of all x. With q = e**(-epsilon / (2 * sensitivity)) every output's
    probability changes by at most e**epsilon: pure epsilon-DP. With q = 2**-eta the same argument
    gives (2 * eta * sensitivity)-DP in base 2. The number of times that the sampler raises its
    precision depends on f and can show in the running time: a timing channel. On a list like
    RockYou's, at epsilon = 1, it is raised at all in about two releases of a million.

    Args:
      epsilon: the privacy parameter, in natural units; a float stands for exactly the number it is.
        Give this or eta.
      eta: the parameter of the weights in base 2.
      sensitivity: the most partitions that one user contributes to (max_partitions_per_user).

    Raises:
      ValueError: both or neither of epsilon and eta are given, a parameter is not positive, or
        epsilon / (2 * sensitivity) is below 1 / 1024, where a release of a list with large corners
        would take too long.

    Source: Blocki, Datta, Bonneau, "Differentially Private Password Frequency Lists" (NDSS 2016),
    whose ``dist`` is half the L1 distance; base 2: Ilvento (2019). The sampler is this project's.

    >>> private = FrequencyList([1000, 300, 1], [1, 2, 5000])
    >>> released = IntegerPartitionMechanism(epsilon=1.0).release(private)
    >>> released.l1_distance(private) < 200
    True
    """

    epsilon: float | None = None
    sensitivity: int = 1
    eta: Eta | None = None
    decay: Decay = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            sensitivity = operator.index(self.sensitivity)
        except TypeError:
            sensitivity = 0
        if sensitivity < 1:
            raise ValueError(f"sensitivity must be a positive integer, got {self.sensitivity!r}")
        if self.eta is not None:
            if self.epsilon is not None:
                raise ValueError("give epsilon or eta, not both")
            decay = Decay(base=self.eta)
        else:
            epsilon = positive_rational("epsilon", 1.0 if self.epsilon is None else self.epsilon)
            object.__setattr__(self, "epsilon", float(epsilon))
            decay = Decay(epsilon / (2 * sensitivity))
        if decay.log_enclosure(64)[1] < MIN_RATE:
            raise ValueError(
                "epsilon / (2 * sensitivity) must be at least 1/1024, got "
                f"epsilon={self.epsilon}, eta={self.eta}, sensitivity={self.sensitivity}: "
                "raise epsilon or bound each user to fewer partitions"
            )
        object.__setattr__(self, "decay", decay)

    def release(
        self, frequency_list: FrequencyList, tape: RandomTape | None = None
    ) -> FrequencyList:
        """One private list.

        Args:
          frequency_list: the private list; empty is allowed.
          tape: where the randomness comes from; by default a fresh tape from the operating system.
            A tape must serve one release only: the same tape with another list cancels the noise.

        Raises:
          ValueError: the total is above 2**62.
        """
        return Sampler(frequency_list, self.decay).release(tape or RandomTape.from_os())

    def release_many(
        self, frequency_list: FrequencyList, count: int, tapes: Iterator[RandomTape] | None = None
    ) -> list[FrequencyList]:
        """``count`` independent lists, for evaluation: publishing them costs count * epsilon.

        Args:
          frequency_list: the private list.
          count: how many.
          tapes: a tape for each; by default fresh ones from the operating system.
        """
        if count < 0:
            raise ValueError(f"count must not be negative, got {count}")
        sampler = Sampler(frequency_list, self.decay)
        source = tapes or iter(RandomTape.from_os, None)
        return [sampler.release(next(source)) for _ in range(count)]

    def expected_l1(self, frequency_list: FrequencyList) -> float:
        """The exact mean of ||x - f||_1, for evaluation only: it depends on the private list.

        ``dist`` of Blocki et al. (2016) is half of it. By ``evaluation``, independently of any
        draws.
        """
        rate = float(self.decay.log_enclosure(64)[0])
        return evaluation.expected_l1(frequency_list, rate, 2 * Level.first(self.decay).window)


@dataclass(frozen=True)
class Level:
    """How precisely questions are settled: the states -window..window, and numbers of some bits."""

    window: int
    bits: int = 53

    @classmethod
    def first(cls, decay: Decay) -> Level:
        """float64 on a window that is wide enough for most lists at this rate."""
        return cls(8 + math.ceil(5 / math.sqrt(decay.log_enclosure(64)[0])))

    def next(self, width: float) -> Level:
        """The level to try when this one left an enclosure of that width around a question."""
        if self.bits == 53 and width > 2.0**-20 and self.window < _WIDEST_FLOAT_WINDOW:
            return Level(math.ceil(1.5 * self.window))
        if self.bits == 53:
            return Level(self.window, 128)
        return Level(math.ceil(1.5 * self.window), 2 * self.bits)


class Sampler:
    """Samples walks for one list at levels of rising precision, each made when it is first
    needed."""

    def __init__(self, frequency_list: FrequencyList, decay: Decay):
        if frequency_list.total > MAX_TOTAL:
            raise ValueError("the total of a list to release must be at most 2**62")
        self.blocks = Blocks.of(frequency_list)
        self.first_level = Level.first(decay)
        self._list = frequency_list
        self._decay = decay
        self._scaled = decay.log_enclosure(64)[1] < SCALED_RATE
        self._float_transfers: dict[int, AnyTransfer] = {}
        self._levels: dict[Level, FloatLevel | PreciseLevel] = {}

    def release(self, tape: RandomTape) -> FrequencyList:
        """The list that this tape gives."""
        return self.walk(tape).applied_to(self._list, self.blocks)

    def walk(self, tape: RandomTape, level: Level | None = None) -> Walk:
        """The walk that this tape gives, whichever level is tried first."""
        states = self.states(tape, level)
        reach = int(np.abs(states).max())
        windows = [window for window in self._float_transfers if window >= reach]
        transfer = self._float_transfer(min(windows, default=reach))
        blocks, places = fill_blocks(self.blocks, states, (transfer, transfer), tape)
        head = infinite_run_parts(self._decay, int(states[0]), tape, "head parts")
        tail = infinite_run_parts(self._decay, int(states[-1]), tape, "tail parts")
        return Walk(head, blocks, places, tail)

    def states(self, tape: RandomTape, level: Level | None = None) -> npt.NDArray[np.int64]:
        """The walk's states before each block and after the last."""
        level = level or self.first_level
        while True:
            try:
                return self.at_level(level).states(tape)
            except Undecided as undecided:
                level = level.next(undecided.width)

    def at_level(self, level: Level) -> FloatLevel | PreciseLevel:
        """The messages at one level.

        Raises:
          Undecided: the level's window is too narrow for any.
        """
        found = self._levels.get(level)
        if found is None:
            if level.bits == 53:
                transfer = self._float_transfer(level.window)
                found = FloatLevel(self.blocks, (transfer, transfer))
            else:
                precise = PreciseTransfer(self._decay, self._decay, level.window, level.bits)
                found = PreciseLevel(self.blocks, (precise, precise))
            self._levels[level] = found
        return found

    def _float_transfer(self, window: int) -> AnyTransfer:
        if window not in self._float_transfers:
            self._float_transfers[window] = (ScaledTransfer if self._scaled else FloatTransfer)(
                self._decay, self._decay, window
            )
        return self._float_transfers[window]
