"""Row by row, in plain Python: what the selecting transforms must agree with."""

import collections
import hashlib
import random

import gmpy2

from dp_transforms import JobSecret
from dp_transforms.mechanisms.partition_selection import MeasuredSelection
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


def is_kept(law, statistic, name, key):
    """U >= 1 - pi, with 512 bits of U."""
    digest = hashlib.blake2b(name.encode(), key=key).digest()
    uniform = gmpy2.mpq(int.from_bytes(digest, "big"), gmpy2.mpz(1) << 512)
    lo, hi = law.drop_enclosure(statistic, 300)
    assert uniform < lo or uniform >= hi
    return uniform >= hi


def selected(records, strategy, secret=SECRET, purpose="selection"):
    """Computes the names that SelectPartitions must give, row by row."""
    kappa, key = strategy.max_partitions_per_user, secret.key("bound contributions")
    if not strategy.uses_weights:
        counts = reference.count(reference.bound(records, kappa, key))
        own = secret.key(f"{purpose} by {strategy!r}")
        return {name for name, n in counts.items() if is_kept(strategy.law, n, name, own)}
    names, left, taken = set(), set(records), strategy
    if isinstance(strategy, MeasuredSelection):
        has = collections.Counter(user for user, _ in left).values()
        tape = secret.tape(f"{purpose} by {strategy!r}, statistic")
        classes = zip((0, *strategy.edges), (*strategy.edges, max(has) + 1), strict=True)
        counts = [sum(below < number <= most for number in has) for below, most in classes]
        taken = strategy.branch(strategy.plan(counts, tape))
        kappa = taken.max_partitions_per_user
    for index in range(len(taken.rounds)):
        law = taken.round_after(index, len(names))
        one_order = taken.one_order(index)
        if one_order:
            key = secret.key(f"bound contributions, round {index}")
        bounded = reference.bound(left, kappa, key, one_order)
        has = collections.Counter(user for user, _ in bounded)
        sums = collections.Counter()
        for user, name in bounded:
            sums[name] += law.step(has[user])
        own = secret.key(f"{purpose} by {strategy!r}, round {index}")
        names |= {name for name, total in sums.items() if is_kept(law, total, name, own)}
        left = {(user, name) for user, name in left if name not in names}
    return names


def as_tables(records, count=5):
    return [table_of(records[i::count]) for i in range(count) if records[i::count]]
