"""What a privacy loss is about: whose records two neighbouring inputs differ in."""

from __future__ import annotations

import enum


class PrivacyUnit(enum.Enum):
    """The neighbours that a guarantee compares. Losses of different units do not add up.

    Each has a name for flags and files, and says what neighbours are.
    """

    USER = "user"
    REPLACED_USER = "replaced-user"
    EDGE = "edge"
    NODE = "node"

    @property
    def neighbours(self) -> str:
        """In words, for statements.

        >>> PrivacyUnit.USER.neighbours
        'add or remove all records of one user'
        """
        return _NEIGHBOURS[self]


_NEIGHBOURS = {
    PrivacyUnit.USER: "add or remove all records of one user",
    PrivacyUnit.REPLACED_USER: "replace all records of one user by another's",
    PrivacyUnit.EDGE: "add or remove all records of one edge",
    PrivacyUnit.NODE: "add or remove one node with all its edges",
}
