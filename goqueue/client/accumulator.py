"""What a producer holds back and when it lets go, without threads, sockets or a clock of its own.

Messages gather in one batch a partition, and those that are to be delivered later in another one. When something is
due, everything of the topic goes along: one request is under way at a time, and whatever comes meanwhile forms the next
one. So batches grow with the load by themselves.

What must stay true:

- A batch that was sealed never changes. It is sent with the same producer, sequence and count, byte for byte,
  until it is acknowledged or fails, and the next batch of its partition is not sealed before that. Only where it is
  certain that the broker does not have it, because it knows nothing of its producer, it is sealed anew for another one.
- Sequences belong to a topic's partition, whatever happens to the object that stands for it here. Its delayed log has
  its own, as if it were another partition.
- When a batch fails for good, nobody knows whether the broker has it. Everything that is sealed later takes a new
  producer id, whose sequences begin at 0, so that no gap is left. With transactions it is the whole transaction that
  fails, and the next one has another epoch.
"""

import struct
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from goqueue.client.delivery import Batch, Due, Origin, Pieces
from goqueue.client.transactions import Identity
from goqueue.clock import NANOSECONDS, Clock
from goqueue.errors import GoQueueError, RequestTimedOut
from goqueue.limits import HEADERS_BYTES_MAX, KIB, MIB
from goqueue.partitioner import Hash
from goqueue.storage.frame import NO_HEADERS, Buffer, encode, encode_headers

SEQUENCES = 2**31
"""Sequences wrap from one below this to 0."""

IDENTITY_HEADER = "__producer"
_IDENTITY = struct.Struct(">qhII")
_SECTION = struct.Struct(">II")
_COUNT = struct.Struct(">H")
_FOR_DELAYED_LOG = 0x8000_0000
"""In the partition of a section: its frames are for the delayed log."""

IDENTITY_BYTES = len(encode_headers([(IDENTITY_HEADER, bytes(_IDENTITY.size))])) - len(NO_HEADERS)
OWN_HEADERS_BYTES_MAX = HEADERS_BYTES_MAX - IDENTITY_BYTES
"""What is left for the headers of a message."""


@dataclass(frozen=True, slots=True)
class Rules:
    """When a batch is due, and how much may wait."""

    batch_messages: int = 100
    batch_bytes: int = 64 * KIB
    linger: float = 0.005
    request_bytes: int = MIB
    buffer_bytes: int = 32 * MIB
    delivery_timeout: float = 120.0
    idempotent: bool = True
    transactional: bool = False


@dataclass(slots=True, eq=False)
class Lane:
    """The batches of one partition, or of its delayed log, oldest first.

    Only the last one is open, if it is not sealed.
    """

    partition: int
    delayed: bool = False
    batches: deque[Batch] = field(default_factory=deque)
    open: Batch | None = None

    @property
    def section(self) -> tuple[int, bool]:
        """Of which a request has one."""
        return self.partition, self.delayed


@dataclass(slots=True, eq=False)
class Topic:
    """What a producer knows of a topic."""

    name: str
    hash_key: Hash
    message_bytes_max: int
    lanes: list[Lane]
    sticky: Lane
    """Where messages without a key go until this lane's batch leaves."""
    delayed: "Topic" = field(init=False, repr=False)
    """The same topic for messages that are to be delivered later, with lanes of its own."""

    def turn(self) -> None:
        self.sticky = self.lanes[(self.sticky.partition + 1) % len(self.lanes)]


def topic_of(name: str, partitions: int, hash_key: Hash, message_bytes_max: int, former: Topic | None = None) -> Topic:
    """Lanes that the producer has already stay the same objects: a partition never has two."""
    lanes = _lanes(partitions, former, delayed=False)
    later = _lanes(partitions, former and former.delayed, delayed=True)
    topic = Topic(name, hash_key, message_bytes_max, lanes, lanes[0])
    topic.delayed = Topic(name, hash_key, message_bytes_max, later, later[0])
    topic.delayed.delayed = topic.delayed
    return topic


def _lanes(partitions: int, former: Topic | None, *, delayed: bool) -> list[Lane]:
    lanes = former.lanes[:partitions] if former else []
    return lanes + [Lane(partition, delayed) for partition in range(len(lanes), partitions)]


class Accumulator:
    """Takes frames, gives out batches that are due, and is told what became of them."""

    def __init__(self, rules: Rules, clock: Clock, owner: object = None) -> None:
        self.rules = rules
        self.identity: Identity | None = None
        self.hurry = 0
        """How many wait for everything to be sent: then all is due."""
        self.buffered = 0
        self._clock = clock
        self._owner = owner
        self._request_bytes = rules.request_bytes
        self._sequences: dict[tuple[str, int, bool], int] = {}
        self._active: dict[Lane, Topic] = {}

    def become(self, identity: Identity | None) -> None:
        """What is sealed from now on is somebody else's, whose sequences begin at 0."""
        self.identity = identity
        self._sequences.clear()

    # --- what comes in ---

    def add(self, topic: Topic, lane: Lane, frame: bytes, origin: Origin) -> Batch:
        """The batch that took the frame, as its last one."""
        size = len(frame)
        batch = lane.open
        if batch is None or batch.size + size > self._request_bytes:
            batch = self._begin(topic, lane, origin)
        batch.frames.append(frame)
        batch.count += 1
        batch.size += size
        self.buffered += size
        return batch

    def add_many(
        self, topic: Topic, lane: Lane, frames: list[bytes], size: int, origin: Origin, due: Due | None = None
    ) -> Batch:
        """The same for frames that fit one request together; `origin` is that of the first, `due` that of all."""
        batch = lane.open
        if batch is None or batch.size + size > self._request_bytes:
            batch = self._begin(topic, lane, origin)
        batch.frames += frames
        batch.count += len(frames)
        batch.size += size
        if due is not None:
            batch.dues += [due] * len(frames)
        self.buffered += size
        return batch

    def _begin(self, topic: Topic, lane: Lane, origin: Origin) -> Batch:
        batch = Batch(self._owner, topic.name, lane.partition, origin, self._clock.monotonic_ns(), delayed=lane.delayed)
        lane.batches.append(batch)
        lane.open = batch
        self._active.setdefault(lane, topic)
        return batch

    # --- what goes out ---

    @property
    def is_empty(self) -> bool:
        return not self._active

    def waiting(self) -> list[Batch]:
        """All batches that are neither acknowledged nor refused."""
        return [batch for lane in self._active for batch in lane.batches]

    def is_due(self, batch: Batch, now_ns: int) -> bool:
        """Full, old, sent before, or wanted at once; never while it backs off."""
        if batch.not_before_ns > now_ns:
            return False
        rules = self.rules
        return (
            self.hurry > 0
            or batch.sealed is not None
            or batch.count >= rules.batch_messages
            or batch.size >= rules.batch_bytes
            or batch.wanted
            or now_ns >= batch.opened_ns + int(rules.linger * NANOSECONDS)
        )

    def wake_ns(self) -> int | None:
        """When the next batch becomes due, or fails for its age; None while nothing waits."""
        linger, limit = int(self.rules.linger * NANOSECONDS), int(self.rules.delivery_timeout * NANOSECONDS)
        times = (
            min(batch.not_before_ns or batch.opened_ns + linger, batch.opened_ns + limit)
            for batch in (lane.batches[0] for lane in self._active)
        )
        return min(times, default=None)

    def has_due(self, now_ns: int) -> bool:
        return any(self.is_due(lane.batches[0], now_ns) for lane in self._active)

    def take(self, now_ns: int) -> list[Batch]:
        """The batches of the next request, sealed: all of one topic, at most one a partition and delayed log."""
        leader = next((lane for lane in self._active if self.is_due(lane.batches[0], now_ns)), None)
        if leader is None:
            return []
        name, taken, size = self._active[leader].name, [leader], leader.batches[0].size
        sections = {leader.section}
        for lane, topic in self._active.items():
            head = lane.batches[0]
            fits = size + head.size <= self._request_bytes
            if topic.name == name and lane.section not in sections and fits and head.not_before_ns <= now_ns:
                taken.append(lane)
                sections.add(lane.section)
                size += head.size
        for lane in taken:
            self._seal(lane, self._active[lane])
            self._active[lane] = self._active.pop(lane)  # to the end: every lane has its turn
        return [lane.batches[0] for lane in taken]

    def _seal(self, lane: Lane, topic: Topic) -> None:
        batch = lane.batches[0]
        if batch.sealed is not None:
            return
        if batch is lane.open:
            lane.open = None
        if lane is topic.sticky:
            topic.turn()
        if self.rules.idempotent:
            assert self.identity is not None
            assert batch.origin is not None
            place = (batch.topic, batch.partition, batch.delayed)
            sequence = self._sequences.get(place, 0)
            batch.identity, batch.sequence = self.identity, sequence
            self._sequences[place] = (sequence + batch.count) % SEQUENCES
            batch.frames[0] = identified(batch.origin, self.identity, sequence, batch.count)
        batch.sealed = section(batch.partition, batch.frames, delayed=batch.delayed)
        batch.frames = []

    # --- what became of it ---

    def acknowledge(
        self, batch: Batch, first_offset: int | None, timestamp: str | None, pieces: Pieces | None = None
    ) -> None:
        self._remove(batch)
        batch.settle(None, first_offset, timestamp, pieces)

    def postpone(self, batch: Batch, error: GoQueueError, now_ns: int) -> None:
        """Send it again later, exactly as it is."""
        batch.last_refusal = error
        batch.not_before_ns = now_ns + int(batch.backoff.next(error) * NANOSECONDS)

    def unseal(self, batch: Batch) -> None:
        """Have it sealed once more, as the batch of another producer."""
        assert batch.sealed is not None
        assert batch.origin is not None
        assert batch.identity is not None
        if self.identity == batch.identity:
            self.become(None)
        first = identified(batch.origin, batch.identity, batch.sequence, batch.count)
        batch.frames = [b"", batch.sealed[_SECTION.size + len(first) :]]  # the first frame is made when it is sealed
        batch.sealed, batch.unsure = None, False

    def fail(self, batch: Batch, error: GoQueueError) -> None:
        self._remove(batch)
        if batch.sealed is not None and not self.rules.transactional:
            self.become(None)
        batch.settle(error)

    def expire(self, now_ns: int) -> list[Batch]:
        """Fail what is older than the delivery timeout."""
        limit = int(self.rules.delivery_timeout * NANOSECONDS)
        late = [batch for batch in self.waiting() if now_ns >= batch.opened_ns + limit]
        for batch in late:
            why = f": {batch.last_refusal}" if batch.last_refusal else ""
            what = f"{batch.count} messages for {batch.topic}/{batch.partition}"
            error = RequestTimedOut(
                f"{what} were not delivered within {self.rules.delivery_timeout} seconds{why}",
                hint=None if batch.sealed is None else "they may have been stored all the same",
            )
            error.__cause__ = batch.last_refusal
            self.fail(batch, error)
        return late

    def abandon(self, error: GoQueueError) -> list[Batch]:
        """Fail everything that still waits."""
        left = self.waiting()
        for batch in left:
            self.fail(batch, error)
        return left

    def _remove(self, batch: Batch) -> None:
        lane = next(lane for lane in self._active if batch in lane.batches)
        lane.batches.remove(batch)
        if lane.open is batch:
            lane.open = None
        if not lane.batches:
            del self._active[lane]
        self.buffered -= batch.size


def identified(origin: Origin, identity: Identity, sequence: int, count: int) -> bytes:
    """The first frame of a section: the same message with the producer's header before its own."""
    value, key, headers, priority, flags = origin
    (own_count,) = _COUNT.unpack_from(headers)
    own = encode_headers([(IDENTITY_HEADER, _IDENTITY.pack(*identity, sequence, count))])
    together = b"".join((_COUNT.pack(own_count + 1), own[2:], headers[2:]))
    return encode(value, key, together, priority=priority, flags=flags)


def section(partition: int, frames: Sequence[Buffer], *, delayed: bool = False) -> bytes:
    """Frames of one partition, or of its delayed log, as a request carries them."""
    number = partition | _FOR_DELAYED_LOG if delayed else partition
    return b"".join((_SECTION.pack(number, sum(map(len, frames))), *frames))
