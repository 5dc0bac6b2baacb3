"""Records of users by period: of each user a number of periods, and of partitions in each.

A table here has the columns ``user``, ``partition`` and ``list``, which is the period's name.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from dp_transforms.columnar.attributes import LIST
from dp_transforms.columnar.bounding import distinct_pairs
from dp_transforms.columnar.columns import PARTITION, USER, decoded, single
from dp_transforms.columnar.grouping import group


def bound_periods(
    table: pa.Table, most_periods: int, at_most: int, period_key: bytes, key: bytes
) -> pa.Table:
    """The distinct rows of a bounded number of periods per user, and of partitions in each.

    Of a user's periods those with the smallest PRF(period_key, user, period) stay, and in each of
    these the partitions with the smallest PRF(key, (user, period), partition). So what stays of a
    user depends on that user's rows alone. Idempotent, and mergeable as ``distinct_pairs`` is: a
    period that stays in the whole stays in every part that has it, and with it the partitions that
    stay in the whole.

    Args:
      table: plain columns; see the module.
      most_periods: how many periods of a user.
      at_most: kappa, how many partitions of a user in a period.
      period_key: decides which periods are kept; 32 bytes.
      key: decides which partitions are; 32 bytes.
    """
    users, periods = group(single(table[USER])), group(single(table[LIST]))
    coded = {USER: users.encoded(users.codes), PARTITION: periods.encoded(periods.codes)}
    kept = distinct_pairs(pa.table(coded), most_periods, period_key)
    # Codes stand for the same values there as here.
    width = max(len(periods.values), 1)
    owner, period = (single(kept[name]).indices.to_numpy() for name in (USER, PARTITION))
    pairs = users.codes.astype(np.int64) * width + periods.codes
    table = decoded(table.filter(pa.array(np.isin(pairs, owner.astype(np.int64) * width + period))))
    columns = [single(table[name]) for name in (USER, LIST)]
    owners = pa.StructArray.from_arrays(columns, names=[USER, LIST])
    bounded = distinct_pairs(pa.table({USER: owners, PARTITION: table[PARTITION]}), at_most, key)
    user, name = single(decoded(bounded)[USER]).flatten()
    return pa.table({USER: user, PARTITION: decoded(bounded)[PARTITION], LIST: name})
