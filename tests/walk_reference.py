"""The walk's messages by its recurrence, one bit at a time: slow, and without any closed form."""

from itertools import accumulate

import gmpy2
import numpy as np

from dp_transforms.mechanisms.decay import Weights
from dp_transforms.mechanisms.partition.walk.levels import Level

BITS = 300


def precisely():
    return gmpy2.context(precision=BITS, emin=gmpy2.get_emin_min(), emax=gmpy2.get_emax_max())


class WalkReference:
    """Messages to 300 bits, on a window so wide that nothing outside it matters: beta in front of
    each block and behind the last, by states -W..W."""

    def __init__(self, blocks, decay, window):
        self.blocks, self.window = blocks, window
        with precisely():
            ratio = gmpy2.mpfr(decay.power(1, BITS + 50).lower)
            self._costs = np.array([ratio ** abs(d) for d in range(-window, window + 1)])
            # A(a) and B(e), move by move.
            moves = [ratio**k / (1 - ratio**k) for k in range(1, window + 1)]
            self.leaving = list(accumulate(moves, lambda a, b: a * b, initial=gmpy2.mpfr(1)))
            last = np.full(2 * window + 1, gmpy2.mpfr(0))
            last[window:] = [a / ratio**k for k, a in enumerate(self.leaving)]
            self.messages = [self._walled(last, len(blocks))]
            for index in range(len(blocks) - 1, -1, -1):
                vector = self.messages[-1]
                for _ in range(blocks.lengths.item(index)):
                    costly = vector * self._costs
                    vector = costly + _moved(costly, not blocks.bits.item(index))
                self.messages.append(self._walled(vector, index))
            self.messages.reverse()

    def thresholds(self, index, state, count):
        """Pr[at most j moves in a block | state] for j = 0..count - 1; of the head for block -1."""
        with precisely():
            if index < 0:
                weights = list(self.messages[0][self.window :] * self.leaving)
                total = sum(weights)
            else:
                at, bit = self.window + state, self.blocks.bits.item(index)
                row = np.full(2 * self.window + 1, gmpy2.mpfr(0))
                row[at] = gmpy2.mpfr(1)
                for _ in range(self.blocks.lengths.item(index)):
                    row = self._costs * (row + _moved(row, bit))
                weights = list(row * self.messages[index + 1])
                weights = weights[at::-1] if bit else weights[at:]
                total = self.messages[index][at]
            return [partial_sum / total for partial_sum in accumulate(weights[:count])]

    def _walled(self, vector, index):
        states = np.arange(-self.window, self.window + 1)
        outside = states < self.blocks.lowest.item(index), states > self.blocks.highest.item(index)
        walled = vector.copy()
        walled[outside[0] | outside[1]] = gmpy2.mpfr(0)
        return walled


def _moved(vector, down):
    """What is at a state, at the next one, and nothing at the last."""
    nothing = [gmpy2.mpfr(0)]
    return np.append(vector[1:], nothing) if down else np.append(nothing, vector[:-1])


def total_weight(blocks, decay, window=40):
    """(lo, hi) around the sum of q**||x - f||_1 over all lists x, by the sampler's own messages."""
    with np.errstate(all="ignore"):
        beta = Level(blocks.cut(), decay, window).messages(0, window)[window:]
    leaving = Weights(decay, window + 1, 100).leaving_first_run()
    lower, upper = sum(b.rational() * a.rational() for b, a in zip(beta, leaving, strict=True))
    # What is left out weighs next to nothing on windows that are wide enough to ask.
    assert upper - lower < lower * 2.0**-36
    return lower, upper * (1 + gmpy2.mpq(1, 2**40))
