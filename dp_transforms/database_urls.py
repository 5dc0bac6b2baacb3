"""Looks at URLs of databases."""

from __future__ import annotations

import urllib.parse


def is_postgresql(url: str) -> bool:
    """Tells whether a text is a URL of PostgreSQL.

    >>> is_postgresql("postgresql://me@localhost/shop"), is_postgresql("budget.ledger")
    (True, False)
    """
    return url.partition("://")[0] in ("postgres", "postgresql") and "://" in url


def has_password(database: str | None) -> bool:
    """Tells whether a database's URL has a password: after the user's name, or as a parameter.

    >>> [has_password(f"postgresql://{rest}") for rest in ("me:x@host/shop", "host/?password=x")]
    [True, True]
    >>> [has_password(f"postgresql://{rest}") for rest in ("me@host/shop", "me:@host:5432/shop")]
    [False, False]
    """
    if database is None or not is_postgresql(database):
        return False
    rest = database.partition("://")[2]
    # By hand: in a password that is not quoted, a slash or a question mark may stand.
    before_host, at, _ = rest.rpartition("@")
    parameters = urllib.parse.parse_qs(rest.partition("?")[2])
    return bool(at and before_host.partition(":")[2]) or bool(
        {"password", "sslpassword"} & parameters.keys()
    )
