"""The state of one group log: its groups and cursors. Only `apply` changes it, also during recovery.

A cursor snapshot that is too large for one record is split, and joined again.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any

from msgspec.structs import replace

from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.groups.cursor import Cursor
from goqueue.broker.groups.records import (
    AnyCursorRecord,
    CursorClosed,
    CursorKey,
    CursorOpened,
    CursorReset,
    CursorSnapshot,
    Group,
    GroupDeleted,
    GroupRecord,
    LeaseSnapshot,
    Range,
)
from goqueue.limits import CURSOR_SNAPSHOT_BYTES

# Upper bounds of one entry in JSON: numbers have up to 19 digits, a character of a reason takes up to six bytes.
_RANGE_BYTES = 42
_RETRY_BYTES = 130
_GRANT_BYTES = 600
_RUN_BYTES = 20
_MOVE_BYTES = 3_600
_TRANSACTION_ACK_BYTES = 180

_LISTS = ("acked", "waiting", "leases", "moving", "transactional")
_LEASE_RANGES_MAX = 10_000  # of one lease in one part

GroupLogKey = str | CursorKey
"""What one record describes completely: a group, or one cursor of a group."""


class GroupsState:
    """Groups and cursors. The owner persists each record before it answers for it."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.groups: dict[str, Group] = {}
        self.cursors: dict[str, dict[PartitionRef, Cursor]] = {}
        self.by_lease: dict[str, Cursor] = {}
        self._parts: dict[CursorKey, list[CursorSnapshot]] = {}
        """The parts so far of snapshots that are not complete."""
        self.doubtful: set[GroupLogKey] = set()
        """Keys that lost records may have changed, and that no later record has described completely."""
        self.unknown: set[str] = set()
        """Groups with a record after a loss that changes a cursor which is not known."""
        self.lost = 0
        """The largest possible number of lost records."""

    def note_loss(self, count: int) -> None:
        """Mark everything as doubtful. Until a key is described completely again, changes of it are ignored: messages
        may be delivered again, but none is skipped.
        """
        self._parts.clear()
        self.lost += count
        self.doubtful.update(self.groups)
        self.doubtful.update((group, ref) for group, cursors in self.cursors.items() for ref in cursors)

    def apply(self, record: GroupRecord) -> None:
        """Apply one record. Changes of a cursor that is not open are ignored: its snapshot follows in the log."""
        match record:
            case Group():
                self.groups[record.group] = record
                self.doubtful.discard(record.group)
            case GroupDeleted():
                self.groups.pop(record.group, None)
                for cursor in self.cursors.pop(record.group, {}).values():
                    cursor.drop_leases()
            case CursorOpened():
                cursors = self.cursors.setdefault(record.group, {})
                if (former := cursors.get(record.ref)) is not None:
                    former.drop_leases()
                cursors[record.ref] = Cursor(record, self.by_lease)
                self.doubtful.discard((record.group, record.ref))
            case CursorSnapshot():
                if (snapshot := self._complete_snapshot(record)) is not None:
                    self._apply_to_cursor(snapshot)
                    self.doubtful.discard((record.group, record.ref))
            case _:
                if not self.lost or self._is_certain(record):
                    self._apply_to_cursor(record)

    def _is_certain(self, record: AnyCursorRecord) -> bool:
        """True when the record changes a cursor that is known, or replaces all of it."""
        key = (record.group, record.ref)
        if record.ref not in self.cursors.get(record.group, {}):
            self.unknown.add(record.group)
        elif isinstance(record, CursorClosed | CursorReset):
            self.doubtful.discard(key)
        return key not in self.doubtful

    @property
    def affected_groups(self) -> list[str]:
        """Groups that lost records may have changed."""
        return sorted(self.unknown | {key if isinstance(key, str) else key[0] for key in self.doubtful})

    def _apply_to_cursor(self, record: AnyCursorRecord) -> None:
        cursors = self.cursors.get(record.group, {})
        cursor = cursors.get(record.ref)
        if isinstance(record, CursorClosed):
            if cursor is not None:
                cursor.drop_leases()
                del cursors[record.ref]
        elif cursor is not None:
            cursor.apply(record)
        elif isinstance(record, CursorSnapshot):
            self.cursors.setdefault(record.group, {})[record.ref] = Cursor(record, self.by_lease)

    def _complete_snapshot(self, record: CursorSnapshot) -> CursorSnapshot | None:
        """Return the snapshot with its last part. None while parts are missing, for ever if a crash cut them off."""
        key = (record.group, record.ref)
        parts = self._parts.pop(key, [])[: record.part]
        if len(parts) < record.part:
            return None
        parts.append(record)
        if not record.more:
            return join_snapshot(parts)
        self._parts[key] = parts
        return None

    def records(self) -> Iterator[GroupRecord]:
        """Yield records that rebuild this state from nothing."""
        yield from self.groups.values()
        for cursors in self.cursors.values():
            for cursor in cursors.values():
                yield from split_snapshot(cursor.snapshot())


# --- snapshots in parts ---


def split_snapshot(snapshot: CursorSnapshot) -> list[CursorSnapshot]:
    """Return the parts of a snapshot, to be written in one append; a small snapshot is its only part."""
    if _weight(snapshot) <= CURSOR_SNAPSHOT_BYTES:
        return [snapshot]
    chunks: list[dict[str, list[Any]]] = [{}]
    size = 0
    for name, item, weight in _entries(snapshot):
        if size and size + weight > CURSOR_SNAPSHOT_BYTES:
            chunks.append({})
            size = 0
        chunks[-1].setdefault(name, []).append(item)
        size += weight
    empty: dict[str, list[Any]] = {name: [] for name in _LISTS}
    last = len(chunks) - 1
    return [replace(snapshot, **empty | chunk, part=part, more=part < last) for part, chunk in enumerate(chunks)]


def join_snapshot(parts: Sequence[CursorSnapshot]) -> CursorSnapshot:
    if len(parts) == 1:
        return parts[0]
    whole: dict[str, Any] = {name: list(chain.from_iterable(map(attrgetter(name), parts))) for name in _LISTS}
    whole["leases"] = list(_join_leases(whole["leases"]))
    return replace(parts[-1], **whole, part=0, more=False)


def _weight(snapshot: CursorSnapshot) -> int:
    ranges = len(snapshot.acked) + sum(len(lease.left) for lease in snapshot.leases)
    return (
        _RANGE_BYTES * ranges
        + _RETRY_BYTES * len(snapshot.waiting)
        + sum(_grant_bytes(lease) for lease in snapshot.leases)
        + _MOVE_BYTES * len(snapshot.moving)
        + _TRANSACTION_ACK_BYTES * len(snapshot.transactional)
    )


def _entries(snapshot: CursorSnapshot) -> Iterator[tuple[str, Any, int]]:
    """Yield each entry with the name of its list and its maximum size in bytes."""
    for acked in snapshot.acked:
        yield "acked", acked, _RANGE_BYTES
    for waiting in snapshot.waiting:
        yield "waiting", waiting, _RETRY_BYTES
    for lease in snapshot.leases:
        for left in _slices(lease.left):
            yield "leases", lease._replace(left=left), _grant_bytes(lease) + _RANGE_BYTES * len(left)
    for move in snapshot.moving:
        yield "moving", move, _MOVE_BYTES
    for ack in snapshot.transactional:
        yield "transactional", ack, _TRANSACTION_ACK_BYTES


def _grant_bytes(lease: LeaseSnapshot) -> int:
    return _GRANT_BYTES + _RUN_BYTES * len(lease.grant.runs) + _RANGE_BYTES * len(lease.gaps)


def _slices(ranges: list[Range]) -> Iterator[list[Range]]:
    for start in range(0, max(1, len(ranges)), _LEASE_RANGES_MAX):
        yield ranges[start : start + _LEASE_RANGES_MAX]


def _join_leases(leases: Iterable[LeaseSnapshot]) -> Iterator[LeaseSnapshot]:
    """Join consecutive entries of the same lease."""
    current: LeaseSnapshot | None = None
    for lease in leases:
        if current is not None and current.grant.id == lease.grant.id:
            current = lease._replace(left=[*current.left, *lease.left])
            continue
        if current is not None:
            yield current
        current = lease
    if current is not None:
        yield current
