"""Many releases of one list, and numbers of each of them as arrays."""

import os
from collections import Counter

import numpy as np

from dp_transforms.mechanisms.frequency_list import FrequencyList
from tests.tapes import InsecureSeededTape

RELEASES = int(os.environ.get("LAW_RELEASES", "10000"))
"""The number of draws from each list by ``make test-laws``."""


def drawn_lists(sampler, count, first=0):
    """Counts the lists that the tapes of ``count`` seeds from ``first`` on release. A list is a
    function of where its walk moves, and is made once for each."""
    seeds = range(first, first + count)
    walks = Counter(np.sort(sampler.flips(InsecureSeededTape(seed))).tobytes() for seed in seeds)
    return Counter(
        {sampler.blocks.flipped(np.frombuffer(flips, np.int64)): n for flips, n in walks.items()}
    )


class Numbers:
    """Numbers of each release, in one order, from {list: how often it was released}: the 8 largest
    values or more, a row for each release; how many are positive; their sum; and the L1 distance
    from the private list."""

    def __init__(self, lists, private):
        ranks, own = max(8, len(private)), FrequencyList.from_counts(private)
        times = list(lists.values())
        self.values = np.repeat([x.at_ranks(np.arange(1, ranks + 1)) for x in lists], times, axis=0)
        self.distinct = np.repeat([x.distinct for x in lists], times)
        self.total = np.repeat([x.total for x in lists], times)
        self.distance = np.repeat([x.l1_distance(own) for x in lists], times)
