"""The distinct pairs of a table, and at most so many of them per user.

Bounding keeps the kappa partitions with the smallest PRF(key, user, partition) among a user's
distinct partitions. Under an ideal PRF that is a uniform sample without replacement. It can be
taken in parts, since the kappa smallest of a union are the kappa smallest among those of its parts,
and it is the same whenever and wherever it is taken again.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dp_transforms.columnar.columns import PARTITION, USER, single
from dp_transforms.columnar.grouping import Groups, group, order
from dp_transforms.columnar.hashing import hash_rows, prf

_LOW = np.int64(2**32 - 1)


def distinct_pairs(
    table: pa.Table, at_most: int | None = None, key: bytes = b"", per: str = USER
) -> pa.Table:
    """The distinct (user, partition) pairs of a table, at most ``at_most`` for each user.

    Idempotent, and mergeable: applied to the concatenation of its results for some tables, it gives
    its result for the concatenation of the tables.

    Args:
      table: plain columns ``user`` and ``partition`` (see ``columns``), fewer than 2**31 rows.
      at_most: kappa, the most pairs to keep per user; None for all.
      key: secret, at least 32 bytes; decides which ones are kept. Not needed without ``at_most``.
      per: the column whose values have the limit. With ``"partition"``, at most so many users are
        kept for each partition.

    Returns:
      The pairs, grouped by the column ``per``, both columns dictionary-encoded. A dictionary has
      distinct values, of which some may be in no pair.
    """
    of = PARTITION if per == USER else USER
    owners, members = group(single(table[per])), group(single(table[of]))
    pairs = owners.codes.astype(np.int64) << 32
    pairs |= members.codes
    pairs = _distinct_sorted(pairs)
    owner, member = (pairs >> 32).astype(np.int32), (pairs & _LOW).astype(np.int32)
    if at_most is not None:
        keep = _smallest(owner, member, owners, members, at_most, key)
        owner, member = owner[keep], member[keep]
    columns = {per: owners.encoded(owner), of: members.encoded(member)}
    return pa.table({USER: columns[USER], PARTITION: columns[PARTITION]})


def _distinct_sorted(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    values.sort()
    first = np.ones(len(values), bool)
    np.not_equal(values[1:], values[:-1], out=first[1:])
    return values if first.all() else values[first]


def _smallest(
    owner: npt.NDArray[np.int32],
    member: npt.NDArray[np.int32],
    owners: Groups,
    members: Groups,
    at_most: int,
    key: bytes,
) -> slice | npt.NDArray[np.int64]:
    """The positions of the pairs to keep. ``owner`` is sorted."""
    over = np.bincount(owner, minlength=len(owners.values)) > at_most
    crowded = over[owner]
    if not crowded.any():
        return slice(None)
    positions = np.flatnonzero(crowded)
    # Most owners may be within the limit, and theirs need no hash.
    crowded_owners = np.flatnonzero(over)
    owner_hashes = np.empty(len(over), np.uint64)
    owner_hashes[crowded_owners] = hash_rows(owners.values.take(pa.array(crowded_owners)), key)
    member_hashes = hash_rows(members.values, key)
    priorities = prf(key[16:], owner_hashes[owner[positions]], member_hashes[member[positions]])
    by_priority = np.argsort(priorities)
    in_order = priorities[by_priority]
    if (in_order[1:] == in_order[:-1]).any():
        # Equal priorities, by a chance of 2**-64 or by equal hashes: the true values decide.
        by_priority = np.lexsort((order(members.values)[member[positions]], priorities))
    # Sorting (owner, rank of priority) is faster than a stable sort by two columns.
    ranked = owner[positions[by_priority]].astype(np.int64) << 32
    ranked |= np.arange(len(ranked))
    ranked.sort()
    starts = np.flatnonzero(np.diff(ranked >> 32, prepend=-1))
    sizes = np.diff(starts, append=len(ranked))
    within = np.arange(len(ranked)) - np.repeat(starts, sizes) < at_most
    kept = positions[by_priority[ranked[within] & _LOW]]
    return np.sort(np.concatenate([np.flatnonzero(~crowded), kept]))
