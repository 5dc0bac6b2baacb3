"""Long runs: their two ends have nothing to do with each other, up to a bound.

Let T_n be the weights of walks through n zero bits, between constant walls, and L and R what
``labels`` calls leaving and settling. A walk from -s to t (s, t >= 0) has s early moves, on its
way up to 0, and t late ones. Let the last early move be at place a, and the first late one b places
from the end (a = 0 without early moves, b = 0 without late ones). If n - a - b >= 2, two zero bits
lie between: no chain of corners reaches across both, so the walk weighs exactly what its two parts
weigh in infinite runs. In all other pairs of parts a + b >= n - 1. Without labels, which only lower
weights, all early parts weigh B(s) and all late ones A(t) (``sampler.transfer``),

    A(t) = q**(t(t+1)/2) / (q; q)_t         B(s) = q**(s(s-1)/2) / (q; q)_s

and the largest of s distinct parts is at least x with a probability of at most s q**(x - s). The
sum over x of Pr[a >= x] Pr[b >= n - 1 - x] bounds Pr[a + b >= n - 1]. Therefore

    |T_n(-s, t) - R(-s) L(t)| <= C = B(s) A(t) n max(s, 1) max(t, 1) q**(n - 1 - s - t)

for each pair of kinds. Walks that do not cross 0 stay in D != 0 all the time:

    T_n(D, D + k) <= q**(n D) A(k)          T_n(-s, -t) <= q**(n t) B(s - t)

All these bounds fall in n from 1 / c on. They hold between walls, which forbid walks only, and
which within a window do not depend on what lies beyond it, as D is monotone in a run.
"""

from __future__ import annotations

import math
from typing import Any

import gmpy2
import numpy as np

from dp_transforms.mechanisms.labelled_walk.labels import Array, Powers


def window_of(rate: float, bits: int) -> int:
    """A window that walks leave with a probability of about 2**-bits."""
    return 1 + math.ceil(math.sqrt(bits * math.log(2) / rate))


def long_from(rate: float, window: int, bits: int) -> int:
    """The length from which on runs count as long, so that C is about 2**-bits R L or less."""
    logarithms = bits * math.log(2) + 4 * math.log(2 * window + 2) + 2 * window * (rate + 1)
    length = logarithms / rate
    return math.ceil(length + math.log(length) / rate)


def remainder(upper: Powers, length: int) -> Array:
    """Bounds of |T_n(D, D') - R(D) L(D')| for one kind behind the run, n >= length.

    Shape (levels, levels), in MPFR numbers; the context rounds up. Weights into the upper exit are
    counted here alone, and so is what the lower exit bounds.

    Args:
      upper: powers of q that are upper bounds.
      length: n.
    """
    window, levels = upper.window, upper.levels
    costs, rests = upper.costs, upper.rests
    climbs, entries = [costs[0]], [costs[0]]
    for d in range(1, window + 2):
        climbs.append(climbs[-1] * costs[d] / rests[d])
        entries.append(entries[-1] * costs[d - 1] / rests[d])
    # The sum of all A is prod (1 + q**i), and that of A(window + 1), A(window + 2), ... this.
    every_climb = gmpy2.exp(costs[1] / rests[1])
    far_climbs = climbs[-1] / upper.loop_rest
    largest_entry = max(entries)
    base = costs[1]
    found = np.full((levels, levels), costs[0] - costs[0])
    centre = window + 1
    for s in range(window + 2):
        for t in range(window + 1):
            together = length * max(s, 1) * max(t, 1) * base ** (length - 1 - s - t)
            # The exit has no place in R.
            share = together if s <= window else costs[0]
            found[centre - s, centre + t] = entries[s] * climbs[t] * share
        found[centre - s, -1] = entries[s] * far_climbs
        for t in range(1, s + 1):
            entry = entries[s - t] if s <= window else 2 * largest_entry
            found[centre - s, centre - t] = base ** (length * t) * entry
    for d in range(1, window + 1):
        stay = base ** (length * d)
        for k in range(window + 1 - d):
            found[centre + d, centre + d + k] = stay * climbs[k]
        found[centre + d, -1] = stay * every_climb
    found[-1, -1] = base ** (length * (window + 1)) * every_climb
    return found


def with_kinds(bounds: Any) -> Any:
    """The bounds between states: a matrix over levels and kinds, flattened."""
    return np.repeat(np.repeat(bounds, 3, axis=0), 3, axis=1)
