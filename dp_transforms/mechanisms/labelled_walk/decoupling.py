"""Long runs: their two ends are independent, up to a bound.

Let T_n be the transfer through n zero bits between constant walls, and L and R the weights that
``labels`` calls leaving and settling. A walk from -s to t (s, t >= 0) has s early moves, on its way
up to 0, and t late ones. Let the last early move be at place a, and the first late one at place b
from the end (a = 0 without early moves, b = 0 without late ones). If n - a - b >= 2, two zero bits
lie between. No chain of corners reaches across both, so the weight of the walk is the product of
those of its two parts in infinite runs. In all other pairs of parts a + b >= n - 1. Labels only
lower weights; without them all early parts weigh B(s) and all late ones A(t) in total
(``sampler.transfer``),

    A(t) = q**(t(t+1)/2) / (q; q)_t         B(s) = q**(s(s-1)/2) / (q; q)_s

and in the law with these weights the largest of s distinct parts is below x with probability
prod_{j=1..s} (1 - q**(x - 1 - s + j)), and so at least x with at most s q**(x - s). The sum over x
= 0..n-1 of Pr[a >= x] Pr[b >= n - 1 - x] bounds Pr[a + b >= n - 1]. Therefore

    |T_n(-s, t) - R(-s) L(t)| <= C = B(s) A(t) n max(s, 1) max(t, 1) q**(n - 1 - s - t)

for each pair of kinds. Walks that neither start nor end at 0, nor cross it, are at D != 0 all the
time:

    T_n(D, D + k) <= q**(n D) A(k)          T_n(-s, -t) <= q**(n t) B(s - t)

All these bounds decrease in n from n = 1 / c on. They hold between walls, which forbid walks and
lift labels at corners that they hold, and on a window, as D is monotone in a run: a walk between
states of the window never leaves it.
"""

from __future__ import annotations

import math

import gmpy2
import numpy as np

from dp_transforms.mechanisms.arrays import Array
from dp_transforms.mechanisms.labelled_walk.labels import Powers


def window_of(rate: float, bits: int) -> int:
    """A window that walks leave with a probability of about 2**-bits.

    Beyond it q**D (1 + q) < 1, so that A and B decrease there, and exits have weights below 1.
    """
    return 1 + math.ceil(max(math.sqrt(bits * math.log(2) / rate), math.log(2) / rate))


def long_from(rate: float, window: int, bits: int) -> int:
    """The length from which on runs count as long: there C is about 2**-bits R L or less."""
    logarithms = bits * math.log(2) + 4 * math.log(2 * window + 2) + 2 * window * (rate + 1)
    length = logarithms / rate
    return math.ceil(length + math.log(length) / rate)


def remainder(upper: Powers, length: int) -> Array:
    """Bounds of |T_n(D, D') - R(D) L(D')| for n >= length and any kinds before and after the run.

    Shape (levels, levels), in MPFR numbers; the context rounds up. R and L are 0 at exits, so that
    these bounds are all that is known of the weights from the lower exit and into the upper one.

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
