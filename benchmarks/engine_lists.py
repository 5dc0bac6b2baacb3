"""The frequency lists that ``benchmarks.engine`` releases, by name."""

from __future__ import annotations

import math

import numpy as np

from dp_transforms.mechanisms import FrequencyList
from dp_transforms.sample_data import rockyou, yahoo

SEED = 20_161_110


def named_list(name: str) -> FrequencyList:
    """Returns the list "rockyou", "yahoo_all" or "power law N D", see ``power_law``."""
    known = {"rockyou": rockyou, "yahoo_all": yahoo}
    if name in known:
        return known[name]()
    total, distinct = name.removeprefix("power law ").split(" ")
    return power_law(int(total), int(distinct))


def scaled(private: FrequencyList, factor: int) -> FrequencyList:
    """Returns the list with every multiplicity times ``factor``."""
    return FrequencyList(private.frequencies, private.multiplicities * factor)


def power_law(total: int, distinct_frequencies: int, seed: int = SEED) -> FrequencyList:
    """Returns a list with a given total and number of distinct frequencies, and a heavy tail as
    lists of passwords have.

    The number of items with frequency v is drawn from a Poisson distribution of mean C / v**2. The
    constant C is such that about sqrt(pi C) frequencies have items, slightly more than
    ``distinct_frequencies``. Of these frequencies the wanted number is kept, at random, and
    singletons make up the rest of the total. A list of N users has at most sqrt(2 N) distinct
    frequencies; RockYou has 0.36 sqrt(N).

    Raises:
      ValueError: the frequencies that were drawn have more users than ``total``.
    """
    rng = np.random.default_rng(seed)
    scale = (1.05 * distinct_frequencies + 10) ** 2 / math.pi
    body = math.ceil(4 * math.sqrt(scale))
    values = np.arange(1, body + 1)
    repeats = rng.poisson(scale / values.astype(np.float64) ** 2)
    # Beyond the body each frequency has a single item: they are the quantiles of P(> v) = body / v.
    count = round(scale / body)
    tail = body * count / (np.arange(count) + 0.5)
    tail_values, tail_repeats = np.unique(tail.astype(np.int64) + 1, return_counts=True)
    new = tail_values > body
    values = np.concatenate([values, tail_values[new]])
    repeats = np.concatenate([repeats, tail_repeats[new]])
    drawn = np.flatnonzero(repeats)
    # The frequency 1 is always kept, as singletons make up the rest.
    kept = rng.choice(drawn[1:], distinct_frequencies - 1, replace=False)
    kept = np.sort(np.append(kept, 0))[::-1]
    values, repeats = values[kept], repeats[kept]
    missing = total - int((values[:-1] * repeats[:-1]).sum())
    if missing < 1:
        raise ValueError(
            f"{distinct_frequencies} distinct frequencies have more than {total} users"
        )
    repeats[-1] = missing
    return FrequencyList(values, repeats)
