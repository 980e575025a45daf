"""A group log, and the groups in it. Groups are spread over the logs by name.

The records of a log are changes, so compaction by key does not fit. Instead, a log that has grown is rewritten: what
is still valid is appended again as whole groups and snapshots, and the segments before it are removed.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from goqueue.broker.core.deadlines import Deadlines
from goqueue.broker.core.journal import Journal
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.partition_ref import LogRef, PartitionRef
from goqueue.broker.core.publish_port import PublishPort
from goqueue.broker.core.topic import Topic, TopicSpec
from goqueue.broker.core.view import Isolation
from goqueue.broker.core.work import Callback, Promise, Work
from goqueue.broker.groups.cursor import Cursor
from goqueue.broker.groups.leases import Lease
from goqueue.broker.groups.records import (
    CursorOpened,
    CursorSnapshot,
    Group,
    GroupDeleted,
    GroupRecord,
    decode_group_record,
    encode_group_record,
)
from goqueue.broker.groups.state import GroupLogKey, GroupsState, split_snapshot
from goqueue.clock import Clock
from goqueue.errors import GoQueueError
from goqueue.events import Signal
from goqueue.limits import GROUP_LOG_BYTES
from goqueue.storage.disk import Disk
from goqueue.storage.retention import plan_retention
from goqueue.storage.writer import AppendCallback

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_LANE_LETTERS = "ghijk"  # not hexadecimal: so a lease id shows whether it has a lane
_REWRITE_RECORDS_MAX = 200  # in one turn: more would keep the loop for longer than some milliseconds
_REWRITE_RANGES_MAX = 10_000  # in one turn, for the same reason; a cursor that has more is a turn of its own
_REWRITE_GROWTH = 3  # times the valid bytes: so each record is rewritten once or twice


class TopicLookup(Protocol):
    """The topics of the broker, as far as groups need them."""

    @property
    def topics(self) -> Mapping[str, Topic]: ...

    def topic(self, name: str) -> Topic: ...

    def log(self, ref: LogRef) -> Partition: ...

    def has_lost_record(self, name: str) -> bool:
        """True when logs of such a topic exist, but no record of it."""
        ...

    def create_topic(self, spec: TopicSpec, told: Callback[Topic]) -> None: ...


def topic_of(topics: TopicLookup, cursor: Cursor) -> Topic | None:
    """Return the topic that a cursor was opened for; None when it is gone, or when another one has its name."""
    topic = topics.topics.get(cursor.topic)
    return topic if topic is not None and topic.created_ns == cursor.topic_ns else None


def is_topic_deleted(topics: TopicLookup, cursor: Cursor) -> bool:
    """True when the topic of a cursor was deleted. A topic whose record is lost may be restored."""
    return topic_of(topics, cursor) is None and not topics.has_lost_record(cursor.topic)


class GroupLog:
    def __init__(self, partition: Partition, disk: Disk, bytes_max: int) -> None:
        self.state = GroupsState()
        self.log = partition.log
        self._disk = disk
        self._bytes_max = bytes_max
        self._complete_at: dict[GroupLogKey, int] = {}
        """The offset of the latest complete record of each group and cursor, or of its first part."""
        self._parts_from: dict[GroupLogKey, int] = {}
        """The offset of the first part of snapshots whose last part has not been written."""
        self._rewritten_bytes = 0
        self.affected_groups: list[str] = []
        """Groups that lost records at the last start."""
        self.journal: Journal[GroupRecord] = Journal(
            partition,
            disk,
            self.state,
            encode_group_record,
            decode_group_record,
            snapshots=False,
            on_durable=self._note,
        )

    @property
    def durable(self) -> GroupsState:
        durable = self.journal.durable
        assert isinstance(durable, GroupsState)
        return durable

    def open(self) -> None:
        """Rebuild the state from the log. A log that cannot be read is fenced, and its groups are refused."""
        self.journal.open()
        if self.journal.losses:
            self._recover_from_loss()

    def _recover_from_loss(self) -> None:
        """Record anew what lost records may have changed, so that later records have something to change.

        Members must rejoin, with a generation that no lost record can have given. Cursors that are opened from now on
        start at the earliest message, because a lost record may have opened them.
        """
        durable = self.durable
        self.affected_groups = durable.affected_groups
        records: list[GroupRecord] = []
        for group in self.state.groups.values():
            if group.group in durable.doubtful:
                records.append(group.without_members(durable.lost, self.log.last_time))
            elif group.start != "earliest":
                records.append(replace(group, start="earliest"))
        for key in sorted(durable.doubtful, key=str):
            if (cursor := self._cursor(key)) is not None:
                records += split_snapshot(cursor.snapshot())
        self.journal.add(records, self.journal.fence_where_refused)
        self.journal.commit()

    def _note(self, record: GroupRecord, offset: int) -> None:
        """Remember where complete records are; called by the journal for each durable record."""
        if isinstance(record, Group):
            self._complete_at[record.group] = offset
        elif isinstance(record, CursorOpened):
            self._complete_at[record.group, record.ref] = offset
        elif isinstance(record, CursorSnapshot):
            key = (record.group, record.ref)
            begun = offset if record.part == 0 else self._parts_from.pop(key, None)
            if begun is not None:
                noted = self._parts_from if record.more else self._complete_at
                noted[key] = begun
        elif isinstance(record, GroupDeleted):
            self._complete_at.pop(record.group, None)

    # --- rewriting ---

    def rewrite_log(self) -> Work[None]:
        """When the log has grown, append what is still valid and remove the segments before it."""
        log = self.log
        if log.fence is not None or log.is_closed:
            return
        if log.size < max(self._bytes_max, _REWRITE_GROWTH * self._rewritten_bytes):
            return
        if len(log.sealed()) == 0:
            log.roll()
        base, size = self._removable_end(), log.size
        if base == log.first_offset:
            return
        keys = deque(key for key in self._keys() if self._complete_at.get(key, -1) < base)
        while keys:
            records = self._next_records(keys)
            if records:
                durable: Promise[None] = Promise()
                self.journal.add(records, durable)
                self.journal.commit()
                yield durable
        self._rewritten_bytes = log.size - size
        yield from self._remove_segments_before(base)

    def _removable_end(self) -> int:
        """Return the end of the segments that nothing else needs any more."""
        needed_from = self.journal.partition.needed_from()
        bases = [one.base_offset for one in self.log.segments]
        return bases[-1] if needed_from is None else bases[max(bisect_right(bases, needed_from) - 1, 0)]

    def _keys(self) -> Iterator[GroupLogKey]:
        yield from self.state.groups
        for group, cursors in self.state.cursors.items():
            for ref in cursors:
                yield group, ref

    def _next_records(self, keys: deque[GroupLogKey]) -> list[GroupRecord]:
        """Return complete records of the next keys, within the limits of one turn. A split snapshot stays together."""
        records: list[GroupRecord] = []
        ranges = 0
        while keys and len(records) < _REWRITE_RECORDS_MAX:
            cursor = self._cursor(keys[0])
            ranges += cursor.run_count if cursor is not None else 0
            if records and ranges > _REWRITE_RANGES_MAX:
                break
            key = keys.popleft()
            if cursor is not None:
                records += split_snapshot(cursor.snapshot())
            elif isinstance(key, str) and (group := self.state.groups.get(key)) is not None:
                records.append(group)
        return records

    def _cursor(self, key: GroupLogKey) -> Cursor | None:
        return None if isinstance(key, str) else self.state.cursors.get(key[0], {}).get(key[1])

    def _remove_segments_before(self, offset: int) -> Work[None]:
        log = self.log
        if log.job is not None or log.is_closed or log.fence is not None:
            return
        unneeded = [
            one
            for one, following in zip(log.sealed(), log.segments[1:], strict=False)
            if following.base_offset <= offset
        ]
        keys = set(self._keys())
        self._complete_at = {key: offset for key, offset in self._complete_at.items() if key in keys}
        self._parts_from = {key: offset for key, offset in self._parts_from.items() if key in keys}
        if unneeded:
            job = plan_retention(log, self._disk, bytes_kept=log.size - sum(one.size for one in unneeded))
            try:
                yield job.run
            finally:
                job.apply()


class GroupStore:
    """The groups of one log. `random_bits` returns a number of so many bits that cannot be guessed."""

    def __init__(
        self,
        partition: Partition,
        disk: Disk,
        random_bits: Callable[[int], int],
        bytes_max: int = GROUP_LOG_BYTES,
    ) -> None:
        self.group_log = GroupLog(partition, disk, bytes_max)
        self._number = partition.number
        self._random_bits = random_bits
        self.on_gathered: Signal[[]] = Signal()
        """Called when records wait for `commit`."""
        self.on_refused: Signal[[str]] = Signal()
        """Called when records of a group were undone, before their callbacks run."""
        self.on_recorded: Signal[[str, Sequence[GroupRecord]]] = Signal()
        """Called with records that were just applied."""

    def open(self) -> None:
        self.group_log.open()

    # --- lookup ---

    def group(self, name: str) -> Group | None:
        return self.group_log.state.groups.get(name)

    def durable_group(self, name: str) -> Group | None:
        """Return the group as it is on disk: later decisions may still be undone, so they are not reported."""
        return self.group_log.durable.groups.get(name)

    def durable_cursors(self, name: str) -> dict[PartitionRef, Cursor]:
        return self.group_log.durable.cursors.get(name, {})

    def keeps_key_order(self, name: str) -> bool:
        group = self.group(name)
        return group is not None and group.order == "key"

    def isolation(self, name: str) -> Isolation:
        group = self.group(name)
        return group.isolation if group is not None else "read_committed"

    def owner(self, name: str, ref: PartitionRef) -> str | None:
        """Return the member that may have messages of the partition in flight."""
        group = self.group(name)
        return group.owners().get(ref) if group is not None else None

    def groups(self) -> Iterator[Group]:
        yield from list(self.group_log.state.groups.values())

    def refuse_unless_readable(self) -> None:
        """Raise when the log could not be read, so that it is not known whether a group exists."""
        log = self.group_log.log
        if log.fence is not None and not self.group_log.state.groups:
            raise log.fence

    @property
    def group_count(self) -> int:
        return len(self.group_log.state.groups)

    def cursor(self, group: str, ref: PartitionRef) -> Cursor | None:
        return self.group_log.state.cursors.get(group, {}).get(ref)

    def cursor_of(self, group: str, topic: Topic, partition: int) -> Cursor | None:
        """Return the cursor in a partition; None when there is none, or when it is of an earlier topic of this name."""
        cursor = self.cursor(group, PartitionRef(topic.name, partition))
        return cursor if cursor is not None and cursor.topic_ns == topic.created_ns else None

    def cursors(self, group: str) -> dict[PartitionRef, Cursor]:
        return self.group_log.state.cursors.get(group, {})

    def lease(self, lease_id: str) -> tuple[Cursor, Lease] | None:
        cursor = self.group_log.state.by_lease.get(lease_id)
        return None if cursor is None else (cursor, cursor.leases[lease_id])

    def new_lease_id(self, lane: int | None = None) -> str:
        """Return a new id, which begins with the number of the log.

        The lane is part of it when messages of other lanes lie between those of the lease.
        """
        digit = _DIGITS[self._number]
        if lane is None:
            return f"{digit}{self._random_bits(128):032x}"
        return f"{digit}{_LANE_LETTERS[lane]}{self._random_bits(124):031x}"

    def lane_of(self, lease_id: str) -> int | None:
        """Return the lane in a lease id, for a lease that has ended."""
        found = _LANE_LETTERS.find(lease_id[1:2]) if lease_id else -1
        return found if found >= 0 else None

    # --- record ---

    def record(self, group: str, records: Sequence[GroupRecord], callback: AppendCallback = lambda _: None) -> None:
        """Apply records now. The callback runs when they are durable, or with an error after they were undone."""
        journal = self.group_log.journal
        journal.refuse_unless_open()

        def settled(error: GoQueueError | None) -> None:
            if error is not None:
                self.on_refused.emit(group)
            callback(error)

        if journal.add(records, settled):
            self.on_gathered.emit()
        if records:
            self.on_recorded.emit(group, records)

    def recorded(self, group: str, records: Sequence[GroupRecord]) -> Promise[None]:
        """Apply records now; return a promise that is kept when they and all earlier ones are durable."""
        durable: Promise[None] = Promise()
        self.record(group, records, durable)
        return durable

    def when_durable(self, callback: AppendCallback) -> None:
        """Run the callback when all earlier records are durable, or with their error."""
        self.record("", [], callback)

    def refuse_when_closed(self) -> None:
        self.group_log.journal.refuse_when_closed()

    def commit(self) -> None:
        self.group_log.journal.commit()

    def __repr__(self) -> str:
        return f"<GroupStore {self.group_count} groups>"


def log_number(lease_id: str) -> int | None:
    """Return the number of the log that a lease id begins with."""
    try:
        return int(lease_id[:1], 36)
    except ValueError:
        return None


class GroupDirectory(Protocol):
    """The groups of all shards."""

    @property
    def group_count(self) -> int:
        """The number of groups, with those that are being created."""
        ...

    def groups(self) -> Iterator[Group]: ...

    def group(self, name: str) -> Group | None: ...

    def cursors(self, group: str) -> Mapping[PartitionRef, Cursor]: ...

    def isolation(self, name: str) -> Isolation: ...


class GroupServices(NamedTuple):
    """Services that all rules of groups use."""

    store: GroupStore
    topics: TopicLookup
    port: PublishPort
    clock: Clock
    deadlines: Deadlines
    directory: GroupDirectory


class GroupRules:
    """The base of the rules of groups."""

    def __init__(self, services: GroupServices) -> None:
        self._store, self._topics, self._port, self._clock, self._deadlines, self._directory = services
