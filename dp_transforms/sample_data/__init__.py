"""Real frequency lists that come with the package: numbers only, see README.md beside them."""

from __future__ import annotations

from importlib import resources

from dp_transforms.mechanisms import FrequencyList


def rockyou() -> FrequencyList:
    """Returns the list of the RockYou breach of 2009: frequencies are numbers of accounts with one
    password.

    The counts are publicly known, so they serve to try things out and to measure errors. They are
    exact: the list is not a private release.

    >>> passwords = rockyou()
    >>> passwords.total, passwords.distinct
    (32603388, 14344391)
    """
    with resources.as_file(resources.files(__name__) / "rockyou.csv") as path:
        return FrequencyList.from_csv(path)


def yahoo() -> FrequencyList:
    """Returns the list of 69 million Yahoo! accounts that Yahoo! released in 2015: frequencies are
    numbers of accounts with one password.

    The list is itself a differentially private release, made by the mechanism of Blocki, Datta and
    Bonneau.

    >>> passwords = yahoo()
    >>> passwords.total, passwords.distinct
    (69301337, 33895873)
    """
    with resources.as_file(resources.files(__name__) / "yahoo.csv") as path:
        return FrequencyList.from_csv(path)
