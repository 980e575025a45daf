"""Messages that failed too often, or were rejected, go to the topic of dead letters.

In this order: that they leave is recorded; they are published there; that they are settled is recorded. So after a
crash a message is in the source or in the dead letters, and where that it left is all that is known, the target
is searched for it before it is published.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from msgspec.structs import replace

from goqueue.broker.deadlines import Deadlines
from goqueue.broker.delivery.changes import Departed, Move, Place, Range, Retry, Settled
from goqueue.broker.delivery.cursor import Cursor
from goqueue.broker.delivery.parts import in_parts
from goqueue.broker.delivery.rules import DEAD_LETTER_SUFFIX
from goqueue.broker.delivery.transfer import as_before, as_dead_letter, dead_letter_topic, origin_of, origins_in
from goqueue.broker.groups.ledger import Ledger
from goqueue.broker.groups.topics import Topics
from goqueue.broker.partition import Partition
from goqueue.broker.ranges import RangeMap
from goqueue.broker.topic import Topic, TopicSettings, TopicSpec
from goqueue.broker.work import Promise, Work
from goqueue.clock import NANOSECONDS, Clock
from goqueue.errors import GoQueueError, OffsetOutOfRange, TopicExists
from goqueue.limits import DEAD_LETTERS_AT_ONCE, READ_BYTES, READ_BYTES_MAX, REASON_CHARACTERS_MAX, VALUE_BYTES_MAX
from goqueue.storage import frame

REDRIVE_GROUP = "__dead_letters"
"""Reads the dead letters that are sent back: what it has settled is there no more."""

_AGAIN_NS = NANOSECONDS

Parcel = tuple[str, Place]
"""A group and a place with messages that leave."""


@dataclass(slots=True)
class _Search:
    """How far a target was searched for what may have arrived there already, so that it is read once."""

    target: Partition
    next: int
    is_other: bool
    """Whether the topic that they left for is gone, and this one has its name."""
    found: dict[int, int] = field(default_factory=dict)
    """Where the copy of which message is; of several the latest."""

    def has(self, offset: int, move: Move) -> bool:
        return self.found.get(offset, -1) >= (0 if self.is_other else move.since)


class Undertaker:
    """Carries messages from where they failed to the dead letters, and from there back."""

    def __init__(self, ledger: Ledger, topics: Topics, clock: Clock, deadlines: Deadlines) -> None:
        self._ledger = ledger
        self._topics = topics
        self._clock = clock
        self._deadlines = deadlines
        self._queue: deque[Parcel] = deque()
        self._unsure: dict[Parcel, RangeMap[bool]] = {}
        """Those that may have arrived already."""
        self._searches: dict[Parcel, dict[Place, _Search]] = {}
        self._waiting: dict[Parcel, dict[int, list[Callable[[], None]]]] = {}
        """Who is to be told of which message that it has arrived."""
        self.on_arrival: Callable[[str, Place, Move, int], None] = lambda _, __, ___, ____: None
        """Called with how many messages have arrived, and with how the first of them went."""
        self.on_call: Callable[[], None] = lambda: None
        """Called when there is something to be carried."""
        self._trying: dict[Parcel, list[Callable[[GoQueueError | None], None]]] = {}
        """Who waits for the next attempt at a place."""
        self._again = deadlines.kind(self._call_again)

    def open(self) -> None:
        """What was on its way when the broker ended goes on."""
        for group in self._ledger.groups():
            for place, cursor in self._ledger.cursors(group.group).items():
                if cursor.moving:
                    runs = ((first, end, True) for first, end, _ in cursor.moving.runs())
                    self._unsure[cursor.group, place] = RangeMap(runs)
                    self.call(cursor)

    # --- decide ---

    def may_bury(self, topic: str) -> bool:
        """Dead letters themselves are tried for ever."""
        return not topic.endswith(DEAD_LETTER_SUFFIX)

    def departure(
        self, cursor: Cursor, tried: Retry, ranges: list[Range], error: str, lease: str | None = None
    ) -> Departed:
        """Of messages that were tried alike."""
        name, error = dead_letter_topic(cursor.topic), error[:REASON_CHARACTERS_MAX]
        number, since = self._target(name, cursor.partition)
        move = Move(name, number, since, error, tried.deliveries, tried.first_ns, self._clock.now_ns())
        moves = [(first, end, move) for first, end in ranges]
        return Departed(cursor.group, cursor.topic, cursor.partition, moves=moves, lease=lease)

    def _target(self, name: str, partition: int) -> tuple[int, int]:
        """The partition there, and where it ends now."""
        topic = self._topics.topics.get(name)
        if topic is None:
            return partition, 0
        chosen = topic.partitions[partition % len(topic.partitions)]
        return chosen.number, chosen.log_end

    # --- carry ---

    def call(self, cursor: Cursor) -> None:
        """Something leaves here."""
        self._call((cursor.group, cursor.place))

    def _call(self, parcel: Parcel) -> None:
        if parcel not in self._queue:
            self._queue.append(parcel)
        self.on_call()

    def _call_again(self, key: str) -> None:
        group, topic, partition = key.split("/")
        self._call((group, (topic, int(partition))))

    def when_arrived(self, group: str, place: Place, offset: int, callback: Callable[[], None]) -> None:
        """Have this called when the message is where it goes, at once if it is on its way no more."""
        cursor = self._ledger.cursor(group, place)
        if cursor is None or offset not in cursor.moving:
            callback()
        else:
            self._waiting.setdefault((group, place), {}).setdefault(offset, []).append(callback)

    def when_tried(self, group: str, place: Place, told: Callable[[GoQueueError | None], None]) -> None:
        """Have this called after the next attempt to carry from this place, with why it came to nothing if it did."""
        self._trying.setdefault((group, place), []).append(told)

    def forget(self, group: str) -> None:
        """It is gone, and whoever waits for something of it is told."""
        for parcel in [one for one in self._waiting.keys() | self._unsure.keys() if one[0] == group]:
            self._forget(parcel)

    def _is_open(self, parcel: Parcel) -> bool:
        """Whether something is known of messages that leave there, or somebody waits for one."""
        return bool(self._waiting.get(parcel) or self._unsure.get(parcel))

    def _forget(self, parcel: Parcel) -> None:
        """Nothing leaves there any more: it has arrived, or the group reads it anew, or does not know the place."""
        self._unsure.pop(parcel, None)
        self._searches.pop(parcel, None)
        for callbacks in self._waiting.pop(parcel, {}).values():
            for callback in callbacks:
                callback()

    @property
    def is_idle(self) -> bool:
        return not self._queue

    def carry(self) -> Work[None]:
        """All that leaves, a place at a time. What cannot be carried now is tried again."""
        while self._queue:
            group, place = self._queue.popleft()
            failure: GoQueueError | None = None
            try:
                yield from self._carry_from(group, place)
            except GoQueueError as error:
                failure = error
                self._try_again(group, place)
            for told in self._trying.pop((group, place), []):
                told(failure)

    def _try_again(self, group: str, place: Place) -> None:
        self._deadlines.add(self._clock.now_ns() + _AGAIN_NS, self._again, f"{group}/{place[0]}/{place[1]}")

    def _carry_from(self, group: str, place: Place) -> Work[None]:
        cursor = self._ledger.cursor(group, place)
        decided = _chunk(cursor) if cursor is not None else {}
        if decided or self._is_open((group, place)):
            yield from self._decided(group)
        cursor, origin = self._ledger.cursor(group, place), self._topics.topics.get(place[0])
        if cursor is None or not cursor.moving:
            self._forget((group, place))
            return
        if origin is not None and origin.created_ns != cursor.topic_ns:
            self._try_again(group, place)  # it was deleted, and another one has its name: the group forgets this place
            return
        moves = {offset: move for offset, move in decided.items() if cursor.moving.get(offset) == move}
        if not moves:  # those that came meanwhile
            self.call(cursor)
            return
        name, number = next((move.topic, move.partition) for move in moves.values())
        if group == REDRIVE_GROUP and name not in self._topics.topics:
            yield from self._turn_back(cursor, set(moves))
            return
        target = yield from self._target_partition(name, number, place[0])
        there = yield from self._arrived(group, place, moves, target)
        moves, frames = yield from self._packed(group, place, moves, there, origin)
        unsure = self._unsure.setdefault((group, place), RangeMap())
        for offset in moves:
            unsure.set(offset, offset + 1, True)
        if frames:
            published: Promise[object] = Promise()
            if target.offer(frames, published):
                target.commit()
            yield published
        yield from self._settle(group, place, moves)

    def _packed(
        self, group: str, place: Place, moves: dict[int, Move], there: set[int], origin: "Topic | None"
    ) -> Work[tuple[dict[int, Move], list[bytes]]]:
        """As many of them as go into one append, and the frames of those that have not arrived."""
        taken: dict[int, Move] = {}
        frames: list[bytes] = []
        size = 0
        for offset, move in moves.items():
            if size >= READ_BYTES_MAX:
                break
            taken[offset] = move
            message = (yield from self._message(origin, place[1], offset)) if offset not in there else None
            if message is not None:
                frames.append(_encoded(message, group, place, move))
                size += len(frames[-1])
        return taken, frames

    def _turn_back(self, cursor: Cursor, offsets: set[int]) -> Work[None]:
        """The topic that they were sent back to is gone: they are dead letters still."""
        left: RangeMap[Move] = RangeMap(cursor.moving.runs())
        for offset in offsets:
            left.cut(offset, offset + 1)
        durable: Promise[None] = Promise()
        stands = replace(cursor.stands(), moving=list(left.runs()))
        self._ledger.record(cursor.group, in_parts(stands), durable)
        yield durable
        self._tell_arrived(cursor.group, cursor.place, offsets)

    def _decided(self, group: str) -> Work[None]:
        """Wait until it is durable that they leave: what is published before could be published twice."""
        durable: Promise[None] = Promise()
        self._ledger.record(group, [], durable)
        yield durable

    def _settle(self, group: str, place: Place, moves: dict[int, Move]) -> Work[None]:
        """They are where they belong. Meanwhile the group may have been set back, and reads them anew."""
        cursor = self._ledger.cursor(group, place)
        moving = cursor.moving if cursor is not None else RangeMap[Move]()
        left = RangeMap((offset, offset + 1, True) for offset, move in moves.items() if moving.get(offset) == move)
        if left:
            settled: Promise[None] = Promise()
            ranges = [(first, end) for first, end, _ in left.runs()]
            self._ledger.record(group, [Settled(group, *place, ranges=ranges)], settled)
            yield settled
            self.on_arrival(group, place, next(iter(moves.values())), left.count)
        self._tell_arrived(group, place, moves)

    def _tell_arrived(self, group: str, place: Place, offsets: Iterable[int]) -> None:
        parcel = (group, place)
        unsure, waiting = self._unsure.get(parcel, RangeMap[bool]()), self._waiting.get(parcel, {})
        for offset in offsets:
            unsure.cut(offset, offset + 1)
            for callback in waiting.pop(offset, []):
                callback()
        cursor = self._ledger.cursor(group, place)
        if (cursor is not None and cursor.moving) or self._is_open(parcel):
            self._call(parcel)
        else:
            self._forget(parcel)

    def _target_partition(self, name: str, number: int, source: str) -> Work[Partition]:
        """Where they go; a topic of dead letters is made when it is needed."""
        if name not in self._topics.topics:
            origin = self._topics.topics.get(source)
            count = len(origin.partitions) if origin is not None else number + 1
            made: Promise[Topic] = Promise()
            try:
                self._topics.create_topic(
                    TopicSpec(name=name, partitions=count, settings=TopicSettings(max_message_bytes=VALUE_BYTES_MAX)),
                    made,
                )
                yield made
            except TopicExists:  # somebody was quicker
                pass
        topic = self._topics.topic(name)  # refused while it is being made
        return topic.partitions[number % len(topic.partitions)]

    def _arrived(self, group: str, place: Place, moves: dict[int, Move], target: Partition) -> Work[set[int]]:
        """Those that were published before a crash came, or before the disk refused what was to follow."""
        unsure = self._unsure.get((group, place), RangeMap[bool]())
        doubtful = [offset for offset in moves if offset in unsure]
        if not doubtful:
            return set()
        search = self._search(group, place, target, moves[doubtful[0]])
        search.next, start = max(search.next, target.earliest), origin_of(group, place)
        while search.next < target.high_watermark:
            read = yield from target.read_uncommitted(search.next, READ_BYTES, skip_damage=True)
            for buffer in read.buffers:
                found: list[tuple[int, int]] = yield partial(lambda content: list(origins_in(content, start)), buffer)
                search.found |= {offset: at for offset, at in found if offset in unsure}
            search.next = read.next_offset
        return {offset for offset in doubtful if search.has(offset, moves[offset])}

    def _search(self, group: str, place: Place, target: Partition, move: Move) -> _Search:
        """Whatever is published later lies behind where it ended: so nothing before that is read again."""
        searches, where = self._searches.setdefault((group, place), {}), (move.topic, move.partition)
        search = searches.get(where)
        if search is None or search.target is not target:
            cursor = self._ledger.cursor(group, place)
            runs = cursor.moving.runs() if cursor is not None else ()
            since = min((one.since for _, _, one in runs if (one.topic, one.partition) == where), default=0)
            is_other = since > target.high_watermark
            search = searches[where] = _Search(target, 0 if is_other else since, is_other)
        return search

    def _message(self, origin: "Topic | None", number: int, offset: int) -> Work[frame.Message | None]:
        """None where it is gone: retention or compaction was quicker."""
        if origin is None:
            return None
        try:
            read = yield from origin.partitions[number].read_uncommitted(offset, 1, skip_damage=True)
        except OffsetOutOfRange:
            return None
        message = frame.decode(read.buffers[0]) if read.buffers else None
        return message if message is not None and message.offset == offset else None


def _chunk(cursor: Cursor) -> dict[int, Move]:
    """The first that leave for the same partition, of as many as are carried together."""
    offsets = ((offset, move) for first, end, move in cursor.moving.runs() for offset in range(first, end))
    moves = dict(islice(offsets, DEAD_LETTERS_AT_ONCE))
    where = next(((move.topic, move.partition) for move in moves.values()), None)
    return {offset: move for offset, move in moves.items() if (move.topic, move.partition) == where}


def _encoded(message: frame.Message, group: str, place: Place, move: Move) -> bytes:
    return as_before(message, group, place) if group == REDRIVE_GROUP else as_dead_letter(message, group, place, move)
