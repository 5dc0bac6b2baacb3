"""Chooses from any finite set of outcomes exactly, by the base-2 exponential mechanism.

By Ilvento (2019), "Implementing the Exponential Mechanism with Base-2 Differential Privacy",
outcome o is chosen with probability proportional to 2**(-eta * u(o)): outcomes of low utility are
likely. For integer utilities and an ``Eta`` every weight is a binary fraction, so nothing is
rounded and the distribution is exactly the mechanism's. If a sum of weights needs more bits than
were fixed in advance, ``InexactArithmeticError`` is raised, and no outcome is chosen.

Utilities that are not integers are rounded at random first. They are rounded away from zero with a
probability that is exactly the absolute value of their fractional part (Mechanism 4). The result
has the distribution of ceil(u - U) for a uniform U.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeVar

import gmpy2
import numpy as np

from dp_transforms.errors import without_originals
from dp_transforms.mechanisms.arrays import Array, IntArray
from dp_transforms.mechanisms.decay import Eta
from dp_transforms.mechanisms.decimals import Number, exact_fraction, integer, positive_rational
from dp_transforms.mechanisms.enclosure import as_fraction, exactly
from dp_transforms.mechanisms.randomness import WORD_BITS, RandomTape, Uniform, draw_below, is_below

Outcome = TypeVar("Outcome")

LARGEST_BOUND = 2**62
_MOST_BITS = 2**34


@without_originals()
def round_at_random(
    values: Any,
    lowest: int,
    highest: int,
    tape: RandomTape | None,
    channel: str,
    name: str = "values",
) -> IntArray:
    """Returns the values, clamped to [lowest, highest] and then rounded at random.

    A value is rounded away from zero with a probability that is exactly the absolute value of its
    fractional part, and otherwise towards zero.

    Args:
      values: a sequence or a one-dimensional array of finite real numbers; a float stands for its
        exact value.
      lowest, highest: integers between -2**62 and 2**62.
      tape: the i-th value reads the number at (channel, i). With None, all values must be integers
        after clamping.
      name: the name of the values in error messages.

    Returns:
      An int64 array of the same length.

    Raises:
      ValueError: a value is NaN, infinite or not a real number, or not an integer while there is no
        tape. The message does not repeat the values.

    >>> round_at_random([-7, 2.0, 2.25, 99], 0, 10, RandomTape(bytes(32)), "example")
    array([ 0,  2,  2, 10])
    """
    array = values if isinstance(values, np.ndarray) else _array(values)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional")
    if array.dtype.kind in "iu":
        if array.dtype == np.uint64:
            # Numbers that do not fit into int64 are above every bound.
            array = np.minimum(array, np.uint64(2**63 - 1))
        return np.clip(array.astype(np.int64), lowest, highest)
    clamped = np.clip(_exact_values(array, max(-lowest, highest), name), lowest, highest)
    whole: IntArray = clamped.astype(np.int64)
    fractions = abs(clamped - whole)
    if not fractions.any():
        return whole
    if tape is None:
        raise ValueError(f"{name} must be integers here")
    scaled = fractions * 2**WORD_BITS
    thresholds = scaled.astype(np.uint64)
    words = tape.words(channel, len(whole))
    away = words < thresholds
    # Where 64 bits of U and of the fractional part are equal, further bits decide.
    for i in np.flatnonzero((words == thresholds) & (scaled != thresholds)).tolist():
        away[i] = _is_below(tape.uniform(channel, i), Fraction(fractions[i]))
    return whole + np.where(away, np.where(clamped > 0, 1, -1), 0)


def _exact_values(array: Array, largest: int, name: str) -> Array:
    """Returns values without rounding them, as floats or fractions. Floats are returned only if all
    integers up to ``largest`` are floats too. Raises as ``round_at_random``."""
    try:
        # Floats of more than 64 bits are not converted, since that would round them.
        if array.dtype.char in "efd" and largest <= 2**52:
            # Clamping such floats and taking their fractional parts rounds nothing.
            floats = array.astype(np.float64)
            if not np.isfinite(floats).all():
                raise OverflowError
            return floats
        return _objects([_exact(value) for value in array.tolist()])
    except TypeError as error:
        raise ValueError(f"{name} must be real numbers, got one of type {error}") from None
    except (ValueError, OverflowError):
        raise ValueError(f"{name} must be finite, but at least one is NaN or infinite") from None


def _is_below(uniform: Uniform, probability: Fraction) -> bool:
    return is_below(uniform, lambda _: exactly(probability))


def _array(values: Any) -> Array:
    """Returns a sequence as an array, without changing any value."""
    kinds = {type(value) for value in values}
    if kinds == {float}:
        return np.array(values, dtype=np.float64)
    # Anything else stays as it is: numpy would turn large integers into floats, and True into 1.
    array = _objects(list(values))
    if kinds == {int} and all(-(2**62) <= value < 2**62 for value in values):
        return array.astype(np.int64)
    return array


def _objects(values: list[Any]) -> Array:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _exact(value: Any) -> Fraction:
    """Returns a number as a fraction. A TypeError names any other value's type."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool | str | complex):
        raise TypeError(type(value).__name__)
    if isinstance(value, int | float | Fraction | Decimal):
        return Fraction(value)
    try:
        return as_fraction(gmpy2.mpq(value))
    except TypeError:
        raise TypeError(type(value).__name__) from None


class InexactArithmeticError(ArithmeticError):
    """Says that a sum of weights needs more bits than the precision that was fixed for it."""


class _Level(NamedTuple):
    """Holds the outcomes of one level, which have equal rounded utilities and equal weights.

    The weight and the cumulative weight are in units of the least bit once they are shifted left by
    ``shift``.
    """

    level: int
    outcomes: int  # how many there are
    weight: Any  # of each of them
    cumulative: Any  # the sum of all weights of this level and of lower ones
    shift: int


@dataclass(frozen=True)
class ExponentialMechanism:
    """Chooses outcome o with probability proportional to 2**(-eta * u(o)), exactly.

    Privacy. Let the utility of every outcome change by at most s between neighbours (add or remove
    all records of one user). Then a choice is (2 * eta * ceil(s))-DP in base 2, that is
    ``epsilon(s)``-DP: each weight changes by a factor of at most 2**(eta * ceil(s)), and so does
    their sum. Clamping to [utility_min, utility_max] brings no two utilities further apart
    (Proposition 3.3). Utilities that are not integers are rounded at random (Mechanism 4), with the
    distribution of ceil(u - U) for a uniform U independent of the data. For each fixed U the
    rounded utility moves by at most ceil(s) when u moves by at most s.

    The parameters, the outcomes and their number must not depend on the data. Only ``sample``,
    ``choose`` and ``probabilities`` see utilities.

    Args:
      eta: the base-2 privacy parameter, per unit of utility.
      utility_min: integer; lower utilities count as this one, which has the largest weight.
      utility_max: integer; higher utilities count as this one.
      max_outcomes: the most outcomes that a choice may have.
      min_retries: the least number of random numbers drawn per choice, which narrows a timing
        channel; see ``randomness.draw_below``.
      precision: how the bits for weights and their sums are fixed in advance: "theoretical" by
        Lemma 3.4, "empirical" by computing the worst case. It does not change the cost.

    Raises:
      ValueError: a parameter is not an integer in range, or the weights would need too many bits.

    >>> mechanism = ExponentialMechanism(Eta(1, 1, 1), 0, 10, max_outcomes=100)
    >>> mechanism.choose("abc", {"a": 0, "b": 1, "c": 7.5}.get, RandomTape(bytes(32)))
    'a'
    >>> mechanism.probabilities([0, 1])
    [mpq(2,3), mpq(1,3)]
    >>> mechanism.epsilon(sensitivity=1)
    1.3862943611198908
    """

    eta: Eta
    utility_min: int
    utility_max: int
    max_outcomes: int
    min_retries: int = 1
    precision: Literal["theoretical", "empirical"] = "theoretical"

    def __post_init__(self) -> None:
        if not isinstance(self.eta, Eta):
            raise ValueError(f"eta must be an Eta, got {self.eta!r}")
        for name in ("utility_min", "utility_max", "max_outcomes", "min_retries"):
            object.__setattr__(self, name, integer(name, getattr(self, name)))
        if self.utility_min > self.utility_max:
            raise ValueError(
                f"utility_min={self.utility_min} must not be above utility_max={self.utility_max}"
            )
        if max(-self.utility_min, self.utility_max) > LARGEST_BOUND:
            raise ValueError("utility_min and utility_max must lie between -2**62 and 2**62")
        for name in ("max_outcomes", "min_retries"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.precision not in ("theoretical", "empirical"):
            raise ValueError(
                f'precision must be "theoretical" or "empirical", got {self.precision!r}'
            )
        if self.eta.bits * self._range > _MOST_BITS:
            raise ValueError(
                f"utilities from {self.utility_min} to {self.utility_max} need weights of "
                f"{self.eta.bits * self._range} bits; narrow the range or choose an eta with "
                "fewer bits"
            )

    @cached_property
    def precision_bits(self) -> int:
        """Returns the most bits that weights and their sums may have, without trailing zeros."""
        eta, most = self.eta, self.max_outcomes
        if self.precision == "theoretical":
            span = max(1, abs(self.utility_min)) + max(1, abs(self.utility_max))
            return span * eta.z * (eta.y + eta.x.bit_length()) + most
        # In units of the least bit, weights are integers up to 2**(bits * range). A sum that
        # contains the smallest weight once is odd, so that none of its bits is a trailing zero.
        if most == 1:
            return int((gmpy2.mpz(eta.x) ** (eta.z * self._range)).bit_length())
        return eta.bits * self._range + (most - 1).bit_length()

    def epsilon(self, sensitivity: float | Fraction = 1) -> float:
        """Returns the epsilon of one choice if utilities differ by up to ``sensitivity``: the
        smallest float not below 2 * eta * ceil(sensitivity) * ln 2, in natural units."""
        if not 0 <= sensitivity < math.inf:
            raise ValueError(f"sensitivity must be finite and not negative, got {sensitivity}")
        steps = math.ceil(sensitivity)
        return Eta(self.eta.x, self.eta.y, 2 * steps * self.eta.z).epsilon if steps else 0.0

    def sample(
        self, utilities: Any, tape: RandomTape, channel: str = "exponential mechanism"
    ) -> int:
        """Draws an outcome; returns its index.

        Args:
          utilities: one finite number per outcome: a sequence or a one-dimensional numpy array of
            integers, floats or rationals.
          tape: ``RandomTape.from_os()`` for a release.
          channel: the address of this choice on the tape; every choice needs one of its own.

        Raises:
          ValueError: there are no utilities or more than max_outcomes, or one is not a finite real
            number; this channel has claimed the tape. The message does not repeat utilities.
        """
        levels = self._levels(utilities, tape.claim(channel), channel)
        drawn = draw_below(self._total(levels), tape, f"{channel}: draw", self.min_retries)
        return self._locate(levels, drawn)

    def choose(
        self,
        outcomes: Sequence[Outcome],
        utility: Callable[[Outcome], Any],
        tape: RandomTape,
        channel: str = "exponential mechanism",
    ) -> Outcome:
        """Draws one of the outcomes: ``sample`` with ``utility(outcome)`` for each."""
        return outcomes[self.sample([utility(o) for o in outcomes], tape, channel)]

    def probabilities(self, utilities: Any) -> list[Any]:
        """Returns the exact probability of each outcome, as gmpy2.mpq: private, as utilities are.

        Raises:
          ValueError: see ``sample``; or a utility is not an integer.
        """
        weights = [self.eta.base**level for level in self._levels(utilities, None, "").tolist()]
        total = sum(weights)
        return [weight / total for weight in weights]

    @property
    def _range(self) -> int:
        return self.utility_max - self.utility_min

    def _levels(self, utilities: Any, tape: RandomTape | None, channel: str) -> IntArray:
        """Returns rounded and clamped utilities minus utility_min."""
        if not hasattr(utilities, "__len__"):
            raise ValueError("utilities must be a sequence of numbers")
        if not len(utilities):
            raise ValueError("there must be at least one outcome")
        if len(utilities) > self.max_outcomes:
            raise ValueError(f"there are more than max_outcomes={self.max_outcomes} outcomes")
        limits = self.utility_min, self.utility_max
        rounded = round_at_random(utilities, *limits, tape, f"{channel}: rounding", "utilities")
        return rounded - self.utility_min

    def _occupied(self, levels: IntArray) -> Iterator[_Level]:
        """Yields the levels that have outcomes, ascending. The shift is left to the caller: so the
        first numbers are short, which halves the work."""
        step, bits = gmpy2.mpz(self.eta.x) ** self.eta.z, self.eta.bits
        weight, cumulative, previous = gmpy2.mpz(1), gmpy2.mpz(0), 0
        for level, outcomes in sorted(Counter(levels.tolist()).items()):
            gap = level - previous
            previous = level
            weight *= step**gap
            cumulative = (cumulative << bits * gap) + outcomes * weight
            yield _Level(level, outcomes, weight, cumulative, bits * (self._range - level))

    def _total(self, levels: IntArray) -> Any:
        """Returns the sum of all weights in units of the least bit."""
        last = None
        for level in self._occupied(levels):
            last = level
        assert last is not None
        total = last.cumulative << last.shift
        # Trailing zeros do not count, as in a significand.
        bits = int(total.bit_length() - total.bit_scan1())
        if bits > self.precision_bits:
            raise InexactArithmeticError(
                f"a sum of weights needs {bits} bits, but the precision is {self.precision_bits}"
            )
        return total

    def _locate(self, levels: IntArray, drawn: Any) -> int:
        """Returns the outcome whose interval of cumulative weights contains ``drawn``. Outcomes are
        ordered by level, and by index within a level."""
        located = None
        # The loop goes on after the level is found, so that its time does not show which it is.
        for level in self._occupied(levels):
            if drawn >> level.shift < level.cumulative and located is None:
                before = level.cumulative - level.outcomes * level.weight
                offset = drawn - (before << level.shift)
                located = level.level, int(offset // (level.weight << level.shift))
        assert located is not None
        chosen_level, place = located
        return int(np.flatnonzero(levels == chosen_level)[place])


@dataclass(frozen=True)
class ClampedLaplace:
    """Releases a point of the grid lower, lower + granularity, ..., near a private number.

    A point s steps from the grid point nearest to the number has probability proportional to
    2**(-eta * s). Unlike clamped Laplace noise, this does not pile up at the ends.

    Privacy. Let the number change by at most d between neighbours (add or remove all records of one
    user). Rounded to the grid (halves go up) and clamped, the two numbers are at most k = ceil(d /
    granularity) steps apart. So a release is (2 * eta * k)-DP in base 2, ``epsilon(d)`` in natural
    units. (``TwoSidedGeometric`` noise, which has no bounds, costs eta * k.)

    Args:
      eta: the base-2 privacy parameter, per step of the grid.
      lower: the lowest point. A float stands for the decimal that it prints as, here and as the
        private number.
      upper: an upper bound on all points.
      granularity: the distance between points.
      min_retries: as for ``ExponentialMechanism``.

    Raises:
      ValueError: a bound or the granularity is not finite or out of order, or the grid has more
        than 2**31 points.

    Source: Ilvento (2019), the base-2 exponential mechanism with distances as utilities.

    >>> laplace = ClampedLaplace(Eta(1, 1, 1), -10, 10, granularity=0.25)
    >>> laplace.points, laplace.release(1.1, RandomTape(bytes(32)))
    (81, Fraction(1, 1))
    """

    eta: Eta
    lower: Number
    upper: Number
    granularity: Number = 1
    min_retries: int = 1

    def __post_init__(self) -> None:
        lower, upper, _ = self._grid
        if lower > upper:
            raise ValueError(f"lower={self.lower} must not be above upper={self.upper}")
        if self.points > 2**31:
            raise ValueError(
                f"the grid has {self.points} points, more than 2**31; give a larger granularity"
            )
        _ = self._mechanism

    @cached_property
    def points(self) -> int:
        """Returns the number of points of the grid."""
        lower, upper, step = self._grid
        return math.floor((upper - lower) / step) + 1

    def epsilon(self, sensitivity: Number) -> float:
        """Returns the epsilon of one release if the number changes by up to ``sensitivity``: the
        smallest float not below 2 * eta * ceil(sensitivity / granularity) * ln 2, in natural
        units."""
        _, _, step = self._grid
        return self._mechanism.epsilon(_rational("sensitivity", sensitivity) / step)

    def release(self, value: Any, tape: RandomTape, channel: str = "clamped Laplace") -> Fraction:
        """Draws a point of the grid; returns it exactly.

        Args:
          value: the private number, finite; a value outside the bounds counts as the nearer one.
          tape, channel: see ``ExponentialMechanism.sample``.

        Raises:
          ValueError: the value is not a finite real number.
        """
        return self._point(self._mechanism.sample(self._distances(value), tape, channel))

    def distribution(self, value: Any) -> dict[Fraction, Any]:
        """Returns the exact probability of each point, as gmpy2.mpq: private, as the value is."""
        probabilities = self._mechanism.probabilities(self._distances(value))
        return {self._point(i): p for i, p in enumerate(probabilities)}

    @cached_property
    def _grid(self) -> tuple[Fraction, Fraction, Fraction]:
        return (
            _rational("lower", self.lower),
            _rational("upper", self.upper),
            positive_rational("granularity", self.granularity),
        )

    @cached_property
    def _mechanism(self) -> ExponentialMechanism:
        return ExponentialMechanism(
            self.eta, 0, self.points - 1, max_outcomes=self.points, min_retries=self.min_retries
        )

    def _point(self, index: int) -> Fraction:
        lower, _, step = self._grid
        return lower + index * step

    def _distances(self, value: Any) -> IntArray:
        """Returns the number of steps from each point to the one nearest to the value."""
        lower, _, step = self._grid
        steps = (_rational("value", value, private=True) - lower) / step
        nearest = min(max(math.floor(steps + Fraction(1, 2)), 0), self.points - 1)
        return np.abs(np.arange(self.points, dtype=np.int64) - nearest)


@without_originals()
def _rational(name: str, value: Any, private: bool = False) -> Fraction:
    try:
        if isinstance(value, str):
            raise ValueError
        return exact_fraction(name, value)
    except ValueError:
        shown = "" if private else f", got {value!r}"
        raise ValueError(f"{name} must be a finite real number{shown}") from None
