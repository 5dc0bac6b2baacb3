"""Real frequency lists that come with the package: numbers only, see README.md beside them."""

from __future__ import annotations

from importlib import resources

from dp_transforms.mechanisms import FrequencyList


def rockyou() -> FrequencyList:
    """Loads the numbers of accounts by password in the RockYou breach of 2009, without passwords.

    Publicly known counts, so this list is for trying things out and for measuring. They are exact:
    the list is not a private release.

    >>> passwords = rockyou()
    >>> passwords.total, passwords.distinct
    (32603388, 14344391)
    """
    with resources.as_file(resources.files(__name__) / "rockyou.csv") as path:
        return FrequencyList.from_csv(path)


def yahoo() -> FrequencyList:
    """Loads the numbers by password of 69 million Yahoo! accounts, as released by Yahoo! in 2015.

    The list is itself a differentially private release, made by the mechanism of Blocki, Datta and
    Bonneau.

    >>> passwords = yahoo()
    >>> passwords.total, passwords.distinct
    (69301337, 33895873)
    """
    with resources.as_file(resources.files(__name__) / "yahoo.csv") as path:
        return FrequencyList.from_csv(path)
