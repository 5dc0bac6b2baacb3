"""Keeps the distinct (user, partition) pairs of a table, at most kappa for each user.

Of each user's distinct partitions, bounding keeps the kappa with the smallest PRF(key, user,
partition). Under an ideal PRF this is a uniform sample without replacement. The sample can be taken
in parts, since the kappa smallest of a union are among the kappa smallest of its parts. It is the
same whenever and wherever it is taken again.

If all users share one order, hash(key, partition) takes the place of that PRF: users with the same
partitions keep the same ones.

Either way, a user's kept pairs depend only on the key and on that user's own records. So adding or
removing all records of one user changes at most kappa pairs, whatever the key is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dp_transforms.columnar.columns import PARTITION, USER, single
from dp_transforms.columnar.grouping import Groups, group, order
from dp_transforms.columnar.hashing import (
    Hashes,
    hash_rows,
    prf,
    to_arrow,
    to_numpy,
)
from dp_transforms.mechanisms.arrays import BoolArray, Int32Array, IntArray

# Below, an *owner* is a value of the column with the limit, usually a user, and a *member* is a
# value of the other column, usually a partition.

# Pairs are found in a table of all possible ones if these are at most this many times the rows.
_DENSE = 32
_SPARE = 4
# How many rows of an owner ``_candidates`` takes: _ENOUGH rows for each member that is kept, since
# rows may be duplicates, and _SPARE_ROWS more. It never takes less than _LEAST_SHARE of an owner's
# rows, and takes all of them if it would take more than _MOST_SHARE.
_ENOUGH = 8
_SPARE_ROWS = 32
_LEAST_SHARE = 1 / 16
_MOST_SHARE = 1 / 4
_NO_LIMIT = np.uint64(2**64 - 1)
# Limits are used if at most the first share of rows is expected below them, and the number of
# owners is at most the second share of the number of rows.
_WORTH_SHARE = 1 / 2
_FEW_OWNERS = 1 / 16
_MOST_LIMITS = 1 << 16


class Limits:
    """Upper limits on the priorities of the pairs that owners can keep.

    They come from tables that were bounded before with the same key. An owner's limit is the
    largest of the kappa priorities that were kept in one of these tables. So a pair above the limit
    is not among the kappa smallest of all tables together, whichever table set the limit and in
    whatever order tables are bounded.
    """

    def __init__(self) -> None:
        # Always replaced as a whole. If two threads add limits at the same time, those of one may
        # be lost, which costs only time.
        self._known: tuple[pa.Array, Hashes] | None = None

    def of(self, owners: pa.Array) -> Hashes:
        """Returns the limits of distinct owners, ``_NO_LIMIT`` if unknown: uint64, shape (n,)."""
        limits = np.full(len(owners), _NO_LIMIT)
        if self._known is not None and self._known[0].type == owners.type:
            values, known = self._known
            rows = pc.index_in(owners, value_set=values)
            is_known = to_numpy(rows.is_valid().cast(pa.uint8())).view(bool)
            limits[is_known] = known[to_numpy(rows.drop_null())]
        return limits

    def add(self, owners: pa.Array, limits: Hashes) -> None:
        """Adds limits of distinct owners, unless there are too many."""
        if self._known is None:
            self._known = owners.slice(0, 0), limits[:0]
        values, known = self._known
        if values.type != owners.type or len(values) + len(owners) > _MOST_LIMITS:
            return
        groups = group(pa.concat_arrays([values, owners]))
        least = np.full(len(groups.values), _NO_LIMIT)
        np.minimum.at(least, groups.codes, np.concatenate([known, limits]))
        self._known = groups.values, least


def distinct_pairs(
    table: pa.Table,
    at_most: int | None = None,
    key: bytes = b"",
    per: str = USER,
    shared_order: bool = False,
    limits: Limits | None = None,
) -> pa.Table:
    """Returns the distinct (user, partition) pairs of a table, at most ``at_most`` for each user.

    The function is idempotent and mergeable: applied to the concatenation of its results for some
    tables, it gives its result for the concatenation of the tables.

    Args:
      table: plain columns ``user`` and ``partition`` (see ``columns``), fewer than 2**31 rows.
      at_most: kappa, the most pairs to keep per user; None for all.
      key: 32 secret bytes that decide which pairs are kept. Not needed without ``at_most``.
      per: the column whose values have the limit. With ``"partition"``, at most this many users are
        kept for each partition.
      shared_order: whether the same order of partitions decides for every user.
      limits: limits from tables that were bounded before, to which this call adds more. The result
        may then lack pairs above a limit. None of them would be kept in the result for all tables
        together.

    Returns:
      The pairs, grouped by the column ``per``, both columns dictionary-encoded. A dictionary has
      distinct values, and may have values that are in no pair.
    """
    of = PARTITION if per == USER else USER
    owners, column = group(single(table[per])), single(table[of])
    rule = _Rule(owners.values, key, shared_order)
    if at_most is not None:
        rows = _below(owners, column, rule, limits) if limits is not None else None
        if rows is None and not pa.types.is_dictionary(column.type):
            rows = _candidates(owners, column, rule, at_most)
        if rows is not None:
            owners = Groups(owners.codes[rows], owners.values)
            column = column.take(to_arrow(rows))
    members = group(column)
    owner, member = owners.codes, members.codes
    # If owners ascend strictly, there is one pair for each, and all pairs are distinct.
    if (owner[1:] <= owner[:-1]).any():
        space = len(owners.values), max(len(members.values), 1)
        owner, member = _distinct(owner, member, space)
    if at_most is not None:
        keep, over, largest = _smallest(owner, member, members, at_most, rule)
        owner, member = owner[keep], member[keep]
        if limits is not None and 0 < len(over) <= _FEW_OWNERS * table.num_rows:
            limits.add(owners.values.take(to_arrow(over)), largest)
    columns = {per: owners.encoded(owner), of: members.encoded(member)}
    return pa.table({USER: columns[USER], PARTITION: columns[PARTITION]})


def bounded_again(pairs: pa.Table, at_most: int, key: bytes) -> pa.Table:
    """Returns what ``distinct_pairs`` would return for pairs that it has returned before.

    This takes a part of the time, since the pairs are already distinct and grouped by user.

    Args:
      pairs: a result of ``distinct_pairs``, with a limit for each user or without one.
      at_most: kappa, no larger than that limit.
      key: the key of that limit.

    Raises:
      ValueError: the pairs are not grouped by user.
    """
    owners, members = group(single(pairs[USER])), group(single(pairs[PARTITION]))
    if (owners.codes[1:] < owners.codes[:-1]).any():
        raise ValueError("pairs must be grouped by user, as distinct_pairs returns them")
    rule = _Rule(owners.values, key, shared_order=False)
    keep, *_ = _smallest(owners.codes, members.codes, members, at_most, rule)
    columns = {USER: (owners, owners.codes[keep]), PARTITION: (members, members.codes[keep])}
    return pa.table({name: groups.encoded(codes) for name, (groups, codes) in columns.items()})


@dataclass(frozen=True)
class _Rule:
    """The rule that gives pairs their priorities. Each owner keeps the pairs with the smallest."""

    owners: pa.Array
    key: bytes
    shared_order: bool

    def priorities(self, owner: Int32Array, hashes: Hashes) -> Hashes:
        """Returns the priorities of pairs, given codes of owners and hashes of members."""
        if self.shared_order:
            return hashes
        if len(self.owners) <= _FEW_OWNERS * len(owner):
            of_owners = hash_rows(self.owners, self.key)
        else:
            # Many owners may have no pair here, and their hashes are not needed.
            needed = np.zeros(len(self.owners), bool)
            needed[owner] = True
            of_owners = np.empty(len(needed), np.uint64)
            few = self.owners.take(to_arrow(np.flatnonzero(needed)))
            of_owners[needed] = hash_rows(few, self.key)
        return prf(self.key, of_owners[owner], hashes)


def _below(owners: Groups, column: pa.Array, rule: _Rule, limits: Limits) -> IntArray | None:
    """Returns the rows whose priorities do not exceed known limits; None if finding them would not
    save time."""
    rows, kinds = len(column), len(owners.values)
    coded = pa.types.is_dictionary(column.type)
    if kinds > _FEW_OWNERS * rows or (coded and kinds * len(column.dictionary) <= _DENSE * rows):
        return None
    most = limits.of(owners.values)
    counts = np.bincount(owners.codes, minlength=kinds)
    if (counts * (most / 2.0**64)).sum() > _WORTH_SHARE * rows:
        return None
    priorities = rule.priorities(owners.codes, hash_rows(column, rule.key))
    return np.flatnonzero(priorities <= most[owners.codes])


def _candidates(owners: Groups, column: pa.Array, rule: _Rule, at_most: int) -> IntArray | None:
    """Returns the rows that may be kept; None if few rows can be ruled out.

    The idea: an owner with many rows gets a limit on priorities that only a small share of its rows
    is below. If the rows below it have at least ``at_most`` different priorities, the ``at_most``
    smallest are among them, and the owner's other rows are ruled out. Otherwise all rows of the
    owner stay. This saves time, because a value is hashed faster than it is grouped and sorted.
    """
    counts = np.bincount(owners.codes, minlength=1)
    share = np.maximum((_ENOUGH * at_most + _SPARE_ROWS) / np.maximum(counts, 1), _LEAST_SHARE)
    crowded = share <= _MOST_SHARE
    if 2 * counts[crowded].sum() <= len(column):
        return None
    rows = np.flatnonzero(crowded[owners.codes])
    owner = owners.codes[rows]
    priorities = rule.priorities(owner, hash_rows(column, rule.key)[rows])
    most = (np.minimum(share, 1 - 2**-53) * 2.0**64).astype(np.uint64)
    low = np.flatnonzero(priorities <= most[owner])
    if not len(low):
        # The owners have few different priorities, all above their limits.
        return None
    by_owner = np.argsort(owner[low], kind="stable")
    ranks = np.cumsum(np.append(0, np.diff(owner[low][by_owner]) != 0))
    in_order, tied = _sorted_by_leading_bits(ranks.astype(np.uint64), priorities[low][by_owner])
    different = np.bincount(owner[low][by_owner][in_order[~tied]], minlength=len(counts))
    crowded &= different >= at_most
    kept = ~crowded[owners.codes]
    kept[rows[low]] = True
    return np.flatnonzero(kept)


def _distinct(
    owner: Int32Array, member: Int32Array, space: tuple[int, int]
) -> tuple[Int32Array, Int32Array]:
    """Returns the codes of the distinct pairs, sorted by owner and member. ``space`` has the
    numbers of codes of owners and of members."""
    width = space[1]
    if math.prod(space) <= _DENSE * len(owner):
        # Few pairs are possible: marking each in a table of all is faster than sorting.
        is_there = np.zeros(math.prod(space), bool)
        is_there[owner.astype(np.int64) * width + member] = True
        distinct = np.flatnonzero(is_there)
    else:
        # Words of 32 bits sort in a fraction of the time of words of 64 bits.
        kind = np.uint32 if math.prod(space) < 1 << 32 else np.uint64
        pairs = owner.astype(kind)
        pairs *= kind(width)
        pairs += member.astype(kind)
        pairs.sort()
        distinct = pairs[np.append(True, pairs[1:] != pairs[:-1])]
    owner, member = np.divmod(distinct, distinct.dtype.type(width))
    return owner.astype(np.int32), member.astype(np.int32)


def _smallest(
    owner: Int32Array, member: Int32Array, members: Groups, at_most: int, rule: _Rule
) -> tuple[slice | IntArray, IntArray, Hashes]:
    """Chooses the pairs to keep: for each owner, the ``at_most`` with the smallest priorities.

    Args:
      owner, member: codes of distinct pairs, sorted by owner.
      members: the values of the codes ``member``.
      at_most: the most pairs to keep for each owner.
      rule: gives the priorities.

    Returns:
      The positions of the kept pairs; the owners with more pairs than are kept; and the largest
      priority that each of these owners keeps.
    """
    counts = np.bincount(owner)
    over = counts > at_most
    crowded = over[owner]
    if not crowded.any():
        return slice(None), np.empty(0, np.int64), np.empty(0, np.uint64)
    positions = np.flatnonzero(crowded)
    hashes = hash_rows(members.values, rule.key)[member[positions]]
    priorities = rule.priorities(owner[positions], hashes)
    sizes = counts[over]
    ranks = np.repeat(np.arange(len(sizes), dtype=np.uint64), sizes)
    enough = np.minimum(2 * at_most + _SPARE, sizes)
    if 2 * enough.sum() < len(ranks):
        # To sort fewer pairs, only those below a limit are sorted, where enough pairs are below.
        limits = (np.minimum(enough / sizes, 1 - 2**-53) * 2.0**64).astype(np.uint64)
        low = priorities <= np.repeat(limits, sizes)
        few = np.bincount(ranks[low].view(np.int64), minlength=len(sizes)) <= at_most
        rows = np.flatnonzero(low | np.repeat(few, sizes))
        positions, priorities, ranks = positions[rows], priorities[rows], ranks[rows]
        sizes = np.bincount(ranks.view(np.int64), minlength=len(sizes))
    starts = np.cumsum(sizes) - sizes
    in_order, tied = _sorted_by_leading_bits(ranks, priorities)
    if tied[starts + at_most].any():
        # At the edge, leading bits are equal by chance, or as hashes are equal. All bits are
        # compared here, and values decide between equal priorities.
        in_order = np.lexsort((order(members.values)[member[positions]], priorities, ranks))
    first = (starts[:, None] + np.arange(at_most)).ravel()
    # Pairs with equal leading bits are in the order of rows, so the last one need not have the
    # largest priority.
    largest = priorities[in_order[first]].reshape(-1, at_most).max(axis=1)
    keep = np.sort(np.concatenate([np.flatnonzero(~crowded), positions[in_order[first]]]))
    return keep, np.flatnonzero(over), largest


def _sorted_by_leading_bits(ranks: Hashes, priorities: Hashes) -> tuple[IntArray, BoolArray]:
    """Sorts rows by rank, and then by as many leading bits of the priority as a word has room for.

    Args:
      ranks: ascending, from 0.
      priorities: of the same rows.

    Returns:
      The rows in order, and bools: whether a row has the rank and the leading bits of the one
      before.
    """
    rows = np.arange(len(ranks), dtype=np.uint64)
    rank_bits = np.uint64(int(ranks[-1]).bit_length())
    row_bits = np.uint64(len(rows).bit_length())
    words = priorities >> rank_bits >> row_bits << row_bits
    words |= rows
    if rank_bits:
        words |= ranks << np.uint64(64) - rank_bits
    words.sort()
    in_order = (words & ((np.uint64(1) << row_bits) - np.uint64(1))).astype(np.int64)
    words >>= row_bits
    return in_order, np.append(False, words[1:] == words[:-1])
