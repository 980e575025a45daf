"""The batches of a producer: what waits, when it is due, and what becomes of it. No threads, sockets or clock.

Messages gather in one batch for each partition, and delayed ones in another. When a batch is due, everything of its
topic is sent with it. One request is under way at a time, in a cluster one for each leader. Batches grow meanwhile.

What must stay true:

- A sealed batch never changes. It is sent with the same producer, sequence and count, byte for byte, until it is
  acknowledged or fails, and the next batch of its partition is not sealed before that. Only when the broker certainly
  does not have it, because it does not know its producer, it is sealed again for another one.
- A batch is under way to one leader at a time. When its partition gets another leader, it waits for its answer first.
- Sequences belong to a topic's partition, not to the object here. The delayed log has its own.
- When partitions were added, the broker refuses batches that were placed by the former number. No other batch of the
  topic is sealed then until every sealed one is settled or refused; after that all that waits is placed anew, so that
  the messages of a key stay in their order.
- When a batch fails for good, it is unknown whether the broker has it. Batches sealed later use a new producer id,
  whose sequences begin at 0, so that no gap is left. In a transaction, the whole transaction fails instead, and the
  next one has another epoch.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from goqueue.client.delivery import (
    BatchSlot,
    DueHeader,
    FrameFields,
    OffsetPieces,
    SendBatch,
    concluded,
    delivery_timed_out,
)
from goqueue.client.quota_waits import note_refusal
from goqueue.client.section_encoding import encode_section, fields_of, open_section, with_producer_header
from goqueue.client.violations import divide_by_errors, without_messages
from goqueue.clock import NANOSECONDS, Clock
from goqueue.errors import GoQueueError
from goqueue.limits import HEADERS_BYTES_MAX, KIB, MIB
from goqueue.partitioner import Hash, partition_of
from goqueue.storage.frame import key_at
from goqueue.wire.sections import PRODUCER_HEADER_BYTES, ProducerIdentity

SEQUENCES = 2**31
"""After the sequence one below this comes 0."""

OWN_HEADERS_BYTES_MAX = HEADERS_BYTES_MAX - PRODUCER_HEADER_BYTES
"""The limit for the headers of a message beside the producer's."""


@dataclass(frozen=True, slots=True)
class BatchingRules:
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
class PartitionQueue:
    """The batches of one partition, or of its delayed log, oldest first.

    Only the last one can be open.
    """

    partition: int
    delayed: bool = False
    batches: deque[SendBatch] = field(default_factory=deque)
    open: SendBatch | None = None
    is_former: bool = False
    """True once messages are placed by another number of partitions: then it gets none any more."""

    @property
    def section(self) -> tuple[int, bool]:
        """The key of a queue; a request has at most one section for each."""
        return self.partition, self.delayed


@dataclass(slots=True, eq=False)
class TopicQueues:
    """The queues of a topic, and what a producer must know about it."""

    name: str
    hash_key: Hash
    message_bytes_max: int
    queues: list[PartitionQueue]
    sticky: PartitionQueue
    """The queue for messages without a key, until its batch is sealed."""
    immediate: "TopicQueues" = field(init=False, repr=False)
    """The same topic for messages that are not delayed."""
    delayed: "TopicQueues" = field(init=False, repr=False)
    """The same topic for delayed messages, with queues of its own."""

    def turn(self) -> None:
        self.sticky = self.queues[(self.sticky.partition + 1) % len(self.queues)]


def topic_queues(name: str, partitions: int, hash_key: Hash, message_bytes_max: int) -> TopicQueues:
    queues, later = _queues(partitions, delayed=False), _queues(partitions, delayed=True)
    topic = TopicQueues(name, hash_key, message_bytes_max, queues, queues[0])
    topic.delayed = TopicQueues(name, hash_key, message_bytes_max, later, later[0])
    for one in (topic, topic.delayed):
        one.immediate, one.delayed = topic, topic.delayed
    return topic


def _queues(partitions: int, *, delayed: bool) -> list[PartitionQueue]:
    return [PartitionQueue(partition, delayed) for partition in range(partitions)]


class Accumulator:
    """Takes frames, returns batches that are due, and records their results."""

    def __init__(self, rules: BatchingRules, clock: Clock, owner: object = None) -> None:
        self.rules = rules
        self.identity: ProducerIdentity | None = None
        self.hurry = 0
        """The number of callers that wait for everything to be sent: then all batches are due."""
        self.buffered = 0
        self.lane_of: Callable[[str, int], object] | None = None
        """In a cluster: the leader of a partition, to which its batches go."""
        self._clock = clock
        self._owner = owner
        self._request_bytes = rules.request_bytes
        self._sequences: dict[tuple[str, int, bool], int] = {}
        self._active: dict[PartitionQueue, TopicQueues] = {}
        self._recounts: dict[str, tuple[TopicQueues, int]] = {}
        """By name the topics whose number of partitions has changed, and the new one."""

    def become(self, identity: ProducerIdentity | None) -> None:
        """Use another producer identity for batches sealed from now on; its sequences begin at 0."""
        self.identity = identity
        self._sequences.clear()

    # --- what comes in ---

    def add(
        self,
        topic: TopicQueues,
        queue: PartitionQueue,
        frame: bytes,
        origin: FrameFields,
        is_fixed: bool = False,
    ) -> SendBatch:
        """Append a frame to a batch of the queue, and return that batch. `is_fixed` if the caller named the queue."""
        if queue.is_former:
            return self._place(topic, queue, [frame], None, is_fixed)
        size = len(frame)
        batch = queue.open
        if batch is None or batch.size + size > self._request_bytes:
            batch = self._begin(topic, queue, origin)
        batch.frames.append(frame)
        if is_fixed:
            batch.fixed.add(batch.count)
        batch.count += 1
        batch.size += size
        self.buffered += size
        return batch

    def add_many(
        self,
        topic: TopicQueues,
        queue: PartitionQueue,
        frames: list[bytes],
        size: int,
        origin: FrameFields,
        due: DueHeader | None = None,
        is_fixed: bool = False,
    ) -> SendBatch:
        """Append frames that fit one request together. `origin` is that of the first, `due` that of all."""
        if queue.is_former:
            return self._place(topic, queue, frames, due, is_fixed)
        batch = queue.open
        if batch is None or batch.size + size > self._request_bytes:
            batch = self._begin(topic, queue, origin)
        batch.frames += frames
        if is_fixed:
            batch.fixed.update(range(batch.count, batch.count + len(frames)))
        batch.count += len(frames)
        batch.size += size
        if due is not None:
            batch.dues += [due] * len(frames)
        self.buffered += size
        return batch

    def _begin(self, topic: TopicQueues, queue: PartitionQueue, origin: FrameFields) -> SendBatch:
        batch = SendBatch(
            self._owner, topic.name, queue.partition, origin, self._clock.monotonic_ns(), delayed=queue.delayed
        )
        batch.placed_by = len(topic.queues)
        queue.batches.append(batch)
        queue.open = batch
        self._active.setdefault(queue, topic)
        return batch

    # --- what goes out ---

    @property
    def is_empty(self) -> bool:
        return not self._active

    def waiting(self) -> list[SendBatch]:
        """Return all batches that are neither acknowledged nor failed."""
        return [batch for queue in self._active for batch in queue.batches]

    def is_due(self, batch: SendBatch, now_ns: int) -> bool:
        """Return whether a batch is full, old, was sent before, or is wanted at once; never during its backoff."""
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

    def _heads(self, lane: object) -> Iterator[tuple[PartitionQueue, SendBatch]]:
        """Yield the oldest batch of each queue of a leader, unless it is under way or is to be placed anew."""
        lane_of = self.lane_of
        for queue, topic in self._active.items():
            batch = queue.batches[0]
            is_of_lane = lane_of is None or (not batch.in_flight and lane_of(topic.name, queue.partition) == lane)
            if is_of_lane and not self._is_held(batch):
                yield queue, batch

    def places(self) -> set[tuple[str, int]]:
        """Return the topics and partitions for which something waits."""
        return {(topic.name, queue.partition) for queue, topic in self._active.items()}

    def hasten(self, places: Collection[tuple[str, int]]) -> None:
        """End the wait of batches that were refused by a former leader of these partitions."""
        for queue, topic in self._active.items():
            if (topic.name, queue.partition) in places:
                queue.batches[0].not_before_ns = 0

    def wake_ns(self, lane: object = None) -> int | None:
        """Return when the next batch of a leader becomes due or times out; None while nothing waits."""
        linger, limit = int(self.rules.linger * NANOSECONDS), int(self.rules.delivery_timeout * NANOSECONDS)
        times = (
            min(batch.not_before_ns or batch.opened_ns + linger, batch.opened_ns + limit)
            for _, batch in self._heads(lane)
        )
        return min(times, default=None)

    def _is_held(self, batch: SendBatch) -> bool:
        """Return whether a batch waits until it is placed anew."""
        return bool(self._recounts) and batch.sealed is None and batch.topic in self._recounts

    def has_due(self, now_ns: int, lane: object = None) -> bool:
        return any(self.is_due(batch, now_ns) for _, batch in self._heads(lane))

    def take(self, now_ns: int, lane: object = None) -> list[SendBatch]:
        """Seal and return the batches of the next request: of one topic, at most one for each section."""
        first = next((queue for queue, head in self._heads(lane) if self.is_due(head, now_ns)), None)
        if first is None:
            return []
        name, taken, size = self._active[first].name, [first], first.batches[0].size
        sections = {first.section}
        for queue, head in self._heads(lane):
            fits = size + head.size <= self._request_bytes
            if head.topic == name and queue.section not in sections and fits and head.not_before_ns <= now_ns:
                taken.append(queue)
                sections.add(queue.section)
                size += head.size
        for queue in taken:
            self._seal(queue, self._active[queue])
            self._active[queue] = self._active.pop(queue)  # to the end: every queue gets its turn
            queue.batches[0].in_flight = self.lane_of is not None
        return [queue.batches[0] for queue in taken]

    def _seal(self, queue: PartitionQueue, topic: TopicQueues) -> None:
        batch = queue.batches[0]
        if batch.sealed is not None:
            return
        if batch is queue.open:
            queue.open = None
        if queue is topic.sticky:
            topic.turn()
        if self.rules.idempotent:
            assert self.identity is not None
            assert batch.origin is not None
            place = (batch.topic, batch.partition, batch.delayed)
            sequence = self._sequences.get(place, 0)
            batch.identity, batch.sequence = self.identity, sequence
            self._sequences[place] = (sequence + batch.count) % SEQUENCES
            batch.frames[0] = with_producer_header(batch.origin, self.identity, sequence, batch.count)
        batch.sealed = encode_section(batch.partition, batch.frames, delayed=batch.delayed)
        batch.frames = []

    # --- what became of it ---

    def acknowledge(
        self, batch: SendBatch, first_offset: int | None, timestamp: str | None, pieces: OffsetPieces | None = None
    ) -> None:
        self._remove(batch)
        batch.settle(None, first_offset, timestamp, pieces)

    def postpone(self, batch: SendBatch, error: GoQueueError, now_ns: int) -> None:
        """Send a batch again later, unchanged."""
        batch.last_refusal = error
        delay = batch.backoff.next(error)
        note_refusal(error, delay)
        batch.not_before_ns = now_ns + int(delay * NANOSECONDS)

    def unseal(self, batch: SendBatch) -> None:
        """Let a batch be sealed again, for another producer."""
        if self.identity == batch.identity:
            self.become(None)
        open_section(batch)

    def fail(self, batch: SendBatch, error: GoQueueError) -> None:
        self._remove(batch)
        if batch.sealed is not None and not self.rules.transactional:
            self.become(None)
        batch.settle(error)

    def expire(self, now_ns: int) -> list[SendBatch]:
        """Fail batches older than the delivery timeout, and return what is settled with that."""
        limit = int(self.rules.delivery_timeout * NANOSECONDS)
        late = [one for one in self.waiting() if now_ns >= one.opened_ns + limit and not one.in_flight]
        for batch in late:
            error = delivery_timed_out(batch, self.rules.delivery_timeout)
            error.__cause__ = batch.last_refusal
            self.fail(batch, error)
        return concluded(late)

    def abandon(self, error: GoQueueError) -> list[SendBatch]:
        """Fail everything that still waits, and return what is settled with that."""
        left = self.waiting()
        for batch in left:
            self.fail(batch, error)
        return concluded(left)

    def _remove(self, batch: SendBatch) -> None:
        queue = next(queue for queue in self._active if batch in queue.batches)
        queue.batches.remove(batch)
        if queue.open is batch:
            queue.open = None
        if not queue.batches:
            del self._active[queue]
        self.buffered -= batch.size

    # --- another number of partitions ---

    def set_partitions(self, topic: TopicQueues, count: int) -> None:
        """Place messages by this number, as soon as no sealed batch of the topic is left."""
        if count == len(topic.queues):
            self._recounts.pop(topic.name, None)
        else:
            self._recounts[topic.name] = (topic.immediate, count)

    def place_again(self) -> None:
        """Place what waits by the new numbers of partitions, where no sealed batch is left."""
        for name, (topic, count) in list(self._recounts.items()):
            heads = (queue.batches[0] for queue, one in self._active.items() if one.name == name)
            if all(head.sealed is None for head in heads):
                del self._recounts[name]
                self._replace_queues(topic, count)
                self._replace_queues(topic.delayed, count)

    def _replace_queues(self, topic: TopicQueues, count: int) -> None:
        former = [queue for queue, one in self._active.items() if one is topic]
        for queue in {*former, *topic.queues}:  # callers may have chosen one just now
            queue.is_former, queue.open = True, None
            self._active.pop(queue, None)
        topic.queues = _queues(count, delayed=topic is topic.delayed)
        topic.sticky = topic.queues[topic.sticky.partition % count]
        for batch in [batch for queue in former for batch in queue.batches]:
            self.buffered -= batch.size
            self._distribute(topic, batch)

    def _place(
        self, topic: TopicQueues, queue: PartitionQueue, frames: list[bytes], due: DueHeader | None, is_fixed: bool
    ) -> SendBatch:
        """Take frames for a queue that was replaced after it was chosen."""
        batch = SendBatch(self._owner, topic.name, queue.partition, None, self._clock.monotonic_ns(), queue.delayed)
        batch.frames, batch.count, batch.size = frames, len(frames), sum(map(len, frames))
        batch.dues = [] if due is None else [due] * len(frames)
        batch.fixed = set(range(len(frames))) if is_fixed else set()
        self._distribute(topic, batch)
        return batch

    def _distribute(self, topic: TopicQueues, batch: SendBatch) -> None:
        """Divide a batch among the queues of its topic: by keys, in the order of the messages."""
        slots: list[BatchSlot] = []
        for index, frame in enumerate(batch.frames):
            is_fixed, key = index in batch.fixed, key_at(frame)
            queue = topic.sticky
            if is_fixed:
                known = batch.partition < len(topic.queues)  # otherwise the broker refuses it
                queue = topic.queues[batch.partition] if known else PartitionQueue(batch.partition, batch.delayed)
            elif key:
                queue = topic.queues[partition_of(key, len(topic.queues), topic.hash_key)]
            due = batch.dues[index] if batch.dues else None
            part = self.add_many(topic, queue, [frame], len(frame), fields_of(frame), due, is_fixed)
            part.opened_ns = min(part.opened_ns, batch.opened_ns)
            slots.append((part, part.count - 1))
        batch.divide(slots)

    def refuse_placement(self, batch: SendBatch, count: int, pieces: OffsetPieces) -> None:
        """Take back a sealed batch that was placed by a former number of partitions. Only the messages in `pieces` are
        stored, the first ones.
        """
        queue, topic = next((queue, topic) for queue, topic in self._active.items() if batch in queue.batches)
        stored = sum(end - first for first, end in pieces)
        if batch.identity is not None and batch.identity == self.identity:
            place = (batch.topic, batch.partition, batch.delayed)
            self._sequences[place] = (batch.sequence + stored) % SEQUENCES
        open_section(batch)
        if stored:
            self._settle_first(queue, batch, stored, pieces)
        self.set_partitions(topic, count)

    def _settle_first(self, queue: PartitionQueue, batch: SendBatch, stored: int, pieces: OffsetPieces) -> None:
        first, rest = (replace(batch, callbacks=[], waiters=[], looked=set(), wholes=[]) for _ in range(2))
        first.count, first.adopted = stored, set()
        rest.frames, rest.dues, rest.adopted = batch.frames[stored:], batch.dues[stored:], set()
        rest.count, rest.size = len(rest.frames), sum(map(len, rest.frames))
        rest.fixed = {index - stored for index in batch.fixed if index >= stored}
        queue.batches[0] = rest
        self.buffered -= batch.size - rest.size
        first.settle(None, pieces[0][0], None, pieces)
        batch.divide([(first, index) for index in range(stored)] + [(rest, index) for index in range(rest.count)])

    # --- messages that break the schemas of their topic ---

    def refuse_messages(self, batch: SendBatch, errors: Mapping[int, GoQueueError]) -> None:
        """Fail some messages of a sealed batch, of which nothing is stored, and send the others in another one."""
        queue = next(queue for queue in self._active if batch in queue.batches)
        self.become(None)  # as when the whole batch fails
        size = batch.size
        open_section(batch)
        rest = without_messages(batch, errors)
        self.buffered -= size - (rest.size if rest else 0)
        if rest is not None:
            queue.batches[0] = rest
        else:
            queue.batches.popleft()
            if not queue.batches:
                del self._active[queue]
        divide_by_errors(batch, rest, errors)
