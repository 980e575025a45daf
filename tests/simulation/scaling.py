"""A topic that gets more partitions while producers of the SDK send keyed messages and a group reads them.

A producer here is the SDK's own, without its thread and connection: what it decides meets the rules of the broker.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from itertools import count
from typing import Any, NamedTuple

from goqueue.broker.core.admission import decode_batch
from goqueue.broker.core.partition import Partition, Placement
from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.core.producer_checkpoint import load_producers
from goqueue.broker.core.routing import Routing
from goqueue.broker.core.topic import Topic, TopicSpec
from goqueue.broker.core.work import run_work
from goqueue.broker.groups.membership import JoinOptions
from goqueue.broker.groups.poll import LeasedBatch, PollOptions, PollResult
from goqueue.broker.groups.settle_commands import SettleAction, SettleCommand
from goqueue.broker.groups.settlement import SettleCommandReply
from goqueue.broker.scaling import ScaledTopic
from goqueue.client.accumulator import Accumulator, BatchingRules, topic_queues
from goqueue.client.delivery import SendBatch
from goqueue.client.message_encoding import frame_fields
from goqueue.client.publish_requests import SectionResult
from goqueue.client.sender import BatchSender, SendStep
from goqueue.clock import NANOSECONDS
from goqueue.errors import BrokerUnreachable, GoQueueError, LogFenced
from goqueue.limits import MESSAGE_BYTES
from goqueue.partitioner import murmur3, partition_of
from goqueue.storage import frame
from goqueue.wire.sections import SECTION
from tests.simulation.traffic import Actions, Traffic
from tests.simulation.world import World

TOPIC, GROUP = "scaled", "readers"
KEYS = 6
"""Of each producer: the numbers of a key rise, since one producer alone sends it."""
PARTITIONS_MOST = 8
ROUNDS_MAX = 2_000
RULES = BatchingRules(batch_messages=4, linger=0.5, delivery_timeout=1e9)


class Numbered(NamedTuple):
    """A message: its key, and which one of that key it is."""

    key: bytes
    number: int


class SdkProducer:
    """The decisions of an SDK producer; one request is under way at a time."""

    def __init__(self, traffic: "ScalingTraffic", name: int) -> None:
        self.traffic = traffic
        self.accumulator = Accumulator(RULES, traffic.clock)
        self.sender = BatchSender(self.accumulator, traffic.clock, "leader")
        self.topic = topic_queues(TOPIC, 1, murmur3, MESSAGE_BYTES)
        self.keys = [b"%d-%d" % (name, number) for number in range(KEYS)]
        self.sent: dict[bytes, int] = defaultdict(int)
        self.batches: list[tuple[SendBatch, int, Numbered]] = []
        self._step: SendStep | None = None
        self._results: dict[int, SectionResult | GoQueueError] = {}

    def send(self) -> None:
        for _ in range(self.traffic.random.choice((1, 2, 5))):
            key = self.traffic.random.choice(self.keys)
            value = b"%d" % self.sent[key]
            self.sent[key] += 1
            queue = self.topic.queues[partition_of(key, len(self.topic.queues))]
            fields = frame_fields(frame.NO_HEADERS, value, key)
            batch = self.accumulator.add(self.topic, queue, frame.encode(value, key), fields)
            self.batches.append((batch, batch.count - 1, Numbered(key, int(value))))

    def work(self) -> None:
        """Send the next request, if none is under way."""
        if self._step is not None:
            return
        step, _, late = self.sender.next()
        assert not late, "no delivery is given up"
        if step is None:
            return
        self._step, self._results = step, {}
        life = self.traffic.lives
        if not step.batches:
            self.traffic.attempt(
                "a producer id", lambda: self.traffic.broker.producer_ids.give(partial(self._id, life))
            )
            return
        for index, batch in enumerate(step.batches):
            self._publish(life, index, batch)

    def _id(self, life: int, result: int | GoQueueError) -> None:
        if life == self.traffic.lives:
            self._end(result if isinstance(result, GoQueueError) else (result, 0))

    def _publish(self, life: int, index: int, batch: SendBatch) -> None:
        """As the broker does it: everything is checked in the turn in which it is appended."""
        topic, content = self.traffic.topic, batch.sealed
        assert content is not None
        try:
            partition = topic.partition(batch.partition)
            self.traffic.load(partition)
            frames, mark = decode_batch(bytearray(content[SECTION.size :]), MESSAGE_BYTES)
            Routing(topic, batch.placed_by).check(partition, mark)
            partition.take(frames, mark, partial(self._answered, life, index, batch.partition))
        except GoQueueError as error:
            self._answered(life, index, batch.partition, error)

    def _answered(self, life: int, index: int, partition: int, result: Placement | GoQueueError) -> None:
        if life != self.traffic.lives or self._step is None:
            return
        if isinstance(result, GoQueueError):
            self.traffic.counts[f"batches refused: {result.code}"] += 1
            self._results[index] = result
        else:
            pieces = list(result.pieces) if len(result.pieces) > 1 else None
            self._results[index] = SectionResult(partition, result.first_offset, result.next_offset, pieces=pieces)
        if len(self._results) == len(self._step.batches):
            is_lost = self.traffic.random.random() < self.traffic.answers_lost
            self._end(unanswered() if is_lost else None)

    def _end(self, outcome: Any) -> None:
        step, self._step = self._step, None
        assert step is not None
        if outcome is not None:
            self.sender.done(step, outcome)
            return
        # An answer has one result for each section; an error in one is an error of that batch alone.
        results = [self._results[index] for index in range(len(step.batches))]
        for batch, result in zip(step.batches, results, strict=True):
            given = result if isinstance(result, GoQueueError) else [result]
            self.sender.done(SendStep(step.call, [batch], step.seconds, step.identity), given)

    def died(self) -> None:
        """The broker is gone, and the answer with it."""
        if self._step is not None:
            self._end(unanswered())

    @property
    def is_done(self) -> bool:
        return all(batch.settled for batch, _, _ in self.batches)


def unanswered() -> BrokerUnreachable:
    return BrokerUnreachable("the broker does not answer", unsure=True)


class ScalingTraffic(Traffic):
    """One topic that grows, its producers, and the members of a group."""

    topics = frozenset({TOPIC})
    caches = ("*/producers",)
    expected_codes = ("broker_stopping", "log_closed", "topic_busy")

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.answers_lost = 0.15
        self.producers = [SdkProducer(self, name) for name in range(2)]
        self.stored: dict[Numbered, tuple[int, int]] = {}
        """Where each message is: its partition and offset."""
        self.by_key: dict[bytes, list[Numbered]] = defaultdict(list)
        self.read_to: dict[int, int] = {}
        self.delivered: set[Numbered] = set()
        self.in_hand: list[tuple[str, LeasedBatch]] = []
        self.members: list[str] = []
        self.partitions_least = 1
        self._clients = count()

    def actions(self) -> Actions:
        return {
            self.send: 20,
            self.work: 40,
            self.scale: 2,
            self.learn: 4,
            self.join: 2,
            self.leave: 0.5,
            self.poll: 25,
            self.ack: 15,
        }

    @property
    def topic(self) -> Topic:
        return self.broker.topics[TOPIC]

    def load(self, partition: Partition) -> None:
        if partition.producers is None:
            run_work(load_producers(partition, self.disk))

    # --- lives ---

    def opened(self) -> None:
        if TOPIC not in self.broker.topics:
            made: list[Topic | GoQueueError] = []
            self.broker.create_topic(TopicSpec(name=TOPIC, partitions=1), made.append)
            self.store.flush()

    def recovered(self) -> None:
        count = len(self.topic.partitions)
        assert count >= self.partitions_least, f"an answered addition stays: {count}"
        assert set(self.topic.splits) == set(range(1, count)), f"each added partition has a parent: {self.topic.splits}"
        self.see()

    def died(self, *, may_lose_answers: bool) -> None:
        del may_lose_answers
        self.in_hand.clear()
        for producer in self.producers:
            producer.died()

    def observe(self) -> None:
        self.see()

    def time_passed(self) -> None:
        self.coordinate()

    def coordinate(self) -> None:
        coordinator = self.broker.groups.of(GROUP)
        self.attempt("deadlines", lambda: coordinator.deadlines.call_due(coordinator.clock.now_ns()))

    # --- what is stored ---

    def see(self) -> None:
        """Take note of what is stored: each message once, and those of a key in their order."""
        for partition in self.topic.partitions:
            if partition.log.fence is not None:
                continue
            offset = self.read_to.get(partition.number, 0)
            while offset < partition.high_watermark:
                read = run_work(partition.read(offset, 10_000))
                for message in decoded(read.buffers):
                    self._note(Numbered(message.key or b"", int(message.value)), partition.number, message.offset)
                offset = read.next_offset
            self.read_to[partition.number] = max(offset, self.read_to.get(partition.number, 0))

    def _note(self, message: Numbered, partition: int, offset: int) -> None:
        place = self.stored.setdefault(message, (partition, offset))
        assert place == (partition, offset), f"nothing is stored twice: {message} at {place} and {(partition, offset)}"
        for other in self.by_key[message.key]:
            there = self.stored[other]
            in_order = there[0] != partition or (there[1] < offset) == (other.number < message.number)
            assert in_order, (
                f"a partition has a key in its order: {message} at {(partition, offset)}, {other} at {there}"
            )
        self.by_key[message.key].append(message)

    # --- producers ---

    def send(self) -> None:
        self.random.choice(self.producers).send()

    def work(self) -> None:
        for producer in self.producers:
            producer.work()

    def learn(self) -> None:
        """A producer asks for the topic, as it does for a partition that it does not know."""
        producer = self.random.choice(self.producers)
        producer.accumulator.set_partitions(producer.topic, len(self.topic.partitions))
        producer.accumulator.place_again()

    def scale(self) -> None:
        present = len(self.topic.partitions)
        count = present * self.random.choice((2, 2, 3))
        if count > PARTITIONS_MOST:
            return

        def told(result: ScaledTopic | GoQueueError) -> None:
            if isinstance(result, ScaledTopic):
                self.partitions_least = count
                self.counts["scaled"] += 1
            else:
                self.refused("new partitions", result)

        self.attempt("new partitions", lambda: self.broker.scaler.scale(TOPIC, count, told))

    # --- members ---

    def join(self) -> None:
        if len(self._known()) >= 3:
            return
        options = JoinOptions(
            topics=(TOPIC,), client_id=f"c{next(self._clients)}", session_ns=10**6 * NANOSECONDS, in_flight_max=20
        )

        def told(result: Any) -> None:
            if isinstance(result, GoQueueError):
                self.refused("a join", result)

        self.attempt("a join", lambda: self.broker.groups.of(GROUP).membership.join(GROUP, options, told))

    def _known(self) -> list[str]:
        """Return the members that were told so."""
        store = self.broker.groups.of(GROUP).store
        group, durable = store.group(GROUP), store.durable_group(GROUP)
        return [one for one in durable.members if one in group.members] if group is not None and durable else []

    def leave(self) -> None:
        if members := self._known():
            member = self.random.choice(members)
            rule = partial(self.broker.groups.of(GROUP).membership.leave, GROUP, member, lambda _: None)
            try:
                self.attempt("a leave", rule)
            except GoQueueError:
                self.counts["leaves too late"] += 1

    def poll(self) -> None:
        members = self._known()
        if not members:
            return
        member, options = (
            self.random.choice(members),
            PollOptions(self.random.choice((1, 3, 10)), 1 << 20, 100 * NANOSECONDS),
        )
        life = self.lives

        def done(result: PollResult) -> None:
            assert life == self.lives
            for batch in result.batches:
                self._delivered(batch)
                self.in_hand.append((member, batch))

        def refused(error: GoQueueError) -> None:
            self.counts[f"polls refused: {error.code}"] += 1

        try:
            self.world.begin(
                "a poll", self.broker.groups.of(GROUP).polling.poll(GROUP, member, None, options), done, refused
            )
        except GoQueueError as error:
            refused(error)

    def _delivered(self, batch: LeasedBatch) -> None:
        """A message is delivered when all older ones of its key in other partitions are settled."""
        self.see()
        for message in decoded(batch.content.buffers):
            known = Numbered(message.key or b"", int(message.value))
            for older in self.by_key[known.key]:
                partition, offset = self.stored[older]
                if older.number < known.number and partition != batch.partition:
                    cursor = self.broker.groups.of(GROUP).store.cursor(GROUP, PartitionRef(TOPIC, partition))
                    is_settled = cursor is not None and cursor.is_settled(offset, offset + 1)
                    assert is_settled, f"{known} came from {batch.partition} before {older} of {partition} was settled"
            self.delivered.add(known)
            self.counts["deliveries"] += 1

    def ack(self) -> None:
        self.random.shuffle(self.in_hand)
        for _ in range(min(len(self.in_hand), self.random.choice((1, 1, 4)))):
            member, batch = self.in_hand.pop()
            grant = batch.grant
            action: SettleAction = self.random.choice(("ack", "ack", "ack", "release"))
            command = SettleCommand(
                action,
                batch.topic,
                batch.partition,
                grant.id,
                ((grant.first, grant.end),),
            )

            def told(replies: list[SettleCommandReply] | GoQueueError) -> None:
                if isinstance(replies, GoQueueError):
                    self.refused("an ack", replies)

            settle = self.broker.groups.of(GROUP).settlement.settle
            try:
                self.attempt("an ack", partial(settle, GROUP, member, [command], told))
            except GoQueueError:
                self.counts["acks too late"] += 1

    # --- the end ---

    def rest(self) -> None:
        """All that was sent is stored once, and delivered and settled."""
        self.answers_lost = 0
        for _ in range(ROUNDS_MAX):
            if self._is_over():
                break
            self.clock.advance(self.random.choice((0.1, 1, 100)))
            self.coordinate()
            self.broker.scaler.record_splits()
            if not self._known():
                self.join()
            self.work()
            self.poll()
            while self.in_hand:
                self.ack()
            self.world.settle()
        for producer in self.producers:
            assert producer.is_done, "every message is answered"
            assert producer.accumulator.buffered == 0
            for batch, index, message in producer.batches:
                error = batch.error_at(index)  # a fenced log may hold what it has refused
                assert error is None or isinstance(error, LogFenced), f"no message is refused: {error!r}"
                assert error is not None or message in self.stored, f"all messages are stored: {message} is not"
                if error is None:
                    receipt = batch.receipt(index)
                    assert self.stored[message] == receipt[:2], f"{message} is where its receipt says: {receipt}"
        left = self.stored.keys() - self.delivered
        assert not left, f"everything is delivered: {left}"

    def _is_over(self) -> bool:
        cursors = [
            self.broker.groups.of(GROUP).store.cursor(GROUP, PartitionRef(TOPIC, one.number))
            for one in self.topic.partitions
        ]
        is_read = all(
            cursor is not None and cursor.floor >= partition.high_watermark
            for cursor, partition in zip(cursors, self.topic.partitions, strict=True)
        )
        return is_read and all(producer.is_done for producer in self.producers)


def decoded(buffers: Any) -> Iterator[frame.StoredMessage]:
    return (frame.decode(buffer, position) for buffer in buffers for position in frame.walk(buffer))
