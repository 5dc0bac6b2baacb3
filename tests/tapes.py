"""Tapes that tests choose the numbers of."""

import hashlib

from dp_transforms.mechanisms.randomness import RandomTape


class InsecureSeededTape(RandomTape):
    """A tape that anyone can repeat from a small seed. Never for a release. It serves any number of
    releases, which is how a test gets the same one twice."""

    def __init__(self, seed: int):
        super().__init__(hashlib.sha256(b"insecure test tape %d" % seed).digest())

    def claim(self, release: str) -> RandomTape:
        return self


class NearlyUndecidable(InsecureSeededTape):
    """A tape on which one number lies within 2**-``bits`` of a decision's threshold."""

    def __init__(self, seed, channel, index, threshold, bits):
        super().__init__(seed)
        self._special = channel, index
        self._value = int(threshold * 2**bits) << (4096 + 64 - bits)

    def words(self, channel, count, start=0):
        words = super().words(channel, count, start).copy()
        if channel == self._special[0] and start <= self._special[1] < start + count:
            words[self._special[1] - start] = self._value >> 4096
        return words

    def prefix(self, channel, index, bits):
        if (channel, index) == self._special:
            return self._value >> (4096 + 64 - bits)
        return super().prefix(channel, index, bits)
