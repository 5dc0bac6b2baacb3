"""Functions that recognize URLs of databases, and passwords in them."""

from __future__ import annotations

import urllib.parse


def is_postgresql(url: str) -> bool:
    """Returns whether a text is a URL of PostgreSQL.

    >>> is_postgresql("postgresql://me@localhost/shop"), is_postgresql("budget.ledger")
    (True, False)
    """
    return url.partition("://")[0] in ("postgres", "postgresql") and "://" in url


def has_password(database: str | None) -> bool:
    """Returns whether a database's URL has a password: after the user's name, or as a parameter.

    >>> [has_password(f"postgresql://{rest}") for rest in ("me:x@host/shop", "host/?password=x")]
    [True, True]
    >>> [has_password(f"postgresql://{rest}") for rest in ("me@host/shop", "me:@host:5432/shop")]
    [False, False]
    """
    if database is None or not is_postgresql(database):
        return False
    rest = database.partition("://")[2]
    # urllib does not split these URLs, since a password may have a slash or a question mark in it.
    user_and_password, at, _ = rest.rpartition("@")
    if at and user_and_password.partition(":")[2]:
        return True
    parameters = urllib.parse.parse_qs(rest.partition("?")[2])
    return not parameters.keys().isdisjoint({"password", "sslpassword"})
