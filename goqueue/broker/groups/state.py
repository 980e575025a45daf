"""All groups of one log and their places in partitions: the state that their records make."""

from collections.abc import Iterator

import msgspec

from goqueue.broker.delivery.changes import Closed, CursorChange, Opened, Place, Rewound, Stands
from goqueue.broker.delivery.cursor import Cursor
from goqueue.broker.delivery.parts import in_parts, joined
from goqueue.broker.groups.group import Group, GroupDeleted
from goqueue.storage import frame

Unit = str | tuple[str, Place]
"""What one record tells wholly: a group, or one of its places."""

Record = Group | GroupDeleted | CursorChange
_DECODER = msgspec.json.Decoder(Record)
_encode = msgspec.json.encode


def encode_record(record: Record) -> bytes:
    return frame.encode(_encode(record), record.group.encode())


def decode_record(message: frame.Message) -> Record:
    record: Record = _DECODER.decode(message.value)
    return record


class Groups:
    """Whoever holds it persists what is decided before it tells anybody."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.groups: dict[str, Group] = {}
        self.cursors: dict[str, dict[Place, Cursor]] = {}
        self.by_lease: dict[str, Cursor] = {}
        self._parts: dict[tuple[str, Place], list[Stands]] = {}
        """Of what is told in parts: those that came so far. They tell nothing before the last one is there."""
        self.doubtful: set[Unit] = set()
        """Units that may have changed in lost records, and of which no record has told all since."""
        self.unknown: set[str] = set()
        """Groups of which a record behind a loss changes what no record before it has told."""
        self.lost = 0
        """How many records are lost at most."""

    def note_loss(self, count: int) -> None:
        """What is known may be old now. A change is only applied to what a record tells wholly behind the loss: so
        messages may come again, and none is passed over.
        """
        self._parts.clear()
        self.lost += count
        self.doubtful.update(self.groups)
        self.doubtful.update((group, place) for group, cursors in self.cursors.items() for place in cursors)

    def apply(self, record: Record) -> None:
        """What is said of a cursor that nothing has opened is passed over: the record that tells all of it follows."""
        match record:
            case Group():
                self.groups[record.group] = record
                self.doubtful.discard(record.group)
            case GroupDeleted():
                self.groups.pop(record.group, None)
                for cursor in self.cursors.pop(record.group, {}).values():
                    cursor.forget_leases()
            case Opened():
                cursors = self.cursors.setdefault(record.group, {})
                if (former := cursors.get(record.place)) is not None:
                    former.forget_leases()
                cursors[record.place] = Cursor(record, self.by_lease)
                self.doubtful.discard((record.group, record.place))
            case Stands():
                if (whole := self._whole(record)) is not None:
                    self._change(whole)
                    self.doubtful.discard((record.group, record.place))
            case _:
                if not self.lost or self._is_certain(record):
                    self._change(record)

    def _is_certain(self, record: CursorChange) -> bool:
        """Whether it is known what this changes; with these two that does not matter."""
        unit = (record.group, record.place)
        if record.place not in self.cursors.get(record.group, {}):
            self.unknown.add(record.group)
        elif isinstance(record, Closed | Rewound):
            self.doubtful.discard(unit)
        return unit not in self.doubtful

    @property
    def hit(self) -> list[str]:
        """Groups of which something may be lost."""
        return sorted(self.unknown | {unit if isinstance(unit, str) else unit[0] for unit in self.doubtful})

    def _change(self, record: CursorChange) -> None:
        cursors = self.cursors.get(record.group, {})
        cursor = cursors.get(record.place)
        if isinstance(record, Closed):
            if cursor is not None:
                cursor.forget_leases()
                del cursors[record.place]
        elif cursor is not None:
            cursor.apply(record)
        elif isinstance(record, Stands):
            self.cursors.setdefault(record.group, {})[record.place] = Cursor(record, self.by_lease)

    def _whole(self, record: Stands) -> Stands | None:
        """None: parts of it are missing, which may be for good, where a crash has torn them off."""
        whose = (record.group, record.place)
        parts = self._parts.pop(whose, [])[: record.part]
        if len(parts) < record.part:
            return None
        parts.append(record)
        if not record.more:
            return joined(parts)
        self._parts[whose] = parts
        return None

    def records(self) -> Iterator[Record]:
        """Records that make this state from none."""
        yield from self.groups.values()
        for cursors in self.cursors.values():
            for cursor in cursors.values():
                yield from in_parts(cursor.stands())
