"""Row by row, in plain Python: what the selecting transforms must agree with."""

import collections
import hashlib
import random

import gmpy2

from dp_transforms import JobSecret
from dp_transforms.mechanisms.selection import MeasuredSelection, WeightedStrategy
from dp_transforms.mechanisms.selection.population import TAILS
from tests import reference
from tests.beam_runs import table_of

SECRET = JobSecret.insecure_for_testing(21)


def make_records(seed, users=120, names=30, most=9):
    """Records with popular and rare partitions, duplicates, and users of many partitions."""
    rng = random.Random(seed)
    records = []
    for user in range(users):
        for _ in range(rng.randint(1, most)):
            record = (f"user{user}", f"item{int(names * rng.random() ** 3)}")
            records += [record] * rng.randint(1, 2)
    rng.shuffle(records)
    return records


RECORDS = make_records(1)


def is_kept(distribution, statistic, name, key):
    """U >= 1 - pi, with 512 bits of U."""
    digest = hashlib.blake2b(name.encode(), key=key).digest()
    uniform = gmpy2.mpq(int.from_bytes(digest, "big"), gmpy2.mpz(1) << 512)
    lo, hi = distribution.drop_enclosure(statistic, 300)
    assert uniform < lo or uniform >= hi
    return uniform >= hi


def selected(records, strategy, secret=SECRET, context="selection"):
    """Computes the names that SelectPartitions must give, row by row."""
    max_partitions, key = strategy.max_partitions_per_user, secret.key("bound contributions")
    if not isinstance(strategy, WeightedStrategy):
        counts = reference.count(reference.bound(records, max_partitions, key))
        own = secret.key(f"{context} by {strategy!r}")
        return {name for name, n in counts.items() if is_kept(strategy.distribution, n, name, own)}
    names, left, taken = set(), set(records), strategy
    if isinstance(strategy, MeasuredSelection):
        has = collections.Counter(user for user, _ in left).values()
        tape = secret.tape(f"{context} by {strategy!r}, look")
        classes = zip((0, *strategy.edges), (*strategy.edges, max(has) + 1), strict=True)
        counts = [sum(below < number <= most for number in has) for below, most in classes]
        first = reference.bound(left, 1, secret.key("bound contributions, look"))
        users = collections.Counter(name for _, name in first).values()
        # The tail of t is that of its highest bit.
        reached = [t.bit_length() - 1 for number in users for t in range(1, number + 1)]
        tails = [reached.count(k) for k in range(TAILS)]
        taken = strategy.branch(strategy.choose(counts, tails, tape))
        max_partitions = taken.max_partitions_per_user
    for index in range(len(taken.rounds)):
        distribution = taken.round_after(index, len(names))
        shared_order = taken.shared_order(index)
        if shared_order:
            key = secret.key(f"bound contributions, round {index}")
        bounded = reference.bound(left, max_partitions, key, shared_order)
        has = collections.Counter(user for user, _ in bounded)
        sums = collections.Counter()
        for user, name in bounded:
            sums[name] += distribution.step(has[user])
        own = secret.key(f"{context} by {strategy!r}, round {index}")
        names |= {name for name, total in sums.items() if is_kept(distribution, total, name, own)}
        left = {(user, name) for user, name in left if name not in names}
    return names


def as_tables(records, count=5, names=("user", "partition")):
    return [table_of(records[i::count], names) for i in range(count) if records[i::count]]
