"""Name the neighboring relation of a guarantee."""

from enum import StrEnum


class Relation(StrEnum):
    """A neighboring relation; members equal their names.

    The names are accepted in their place.

    >>> Relation("replace_one") == "replace_one"
    True
    >>> Relation.ADD_REMOVE.describe("patient")
    'adding or removing one patient'
    """

    #: One data set has one unit more than the other.
    ADD_REMOVE = "add_remove"
    #: Both have the same number of units, and one of them differs.
    REPLACE_ONE = "replace_one"

    def __repr__(self) -> str:
        return repr(self.value)

    def describe(self, unit: str = "record", number: str = "one") -> str:
        """Say in words how neighbors differ, for a privacy unit by name."""
        return f"{'replacing' if self is Relation.REPLACE_ONE else 'adding or removing'} {number} {unit}"

    @classmethod
    def of(cls, value: str, name: str = "relation") -> "Relation":
        """Return the relation of this name; ValueError for another, with `name`."""
        if value not in tuple(cls):
            raise ValueError(f"{name}={value!r}: expected {' or '.join(map(repr, cls))}")
        return cls(value)
