"""Moves messages to the dead-letter queue, and redriven messages back.

A DLQ entry is written in `DeadLetterMover._move_from`. In this order: the start of the move is recorded, the message is
published to the target, it is recorded as settled. So after a crash a message is in the source or in the target; when
only the start is known, the target is searched for a copy before the message is published.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from msgspec.structs import replace

from goqueue.broker.core.copies import Copy
from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.core.ranges import RangeMap
from goqueue.broker.core.remote_partition import refreshed
from goqueue.broker.core.topic import Topic, TopicSettings, TopicSpec
from goqueue.broker.core.work import Promise, Work
from goqueue.broker.groups.cursor import Cursor
from goqueue.broker.groups.dead_letter_message import (
    encode_dead_letter,
    encode_redriven,
    find_origins,
    origin_prefix,
)
from goqueue.broker.groups.records import (
    CursorKey,
    MessageMove,
    MessagesSettled,
    MoveStarted,
    Range,
    RetryState,
    SettleCause,
)
from goqueue.broker.groups.state import split_snapshot
from goqueue.broker.groups.store import GroupRules, GroupServices
from goqueue.clock import NANOSECONDS
from goqueue.errors import GoQueueError, LeaderUnavailable, OffsetOutOfRange, TopicExists
from goqueue.events import Signal
from goqueue.limits import DEAD_LETTERS_AT_ONCE, READ_BYTES_MAX, REASON_CHARACTERS_MAX, VALUE_BYTES_MAX
from goqueue.storage import frame

REDRIVE_GROUP = "__dead_letters"
"""The internal group that redrives dead letters: what it has settled was redriven."""

_RETRY_NS = NANOSECONDS


@dataclass(slots=True)
class _TargetSearch:
    """The search of a target for messages that may have arrived already. It reads the target once."""

    topic_ns: int
    """The creation time of its topic; another one may get its name."""
    next: int
    is_recreated: bool
    """True when the original target topic is gone and another one has its name."""
    found: dict[int, int] = field(default_factory=dict)
    """The offset of the latest copy, by original offset."""

    def has(self, offset: int, move: MessageMove) -> bool:
        return self.found.get(offset, -1) >= (0 if self.is_recreated else move.since)


class DeadLetterMover(GroupRules):
    """Moves messages of cursors to other topics: failed ones to the DLQ, redriven ones back."""

    def __init__(self, services: GroupServices) -> None:
        super().__init__(services)
        self._queue: deque[CursorKey] = deque()
        self._unsure: dict[CursorKey, RangeMap[bool]] = {}
        """Messages that may have arrived already."""
        self._searches: dict[CursorKey, dict[PartitionRef, _TargetSearch]] = {}
        self._move_callbacks: dict[CursorKey, dict[int, list[Callable[[], None]]]] = {}
        """Callbacks for the arrival of single messages, by offset."""
        self._attempt_callbacks: dict[CursorKey, list[Callable[[GoQueueError | None], None]]] = {}
        self.on_moved: Signal[[str, PartitionRef, MessageMove, int]] = Signal()
        """Called with group, source, the first move and the number of messages that have arrived."""
        self.on_move_queued: Signal[[]] = Signal()
        """Called when `move_all` has something to do."""
        self._retry_deadline = self._deadlines.kind(self._enqueue)

    def open(self) -> None:
        """Continue the moves that were running when the broker stopped."""
        for group in self._store.groups():
            for ref, cursor in self._store.cursors(group.group).items():
                if cursor.moving:
                    runs = ((first, end, True) for first, end, _ in cursor.moving.runs())
                    self._unsure[cursor.group, ref] = RangeMap(runs)
                    self.queue(cursor)

    def close(self, error: GoQueueError) -> None:
        """Answer all who wait. Moves that have started are durable: they continue when the shard is opened again."""
        self._queue.clear()
        for attempts in list(self._attempt_callbacks.values()):
            for attempted in attempts:
                attempted(error)
        self._attempt_callbacks.clear()
        for key in list(self._move_callbacks):
            self._forget_cursor(key)

    # --- decide ---

    def start_move(
        self,
        cursor: Cursor,
        name: str,
        history: RetryState,
        ranges: list[Range],
        error: str,
        lease: str | None = None,
        cause: SettleCause = "",
    ) -> MoveStarted:
        """Return the record that starts the move of messages with one delivery history to a dead-letter topic."""
        error = error[:REASON_CHARACTERS_MAX]
        number, since = self._current_target(name, cursor.partition)
        move = MessageMove(name, number, since, error, history.deliveries, history.first_ns, self._clock.now_ns())
        moves = [(first, end, move) for first, end in ranges]
        return MoveStarted(cursor.group, cursor.topic, cursor.partition, moves=moves, lease=lease, cause=cause)

    def _current_target(self, name: str, partition: int) -> tuple[int, int]:
        topic = self._topics.topics.get(name)
        if topic is None:
            return partition, 0
        target = PartitionRef(name, partition % len(topic.partitions))
        return target.partition, self._port.end(target)

    # --- queue ---

    def queue(self, cursor: Cursor) -> None:
        """Move the moving messages of a cursor soon."""
        self._enqueue((cursor.group, cursor.ref))

    def _enqueue(self, key: CursorKey) -> None:
        if key not in self._queue:
            self._queue.append(key)
        self.on_move_queued.emit()

    def call_when_moved(self, group: str, ref: PartitionRef, offset: int, callback: Callable[[], None]) -> None:
        """Run the callback when the message has arrived; at once if it is not moving."""
        cursor = self._store.cursor(group, ref)
        if cursor is None or offset not in cursor.moving:
            callback()
        else:
            self._move_callbacks.setdefault((group, ref), {}).setdefault(offset, []).append(callback)

    def call_when_attempted(
        self, group: str, ref: PartitionRef, callback: Callable[[GoQueueError | None], None]
    ) -> None:
        """Run the callback after the next attempt to move from this cursor, with its error if it failed."""
        self._attempt_callbacks.setdefault((group, ref), []).append(callback)

    def forget(self, group: str) -> None:
        """Drop everything of a deleted group, and run its callbacks."""
        for key in [one for one in self._move_callbacks.keys() | self._unsure.keys() if one[0] == group]:
            self._forget_cursor(key)

    def _is_open(self, key: CursorKey) -> bool:
        return bool(self._move_callbacks.get(key) or self._unsure.get(key))

    def _forget_cursor(self, key: CursorKey) -> None:
        """Nothing is moving from the cursor any more: messages have arrived, or it was reset or closed."""
        self._unsure.pop(key, None)
        self._searches.pop(key, None)
        for callbacks in self._move_callbacks.pop(key, {}).values():
            for callback in callbacks:
                callback()

    @property
    def is_idle(self) -> bool:
        return not self._queue

    # --- move ---

    def move_all(self) -> Work[None]:
        """Move everything that is queued, one cursor at a time. A move that fails is retried a second later."""
        while self._queue:
            group, ref = key = self._queue.popleft()
            failure: GoQueueError | None = None
            try:
                yield from self._move_from(group, ref)
            except GoQueueError as error:
                failure = error
                self._retry_later(key)
            for callback in self._attempt_callbacks.pop(key, []):
                callback(failure)

    def _retry_later(self, key: CursorKey) -> None:
        self._deadlines.add(self._clock.now_ns() + _RETRY_NS, self._retry_deadline, key)

    def _move_from(self, group: str, ref: PartitionRef) -> Work[None]:
        cursor = self._store.cursor(group, ref)
        started = _next_chunk(cursor) if cursor is not None else {}
        if started or self._is_open((group, ref)):
            # Until the start of the move is durable, a message that is published could be published twice.
            yield self._store.recorded(group, [])
        cursor, source = self._store.cursor(group, ref), self._topics.topics.get(ref.topic)
        if cursor is None or not cursor.moving:
            self._forget_cursor((group, ref))
            return
        if source is not None and source.created_ns != cursor.topic_ns:
            self._retry_later((group, ref))  # the topic was recreated: the cursor is about to be closed
            return
        moves = {offset: move for offset, move in started.items() if cursor.moving.get(offset) == move}
        if not moves:  # only messages that were added meanwhile
            self.queue(cursor)
            return
        target_ref = next(iter(moves.values())).target
        if group == REDRIVE_GROUP and target_ref.topic not in self._topics.topics:
            yield from self._cancel_moves(cursor, set(moves))
            return
        target = yield from self._target(target_ref, ref.topic)
        arrived = yield from self._arrived(group, ref, moves, target)
        moves, copies = yield from self._encode(group, ref, moves, arrived, source)
        unsure = self._unsure.setdefault((group, ref), RangeMap())
        for offset in moves:
            unsure.set(offset, offset + 1, True)
        if copies:
            yield from self._port.store(target, copies)
        yield from self._settle(group, ref, moves)

    def _encode(
        self, group: str, ref: PartitionRef, moves: dict[int, MessageMove], arrived: set[int], source: Topic | None
    ) -> Work[tuple[dict[int, MessageMove], list[Copy]]]:
        """Return the moves that fit into one append, and the copies of those that have not arrived."""
        taken: dict[int, MessageMove] = {}
        copies: list[Copy] = []
        size = 0
        for offset, move in moves.items():
            if size >= READ_BYTES_MAX:
                break
            taken[offset] = move
            message = None if offset in arrived else (yield from _read_message(source, ref.partition, offset))
            if message is not None:
                if group == REDRIVE_GROUP:
                    content = encode_redriven(message, group, ref)
                else:
                    content = encode_dead_letter(message, group, ref, move)
                copies.append(Copy(content, origin_prefix(group, ref) + str(offset).encode(), move.since))
                size += len(content)
        return taken, copies

    def _cancel_moves(self, cursor: Cursor, offsets: set[int]) -> Work[None]:
        """Keep dead letters whose redrive target is gone."""
        left: RangeMap[MessageMove] = RangeMap(cursor.moving.runs())
        for offset in offsets:
            left.cut(offset, offset + 1)
        snapshot = replace(cursor.snapshot(), moving=list(left.runs()))
        yield self._store.recorded(cursor.group, split_snapshot(snapshot))
        self._finish(cursor.group, cursor.ref, offsets)

    def _settle(self, group: str, ref: PartitionRef, moves: dict[int, MessageMove]) -> Work[None]:
        """Settle messages that have arrived, unless a reset of the group has dropped their moves meanwhile."""
        cursor = self._store.cursor(group, ref)
        moving = cursor.moving if cursor is not None else RangeMap[MessageMove]()
        left = RangeMap((offset, offset + 1, True) for offset, move in moves.items() if moving.get(offset) == move)
        if left:
            ranges = [(first, end) for first, end, _ in left.runs()]
            yield self._store.recorded(group, [MessagesSettled(group, *ref, ranges=ranges)])
            self.on_moved.emit(group, ref, next(iter(moves.values())), left.count)
        self._finish(group, ref, moves)

    def _finish(self, group: str, ref: PartitionRef, offsets: Iterable[int]) -> None:
        """Run the callbacks of messages that are not moving any more, and queue the rest."""
        key = (group, ref)
        unsure, callbacks = self._unsure.get(key, RangeMap[bool]()), self._move_callbacks.get(key, {})
        for offset in offsets:
            unsure.cut(offset, offset + 1)
            for callback in callbacks.pop(offset, []):
                callback()
        cursor = self._store.cursor(group, ref)
        if (cursor is not None and cursor.moving) or self._is_open(key):
            self._enqueue(key)
        else:
            self._forget_cursor(key)

    # --- target ---

    def _target(self, target: PartitionRef, source: str) -> Work[PartitionRef]:
        """Return the partition that takes the messages. A dead-letter topic is created when it is needed."""
        if target.topic not in self._topics.topics:
            origin = self._topics.topics.get(source)
            count = len(origin.partitions) if origin is not None else target.partition + 1
            settings = TopicSettings(max_message_bytes=VALUE_BYTES_MAX)
            created: Promise[Topic] = Promise()
            try:
                self._topics.create_topic(TopicSpec(name=target.topic, partitions=count, settings=settings), created)
                yield created
            except TopicExists:  # another request created it first
                pass
        topic = self._topics.topic(target.topic)  # raises while it is being created
        return PartitionRef(topic.name, target.partition % len(topic.partitions))

    def _arrived(
        self, group: str, ref: PartitionRef, moves: dict[int, MessageMove], target: PartitionRef
    ) -> Work[set[int]]:
        """Return the offsets that were published before a crash, or before the disk refused what follows."""
        unsure = self._unsure.get((group, ref), RangeMap[bool]())
        doubtful = [offset for offset in moves if offset in unsure]
        if not doubtful or self._port.is_replicated(target):
            return set()
        search = self._search(group, ref, target, moves[doubtful[0]].target)
        prefix = origin_prefix(group, ref)
        while (read := (yield from self._port.read(target, search.next))).next_offset > search.next:
            for buffer in read.buffers:
                found: list[tuple[int, int]] = yield partial(
                    lambda content: list(find_origins(content, prefix)), buffer
                )
                search.found |= {offset: at for offset, at in found if offset in unsure}
            search.next = read.next_offset
        return {offset for offset in doubtful if search.has(offset, moves[offset])}

    def _search(self, group: str, ref: PartitionRef, target: PartitionRef, target_ref: PartitionRef) -> _TargetSearch:
        searches = self._searches.setdefault((group, ref), {})
        search, topic_ns = searches.get(target_ref), self._topics.topic(target.topic).created_ns
        if search is None or search.topic_ns != topic_ns:
            cursor = self._store.cursor(group, ref)
            runs = cursor.moving.runs() if cursor is not None else ()
            since = min((move.since for _, _, move in runs if move.target == target_ref), default=0)
            is_recreated = since > self._port.end(target)
            search = searches[target_ref] = _TargetSearch(topic_ns, 0 if is_recreated else since, is_recreated)
        return search


def _read_message(source: Topic | None, number: int, offset: int) -> Work[frame.StoredMessage | None]:
    """Return None when retention or compaction has removed the message."""
    if source is None:
        return None
    partition = source.partition(number)
    if offset >= partition.high_watermark:
        yield from refreshed(partition)
    if offset >= partition.high_watermark and partition.leadership is not None:
        raise LeaderUnavailable(f"partition {number} of topic {source.name} has not come to offset {offset} here yet")
    try:
        read = yield from partition.read_uncommitted(offset, 1, skip_damage=True)
    except OffsetOutOfRange:
        return None
    message = frame.decode(read.buffers[0]) if read.buffers else None
    return message if message is not None and message.offset == offset else None


def _next_chunk(cursor: Cursor) -> dict[int, MessageMove]:
    """Return the first moves to one target, up to the number that is moved together."""
    offsets = ((offset, move) for first, end, move in cursor.moving.runs() for offset in range(first, end))
    moves = dict(islice(offsets, DEAD_LETTERS_AT_ONCE))
    target = next((move.target for move in moves.values()), None)
    return {offset: move for offset, move in moves.items() if move.target == target}
