"""The names of periods of time, which are public."""

from __future__ import annotations

import argparse
import datetime

from pipelines import flag_types

PERIODS = ("hour", "day", "week", "month")
MOST_PERIODS = 10_000
PERIOD_FLAGS = ("time_column", "periods", "max_periods_per_user")
"""The flags that go with --period alone."""

FORMS = {"hour": "%Y-%m-%dT%H", "day": "%Y-%m-%d", "week": "%Y-%m-%d", "month": "%Y-%m"}
"""The form of the names of each kind of period: its first day, or hour."""


def period_names(period: str, span: str) -> list[str]:
    """The names of all periods from one to another, which is included.

    Args:
      period: one of ``PERIODS``.
      span: two days, as 2026-01-01..2026-01-31.

    Raises:
      ValueError: the span is none, or has too many periods.

    >>> period_names("week", "2026-01-01..2026-01-12")
    ['2025-12-29', '2026-01-05', '2026-01-12']
    """
    try:
        first, last = (datetime.datetime.strptime(day, "%Y-%m-%d") for day in span.split(".."))
        if first > last:
            raise ValueError
    except ValueError:
        raise ValueError(
            f"--periods must be FIRST..LAST, two days such as 2026-01-01..2026-01-31, got {span!r}"
        ) from None
    names: dict[str, None] = {}
    step = datetime.timedelta(hours=1) if period == "hour" else datetime.timedelta(days=1)
    moment, end = first, last + datetime.timedelta(days=1)
    while moment < end:
        monday = moment - datetime.timedelta(days=moment.weekday() if period == "week" else 0)
        names[monday.strftime(FORMS[period])] = None
        moment += step
        if len(names) > MOST_PERIODS:
            raise ValueError(f"--periods has more than {MOST_PERIODS:,} periods: give fewer")
    return list(names)


def add_period_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of a release for each period."""
    periods = parser.add_argument_group("a release for each period (optional)")
    periods.add_argument(
        "--period", choices=PERIODS, help="make a release for each, in a directory of its name"
    )
    periods.add_argument(
        "--time_column",
        metavar="COLUMN",
        help="when it was: 2026-01-31 or 2026-01-31 23:59, taken as written; in Parquet and Avro a "
        "date or a timestamp, in UTC if it has a zone",
    )
    periods.add_argument(
        "--periods",
        metavar="FIRST..LAST",
        help="the days from which to which there is one for each period; public: choose them "
        "without looking at the records, of which others are left out",
    )
    periods.add_argument(
        "--max_periods_per_user",
        type=flag_types.positive_integer,
        metavar="N",
        help="keep at most N periods of each user, at random, and KAPPA partitions in each: the "
        "budget is that of all periods together",
    )
