"""A producer with a transactional id, as its client sees it: what it asks for, what it is told, when it has to stop."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from goqueue import delay
from goqueue.broker.core.admission import decode_batch, encode_marked
from goqueue.broker.core.open_transactions import TransactionId
from goqueue.broker.core.partition import Partition, Placement
from goqueue.broker.core.partition_ref import LogRef
from goqueue.broker.core.producer_checkpoint import load_producers
from goqueue.broker.core.producers import ProducerMark
from goqueue.broker.core.work import Promise, Work
from goqueue.broker.transactions.records import EndedTransaction, TransactionMetadata
from goqueue.broker.transactions.shards import TransactionShard
from goqueue.clock import NANOSECONDS
from goqueue.errors import (
    GoQueueError,
    PartitionNotFound,
    ProducerFenced,
    ProducerNotFound,
    SequenceOutOfOrder,
    TopicNotFound,
    TransactionAborted,
    TransactionNotOpen,
)
from goqueue.limits import EPOCH_MAX, MESSAGE_BYTES
from goqueue.storage import frame, scan
from goqueue.wire.sections import PRODUCER_HEADER
from tests.simulation.transactions.model import Message, Outcome, Place, Transaction, Where

if TYPE_CHECKING:
    from tests.simulation.transactions.traffic import TransactionTraffic

GONE = (PartitionNotFound, TopicNotFound)
"""What a client may be told whose topic has gone meanwhile."""


@dataclass(eq=False)
class Batch:
    """Messages that are sent together, and again if no client answers."""

    log_ref: LogRef
    messages: list[Message]
    mark: ProducerMark | None
    """None where the broker counts."""


@dataclass(eq=False)
class Incarnation:
    """One process after the other has the same transactional id."""

    world: "TransactionTraffic"
    name: str
    timeout_seconds: float
    is_replaced: bool = False
    """Whether another one may have taken over."""
    whose: TransactionId | None = None
    transaction: Transaction | None = None
    is_over: bool = False
    is_starting: bool = False
    members: list[int] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)
    """Of its transaction."""
    sequences: dict[tuple[Where, bool, int], int] = field(default_factory=dict)
    calls: int = 0
    is_lost: bool = False
    """Whether it does not know its epoch any more, and has to begin again."""

    def __post_init__(self) -> None:
        self.world.on_death.append(self._died)

    def _died(self) -> None:
        """The broker has: who waited for an answer of it waits no more."""
        self.calls, self.is_starting = 0, False

    @property
    def coordinator(self) -> TransactionShard:
        return self.world.transactions.of(self.name)

    def call(self, what: str, work: Work[Any], done: Callable[[Any], object]) -> None:
        life, whose = self.world.lives, self.whose
        self.calls += 1

        def over(result: Any) -> None:
            assert self.world.lives == life, "who asked one process is not told by another"
            self.calls -= 1
            done(result)

        def refused(error: GoQueueError) -> None:
            self.calls -= 1
            self.is_starting = self.is_starting and what != "init"
            self.refused(what, whose, error)

        self.world.tell("  ", what, "by", self.name, whose)
        self.world.world.begin(f"{what} by {self.name}", work, over, refused)

    def refused(self, what: str, whose: TransactionId | None, error: GoQueueError) -> None:
        """Told that it is no client any more it stops; told that nothing is open, it has to have been so."""
        world, transaction = self.world, self.world.model.transactions.get(whose) if whose is not None else None
        world.counts[f"{what}: {error.code}"] += 1
        match error:
            case TransactionAborted():
                assert transaction is not None, f"{what} was refused: {error!r}"
                transaction.has_ended("abort", world.tick)
                self._lose(whose)
            case ProducerFenced() | ProducerNotFound():
                if self.whose == whose and not self.is_starting:  # else it has begun again itself
                    assert self.is_replaced, f"no client is fenced who is alone: {self.name} {error!r}"
                    self.is_over = True
            case TransactionNotOpen():
                is_ending = transaction is None or bool(transaction.asked) or self.transaction is not transaction
                assert is_ending, f"what was begun is open: {transaction} {error!r}"
                self._lose(whose)
            case SequenceOutOfOrder():
                pass  # a batch before it was refused
            case _ if isinstance(error, GONE):
                pass
            case _:
                world.refused(f"{what} of {self.name}", error)

    def _lose(self, whose: TransactionId | None) -> None:
        if self.whose == whose:
            self.is_lost, self.transaction = True, None

    # --- who it is ---

    def start(self) -> None:
        """Take the transactional id."""
        self.is_starting = True
        work = self.coordinator.init(self.name, round(self.timeout_seconds * NANOSECONDS))
        self.call("init", work, partial(self._started, self.world.model.latest.get(self.name)))

    def _started(self, before: TransactionId | None, record: TransactionMetadata) -> None:
        self.is_starting, self.is_lost = False, False
        self.world.model.given(self.name, record.whose, before)
        self._be(record.whose)

    def _be(self, whose: TransactionId) -> None:
        self.whose, self.transaction = whose, None
        self.members.clear()
        self.batches.clear()
        self.sequences.clear()

    @property
    def is_fit(self) -> bool:
        return self.whose is not None and not self.is_over and not self.is_lost

    def begun(self) -> Transaction:
        assert self.whose is not None
        if self.transaction is None:
            known = self.world.model.transactions
            self.transaction = known.setdefault(self.whose, Transaction(self.name, self.whose))
        return self.transaction

    def begin(self) -> None:
        assert self.whose is not None
        self.begun()
        self.call("begin", self.coordinator.begin(self.whose, self.name), lambda _: None)

    def join(self) -> None:
        assert self.whose is not None
        whose, transaction = self.whose, self.begun()

        def joined(result: tuple[TransactionMetadata, int]) -> None:
            self.world.model.new_producer(result[1])
            if self.transaction is transaction:
                self.members.append(result[1])

        self.call("join", self.coordinator.join(whose, self.name, begin=True), joined)

    # --- what it sends ---

    def send(self, place: Place, messages: list[Message], *, counted_by_broker: bool) -> None:
        """A batch, in the transaction that is begun if none is."""
        assert self.whose is not None
        transaction, random = self.begun(), self.world.random
        log_ref = LogRef(place.where.topic, place.where.number, messages[0].due_ns is not None)
        mark = None
        if not counted_by_broker:
            producer, epoch = self.whose
            if self.members and random.random() < 0.5:
                producer, epoch = random.choice(self.members), 0
            key = (place.where, log_ref.is_delayed, producer)
            mark = ProducerMark(producer, epoch, self.sequences.get(key, 0), len(messages))
            self.sequences[key] = mark.sequence + mark.count
        for message in messages:
            message.transaction = transaction
            message.member = mark.producer if mark is not None and mark.producer != self.whose.producer else None
        transaction.messages += messages
        self.batches.append(Batch(log_ref, messages, mark))
        self.send_again(self.batches[-1])

    def send_again(self, batch: Batch) -> None:
        """Also what was answered already: it is one copy."""
        assert self.whose is not None
        transaction = self.transaction
        assert transaction is not None

        def stored(placement: Placement) -> None:
            offsets = [offset for first, end in placement.pieces for offset in range(first, end)]
            assert len(offsets) == len(batch.messages), f"each message has a place: {offsets}"
            self.world.tell("  ", batch.log_ref, "is at", offsets)
            if transaction.asked or self.world.random.random() < 0.1:  # no client hears it
                return
            for offset, message in zip(offsets, batch.messages, strict=True):
                is_same = message.offset in (None, offset)
                assert is_same, f"a message is where it was answered to be: {message}, not {offset}"
                message.offset = offset

        self.call("publish", self._published(self.whose, batch), stored)

    def _published(self, whose: TransactionId, batch: Batch) -> Work[Placement]:
        """Return what the shell does for a publish."""
        coordinator, world = self.coordinator, self.world
        partition, created_ns = coordinator.lookup.find(batch.log_ref)
        if (
            created_ns != batch.messages[0].place.where.created_ns
        ):  # a client that sends to the new one sends something else
            raise TopicNotFound("it was made anew meanwhile")
        yield from coordinator.enlist(whose, [batch.log_ref], name=self.name, begin=True)
        if partition.producers is None:
            yield from load_producers(partition, world.disk)
        told: Promise[Placement] = Promise()
        now_ns = world.clock.now_ns() if partition.is_delayed else None
        if batch.mark is not None:
            frames, mark = decode_batch(encoded(batch), MESSAGE_BYTES, now_ns, is_transactional=True)
            assert mark is not None
            coordinator.check_mark(whose, mark)
        else:
            coordinator.ongoing(whose)
            frames, mark = _counted(whose, batch, partition)
        partition.take(frames, mark, told, is_transactional=True)
        placement = yield told
        assert isinstance(placement, Placement)
        return placement

    # --- how it ends ---

    def end(self, outcome: Outcome) -> None:
        """Ask for it, once or again."""
        transaction = self.transaction
        assert transaction is not None
        if "commit" not in transaction.asked and outcome == "commit":
            if self.members and self.world.random.random() < 0.5:
                chosen = [one for one in self.members if self.world.random.random() < 0.6]
                transaction.counted = frozenset(chosen)
            for message in transaction.messages:
                message.is_owed = message.offset is not None
        transaction.asked.add(outcome)
        self.call(outcome, self._ending(transaction, outcome), partial(self._ended, transaction))

    def _ending(self, transaction: Transaction, outcome: Outcome) -> Work[EndedTransaction]:
        counted = list(transaction.counted) if transaction.counted is not None and outcome == "commit" else None
        return self.coordinator.end(transaction.whose, self.name, is_commit=outcome == "commit", counted=counted)

    def _ended(self, transaction: Transaction, ended: EndedTransaction) -> None:
        assert ended.whose == transaction.whose, f"an end is told to who asked for it: {ended} of {transaction}"
        transaction.has_ended("commit" if ended.state == "complete_commit" else "abort", self.world.tick)
        self.world.counts[f"ended with {transaction.outcome}"] += 1
        if self.whose != transaction.whose:
            return
        if transaction.whose.epoch < EPOCH_MAX:
            following = TransactionId(transaction.whose.producer, transaction.whose.epoch + 1)
        else:
            following = self.coordinator.register.by_id[self.name].whose
        latest = self.world.model.latest[self.name]
        if latest == transaction.whose:
            self.world.model.given(self.name, following, latest)
        self._be(following)


def encoded(batch: Batch) -> bytearray:
    """As a client sends it."""
    content = bytearray()
    for number, message in enumerate(batch.messages):
        headers = [] if number or batch.mark is None else [(PRODUCER_HEADER, batch.mark.encode())]
        content += _frame(message, headers)
    return content


def _frame(message: Message, headers: list[tuple[str, bytes]]) -> bytes:
    due = [delay.deliver_at_header(message.due_ns)] if message.due_ns is not None else []
    flags = frame.TRANSACTIONAL if message.transaction is not None else 0
    own = frame.encode_headers([*headers, *due])
    return frame.encode(message.value, message.key, own, flags=flags, priority=message.value[0] % 5)


def _counted(whose: TransactionId, batch: Batch, partition: Partition) -> tuple[scan.Frames, ProducerMark]:
    """Without a sequence: the broker gives them the next."""
    assert partition.producers is not None
    frames = [_frame(message, []) for message in batch.messages]
    mark = ProducerMark(*whose, partition.producers.next_sequence(*whose), len(frames))
    first = encode_marked(frame.decode(frames[0]), mark)
    return scan.check_batch(bytearray(b"".join((first, *frames[1:])))), mark


def values(numbers: "count[int]", lane: int) -> bytes:
    """A value that no client else has; its first byte says its priority."""
    return bytes([lane]) + b"%d:" % next(numbers)
