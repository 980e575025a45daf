"""What is different from one look to the next."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple

Row = Mapping[str, Any]
Event = Literal["added", "changed", "removed"]


class Look(NamedTuple):
    """All rows of one look, and what has changed since the one before."""

    rows: Sequence[Row]
    events: list[tuple[Event, Row]]
    marks: list[frozenset[str]]
    """The changed fields of each row."""


class Changes:
    """Remembers the last look. The field `key` tells its rows apart; what has none is told apart by its place.

    What `passes` with the time, such as an age, is no news.
    """

    def __init__(self, key: str, passes: Collection[str] = ()) -> None:
        self._key = key
        self._passes = frozenset(passes)
        self._known: dict[Any, Row] | None = None

    def take(self, rows: Sequence[Row]) -> Look:
        """On the first look every row is added, and none of its fields is marked."""
        before, identities = self._known or {}, [self._identity(row, place) for place, row in enumerate(rows)]
        now = dict(zip(identities, rows, strict=True))
        changed = {identity: self._changed(before.get(identity), row) for identity, row in now.items()}
        events: list[tuple[Event, Row]] = [
            ("changed" if identity in before else "added", now[identity])
            for identity, found in changed.items()
            if found
        ]
        events += [("removed", row) for identity, row in before.items() if identity not in now]
        marks = [frozenset() if self._known is None else changed[identity] for identity in identities]
        self._known = now
        return Look(rows, events, marks)

    def _identity(self, row: Row, place: int) -> Any:
        value = row.get(self._key, place)
        return repr(value) if isinstance(value, (dict, list, set)) else value

    def _changed(self, old: Row | None, row: Row) -> frozenset[str]:
        if old is None:
            return frozenset(row)
        return frozenset(name for name in {*old, *row} - self._passes if old.get(name) != row.get(name))
